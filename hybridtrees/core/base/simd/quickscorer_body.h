/* Bodies that quickscorer.h compiles once per vector width; no include guard on purpose. */

#if HT_VECTORS
typedef float HT_NAME(mask_float)
    __attribute__((vector_size(HT_BYTES), aligned(4), may_alias));
typedef int32_t HT_NAME(mask_int) __attribute__((vector_size(HT_BYTES), aligned(4), may_alias));
typedef double HT_NAME(mask_double)
    __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));
typedef int64_t HT_NAME(mask_long)
    __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));

/* base + position of the lowest set bit. That bit alone is a power of two, and its logarithm is in
 * the exponent of the float of the same value (for bit 31 of the negative one). */
HT_TARGET HT_INLINE HT_NAME(mask_int) HT_NAME(lowest)(HT_NAME(mask_int) bits, int32_t base)
{
    const HT_NAME(mask_float) power = __builtin_convertvector(bits & -bits, HT_NAME(mask_float));
    return (((HT_NAME(mask_int)) power >> 23) & 255) + (base - 127);
}

/* Rows that go right keep only the leaves in the mask. */
#if HT_X86 && HT_BYTES == 64
/* AVX-512 comparisons yield bit masks for masked operations. */
#define HT_RIGHT_UNLESS_LE(s, x, t, keep)                                                     \
    s = (HT_NAME(mask_int)) _mm512_mask_and_epi32(                                            \
        (__m512i) s, _mm512_cmp_ps_mask((__m512) x, (__m512) t, _CMP_NLE_UQ), (__m512i) s,    \
        (__m512i) keep)
#define HT_RIGHT_IF_GT(s, x, t, keep)                                                         \
    s = (HT_NAME(mask_int)) _mm512_mask_and_epi32(                                            \
        (__m512i) s, _mm512_cmp_ps_mask((__m512) x, (__m512) t, _CMP_GT_OQ), (__m512i) s,     \
        (__m512i) keep)
#else
#define HT_RIGHT_UNLESS_LE(s, x, t, keep) s &= (x <= t) | keep
#define HT_RIGHT_IF_GT(s, x, t, keep) s &= ~(x > t) | keep
#endif

#define HT_APPLY(first, last, right)                                                          \
    for (int k = first; k < last; k++) {                                                      \
        const float *column = x + (ptrdiff_t) feature[k] * stride + row;                      \
        const HT_NAME(mask_float) t = threshold[k] - (HT_NAME(mask_float)){0};                \
        const HT_NAME(mask_int) keep = mask[k] | (HT_NAME(mask_int)){0};                      \
        for (int v = 0; v < 4; v++)                                                           \
            right(s[v], *(const HT_NAME(mask_float) *) (column + v * LANES), t, keep);        \
    }

HT_TARGET HT_INLINE void HT_NAME(score_f32_by)(
    const float *x, int n_rows, const int32_t *feature, const float *threshold, const int32_t *mask,
    int n_right, int n_left, const int32_t *state, int32_t base, int is_first, int32_t *leaf,
    int stride) {
    enum { LANES = HT_BYTES / sizeof(int32_t) };
    for (int row = 0; row < n_rows; row += 4 * LANES) {
        HT_NAME(mask_int) s[4];
        for (int v = 0; v < 4; v++) {
            if (state)
                s[v] = *(const HT_NAME(mask_int) *) (state + row + v * LANES);
            else
                s[v] = ~(HT_NAME(mask_int)){0};
        }
        HT_APPLY(0, n_right, HT_RIGHT_UNLESS_LE)
        HT_APPLY(n_right, n_right + n_left, HT_RIGHT_IF_GT)
        for (int v = 0; v < 4; v++) {
            HT_NAME(mask_int) *to = (HT_NAME(mask_int) *) (leaf + row + v * LANES);
            const HT_NAME(mask_int) found = HT_NAME(lowest)(s[v], base), none = s[v] == 0;
            if (is_first)
                *to = found;
            else
                *to = (*to & none) | (found & ~none);
        }
    }
}

HT_TARGET static void HT_NAME(score_f32)(
    const float *x, int n_rows, const int32_t *feature, const float *threshold, const int32_t *mask,
    int n_right, int n_left, const int32_t *state, int32_t base, int is_first, int32_t *leaf) {
    if (ht_stride(n_rows) == HT_STEP)
        HT_NAME(score_f32_by)(x, HT_STEP, feature, threshold, mask, n_right, n_left, state, base,
                              is_first, leaf, HT_STEP);
    else
        HT_NAME(score_f32_by)(x, n_rows, feature, threshold, mask, n_right, n_left, state, base,
                              is_first, leaf, HT_BLOCK);
}
#undef HT_APPLY
#undef HT_RIGHT_UNLESS_LE
#undef HT_RIGHT_IF_GT

HT_TARGET static void HT_NAME(score_f64)(const double *x, int n_rows, const int32_t *feature,
                                         const double *threshold, const int64_t *mask, int n_right,
                                         int n_left, int64_t *state) {
    enum { LANES = HT_BYTES / sizeof(int64_t) };
    const int stride = ht_stride(n_rows);
    for (int row = 0; row < n_rows; row += 4 * LANES) {
        HT_NAME(mask_long) s[4];
        for (int v = 0; v < 4; v++)
            s[v] = *(const HT_NAME(mask_long) *) (state + row + v * LANES);
        for (int k = 0; k < n_right + n_left; k++) {
            const double *column = x + (ptrdiff_t) feature[k] * stride + row;
            const HT_NAME(mask_double) t = threshold[k] - (HT_NAME(mask_double)){0};
            const HT_NAME(mask_long) keep = mask[k] | (HT_NAME(mask_long)){0};
            for (int v = 0; v < 4; v++) {
                const HT_NAME(mask_double) at
                    = *(const HT_NAME(mask_double) *) (column + v * LANES);
                if (k < n_right)
                    s[v] &= (at <= t) | keep;
                else
                    s[v] &= ~(at > t) | keep;
            }
        }
        for (int v = 0; v < 4; v++)
            *(HT_NAME(mask_long) *) (state + row + v * LANES) = s[v];
    }
}
#else
static void HT_NAME(score_f32)(const float *x, int n_rows, const int32_t *feature,
                               const float *threshold, const int32_t *mask, int n_right, int n_left,
                               const int32_t *state, int32_t base, int is_first, int32_t *leaf) {
    const int stride = ht_stride(n_rows);
    for (int row = 0; row < n_rows; row++) {
        uint32_t bits = state ? (uint32_t) state[row] : ~(uint32_t) 0;
        for (int k = 0; k < n_right + n_left; k++) {
            const float at = x[(ptrdiff_t) feature[k] * stride + row];
            const int left = k < n_right ? at <= threshold[k] : !(at > threshold[k]);
            bits &= left ? ~(uint32_t) 0 : (uint32_t) mask[k];
        }
        if (bits)
            leaf[row] = base + ht_lowest_bit(bits);
    }
    (void) is_first;
}

static void HT_NAME(score_f64)(const double *x, int n_rows, const int32_t *feature,
                               const double *threshold, const int64_t *mask, int n_right,
                               int n_left, int64_t *state) {
    const int stride = ht_stride(n_rows);
    for (int k = 0; k < n_right + n_left; k++)
        for (int row = 0; row < n_rows; row++) {
            const double at = x[(ptrdiff_t) feature[k] * stride + row];
            const int left = k < n_right ? at <= threshold[k] : !(at > threshold[k]);
            state[row] &= left ? ~(int64_t) 0 : mask[k];
        }
}
#endif

HT_TARGET static void HT_NAME(add_few_values)(const double *values, const int32_t *leaf, int n_rows,
                                              double *total) {
#if HT_X86 && HT_BYTES == 64
    __m512d v[4];
    for (int k = 0; k < 4; k++)
        v[k] = _mm512_loadu_pd(values + 8 * k);
    for (int row = 0; row < n_rows; row += 8) {
        const __m512i at
            = _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *) (leaf + row)));
        const __m512d found = _mm512_mask_blend_pd(
            _mm512_test_epi64_mask(at, _mm512_set1_epi64(16)),
            _mm512_permutex2var_pd(v[0], at, v[1]), _mm512_permutex2var_pd(v[2], at, v[3]));
        _mm512_storeu_pd(total + row, _mm512_add_pd(_mm512_loadu_pd(total + row), found));
    }
#else
    for (int row = 0; row < n_rows; row++)
        total[row] += values[leaf[row]];
#endif
}
