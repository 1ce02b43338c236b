/* Values of linear leaves: v = c + sum of w * (clip(x) - center), where a missing x adds nothing.
 *
 * A leaf is one record of whole cache lines, whose terms stand in chunks of eight lanes:
 *
 *     [low, high, n, 0]          range of the value, number of chunks
 *     [c0, c1, ..., c7] ...      int32: the column of x of each lane, n chunks
 *     [w0, w1, ..., w7] ...      coefficients; the last lane in use is the constant
 *     [low0, ...] [high0, ...]   where x is clipped, n chunks each; only where some term is
 *     [w0, ...] [m0, ...]        coefficients and centres of exact sums
 *
 * The column behind the regressors always holds 1: the constant and unused lanes read it. Rows that
 * miss no regressor take a constant that holds the centres (what that rounds off is what the last
 * bit of x would change); the others are summed exactly, with the centres one by one.
 *
 * Lanes are multiplied side by side, chunks are added, and the eight lanes are halved three times:
 * 0 + 4, 1 + 5, ..., then 0 + 2 and 1 + 3 of these, then the last two. Every body keeps that order,
 * so that the sum depends neither on the machine nor on the rows that stand beside (but for the sign
 * of a sum of zeros: pairs of lanes that no leaf of a tree uses are left out by some bodies). */
#ifndef HYBRIDTREES_LINEAR_LEAVES_H
#define HYBRIDTREES_LINEAR_LEAVES_H

#include "simd.h"

enum {
    HT_LINE = 8,          /* doubles of a cache line, and lanes of a chunk */
    HT_HEAD = 4,          /* doubles in front of the columns */
    HT_TABLE_COLUMNS = 32 /* columns of x that are looked up within registers */
};

/* Cache lines of the head and the columns of n chunks. */
static inline ptrdiff_t ht_head_lines(ptrdiff_t n)
{
    return (n + 2) / 2;
}

/* Cache lines of a record. */
static inline ptrdiff_t ht_record_lines(ptrdiff_t n, int clipped)
{
    return ht_head_lines(n) + (clipped ? 5 : 3) * n;
}

/* From one row of x to the next; where registers hold a row, it is read as whole vectors. */
static inline ptrdiff_t ht_row_stride(ptrdiff_t n_columns)
{
    return n_columns <= HT_TABLE_COLUMNS / 2 ? HT_TABLE_COLUMNS / 2
           : n_columns <= HT_TABLE_COLUMNS   ? HT_TABLE_COLUMNS
                                             : n_columns | 1;
}

/* The leaves of a tree, and the rows that come to them. */
typedef struct {
    const double *records;
    const int32_t *start; /* where the record of each leaf starts, in lines; NULL: they are alike,
                             have one chunk, and stand in order */
    const void *x;        /* regressors of the rows, row by row, and behind them 1 */
    ptrdiff_t stride;     /* from one row to the next */
    int narrow;           /* whether they are floats, which only vectors of 64 bytes read */
    int n_pairs;          /* of lanes in use, where records are alike */
    int exact;
    int clipped;
    int ranged;
} HtLinearTree;

/* The parts of a record that a sum needs. */
typedef struct {
    ptrdiff_t n;
    const int32_t *column;
    const double *coef, *low, *high, *center;
} HtRecord;

/* `single`, whether it has one chunk, `exact` and `clipped` are literals. */
HT_ALWAYS_INLINE HtRecord ht_open_record(const double *record, int single, int exact, int clipped)
{
    HtRecord r;
    r.n = single ? 1 : (ptrdiff_t) record[2];
    r.column = (const int32_t *) (record + HT_HEAD);
    r.coef = record + HT_LINE * ht_head_lines(r.n);
    r.low = r.coef + HT_LINE * r.n;
    r.high = r.low + HT_LINE * r.n;
    if (exact)
        r.coef = clipped ? r.high + HT_LINE * r.n : r.low;
    r.center = r.coef + HT_LINE * r.n;
    return r;
}

/* Where a leaf has its record. */
HT_ALWAYS_INLINE const double *ht_record_of(const HtLinearTree *tree, int32_t leaf, int single,
                                            int clipped)
{
    return tree->records
           + HT_LINE * (single ? leaf * ht_record_lines(1, clipped)
                               : (ptrdiff_t) tree->start[leaf]);
}

HT_ALWAYS_INLINE double ht_in_range(double value, const double *record)
{
    value = value < record[0] ? record[0] : value;
    return value > record[1] ? record[1] : value;
}

/* Two lanes. */
#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
typedef __m128d HtPair;
#define HT_PAIR_LOAD(from) _mm_load_pd(from)
#define HT_PAIR_OF(a, b) _mm_loadh_pd(_mm_load_sd(a), b)
#define HT_PAIR_AND_ONE(a) _mm_unpacklo_pd(_mm_load_sd(a), _mm_set1_pd(1.0))
#define HT_PAIR_ADD(a, b) _mm_add_pd(a, b)
#define HT_PAIR_MUL(a, b) _mm_mul_pd(a, b)
#define HT_PAIR_CLIP(x, low, high) _mm_min_pd(_mm_max_pd(x, low), high)
#define HT_PAIR_FROM(given, x, center)                                                        \
    _mm_and_pd(_mm_cmpord_pd(given, given), _mm_sub_pd(x, center))
#define HT_PAIR_SUM(a) (_mm_cvtsd_f64(a) + _mm_cvtsd_f64(_mm_unpackhi_pd(a, a)))
#else
typedef struct {
    double a, b;
} HtPair;
static inline double ht_clip(double x, double low, double high)
{
    x = x > low ? x : low;
    return x < high ? x : high;
}
static inline HtPair ht_pair(double a, double b)
{
    HtPair pair = {a, b};
    return pair;
}
#define HT_PAIR_LOAD(from) ht_pair((from)[0], (from)[1])
#define HT_PAIR_OF(a, b) ht_pair(*(a), *(b))
#define HT_PAIR_AND_ONE(a) ht_pair(*(a), 1.0)
#define HT_PAIR_ADD(x, y) ht_pair((x).a + (y).a, (x).b + (y).b)
#define HT_PAIR_MUL(x, y) ht_pair((x).a * (y).a, (x).b * (y).b)
#define HT_PAIR_CLIP(x, low, high)                                                            \
    ht_pair(ht_clip((x).a, (low).a, (high).a), ht_clip((x).b, (low).b, (high).b))
#define HT_PAIR_FROM(given, x, center)                                                        \
    ht_pair((given).a == (given).a ? (x).a - (center).a : 0.0,                                \
            (given).b == (given).b ? (x).b - (center).b : 0.0)
#define HT_PAIR_SUM(x) ((x).a + (x).b)
#endif

#define HT_BODY "linear_leaves_body.h"
#include "per_width.h"

/* total[row] += value of leaf[row], for the rows listed, or the first n_rows if rows is NULL. */
static inline void ht_add_linear(int width, const HtLinearTree *tree, const int32_t *leaf,
                                 const int32_t *rows, int n_rows, double *total)
{
    HT_DISPATCH(width, add_leaves, tree, leaf, rows, n_rows, total);
}

#endif
