/* Bodies that exact_sum.h compiles once per vector width; no include guard on purpose.
 * Compilers vectorise these plain loops, as integers may be added in any order. */

/* Bits of the largest magnitude; larger than those of infinity if there is a NaN. */
HT_TARGET static uint64_t HT_NAME(ht_largest_bits)(const double *restrict x, ptrdiff_t n) {
    int64_t largest = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const int64_t bits = (int64_t) (ht_to_bits(x[i]) & ~((uint64_t) 1 << 63));
        largest = bits > largest ? bits : largest;
    }
    return (uint64_t) largest;
}

/* The largest magnitude; not finite if a value is not. */
HT_TARGET static float HT_NAME(ht_largest_float)(const float *restrict x, ptrdiff_t n) {
    int32_t largest = 0;
    float value;
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7FFFFFFF;
        largest = bits > largest ? bits : largest;
    }
    memcpy(&value, &largest, 4);
    return value;
}

/* OUT sums of the bits of c + slice over the terms, for the three slices. */
HT_TARGET static void HT_NAME(ht_slices)(const double *restrict x, ptrdiff_t n, double factor,
                                         const double *c, uint64_t *words) {
    const double c0 = c[0], c1 = c[1], c2 = c[2];
    uint64_t word0 = 0, word1 = 0, word2 = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double rest = x[i] * factor, moved = rest + c0;
        word0 += ht_to_bits(moved);
        rest -= moved - c0;
        moved = rest + c1;
        word1 += ht_to_bits(moved);
        rest -= moved - c1;
        word2 += ht_to_bits(rest + c2);
    }
    words[0] = word0;
    words[1] = word1;
    words[2] = word2;
}
