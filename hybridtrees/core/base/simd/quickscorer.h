/* QuickScorer (Lucchese et al. 2015): leaves of a tree by bit masks, for a block of rows in
 * feature-major order.
 *
 * A row starts with all bits set, one per leaf from left to right. Every split has a mask that
 * clears the leaves of its left subtree, and applies to the rows that go right. The lowest bit that
 * remains is the row's leaf. Leaves are processed by word, 32 leaves for float32 tables and 64 for
 * float64, each with the splits whose left subtree has leaves in it. */
#ifndef HYBRIDTREES_QUICKSCORER_H
#define HYBRIDTREES_QUICKSCORER_H

#include "simd.h"

/* Rows of a block: at most HT_BLOCK, in whole steps of four of the widest vectors. */
#define HT_BLOCK 256
#define HT_STEP 64

/* Rows from one column of a block to the next. Both values are literals in the scoring loop:
 * multiplication by a variable would take 10 % of its time. */
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

/* Apply the splits of one word. The first n_right send a missing value right, the next n_left send
 * it left: comparisons with NaN are false, so the former test `x <= t` and the latter `not x > t`.
 * state: bits of each row after the categorical splits, NULL: all set. leaf[row] becomes base + the
 * lowest remaining bit, and is not changed if there is none. Words are scored from the last to the
 * first; the last one (`is_first`) holds the rightmost leaf, which no mask clears, so every row
 * gets a leaf. */
#define ht_score_f32(width, ...) HT_DISPATCH(width, score_f32, __VA_ARGS__)

/* The same for float64; `state` is not NULL and is changed. */
static inline void ht_score_f64(int width, const double *x, int n_rows, const int32_t *column,
                                const double *threshold, const int64_t *mask, int n_right,
                                int n_left, int64_t *state, int32_t base, int32_t *leaf) {
    HT_DISPATCH(width, score_f64, x, n_rows, column, threshold, mask, n_right, n_left, state);
    for (int row = 0; row < n_rows; row++)
        if (state[row])
            leaf[row] = base + ht_lowest_bit((uint64_t) state[row]);
}

/* total[row] += values[leaf[row]] for the rows of a block; `values` has room for 32 numbers. */
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
