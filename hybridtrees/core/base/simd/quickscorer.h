/* QuickScorer (Lucchese et al. 2015): scoring of a tree by bit masks, on a block of rows that
 * stands feature by feature.
 *
 * A row starts with a set bit per leaf, left to right. Every split holds a mask that clears the
 * leaves of its left subtree; it is applied to the rows that go right. The lowest bit that survives
 * is the row's leaf. Leaves are taken a word at a time, 32 of them for float32 tables and 64 for
 * float64, each with those splits whose left subtree reaches into it. */
#ifndef HYBRIDTREES_QUICKSCORER_H
#define HYBRIDTREES_QUICKSCORER_H

#include "simd.h"

/* Rows of a block: at most HT_BLOCK, and whole steps, each enough for four of the widest vectors. */
#define HT_BLOCK 256
#define HT_STEP 64

/* From one column of a block to the next. There are two values, which are literals where it counts:
 * to multiply by another number takes a tenth of the time of scoring. */
static inline int ht_stride(int n_rows) { return n_rows == HT_STEP ? HT_STEP : HT_BLOCK; }

/* Position of the lowest set bit; the argument is not 0. */
static inline int ht_lowest_bit(uint64_t bits) {
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int position = 0;
    while (!(bits & 1)) {
        bits >>= 1;
        position++;
    }
    return position;
#endif
}

#define HT_BODY "quickscorer_body.h"
#include "per_width.h"

/* The splits of one word. The first n_right send a missing value right, the next n_left left: a
 * comparison with NaN is false, so the first test `x <= t` and the others `not x > t`.
 * state: the bits of each row that splits on categories left, NULL: all. leaf[row] becomes the
 * lowest one that survives, plus base, and stays as it is where none does. The word that is scored
 * first (`is_first`) is the last one, which holds the rightmost leaf: no mask clears that one, so
 * that every row gets a leaf. */
#define ht_score_f32(width, ...) HT_DISPATCH(width, score_f32, __VA_ARGS__)

/* The same; the state is changed, and leaf[row] stays as it is where no bit survives. */
static inline void ht_score_f64(int width, const double *x, int n_rows, const int32_t *column,
                                const double *threshold, const int64_t *mask, int n_right,
                                int n_left, int64_t *state, int32_t base, int32_t *leaf) {
    HT_DISPATCH(width, score_f64, x, n_rows, column, threshold, mask, n_right, n_left, state);
    for (int row = 0; row < n_rows; row++)
        if (state[row])
            leaf[row] = base + ht_lowest_bit((uint64_t) state[row]);
}

/* total[row] += values[leaf[row]] for the rows of a block; 32 values can be read. */
static inline void ht_add_values(int width, const double *values, int32_t n_values,
                                 const int32_t *leaf, int n_rows, double *total) {
    if (n_values <= 32) {
        HT_DISPATCH(width, add_few_values, values, leaf, n_rows, total);
        return;
    }
    for (int row = 0; row < n_rows; row++)
        total[row] += values[leaf[row]];
}

#endif
