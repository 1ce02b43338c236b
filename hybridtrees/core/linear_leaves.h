/* Values of linear leaves: v = c + sum of w * (clip(x) - center), where a missing x adds nothing.
 *
 * A leaf is one record of pairs of doubles, so that its terms come with a few cache lines:
 *
 *     [n, c0, c1, ...]        uint16: the number of pairs n, then the columns of the terms
 *     [w0, w1] [w2, w3] ...   n pairs of coefficients, of which the last number is the constant
 *     [m0, m1] ...            n pairs of centres, in exact records only
 *     [low0, low1] ...        n pairs, and as many for the upper ends: where x is clipped
 *     [low, high]             range of the value
 *
 * The last two parts are there where the ensemble needs them. Each leaf has two records: an exact
 * one, and a folded one for rows that miss no regressor, where the constant holds the centres
 * (what that rounds off is what the last bit of x would change). Even and odd terms are summed
 * apart on every machine, so that the sum does not depend on it. */
#ifndef HYBRIDTREES_LINEAR_LEAVES_H
#define HYBRIDTREES_LINEAR_LEAVES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if (defined(__SSE2__) || defined(_M_X64)) && !defined(HT_NO_PAIRS)
#define HT_PAIRS 1
#include <emmintrin.h>
#else
#define HT_PAIRS 0
#endif

#if defined(__GNUC__)
#define HT_ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define HT_ALWAYS_INLINE static __forceinline
#endif

/* Pairs up to which the sum is unrolled; trees with larger leaves count the pairs of each. */
#define HT_UNROLLED_PAIRS 4

/* Pairs of doubles that the columns of n pairs of terms take. */
static inline ptrdiff_t ht_column_pairs(ptrdiff_t n)
{
    return (2 * n + 7) / 8;
}

/* Pairs of doubles of a record. */
static inline ptrdiff_t ht_record_pairs(ptrdiff_t n, int exact, int clipped, int ranged)
{
    return ht_column_pairs(n) + (1 + (exact ? 1 : 0) + (clipped ? 2 : 0)) * n + (ranged ? 1 : 0);
}

/* Column of a term; where the number of pairs is a literal, four are read at a time, for it is
 * the number of loads that counts. */
HT_ALWAYS_INLINE size_t ht_column(const uint16_t *columns, int term, int literal)
{
    uint64_t four;
    if (!literal)
        return columns[term + 1];
    memcpy(&four, columns + (term + 1) / 4 * 4, sizeof(four));
    return (uint16_t) (four >> (16 * ((term + 1) % 4)));
}

/* Value of one leaf. The last four arguments are literals where it is called; n = 0: any. */
HT_ALWAYS_INLINE double ht_leaf_value(const double *record, const double *x, int n, int exact,
                                      int clipped, int ranged)
{
    const uint16_t *columns = (const uint16_t *) record;
    const int n_pairs = n ? n : columns[0];
    const double *coef = record + 2 * ht_column_pairs(n_pairs);
    const double *center = coef + 2 * n_pairs;
    const double *low = exact ? center + 2 * n_pairs : center, *high = low + 2 * n_pairs;
    double value;
#if HT_PAIRS
    __m128d sum = _mm_setzero_pd();
    for (int k = 0; k < n_pairs; k++) {
        __m128d pair = _mm_load_sd(x + ht_column(columns, 2 * k, n)), known;
        if (k + 1 < n_pairs)
            pair = _mm_loadh_pd(pair, x + ht_column(columns, 2 * k + 1, n));
        else
            pair = _mm_unpacklo_pd(pair, _mm_set1_pd(1.0));
        known = _mm_cmpord_pd(pair, pair);
        if (clipped)
            pair = _mm_min_pd(_mm_max_pd(pair, _mm_load_pd(low + 2 * k)),
                              _mm_load_pd(high + 2 * k));
        if (exact)
            pair = _mm_and_pd(_mm_sub_pd(pair, _mm_load_pd(center + 2 * k)), known);
        pair = _mm_mul_pd(pair, _mm_load_pd(coef + 2 * k));
        sum = k ? _mm_add_pd(sum, pair) : pair;
    }
    value = _mm_cvtsd_f64(sum) + _mm_cvtsd_f64(_mm_unpackhi_pd(sum, sum));
#else
    double sum[2] = {0.0, 0.0};
    for (int k = 0; k < 2 * n_pairs; k++) {
        double given = k + 1 < 2 * n_pairs ? x[ht_column(columns, k, n)] : 1.0, one = given;
        if (clipped) {
            one = one > low[k] ? one : low[k];
            one = one < high[k] ? one : high[k];
        }
        if (exact)
            one = given == given ? one - center[k] : 0.0;
        sum[k & 1] = k > 1 ? sum[k & 1] + one * coef[k] : one * coef[k];
    }
    value = sum[0] + sum[1];
#endif
    if (ranged) {
        const double *ends = clipped ? high + 2 * n_pairs : low;
        value = value < ends[0] ? ends[0] : value;
        value = value > ends[1] ? ends[1] : value;
    }
    return value;
}

/* The leaves of a tree, and the rows that come to them. */
typedef struct {
    const double *records;
    const int32_t *start; /* where the record of each leaf starts, in pairs; NULL: they are alike
                             and stand in order */
    const double *x;      /* regressors of the rows, row by row */
    ptrdiff_t stride;     /* from one row to the next */
    int n_pairs;          /* of every record, where they are alike */
    int exact;
    int clipped;
    int ranged;
} HtLinearTree;

HT_ALWAYS_INLINE void ht_add_rows(const HtLinearTree *tree, const int32_t *leaf,
                                  const int32_t *rows, int n_rows, int n, int exact, int clipped,
                                  int ranged, double *total)
{
    const double *records = tree->records, *x = tree->x;
    const ptrdiff_t stride = tree->stride, size = ht_record_pairs(n, exact, clipped, ranged);
    for (int k = 0; k < n_rows; k++) {
        const ptrdiff_t row = rows == NULL ? k : rows[k];
        const double *record = records + 2 * (n ? size * leaf[row] : tree->start[leaf[row]]);
        total[row] += ht_leaf_value(record, x + row * stride, n, exact, clipped, ranged);
    }
}

/* total[row] += value of leaf[row], for the rows listed, or the first n_rows if rows is NULL. */
static inline void ht_add_linear(const HtLinearTree *tree, const int32_t *leaf,
                                 const int32_t *rows, int n_rows, double *total)
{
    const int n_pairs = tree->start == NULL ? tree->n_pairs : 0;
    const int kind = (tree->exact ? 4 : 0) + (tree->clipped ? 2 : 0) + (tree->ranged ? 1 : 0);
#define HT_CASE(n, exact, clipped, ranged)                                                    \
    case 8 * n + 4 * exact + 2 * clipped + ranged:                                            \
        ht_add_rows(tree, leaf, rows, n_rows, n, exact, clipped, ranged, total);              \
        break;
#define HT_CASES(n)                                                                           \
    HT_CASE(n, 0, 0, 0)                                                                       \
    HT_CASE(n, 0, 0, 1)                                                                       \
    HT_CASE(n, 0, 1, 0)                                                                       \
    HT_CASE(n, 0, 1, 1)                                                                       \
    HT_CASE(n, 1, 0, 0)                                                                       \
    HT_CASE(n, 1, 0, 1)                                                                       \
    HT_CASE(n, 1, 1, 0)                                                                       \
    HT_CASE(n, 1, 1, 1)
    switch (8 * n_pairs + kind) {
        HT_CASES(0)
        HT_CASES(1)
        HT_CASES(2)
        HT_CASES(3)
        HT_CASES(4)
    }
#undef HT_CASES
#undef HT_CASE
}

#endif
