/* Loops over the entries of one row, compiled once per vector width and chosen at run time.
 *
 * They work entry by entry, so that every width gives the same result. */
#ifndef HYBRIDTREES_ROWS_H
#define HYBRIDTREES_ROWS_H

#include <math.h>
#include <stddef.h>

#include "simd.h"

/* out = (x - center) * inv_scale with `fill` in place of NaN. */
#define HT_LOAD(name, target, real)                                                           \
    target static void name(const real *restrict x, ptrdiff_t n, const double *restrict center,\
                            const double *restrict inv_scale, const double *restrict fill,    \
                            double *restrict out)                                             \
    {                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++) {                                                   \
            double value = (double) x[j];                                                     \
            double given = fill[j];                                                           \
            value = value == value ? value : given;                                           \
            out[j] = (value - center[j]) * inv_scale[j];                                      \
        }                                                                                     \
    }

#define HT_SCALE(name, target)                                                                \
    target static void name(double *restrict x, ptrdiff_t n, double factor)                   \
    {                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++)                                                     \
            x[j] *= factor;                                                                   \
    }

#define HT_SUMS(name, target)                                                                 \
    target static void name(const double *restrict x, ptrdiff_t n, double weight,             \
                            double *restrict sums, double *restrict squares)                  \
    {                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++) {                                                   \
            double part = weight * x[j];                                                      \
            sums[j] += part;                                                                  \
            squares[j] += part * x[j];                                                        \
        }                                                                                     \
    }

/* Logistic loss of rows with scores `eta`, signs (+1 for class 1, -1 for class 0) and weights.
 *
 * With s = exp(-|eta|), which cannot overflow, the probability of the likelier class is
 * p = 1 / (1 + s). On return eta holds w (probability - truth), whose size is the probability of
 * the other class, curve the roots of w p (1 - p), linear the part max(0, -sign eta) of the loss
 * and ones 1 + s, of which the logarithm is the rest. */
#define HT_LOGIT(name, target)                                                                \
    target static void name(double *restrict eta, const double *restrict sign,                \
                            const double *restrict weight, ptrdiff_t n,                       \
                            double *restrict curve, double *restrict linear,                  \
                            double *restrict ones)                                            \
    {                                                                                         \
        for (ptrdiff_t i = 0; i < n; i++) {                                                   \
            double away = sign[i] * eta[i], w = weight[i];                                    \
            double small = ht_exp(-fabs(eta[i])), likely = 1.0 / (1.0 + small);               \
            double unlikely = small * likely;                                                 \
            curve[i] = sqrt(w * small) * likely;                                              \
            linear[i] = w * (away < 0.0 ? -away : 0.0);                                       \
            ones[i] = 1.0 + small;                                                            \
            eta[i] = -sign[i] * w * (away < 0.0 ? likely : unlikely);                         \
        }                                                                                     \
    }

HT_LOAD(ht_load_f32_base, , float)
HT_LOAD(ht_load_f64_base, , double)
HT_SCALE(ht_scale_base, )
HT_SUMS(ht_sums_base, )
HT_LOGIT(ht_logit_base, )

#if HT_X86
#define HT_AVX2 __attribute__((target("avx2")))
HT_LOAD(ht_load_f32_avx2, HT_AVX2, float)
HT_LOAD(ht_load_f64_avx2, HT_AVX2, double)
HT_SCALE(ht_scale_avx2, HT_AVX2)
HT_SUMS(ht_sums_avx2, HT_AVX2)
HT_LOGIT(ht_logit_avx2, HT_AVX2)
#undef HT_AVX2
#define HT_ROWS(wide, name, ...) ((wide) ? name##_avx2(__VA_ARGS__) : name##_base(__VA_ARGS__))

static int ht_rows_wide(void)
{
    return ht_vector_bytes() >= 32;
}
#else
#define HT_ROWS(wide, name, ...) name##_base(__VA_ARGS__)

static int ht_rows_wide(void)
{
    return 0;
}
#endif

#undef HT_LOAD
#undef HT_SCALE
#undef HT_SUMS
#undef HT_LOGIT

static inline void ht_load_f32(int wide, const float *x, ptrdiff_t n, const double *center,
                               const double *inv_scale, const double *fill, double *out)
{
    HT_ROWS(wide, ht_load_f32, x, n, center, inv_scale, fill, out);
}

static inline void ht_load_f64(int wide, const double *x, ptrdiff_t n, const double *center,
                               const double *inv_scale, const double *fill, double *out)
{
    HT_ROWS(wide, ht_load_f64, x, n, center, inv_scale, fill, out);
}

static inline void ht_scale_row(int wide, double *x, ptrdiff_t n, double factor)
{
    HT_ROWS(wide, ht_scale, x, n, factor);
}

static inline void ht_sum_row(int wide, const double *x, ptrdiff_t n, double weight,
                              double *sums, double *squares)
{
    HT_ROWS(wide, ht_sums, x, n, weight, sums, squares);
}

static inline void ht_logit_rows(int wide, double *eta, const double *sign, const double *weight,
                                 ptrdiff_t n, double *curve, double *linear, double *ones)
{
    HT_ROWS(wide, ht_logit, eta, sign, weight, n, curve, linear, ones);
}

#endif
