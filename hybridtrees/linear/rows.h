/* Loops over the entries of one row, compiled once per vector width and chosen at run time.
 *
 * They work entry by entry, so that every width gives the same result. Rows are short: vectors of
 * 64 bytes would gain nothing. */
#ifndef HYBRIDTREES_ROWS_H
#define HYBRIDTREES_ROWS_H

#include <math.h>
#include <stddef.h>

#include "simd.h"

#define HT_BODY "rows_body.h"
#define HT_UP_TO_32
#include "per_width.h"

static inline void ht_load_f32(int width, const float *x, ptrdiff_t n, const double *center,
                               const double *inv_scale, const double *fill, double *out)
{
    HT_DISPATCH_32(width, load_f32, x, n, center, inv_scale, fill, out);
}

static inline void ht_load_f64(int width, const double *x, ptrdiff_t n, const double *center,
                               const double *inv_scale, const double *fill, double *out)
{
    HT_DISPATCH_32(width, load_f64, x, n, center, inv_scale, fill, out);
}

static inline void ht_scale_row(int width, double *x, ptrdiff_t n, double factor)
{
    HT_DISPATCH_32(width, scale, x, n, factor);
}

static inline void ht_sum_row(int width, const double *x, ptrdiff_t n, double weight,
                              double *sums, double *squares)
{
    HT_DISPATCH_32(width, row_sums, x, n, weight, sums, squares);
}

static inline void ht_logit_rows(int width, double *eta, const double *sign,
                                 const double *weight, ptrdiff_t n, double *curve,
                                 double *linear, double *ones)
{
    HT_DISPATCH_32(width, logit, eta, sign, weight, n, curve, linear, ones);
}

#endif
