/* Bodies that mask_scores.h compiles once per vector width; no include guard on purpose. */

#if HT_VECTORS
typedef float HT_NAME(mask_float)
    __attribute__((vector_size(HT_BYTES), aligned(4), may_alias));
typedef int32_t HT_NAME(mask_int) __attribute__((vector_size(HT_BYTES), aligned(4), may_alias));
typedef double HT_NAME(mask_double)
    __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));
typedef int64_t HT_NAME(mask_long)
    __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));

#define HT_SCORE(name, vx, vm, real, word)                                                    \
    HT_TARGET static void HT_NAME(name)(const real *x, const int32_t *feature,                \
                                        const real *threshold, const word *mask, int n_right, \
                                        int n_left, word *state)                              \
    {                                                                                         \
        enum { LANES = HT_BYTES / sizeof(word) };                                             \
        for (int row = 0; row < HT_BLOCK; row += 4 * LANES) {                                 \
            HT_NAME(vm) s0 = *(HT_NAME(vm) *) (state + row);                                  \
            HT_NAME(vm) s1 = *(HT_NAME(vm) *) (state + row + LANES);                          \
            HT_NAME(vm) s2 = *(HT_NAME(vm) *) (state + row + 2 * LANES);                      \
            HT_NAME(vm) s3 = *(HT_NAME(vm) *) (state + row + 3 * LANES);                      \
            for (int k = 0; k < n_right; k++) {                                               \
                const real *column = x + (ptrdiff_t) feature[k] * HT_BLOCK + row;             \
                const HT_NAME(vx) t = threshold[k] - (HT_NAME(vx)){0};                        \
                const HT_NAME(vm) keep = mask[k] | (HT_NAME(vm)){0};                          \
                s0 &= (*(HT_NAME(vx) *) column <= t) | keep;                                  \
                s1 &= (*(HT_NAME(vx) *) (column + LANES) <= t) | keep;                        \
                s2 &= (*(HT_NAME(vx) *) (column + 2 * LANES) <= t) | keep;                    \
                s3 &= (*(HT_NAME(vx) *) (column + 3 * LANES) <= t) | keep;                    \
            }                                                                                 \
            for (int k = n_right; k < n_right + n_left; k++) {                                \
                const real *column = x + (ptrdiff_t) feature[k] * HT_BLOCK + row;             \
                const HT_NAME(vx) t = threshold[k] - (HT_NAME(vx)){0};                        \
                const HT_NAME(vm) keep = mask[k] | (HT_NAME(vm)){0};                          \
                s0 &= ~(*(HT_NAME(vx) *) column > t) | keep;                                  \
                s1 &= ~(*(HT_NAME(vx) *) (column + LANES) > t) | keep;                        \
                s2 &= ~(*(HT_NAME(vx) *) (column + 2 * LANES) > t) | keep;                    \
                s3 &= ~(*(HT_NAME(vx) *) (column + 3 * LANES) > t) | keep;                    \
            }                                                                                 \
            *(HT_NAME(vm) *) (state + row) = s0;                                              \
            *(HT_NAME(vm) *) (state + row + LANES) = s1;                                      \
            *(HT_NAME(vm) *) (state + row + 2 * LANES) = s2;                                  \
            *(HT_NAME(vm) *) (state + row + 3 * LANES) = s3;                                  \
        }                                                                                     \
    }
#else
#define HT_SCORE(name, vx, vm, real, word)                                                    \
    static void HT_NAME(name)(const real *x, const int32_t *feature, const real *threshold,   \
                              const word *mask, int n_right, int n_left, word *state)         \
    {                                                                                         \
        for (int k = 0; k < n_right + n_left; k++) {                                          \
            const real *column = x + (ptrdiff_t) feature[k] * HT_BLOCK;                       \
            for (int row = 0; row < HT_BLOCK; row++) {                                        \
                int left = k < n_right ? column[row] <= threshold[k]                          \
                                       : !(column[row] > threshold[k]);                       \
                state[row] &= left ? ~(word) 0 : mask[k];                                     \
            }                                                                                 \
        }                                                                                     \
    }
#endif

HT_SCORE(score_f32, mask_float, mask_int, float, int32_t)
HT_SCORE(score_f64, mask_double, mask_long, double, int64_t)
#undef HT_SCORE

/* leaf[row] = base + position of the lowest set bit, where there is one. Isolated, that bit is a
 * power of two, and its logarithm stands in the exponent bits of the float of the same value (for
 * bit 31 of the negative one). */
HT_TARGET static void HT_NAME(lowest_f32)(const int32_t *state, int32_t base, int32_t *leaf)
{
#if HT_VECTORS
    enum { LANES = HT_BYTES / 4 };
    for (int row = 0; row < HT_BLOCK; row += LANES) {
        const HT_NAME(mask_int) bits = *(const HT_NAME(mask_int) *) (state + row);
        const HT_NAME(mask_float) power
            = __builtin_convertvector(bits & -bits, HT_NAME(mask_float));
        const HT_NAME(mask_int) found = (((HT_NAME(mask_int)) power >> 23) & 255) + (base - 127);
        const HT_NAME(mask_int) none = bits == 0;
        HT_NAME(mask_int) *to = (HT_NAME(mask_int) *) (leaf + row);
        *to = (*to & none) | (found & ~none);
    }
#else
    for (int row = 0; row < HT_BLOCK; row++)
        if (state[row])
            leaf[row] = base + ht_lowest_bit((uint32_t) state[row]);
#endif
}
