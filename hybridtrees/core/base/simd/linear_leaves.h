/* Values of linear leaves: v = c + sum of w * (clip(x) - center), where a missing x adds nothing.
 *
 * The terms of a leaf and its constant are stored in chunks of eight lanes. A chunk consists of
 * whole cache lines, in one of three forms:
 *
 *     HT_PAIRS      8 int32 columns, the number of chunks | 8 coefficients | 8 lows | 8 highs
 *     HT_DOUBLES    8 int64 columns (*)                   | 8 coefficients | 8 lows | 8 highs
 *     HT_FLOATS     8 int32 columns (*), 8 float lows     | 8 coefficients | 8 float highs
 *
 * (*) The first of them also has the number of chunks, in its higher bits.
 *
 * x is clipped to [low, high]. These bounds are omitted if no term of any leaf is clipped, and not
 * read for rows that no reachable leaf clips. The last two forms are for vectors of 64 bytes: a row
 * of up to 32 columns is kept in registers, as doubles, or as floats if all bounds are floats.
 * A second array holds [8 coefficients | 8 centres] of each chunk, for exact sums.
 *
 * The column after the regressors always holds 1: the constant and unused lanes read it. For rows
 * without missing values the centres are folded into the constant, which rounds no more than the
 * last bit of x does; near overflow this is not done. Other rows subtract the centres one by one.
 *
 * Trees are processed in bands of up to HT_BAND. A row adds its leaves by lane: first the chunks of
 * a leaf, then trees. At the end the eight lanes are added in pairs: 0 + 4, 1 + 5, ..., then 0 + 2
 * and 1 + 3 of these, then the last two. Every body keeps that order, so the sum depends neither on
 * the machine nor on the other rows (except for the sign of a zero sum: some bodies skip lanes that
 * no leaf uses). */
#ifndef HYBRIDTREES_LINEAR_LEAVES_H
#define HYBRIDTREES_LINEAR_LEAVES_H

#include "quickscorer.h"

enum {
    HT_LANES = 8,          /* of a chunk; as many doubles as a cache line has */
    HT_BAND = 8,           /* trees that are summed together */
    HT_TABLE_COLUMNS = 32, /* columns of x that fit the registers */
    HT_MANY_CHUNKS = 1 << 23,
    HT_PAIRS = 0,
    HT_DOUBLES = 1,
    HT_FLOATS = 2,
    HT_INSIDE = 0, /* kinds of rows: none of their regressors is clipped */
    HT_OUTSIDE = 1,
    HT_MISSING = 2 /* some regressor is missing */
};

/* Doubles of a chunk. */
static inline ptrdiff_t ht_chunk_size(int form, int clipped) {
    return HT_LANES * (clipped ? (form == HT_FLOATS ? 3 : 4) : 2);
}

/* Numbers from one row of x to the next: whole vectors if registers hold a row. */
static inline ptrdiff_t ht_row_stride(int form, ptrdiff_t n_columns) {
    if (form == HT_PAIRS)
        return n_columns | 1;
    return n_columns <= HT_TABLE_COLUMNS / 2 ? HT_TABLE_COLUMNS / 2 : HT_TABLE_COLUMNS;
}

static inline void ht_set_lane(double *chunk, int form, int clipped, int lane, int32_t column,
                               double coef, double low, double high) {
    if (form == HT_DOUBLES)
        ((int64_t *) chunk)[lane] = column;
    else
        ((int32_t *) chunk)[lane] = column;
    chunk[HT_LANES + lane] = coef;
    if (clipped && form == HT_FLOATS) {
        ((float *) chunk)[HT_LANES + lane] = (float) low;
        ((float *) (chunk + 2 * HT_LANES))[lane] = (float) high;
    } else if (clipped) {
        chunk[2 * HT_LANES + lane] = low;
        chunk[3 * HT_LANES + lane] = high;
    }
}

/* Write the number of chunks of a leaf, below HT_MANY_CHUNKS, into its first chunk. Permutations
 * of registers ignore the higher bits of a column number. */
static inline void ht_set_count(double *chunk, int form, int32_t n) {
    int32_t *columns = (int32_t *) chunk;
    if (form == HT_PAIRS)
        columns[HT_LANES] = n;
    else
        columns[0] |= n << 8;
}

/* OUT a chunk of HT_DOUBLES as HT_FLOATS. */
static inline void ht_narrow_chunk(const double *wide, int clipped, double *narrow) {
    for (int lane = 0; lane < HT_LANES; lane++)
        ht_set_lane(narrow, HT_FLOATS, clipped, lane, (int32_t) ((const int64_t *) wide)[lane],
                    wide[HT_LANES + lane], clipped ? wide[2 * HT_LANES + lane] : 0.0,
                    clipped ? wide[3 * HT_LANES + lane] : 0.0);
}

/* The leaves of an ensemble, and the regressors of some rows. */
typedef struct {
    const double *chunks;
    const double *exact; /* of each chunk: coefficients and centres */
    void *x;             /* regressors of the rows, row by row, each row followed by 1: floats for
                            HT_FLOATS, else doubles */
    ptrdiff_t stride;    /* from one row to the next */
    ptrdiff_t size;      /* of a chunk, in doubles */
    int form;
    int n_pairs; /* pairs of lanes in use if leaves have one chunk, else 0 */
} HtLinearLeaves;

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
static inline double ht_clip(double x, double low, double high) {
    x = x > low ? x : low;
    return x < high ? x : high;
}
static inline HtPair ht_pair(double a, double b) {
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

/* total[row] += values of a band of trees, for the rows [first, last). at[HT_BLOCK * k + row] is
 * the first chunk of the row's leaf in tree k. */
#define ht_add_band(width, ...) HT_DISPATCH(width, add_band, __VA_ARGS__)

/* Copy n_columns numbers, followed by 1. Returns HT_MISSING if one is missing, else HT_OUTSIDE if
 * one is not between low and high, else HT_INSIDE. */
#define ht_copy_f32(width, ...) HT_DISPATCH(width, copy_f32, __VA_ARGS__)
#define ht_copy_f64(width, ...) HT_DISPATCH(width, copy_f64, __VA_ARGS__)

#define ht_widen_f32(width, ...) HT_DISPATCH(width, widen_f32, __VA_ARGS__)

#endif
