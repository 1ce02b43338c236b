/* Transpose rows of a table to feature-major order, for the scoring of blocks.
 *
 * Four neighbouring columns, of which more than one is used, are read for four rows and transposed
 * in registers: column by column, most of every cache line would be read in vain. */
#ifndef HYBRIDTREES_TRANSPOSE_H
#define HYBRIDTREES_TRANSPOSE_H

#include "quickscorer.h"

#if defined(__SSE2__) || defined(_M_X64)
#define HT_SSE2 1
#include <emmintrin.h>
#include <xmmintrin.h>
#else
#define HT_SSE2 0
#endif

static inline float ht_float_of_f32(float x) { return x; }
static inline float ht_float_of_f64(double x) { return ht_round_up(x); }

#if HT_SSE2
static inline __m128 ht_four_of_f32(const float *x) { return _mm_loadu_ps(x); }

/* ht_round_up of four numbers. */
static inline __m128 ht_four_of_f64(const double *x) {
    const __m128d a = _mm_loadu_pd(x), b = _mm_loadu_pd(x + 2);
    const __m128 near_a = _mm_cvtpd_ps(a), near_b = _mm_cvtpd_ps(b);
    const __m128i bits = _mm_castps_si128(_mm_movelh_ps(near_a, near_b));
    const __m128 below_a = _mm_castpd_ps(_mm_cmplt_pd(_mm_cvtps_pd(near_a), a));
    const __m128 below_b = _mm_castpd_ps(_mm_cmplt_pd(_mm_cvtps_pd(near_b), b));
    const __m128i below = _mm_castps_si128(_mm_shuffle_ps(below_a, below_b, 0x88));
    const __m128i step = _mm_or_si128(_mm_set1_epi32(1), _mm_srai_epi32(bits, 31));
    return _mm_castsi128_ps(_mm_add_epi32(bits, _mm_and_si128(step, below)));
}

#define HT_TRANSPOSE_FOUR(kind, real)                                                         \
    for (int row = 0; row < n_rows; row += 4) {                                               \
        const char *from = rows + first * (ptrdiff_t) sizeof(real);                           \
        __m128 a = ht_four_of_##kind((const real *) (from + offset[row]));                    \
        __m128 b = ht_four_of_##kind((const real *) (from + offset[row + 1]));                \
        __m128 c = ht_four_of_##kind((const real *) (from + offset[row + 2]));                \
        __m128 d = ht_four_of_##kind((const real *) (from + offset[row + 3]));                \
        _MM_TRANSPOSE4_PS(a, b, c, d);                                                        \
        _mm_storeu_ps(to[0] + row, a);                                                        \
        _mm_storeu_ps(to[1] + row, b);                                                        \
        _mm_storeu_ps(to[2] + row, c);                                                        \
        _mm_storeu_ps(to[3] + row, d);                                                        \
    }
#else
#define HT_TRANSPOSE_FOUR(kind, real)
#endif

/* block[column, k] = rows[order[k], used[column]] for n_rows rows of n_columns numbers, `stride`
 * bytes apart; doubles are rounded up to floats. */
#define HT_TRANSPOSE(kind, real)                                                              \
    static inline void ht_transpose_##kind(                                                   \
        const char *rows, ptrdiff_t stride, ptrdiff_t n_columns, const int32_t *order,        \
        int n_rows, const int32_t *used, int n_used, float *block)                            \
    {                                                                                         \
        ptrdiff_t offset[HT_BLOCK];                                                           \
        float unused[HT_BLOCK];                                                               \
        const ptrdiff_t step = ht_stride(n_rows);                                             \
        int n;                                                                                \
        for (int row = 0; row < n_rows; row++)                                                \
            offset[row] = order[row] * stride;                                                \
        for (int column = 0; column < n_used; column += n) {                                  \
            const ptrdiff_t first = used[column];                                             \
            float *own = block + column * step, *to[4] = {unused, unused, unused, unused};    \
            for (n = 0; n < 4 && column + n < n_used && used[column + n] < first + 4; n++)    \
                to[used[column + n] - first] = own + n * step;                                \
            if (HT_SSE2 && n > 1 && first + 4 <= n_columns) {                                 \
                HT_TRANSPOSE_FOUR(kind, real)                                                 \
                continue;                                                                     \
            }                                                                                 \
            n = 1;                                                                            \
            for (int row = 0; row < n_rows; row++)                                            \
                own[row] = ht_float_of_##kind(((const real *) (rows + offset[row]))[first]);  \
        }                                                                                     \
    }
HT_TRANSPOSE(f32, float)
HT_TRANSPOSE(f64, double)
#undef HT_TRANSPOSE
#undef HT_TRANSPOSE_FOUR

#endif
