/* Sums of products of columns, and least-squares fits from them for many candidates at once.
 *
 * A moment cell holds the sums over rows a of the products a_i a_j, i <= j, in tiles of 4 by 8
 * entries, so that a tile stays in registers in a loop over rows. The number of rows and the sum of
 * their weights follow the tiles. */
#ifndef HYBRIDTREES_LINEAR_KERNELS_H
#define HYBRIDTREES_LINEAR_KERNELS_H

#include "simd.h"

/* Doubles after the tiles: rows, weight, padding. */
#define HT_CELL_TAIL 8

/* Columns after padding to whole tiles. */
static inline int ht_padded(int m) { return (m + 7) / 8 * 8; }

/* Number of tiles before those of the rows [i0, i0 + 4), i0 a multiple of 4; m is padded. */
static inline int ht_tiles_before(int m, int i0) {
    int pair = i0 / 8, above = pair * (m / 8) - pair * (pair - 1) / 2;
    return 2 * above + (i0 / 4 % 2) * (m / 8 - pair);
}

/* Doubles of a cell. */
static inline int ht_cell_size(int m) { return 32 * ht_tiles_before(m, m) + HT_CELL_TAIL; }

/* Position of the product of columns i <= j in a cell. */
static inline int ht_cell_at(int m, int i, int j) {
    int tile = ht_tiles_before(m, i / 4 * 4) + j / 8 - i / 8;
    return 32 * tile + 8 * (i % 4) + j % 8;
}

/* How to fit models to cells. Columns of a cell: the intercept (ones), regressors, targets. */
typedef struct {
    int n_columns;            /* intercept and regressors */
    int n_targets;
    int tail;                 /* position of the number of rows in a cell */
    const int32_t *at;        /* positions in a cell, in the order of the solver's triangle */
    /* Ridge: (relative + relative_sum / W) times the column's variation among the rows
     * + per_weight[j] W + absolute[j], for rows of weight W. */
    double relative;
    double relative_sum;
    const double *per_weight; /* (n_columns,), 0 for the intercept */
    const double *absolute;   /* (n_columns,) */
    const double *least;      /* (n_columns,): a column with at most this variation is constant */
    double tolerance;         /* minimum share of a column's variation not explained by others */
    double least_rows;        /* with fewer rows the fit is a constant */
    int has_ridge;
    int penalised;            /* whether losses include the penalty */
    /* Lasso: (l1 sqrt(variation / W) + l1_per_weight[j]) W; the factor W only without `l1_sum`. */
    int has_lasso;
    int l1_sum;
    double l1;
    const double *l1_per_weight; /* (n_columns,) */
} ht_linear_rules;

/* Entries of the solver's triangle: the lower triangle of the columns, row by row, then the
 * products of each target with the columns and with itself. */
static inline int ht_triangle_size(int n_columns, int n_targets) {
    return n_columns * (n_columns + 1) / 2 + n_targets * (n_columns + 1);
}

static inline void ht_fill_triangle(int m, int n_columns, int n_targets, int32_t *at) {
    int e = 0;
    for (int i = 0; i < n_columns; i++)
        for (int k = 0; k <= i; k++)
            at[e++] = ht_cell_at(m, k, i);
    for (int t = 0; t < n_targets; t++) {
        for (int k = 0; k < n_columns; k++)
            at[e++] = ht_cell_at(m, k, n_columns + t);
        at[e++] = ht_cell_at(m, n_columns + t, n_columns + t);
    }
}

/* Doubles of scratch of ht_ridge_losses: two triangles and the vectors of all lanes. */
static inline int ht_ridge_scratch(int n_columns, int n_targets) {
    return 8 * (2 * ht_triangle_size(n_columns, n_targets) + 5 * (n_columns + n_targets));
}

/* Doubles of scratch of ht_lasso_losses. */
static inline ptrdiff_t ht_lasso_scratch(int p, int n_targets) {
    return (ptrdiff_t) p * p + (6 + n_targets) * (ptrdiff_t) p;
}

/* Elastic net of one target by coordinate descent from b; returns the loss. */
static inline double ht_descend(int p, const double *gram, const double *xy, double yy,
                                const double *l1, const double *l2, double *b, double *slope) {
    const double tolerance = 1e-6 * sqrt(yy > 0.0 ? yy : 0.0);
    double loss = yy;
    for (int j = 1; j < p; j++)
        slope[j] = xy[j];
    for (int j = 1; j < p; j++)
        if (b[j] != 0.0)
            for (int i = 1; i < p; i++)
                slope[i] -= gram[j * p + i] * b[j];
    for (int sweep = 0, active = 0; sweep < 400; sweep++) {
        double largest = 0.0;
        for (int j = 1; j < p; j++) {
            double own = gram[j * p + j], old = b[j], at, step;
            if (own <= 0.0 || (active && old == 0.0)) {
                if (own <= 0.0)
                    b[j] = 0.0;
                continue;
            }
            at = slope[j] + own * old;
            at = at > l1[j] ? at - l1[j] : at < -l1[j] ? at + l1[j] : 0.0;
            b[j] = at / (own + l2[j]);
            step = b[j] - old;
            if (step == 0.0)
                continue;
            for (int i = 1; i < p; i++)
                slope[i] -= gram[j * p + i] * step;
            step = fabs(step) * sqrt(own);
            largest = step > largest ? step : largest;
        }
        if (largest <= tolerance) {
            /* Converged on the active columns; check the others once more. */
            if (!active)
                break;
            active = 0;
        } else {
            active = sweep % 8 != 7;
        }
    }
    for (int j = 1; j < p; j++)
        loss -= b[j] * (xy[j] + slope[j]);
    return loss;
}

/* Elastic net of one candidate after the other: fits to the cells, or with `total` to total - cell.
 * A fit starts from the solution of the one before, the first from `start` (n_targets, n_columns).
 * Other arguments as for ht_ridge_losses. */
static inline void ht_lasso_losses(
    const ht_linear_rules *rules, const double *cells, ptrdiff_t stride, const double *total, int n,
    const double *start, double *scratch, double *loss, double *coef) {
    const int p = rules->n_columns;
    double *gram = scratch, *xy = gram + (ptrdiff_t) p * p, *l1 = xy + p, *l2 = l1 + p;
    double *slope = l2 + p, *sums = slope + p, *b = sums + p;
    memcpy(b, start, sizeof(double) * p * rules->n_targets);
    for (int c = 0; c < n; c++) {
        const double *cell = cells + stride * c;
#define HT_ENTRY(e) (total ? total[e] - cell[e] : cell[e])
        const double rows = HT_ENTRY(rules->tail), weight = HT_ENTRY(rules->tail + 1);
        const double ones = HT_ENTRY(rules->at[0]);
        const int32_t *at = rules->at;
        loss[c] = 0.0;
        for (int i = 0; i < p; i++)
            for (int k = 0; k <= i; k++, at++) {
                double x = HT_ENTRY(*at);
                if (k == 0)
                    sums[i] = x;
                else
                    gram[i * p + k] = gram[k * p + i] = x - sums[i] * sums[k] / ones;
            }
        for (int j = 1; j < p; j++) {
            double varies = gram[j * p + j];
            if (!(varies > rules->least[j]) || rows < rules->least_rows)
                varies = gram[j * p + j] = 0.0;
            l2[j] = (rules->relative + rules->relative_sum / weight) * varies
                    + rules->per_weight[j] * weight + rules->absolute[j];
            l1[j] = rules->l1 * sqrt(varies / weight) + rules->l1_per_weight[j];
            l1[j] *= rules->l1_sum ? 1.0 : weight;
        }
        for (int t = 0; t < rules->n_targets; t++) {
            double mean, yy, value;
            double *own = b + t * p;
            for (int k = 0; k < p; k++)
                xy[k] = HT_ENTRY(at[k]);
            mean = xy[0] / ones;
            yy = HT_ENTRY(at[p]) - xy[0] * mean;
            for (int k = 1; k < p; k++)
                xy[k] -= sums[k] * mean;
            at += p + 1;
            value = ht_descend(p, gram, xy, yy, l1, l2, own, slope);
            loss[c] += value > 0.0 ? value : 0.0;
            own[0] = mean;
            for (int k = 1; k < p; k++)
                own[0] -= own[k] * sums[k] / ones;
        }
        if (coef)
            memcpy(coef + (ptrdiff_t) c * rules->n_targets * p, b,
                   sizeof(double) * p * rules->n_targets);
    }
#undef HT_ENTRY
}

/* OUT Cholesky factor of the products of the regressors in a cell with ridge: (p, p) row by row,
 * with inverse diagonal; 0 for a regressor that depends linearly on those before it. */
static inline void ht_factor(const ht_linear_rules *rules, const double *cell, double *factor) {
    const int p = rules->n_columns;
    const double ones = cell[rules->at[0]], weight = cell[rules->tail + 1];
    const int32_t *at = rules->at;
    for (int i = 0; i < p; i++) {
        double *row = factor + (ptrdiff_t) i * p;
        double varies, left_over;
        for (int k = 0; k <= i; k++)
            row[k] = cell[*at++];
        varies = i ? row[i] - row[0] * row[0] / ones : row[i];
        left_over = row[i];
        if (i)
            left_over += (rules->relative + rules->relative_sum / weight) * varies
                         + rules->per_weight[i] * weight + rules->absolute[i];
        for (int k = 0; k < i; k++) {
            const double *other = factor + (ptrdiff_t) k * p;
            double x = row[k];
            for (int l = 0; l < k; l++)
                x -= row[l] * other[l];
            row[k] = x * other[k];
            left_over -= row[k] * row[k];
        }
        row[i] = left_over > 1e-8 * varies && varies > rules->least[i] ? 1.0 / sqrt(left_over) : 0.0;
    }
}

#define HT_BODY "linear_kernels_body.h"
#include "per_width.h"

/* cell += products of the first m columns of some rows of a row-major table with `stride` doubles
 * per row. rows: row numbers, or NULL for the first n. */
#define ht_add_moments(width, ...) HT_DISPATCH(width, add_moments, __VA_ARGS__)

#define ht_combine(width, ...) HT_DISPATCH(width, combine, __VA_ARGS__)
#define ht_add_scores(width, ...) HT_DISPATCH(width, add_scores, __VA_ARGS__)
#define ht_forward(width, ...) HT_DISPATCH(width, forward, __VA_ARGS__)

/* OUT losses of the fits to n cells that are `stride` doubles apart, and of those to total - cell.
 * left, right: (n,), sums over the targets; `right` may be NULL. coef of the fits to the cells:
 * (n, n_targets, n_columns) or NULL. */
#define ht_ridge_losses(width, ...) HT_DISPATCH(width, ridge_losses, __VA_ARGS__)

#endif
