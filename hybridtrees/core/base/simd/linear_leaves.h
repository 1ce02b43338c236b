/* Values of linear leaves: v = c + sum of w * (clip(x) - center), where a missing x adds nothing.
 *
 * The terms of a leaf and its constant stand in chunks of eight lanes. A chunk is some whole cache
 * lines, in one of three forms:
 *
 *     HT_PAIRS      8 int32 columns, the number of chunks | 8 coefficients | 8 lows | 8 highs
 *     HT_DOUBLES    8 int64 columns (*)                   | 8 coefficients | 8 lows | 8 highs
 *     HT_FLOATS     8 int32 columns (*), 8 float lows     | 8 coefficients | 8 float highs
 *
 * (*) The first of them also has the number of chunks, in its higher bits.
 *
 * Lows and highs are where x is clipped; they are left out where no term of any leaf is, and not
 * looked at for rows that lie where no leaf they can come to clips anything. The last two forms
 * are for vectors of 64 bytes: a row of up to 32 columns is kept in registers and looked up there,
 * as doubles or as floats, for which the bounds must be floats.
 * A second array holds [8 coefficients | 8 centres] of each chunk, for exact sums.
 *
 * The column behind the regressors always holds 1: the constant and unused lanes read it. For rows
 * without missing values the centres are folded into the constant. That rounds no more than the last
 * bit of x does; near overflow it is not done. Other rows subtract the centres one by one.
 *
 * Trees are taken in bands of up to HT_BAND: a row meets one leaf of each. Its lanes are multiplied
 * side by side, chunks are added, then trees, and in the end the eight lanes are halved three
 * times: 0 + 4, 1 + 5, ..., then 0 + 2 and 1 + 3 of these, then the last two. Every body keeps that
 * order, so that the sum depends neither on the machine nor on the rows that stand beside (but for
 * the sign of a sum of zeros: lanes that no leaf uses are left out by some bodies). */
#ifndef HYBRIDTREES_LINEAR_LEAVES_H
#define HYBRIDTREES_LINEAR_LEAVES_H

#include "quickscorer.h"

enum {
    HT_LANES = 8,          /* of a chunk; as many doubles as a cache line has */
    HT_BAND = 8,           /* trees that are summed together */
    HT_TABLE_COLUMNS = 32, /* columns of x that are looked up within registers */
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

/* From one row of x to the next; where registers hold a row, it is read as whole vectors. */
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

/* How many chunks, less than HT_MANY_CHUNKS, a leaf has that starts with this one. What looks up a
 * column in registers takes no notice of the higher bits of its number. */
static inline void ht_set_count(double *chunk, int form, int32_t n) {
    int32_t *columns = (int32_t *) chunk;
    if (form == HT_PAIRS)
        columns[HT_LANES] = n;
    else
        columns[0] |= n << 8;
}

/* Write a chunk of HT_DOUBLES once more, as HT_FLOATS. */
static inline void ht_narrow_chunk(const double *wide, int clipped, double *narrow) {
    for (int lane = 0; lane < HT_LANES; lane++)
        ht_set_lane(narrow, HT_FLOATS, clipped, lane, (int32_t) ((const int64_t *) wide)[lane],
                    wide[HT_LANES + lane], clipped ? wide[2 * HT_LANES + lane] : 0.0,
                    clipped ? wide[3 * HT_LANES + lane] : 0.0);
}

/* The leaves of an ensemble, and the rows that come to them. */
typedef struct {
    const double *chunks;
    const double *exact; /* of each chunk: coefficients and centres */
    void *x;             /* regressors of the rows, row by row, and behind them 1: floats for
                            HT_FLOATS, else doubles */
    ptrdiff_t stride;    /* from one row to the next */
    ptrdiff_t size;      /* of a chunk, in doubles */
    int form;
    int n_pairs; /* of lanes in use, where leaves have one chunk; else 0 */
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

/* total[row] += values of a band of trees, for the rows from first to last. at[HT_BLOCK * k + row]
 * is the first chunk of the row's leaf in tree k. */
#define ht_add_band(width, ...) HT_DISPATCH(width, add_band, __VA_ARGS__)

/* Set n_columns numbers side by side, and 1 behind them. Returns HT_MISSING if one is missing, else
 * HT_OUTSIDE if one is not between low and high, else HT_INSIDE. */
#define ht_copy_f32(width, ...) HT_DISPATCH(width, copy_f32, __VA_ARGS__)
#define ht_copy_f64(width, ...) HT_DISPATCH(width, copy_f64, __VA_ARGS__)

#define ht_widen_f32(width, ...) HT_DISPATCH(width, widen_f32, __VA_ARGS__)

#endif
