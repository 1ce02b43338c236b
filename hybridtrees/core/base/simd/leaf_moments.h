/* Sums of products of a leaf's columns, over rows in column-major order.
 *
 * Every sum has HT_LEAF_LANES partial sums, over rows of equal number modulo HT_LEAF_LANES, which
 * are added at the end: the order of additions does not depend on the vector width. */
#ifndef HYBRIDTREES_LEAF_MOMENTS_H
#define HYBRIDTREES_LEAF_MOMENTS_H

#include "accumulate.h"
#include "simd.h"

#define HT_LEAF_COLUMNS 16
#define HT_LEAF_PAIRS 136
#define HT_LEAF_ROWS 128
#define HT_LEAF_LANES 8

#if HT_VECTORS
typedef double ht_leaf_vector __attribute__((vector_size(32), may_alias));
#endif

/* A block of rows of a leaf, and the sums over all blocks so far. */
typedef struct {
    HT_ALIGNED(double z[HT_LEAF_COLUMNS][HT_LEAF_ROWS]); /* x, then (x - shift) * factor */
    HT_ALIGNED(double weighted[HT_LEAF_ROWS]);           /* h z of one column */
    HT_ALIGNED(double hess[HT_LEAF_ROWS]);
    HT_ALIGNED(double grad[HT_LEAF_ROWS]);
    HT_ALIGNED(double known[HT_LEAF_ROWS]);
    HT_ALIGNED(double h[HT_LEAF_COLUMNS][HT_LEAF_LANES]); /* of rows with a value */
    HT_ALIGNED(double hz[HT_LEAF_COLUMNS][HT_LEAF_LANES]);
    HT_ALIGNED(double gz[HT_LEAF_COLUMNS][HT_LEAF_LANES]);
    HT_ALIGNED(double squares[HT_LEAF_PAIRS][HT_LEAF_LANES]);
    double low[HT_LEAF_COLUMNS], high[HT_LEAF_COLUMNS]; /* of rows with a positive hessian */
    double n_missing[HT_LEAF_COLUMNS];
} HtLeafRows;

/* lanes += a * b; n is a multiple of HT_LEAF_LANES. */
HT_INLINE void ht_add_products(const double *a, const double *b, int n, double *lanes) {
#if HT_VECTORS
    const ht_leaf_vector *u = (const ht_leaf_vector *) a, *v = (const ht_leaf_vector *) b;
    ht_leaf_vector *out = (ht_leaf_vector *) lanes;
    ht_leaf_vector low = out[0], high = out[1];
    for (int i = 0; i < n / 4; i += 2) {
        low += u[i] * v[i];
        high += u[i + 1] * v[i + 1];
    }
    out[0] = low;
    out[1] = high;
#else
    for (int i = 0; i < n; i += HT_LEAF_LANES)
        for (int lane = 0; lane < HT_LEAF_LANES; lane++)
            lanes[lane] += a[i + lane] * b[i + lane];
#endif
}

/* Widen [low, high] to the range of a column without missing values. */
HT_INLINE void ht_widen_range(const double *z, int n, double *low, double *high) {
    double least[HT_LEAF_LANES], most[HT_LEAF_LANES];
    int i = 0;
    for (int lane = 0; lane < HT_LEAF_LANES; lane++) {
        least[lane] = *low;
        most[lane] = *high;
    }
    for (; i + HT_LEAF_LANES <= n; i += HT_LEAF_LANES)
        for (int lane = 0; lane < HT_LEAF_LANES; lane++) {
            least[lane] = z[i + lane] < least[lane] ? z[i + lane] : least[lane];
            most[lane] = z[i + lane] > most[lane] ? z[i + lane] : most[lane];
        }
    for (; i < n; i++) {
        least[0] = z[i] < least[0] ? z[i] : least[0];
        most[0] = z[i] > most[0] ? z[i] : most[0];
    }
    for (int lane = 0; lane < HT_LEAF_LANES; lane++) {
        *low = least[lane] < *low ? least[lane] : *low;
        *high = most[lane] > *high ? most[lane] : *high;
    }
}

/* Standardise a column, and set missing values to 0; returns their number. */
HT_INLINE int ht_standardise(double *z, double *known, int n, double shift, double factor) {
    int64_t n_missing = 0;
    for (int i = 0; i < n; i++) {
        n_missing += z[i] != z[i];
        z[i] = (z[i] - shift) * factor;
    }
    if (n_missing)
        for (int i = 0; i < n; i++) {
            known[i] = z[i] == z[i] ? 1.0 : 0.0;
            z[i] = z[i] == z[i] ? z[i] : 0.0;
        }
    return (int) n_missing;
}

#define HT_BODY "leaf_moments_body.h"
#define HT_UP_TO_32
#include "per_width.h"

static void ht_open_leaf(HtLeafRows *rows, int k) {
    memset(rows->h, 0, (size_t) k * sizeof(rows->h[0]));
    memset(rows->hz, 0, (size_t) k * sizeof(rows->hz[0]));
    memset(rows->gz, 0, (size_t) k * sizeof(rows->gz[0]));
    memset(rows->squares, 0, (size_t) (k * (k + 1) / 2) * sizeof(rows->squares[0]));
    for (int j = 0; j < k; j++) {
        rows->low[j] = INFINITY;
        rows->high[j] = -INFINITY;
        rows->n_missing[j] = 0.0;
    }
}

#define ht_add_leaf_rows(rows, n, all_weigh, k, shift, factor, width)                         \
    HT_DISPATCH_32(width, leaf_rows, rows, n, all_weigh, k, shift, factor)
#define ht_add_line_term(x, n, coef, center, low, high, total, width)                         \
    HT_DISPATCH_32(width, line_term, x, n, coef, center, low, high, total)

HT_INLINE double ht_sum_lanes(const double *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5]))
        + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/* Add to the results of the leaf: for each column h, h z, g z, minimum and maximum of z, and the
 * number of missing values; then h z z'. */
static void ht_close_leaf(const HtLeafRows *rows, int k, double *columns, double *squares) {
    for (int j = 0; j < k; j++, columns += 6) {
        columns[0] += ht_sum_lanes(rows->h[j]);
        columns[1] += ht_sum_lanes(rows->hz[j]);
        columns[2] += ht_sum_lanes(rows->gz[j]);
        columns[3] = rows->low[j] < columns[3] ? rows->low[j] : columns[3];
        columns[4] = rows->high[j] > columns[4] ? rows->high[j] : columns[4];
        columns[5] += rows->n_missing[j];
    }
    for (int j = 0; j < k * (k + 1) / 2; j++)
        squares[j] += ht_sum_lanes(rows->squares[j]);
}

#endif
