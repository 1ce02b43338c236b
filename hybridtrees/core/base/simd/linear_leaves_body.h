/* Bodies that linear_leaves.h compiles once per vector width; no include guard on purpose. */

/* The lanes of a leaf by pairs or, with wider vectors, by fours: most leaves do not use all lanes
 * of the widest vectors. */
#if HT_X86 && HT_BYTES >= 32
typedef __m256d HT_NAME(part);
#define HT_PART 4
#define HT_PART_LOAD(from) _mm256_load_pd(from)
#define HT_PART_ADD(a, b) _mm256_add_pd(a, b)
#define HT_PART_MUL(a, b) _mm256_mul_pd(a, b)
#define HT_PART_CLIP(x, low, high) _mm256_min_pd(_mm256_max_pd(x, low), high)
#define HT_PART_FROM(given, x, center)                                                        \
    _mm256_and_pd(_mm256_cmp_pd(given, given, _CMP_ORD_Q), _mm256_sub_pd(x, center))
#else
typedef HtPair HT_NAME(part);
#define HT_PART 2
#define HT_PART_LOAD HT_PAIR_LOAD
#define HT_PART_ADD HT_PAIR_ADD
#define HT_PART_MUL HT_PAIR_MUL
#define HT_PART_CLIP HT_PAIR_CLIP
#define HT_PART_FROM HT_PAIR_FROM
#endif
enum { HT_NAME(n_parts) = HT_LANES / HT_PART };

/* Two lanes of x; the second lane of the last pair in use is the constant. */
HT_TARGET HT_INLINE HtPair HT_NAME(pick_pair)(const double *x, const int32_t *column, int is_last) {
    uint32_t two[2]; /* both with one load */
    if (is_last)
        return HT_PAIR_AND_ONE(x + *column);
    memcpy(two, column, sizeof(two));
    return HT_PAIR_OF(x + two[0], x + two[1]);
}

/* Lanes from 2 * pair on; those after the last pair in use are 0. */
HT_TARGET HT_INLINE HT_NAME(part) HT_NAME(pick_part)(const double *x, const int32_t *column,
                                                     int pair, int n_pairs) {
    const HtPair first = HT_NAME(pick_pair)(x, column + 2 * pair, n_pairs && pair + 1 == n_pairs);
#if HT_PART == 4
    if (n_pairs && pair + 1 == n_pairs)
        return _mm256_insertf128_pd(_mm256_setzero_pd(), first, 0);
    return _mm256_insertf128_pd(
        _mm256_castpd128_pd256(first),
        HT_NAME(pick_pair)(x, column + 2 * pair + 2, n_pairs && pair + 2 == n_pairs), 1);
#else
    return first;
#endif
}

/* The sum of a band for one row. All but the first four arguments are literals; n_pairs is 0 for
 * leaves of several chunks. */
HT_TARGET HT_INLINE double HT_NAME(sum_by_parts)(const HtLinearLeaves *leaves, const int32_t *at,
                                                 int n_trees, const double *x, int n_pairs,
                                                 int exact, int clipped) {
    const ptrdiff_t size = leaves->size;
    const int n_parts = n_pairs ? (2 * n_pairs + HT_PART - 1) / HT_PART : HT_NAME(n_parts);
    HT_NAME(part) sum[HT_NAME(n_parts)], leaf[HT_NAME(n_parts)];
    for (int tree = 0; tree < n_trees; tree++) {
        const ptrdiff_t first = at[HT_BLOCK * tree];
        const ptrdiff_t n_chunks
            = n_pairs ? 1 : ((const int32_t *) (leaves->chunks + size * first))[HT_LANES];
        for (ptrdiff_t k = 0; k < n_chunks; k++) {
            const double *chunk = leaves->chunks + size * (first + k);
            const double *own = leaves->exact + 2 * HT_LANES * (first + k);
            for (int part = 0; part < n_parts; part++) {
                const ptrdiff_t lane = HT_PART * part;
                const HT_NAME(part) given = HT_NAME(pick_part)(x, (const int32_t *) chunk,
                                                               HT_PART / 2 * part, n_pairs);
                HT_NAME(part) one = given;
                if (clipped)
                    one = HT_PART_CLIP(one, HT_PART_LOAD(chunk + 2 * HT_LANES + lane),
                                       HT_PART_LOAD(chunk + 3 * HT_LANES + lane));
                if (exact)
                    one = HT_PART_FROM(given, one, HT_PART_LOAD(own + HT_LANES + lane));
                one = HT_PART_MUL(one, HT_PART_LOAD((exact ? own : chunk + HT_LANES) + lane));
                leaf[part] = k ? HT_PART_ADD(leaf[part], one) : one;
            }
        }
        for (int part = 0; part < n_parts; part++)
            sum[part] = tree ? HT_PART_ADD(sum[part], leaf[part]) : leaf[part];
    }
#if HT_PART == 4
    {
        const __m256d four = n_parts == 1 ? sum[0] : _mm256_add_pd(sum[0], sum[1]);
        return HT_PAIR_SUM(
            _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1)));
    }
#else
    if (n_parts > 2)
        sum[0] = HT_PAIR_ADD(sum[0], sum[2]);
    if (n_parts > 3)
        sum[1] = HT_PAIR_ADD(sum[1], sum[3]);
    if (n_parts > 1)
        sum[0] = HT_PAIR_ADD(sum[0], sum[1]);
    return HT_PAIR_SUM(sum[0]);
#endif
}

HT_TARGET HT_INLINE void HT_NAME(add_by_parts)(const HtLinearLeaves *leaves, const int32_t *at,
                                               int n_trees, int first, int last, double *total,
                                               int n_pairs, int exact, int clipped) {
    for (ptrdiff_t row = first; row < last; row++)
        total[row] += HT_NAME(sum_by_parts)(
            leaves, at + row, n_trees, (const double *) leaves->x + row * leaves->stride, n_pairs,
            exact, clipped);
}

#define HT_NUMBER(n, exact, clipped)                                                          \
    case n:                                                                                   \
        HT_NAME(add_by_parts)(leaves, at, n_trees, first, last, total, n, exact, clipped);    \
        break;
#define HT_CASE(exact, clipped)                                                               \
    case 2 * exact + clipped:                                                                 \
        switch (leaves->n_pairs) {                                                            \
            HT_NUMBER(0, exact, clipped)                                                      \
            HT_NUMBER(1, exact, clipped)                                                      \
            HT_NUMBER(2, exact, clipped)                                                      \
            HT_NUMBER(3, exact, clipped)                                                      \
            HT_NUMBER(4, exact, clipped)                                                      \
        }                                                                                     \
        break;
HT_TARGET static void HT_NAME(add_pairs)(const HtLinearLeaves *leaves, const int32_t *at,
                                         int n_trees, int exact, int clipped, int first, int last,
                                         double *total) {
    switch (2 * (exact != 0) + (clipped != 0)) {
        HT_CASE(0, 0)
        HT_CASE(0, 1)
        HT_CASE(1, 0)
        HT_CASE(1, 1)
    }
}
#undef HT_NUMBER
#undef HT_CASE
#undef HT_PART
#undef HT_PART_LOAD
#undef HT_PART_ADD
#undef HT_PART_MUL
#undef HT_PART_CLIP
#undef HT_PART_FROM

#if HT_X86 && HT_BYTES == 64
/* Rows of up to 32 columns stay in registers for all trees of a band. Gather instructions are not
 * used: they are slow on many processors. */

/* Eight lanes of one leaf for the floats in a and b. Literals: `exact`, `clipped` and `n`, the
 * columns of a row, 16 or 32. */
HT_TARGET HT_INLINE __m512d HT_NAME(float_lanes)(
    const HtLinearLeaves *leaves, ptrdiff_t at, __m512 a, __m512 b, int n, int exact, int clipped) {
    const double *chunk = leaves->chunks + leaves->size * at;
    const double *own = leaves->exact + 2 * HT_LANES * at;
    const __m512i column = _mm512_castsi256_si512(_mm256_load_si256((const __m256i *) chunk));
    const __m256 given = _mm512_castps512_ps256(
        n <= 16 ? _mm512_permutexvar_ps(column, a) : _mm512_permutex2var_ps(a, column, b));
    __m256 x = given;
    __m512d wide;
    if (clipped)
        x = _mm256_min_ps(
            _mm256_max_ps(x, _mm256_load_ps((const float *) chunk + HT_LANES)),
            _mm256_load_ps((const float *) (chunk + 2 * HT_LANES)));
    wide = _mm512_cvtps_pd(x);
    if (exact)
        wide = _mm512_maskz_sub_pd(_mm256_cmp_ps_mask(given, given, _CMP_ORD_Q), wide,
                                   _mm512_load_pd(own + HT_LANES));
    return _mm512_mul_pd(wide, _mm512_load_pd(exact ? own : chunk + HT_LANES));
}

/* The same for the doubles in x. */
HT_TARGET HT_INLINE __m512d HT_NAME(double_lanes)(const HtLinearLeaves *leaves, ptrdiff_t at,
                                                  const __m512d *x, int n, int exact, int clipped) {
    const double *chunk = leaves->chunks + leaves->size * at;
    const double *own = leaves->exact + 2 * HT_LANES * at;
    const __m512i column = _mm512_load_si512(chunk);
    __m512d given, one;
    if (n <= 16) {
        given = _mm512_permutex2var_pd(x[0], column, x[1]);
    } else {
        /* Lanes that the first permutation skips still hold a column number for the second. */
        const __mmask8 behind = _mm512_test_epi64_mask(column, _mm512_set1_epi64(16));
        given = _mm512_mask2_permutex2var_pd(x[0], column, _knot_mask8(behind), x[1]);
        given = _mm512_mask2_permutex2var_pd(x[2], _mm512_castpd_si512(given), behind, x[3]);
    }
    one = given;
    if (clipped)
        one = _mm512_min_pd(_mm512_max_pd(one, _mm512_load_pd(chunk + 2 * HT_LANES)),
                            _mm512_load_pd(chunk + 3 * HT_LANES));
    if (exact)
        one = _mm512_maskz_sub_pd(_mm512_cmp_pd_mask(given, given, _CMP_ORD_Q), one,
                                  _mm512_load_pd(own + HT_LANES));
    return _mm512_mul_pd(one, _mm512_load_pd(exact ? own : chunk + HT_LANES));
}

/* The lanes of a row, summed over a band; `single`: leaves have one chunk each. */
HT_TARGET HT_INLINE __m512d HT_NAME(band_lanes)(const HtLinearLeaves *leaves, const int32_t *at,
                                                int n_trees, ptrdiff_t row, int form, int n,
                                                int single, int exact, int clipped) {
    const float *narrow = (const float *) leaves->x + n * row;
    const double *wide = (const double *) leaves->x + n * row;
    __m512d x[4], sum = _mm512_setzero_pd();
    __m512 a, b;
    if (form == HT_FLOATS) {
        a = _mm512_load_ps(narrow);
        b = _mm512_load_ps(narrow + n - 16);
    } else {
        for (int k = 0; k < 2; k++) {
            x[k] = _mm512_load_pd(wide + 8 * k);
            x[2 + k] = _mm512_load_pd(wide + n - 16 + 8 * k);
        }
    }
    for (int k = 0; k < n_trees; k++) {
        const ptrdiff_t first = at[HT_BLOCK * k + row];
        const ptrdiff_t n_chunks
            = single ? 1 : *(const int32_t *) (leaves->chunks + leaves->size * first) >> 8;
        __m512d leaf = _mm512_setzero_pd();
        for (ptrdiff_t c = 0; c < n_chunks; c++) {
            const __m512d lanes = form == HT_FLOATS
                      ? HT_NAME(float_lanes)(leaves, first + c, a, b, n, exact, clipped)
                      : HT_NAME(double_lanes)(leaves, first + c, x, n, exact, clipped);
            leaf = c ? _mm512_add_pd(leaf, lanes) : lanes;
        }
        sum = k ? _mm512_add_pd(sum, leaf) : leaf;
    }
    return sum;
}

/* Sums of the lanes of eight rows, in pairs; row k of the sums is row HT_PLACE(k) of the lanes. */
#define HT_PLACE(k) ((k) % 2 * 4 + (k) / 2)
HT_TARGET HT_INLINE __m512d HT_NAME(halve)(const __m512d *lanes) {
    __m512d fours[4], twos[2];
    for (int k = 0; k < 4; k++)
        fours[k] = _mm512_add_pd(_mm512_mask_blend_pd(0xF0, lanes[2 * k], lanes[2 * k + 1]),
                                 _mm512_shuffle_f64x2(lanes[2 * k], lanes[2 * k + 1], 0x4E));
    for (int k = 0; k < 2; k++)
        twos[k] = _mm512_add_pd(_mm512_shuffle_f64x2(fours[2 * k], fours[2 * k + 1], 0x88),
                                _mm512_shuffle_f64x2(fours[2 * k], fours[2 * k + 1], 0xDD));
    return _mm512_add_pd(_mm512_unpacklo_pd(twos[0], twos[1]),
                         _mm512_unpackhi_pd(twos[0], twos[1]));
}

HT_TARGET HT_INLINE double HT_NAME(halve_one)(__m512d lanes) {
    const __m256d four
        = _mm256_add_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1));
    return HT_PAIR_SUM(_mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1)));
}

HT_TARGET HT_INLINE void HT_NAME(add_by_rows)(const HtLinearLeaves *leaves, const int32_t *at,
                                              int n_trees, int first, int last, double *total,
                                              int form, int n, int single, int exact, int clipped) {
    ptrdiff_t row = first;
    for (; row + 8 <= last; row += 8) {
        __m512d lanes[8];
        for (int k = 0; k < 8; k++)
            lanes[HT_PLACE(k)] = HT_NAME(band_lanes)(leaves, at, n_trees, row + k, form, n, single,
                                                     exact, clipped);
        _mm512_storeu_pd(total + row,
                         _mm512_add_pd(_mm512_loadu_pd(total + row), HT_NAME(halve)(lanes)));
    }
    for (; row < last; row++)
        total[row] += HT_NAME(halve_one)(
            HT_NAME(band_lanes)(leaves, at, n_trees, row, form, n, single, exact, clipped));
}

/* With one chunk per leaf, the loop over a full band is unrolled. */
#define HT_COLUMNS(form, n, exact, clipped)                                                   \
    if (leaves->n_pairs == 0)                                                                 \
        HT_NAME(add_by_rows)(leaves, at, n_trees, first, last, total, form, n, 0, exact,      \
                             clipped);                                                        \
    else if (n_trees == HT_BAND)                                                              \
        HT_NAME(add_by_rows)(leaves, at, HT_BAND, first, last, total, form, n, 1, exact,      \
                             clipped);                                                        \
    else                                                                                      \
        HT_NAME(add_by_rows)(leaves, at, n_trees, first, last, total, form, n, 1, exact,      \
                             clipped);
#define HT_CASE(form, exact, clipped)                                                         \
    case 2 * exact + clipped:                                                                 \
        if (leaves->stride == 16) {                                                           \
            HT_COLUMNS(form, 16, exact, clipped)                                              \
        } else {                                                                              \
            HT_COLUMNS(form, 32, exact, clipped)                                              \
        }                                                                                     \
        break;
#define HT_ADD(name, form)                                                                    \
    HT_TARGET static void HT_NAME(name)(const HtLinearLeaves *leaves, const int32_t *at,      \
                                        int n_trees, int exact, int clipped, int first,       \
                                        int last, double *total)                              \
    {                                                                                         \
        switch (2 * (exact != 0) + (clipped != 0)) {                                          \
            HT_CASE(form, 0, 0)                                                               \
            HT_CASE(form, 0, 1)                                                               \
            HT_CASE(form, 1, 0)                                                               \
            HT_CASE(form, 1, 1)                                                               \
        }                                                                                     \
    }
HT_ADD(add_floats, HT_FLOATS)
HT_ADD(add_doubles, HT_DOUBLES)
#undef HT_ADD
#undef HT_CASE
#undef HT_COLUMNS
#undef HT_PLACE
#endif

HT_TARGET static void HT_NAME(add_band)(const HtLinearLeaves *leaves, const int32_t *at,
                                        int n_trees, int exact, int clipped, int first, int last,
                                        double *total) {
#if HT_X86 && HT_BYTES == 64
    if (leaves->form == HT_FLOATS) {
        HT_NAME(add_floats)(leaves, at, n_trees, exact, clipped, first, last, total);
        return;
    }
    if (leaves->form == HT_DOUBLES) {
        HT_NAME(add_doubles)(leaves, at, n_trees, exact, clipped, first, last, total);
        return;
    }
#endif
    HT_NAME(add_pairs)(leaves, at, n_trees, exact, clipped, first, last, total);
}

#define HT_COPY(name, source, target)                                                         \
    HT_TARGET static int HT_NAME(name)(const source *from, ptrdiff_t n, const target *low,    \
                                       const target *high, target *to)                        \
    {                                                                                         \
        int missing = 0, outside = 0;                                                         \
        for (ptrdiff_t k = 0; k < n; k++) {                                                   \
            const target x = from[k];                                                         \
            to[k] = x;                                                                        \
            missing |= x != x;                                                                \
            outside |= (x < low[k]) | (x > high[k]);                                          \
        }                                                                                     \
        to[n] = 1;                                                                            \
        return missing ? HT_MISSING : outside ? HT_OUTSIDE : HT_INSIDE;                       \
    }
HT_COPY(widen_f32, float, double)
#if HT_X86 && HT_BYTES == 64
/* The same by whole vectors; `kind` is the suffix of the intrinsics. */
#define HT_COPY_WHOLE(name, real, vector, bits, lanes, kind)                                  \
    HT_TARGET static int HT_NAME(name)(const real *from, ptrdiff_t n, const real *low,        \
                                       const real *high, real *to)                            \
    {                                                                                         \
        bits missing = 0, outside = 0;                                                        \
        for (ptrdiff_t k = 0; k <= n; k += lanes) {                                           \
            const bits own = (bits) (n - k >= lanes ? -1 : (1 << (n - k)) - 1);               \
            const vector least = _mm512_maskz_loadu_##kind(own, low + k);                     \
            const vector most = _mm512_maskz_loadu_##kind(own, high + k);                     \
            const vector x                                                                    \
                = _mm512_mask_loadu_##kind(_mm512_set1_##kind(1), own, from + k);             \
            missing |= _mm512_cmp_##kind##_mask(x, x, _CMP_UNORD_Q);                          \
            outside |= _mm512_mask_cmp_##kind##_mask(own, x, least, _CMP_LT_OQ);              \
            outside |= _mm512_mask_cmp_##kind##_mask(own, x, most, _CMP_GT_OQ);               \
            _mm512_mask_storeu_##kind(to + k, (bits) (own << 1 | 1), x);                      \
        }                                                                                     \
        return missing ? HT_MISSING : outside ? HT_OUTSIDE : HT_INSIDE;                       \
    }
HT_COPY_WHOLE(copy_f32, float, __m512, __mmask16, 16, ps)
HT_COPY_WHOLE(copy_f64, double, __m512d, __mmask8, 8, pd)
#undef HT_COPY_WHOLE
#else
HT_COPY(copy_f32, float, float)
HT_COPY(copy_f64, double, double)
#endif
#undef HT_COPY
