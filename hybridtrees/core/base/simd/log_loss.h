/* Passes over the rows of a small logistic regression.
 *
 * A table has rows of m columns, a multiple of 8: ones, regressors, zeros. */
#ifndef HYBRIDTREES_LOG_LOSS_H
#define HYBRIDTREES_LOG_LOSS_H

#include "simd.h"

/* log(1 + x) for 0 <= x <= 1, in a form that compilers can vectorise: 2 artanh(z), with
 * z = x / (2 + x) <= 1/3, by the series z + z^3 / 3 + .. to the 33rd power. */
static inline double ht_log1p_unit(double x) {
    const double z = x / (2.0 + x), square = z * z;
    double sum = 1.0 / 33.0;
    sum = sum * square + 1.0 / 31.0;
    sum = sum * square + 1.0 / 29.0;
    sum = sum * square + 1.0 / 27.0;
    sum = sum * square + 1.0 / 25.0;
    sum = sum * square + 1.0 / 23.0;
    sum = sum * square + 1.0 / 21.0;
    sum = sum * square + 1.0 / 19.0;
    sum = sum * square + 1.0 / 17.0;
    sum = sum * square + 1.0 / 15.0;
    sum = sum * square + 1.0 / 13.0;
    sum = sum * square + 1.0 / 11.0;
    sum = sum * square + 1.0 / 9.0;
    sum = sum * square + 1.0 / 7.0;
    sum = sum * square + 1.0 / 5.0;
    sum = sum * square + 1.0 / 3.0;
    sum = sum * square + 1.0;
    return 2.0 * z * sum;
}

#define HT_WHOLE_VECTORS
#define HT_BODY "log_loss_body.h"
#include "per_width.h"

/* OUT scores[r] = row r times theta (m,). */
#define ht_row_scores(width, ...) HT_DISPATCH(width, row_scores, __VA_ARGS__)
/* OUT probabilities of class 1, and losses of the rows: their log-loss times their weight. */
#define ht_row_losses(width, ...) HT_DISPATCH(width, row_losses, __VA_ARGS__)
/* sums[j] += weight times column j. */
#define ht_column_sums(width, ...) HT_DISPATCH(width, column_sums, __VA_ARGS__)
/* sums[j] += weight times the square of column j minus mean[j]. */
#define ht_column_squares(width, ...) HT_DISPATCH(width, column_squares, __VA_ARGS__)
/* OUT scaled: the rows times a factor each. */
#define ht_scale_rows(width, ...) HT_DISPATCH(width, scale_rows, __VA_ARGS__)

#endif
