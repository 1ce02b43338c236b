/* The loop that adds the moments of a node's regressors to the cells of histograms.
 *
 * A cell is one vector [h, h r_1 .., h r_i r_j (i <= j) .., g r_1 ..] of the k regressors r, and g
 * behind them where it is asked for, filled up with zeros to a multiple of four. Regressors are looked up from the codes of the row: nothing
 * is stored per row. One regressor may be the sum of several terms (a linear function), so that a
 * cell has four numbers whatever the number of its terms. */
#ifndef HYBRIDTREES_MOMENTS_H
#define HYBRIDTREES_MOMENTS_H

#include "accumulate.h"

#if defined(__GNUC__)
#define HT_ALIGNED(declaration) declaration __attribute__((aligned(16)))
#else
#define HT_ALIGNED(declaration) declaration
#endif

#define HT_MAX_TERMS 16
#define HT_MAX_CELL 188 /* of 16 regressors, padded */

typedef struct {
    const uint8_t *records;
    ptrdiff_t record_bytes;
    const float *grad;
    const float *hess;           /* NULL: one number for all rows */
    float constant_hess;
    const uint32_t *rows;
    ptrdiff_t n_rows;
    int32_t n_terms;
    int32_t summed;              /* the terms are one regressor */
    int32_t with_grad;           /* g stands in the cells, too */
    const int32_t *term_feature;
    const float *tables;         /* value of each term for each of 256 codes */
    float offset;                /* of the sum of terms */
    const int32_t *features;     /* whose cells are filled, at most 64 */
    int32_t n_features;
    int32_t contiguous;          /* the features follow one another */
    const uint32_t *start;       /* first cell of each of them */
    int32_t cell_size;
    void *cells;                 /* float or double */
} HtMoments;

#if defined(__GNUC__)
typedef float ht_four_floats __attribute__((vector_size(16), may_alias));
typedef double ht_two_doubles __attribute__((vector_size(16), may_alias));
#endif

HT_INLINE void ht_add_many(void *cells, size_t cell, int size, const float *f, const double *d,
                           int wide)
{
    if (wide) {
        double *at = (double *) cells + (size_t) size * cell;
        for (int k = 0; k < size; k++)
            at[k] += d[k];
    } else {
        float *at = (float *) cells + (size_t) size * cell;
        for (int k = 0; k < size; k++)
            at[k] += f[k];
    }
}

/* Add the moments of a row to the cells of the features: four floats, four doubles, or many. */
#define HT_FOR_CELLS(ADD)                                                                     \
    int32_t j = 0;                                                                            \
    if (m->contiguous) {                                                                      \
        /* Codes are read eight at a time: after a store they would have to be read again. */ \
        const uint8_t *codes = record + m->features[0];                                       \
        for (; j + 8 <= m->n_features; j += 8) {                                              \
            uint64_t eight;                                                                   \
            memcpy(&eight, codes + j, 8);                                                     \
            for (int k = 0; k < 8; k++) {                                                     \
                const size_t cell = m->start[j + k] + ((eight >> (8 * k)) & 255);             \
                ADD;                                                                          \
            }                                                                                 \
        }                                                                                     \
    }                                                                                         \
    for (; j < m->n_features; j++) {                                                          \
        const size_t cell = m->start[j] + record[m->features[j]];                             \
        ADD;                                                                                  \
    }

#if defined(__GNUC__)
HT_INLINE void ht_add_floats(const HtMoments *m, const uint8_t *record, const float *f, int lanes)
{
    const ht_four_floats low = *(const ht_four_floats *) f;
    ht_four_floats *cells = (ht_four_floats *) m->cells;
    if (lanes == 4) {
        HT_FOR_CELLS(cells[cell] += low)
    } else {
        const ht_four_floats high = *(const ht_four_floats *) (f + 4);
        HT_FOR_CELLS(cells[2 * cell] += low; cells[2 * cell + 1] += high)
    }
}

HT_INLINE void ht_add_doubles(const HtMoments *m, const uint8_t *record, const double *d)
{
    const ht_two_doubles low = *(const ht_two_doubles *) d;
    const ht_two_doubles high = *(const ht_two_doubles *) (d + 2);
    ht_two_doubles *cells = (ht_two_doubles *) m->cells;
    HT_FOR_CELLS(cells[2 * cell] += low; cells[2 * cell + 1] += high)
}
#else
HT_INLINE void ht_add_floats(const HtMoments *m, const uint8_t *record, const float *f, int lanes)
{
    float *cells = (float *) m->cells;
    HT_FOR_CELLS(for (int i = 0; i < lanes; i++) cells[lanes * cell + i] += f[i])
}

HT_INLINE void ht_add_doubles(const HtMoments *m, const uint8_t *record, const double *d)
{
    double *cells = (double *) m->cells;
    HT_FOR_CELLS(for (int i = 0; i < 4; i++) cells[4 * cell + i] += d[i])
}
#endif

/* lanes: 4 or 8 numbers of one regressor, 0 for other sizes. */
HT_INLINE void ht_moment_cells(const HtMoments *m, const uint8_t *record, const float *f,
                               const double *d, int wide, int lanes)
{
    if (lanes == 4 && wide) {
        ht_add_doubles(m, record, d);
    } else if (lanes != 0 && !wide) {
        ht_add_floats(m, record, f, lanes);
    } else {
        HT_FOR_CELLS(ht_add_many(m->cells, cell, m->cell_size, f, d, wide))
    }
}

/* Moments of one row. */
HT_INLINE void ht_row_moments(const HtMoments *m, const uint8_t *record, float grad, float hess,
                              float *f, double *d, int wide, int lanes)
{
    if (lanes != 0) {
        float sum = m->offset;
        for (int32_t j = 0; j < m->n_terms; j++)
            sum += m->tables[256 * j + record[m->term_feature[j]]];
        if (wide) {
            double r = sum, h = hess;
            d[0] = h;
            d[1] = h * r;
            d[2] = h * r * r;
            d[3] = grad * r;
            if (lanes == 8)
                d[4] = grad;
        } else {
            f[0] = hess;
            f[1] = hess * sum;
            f[2] = hess * sum * sum;
            f[3] = grad * sum;
            if (lanes == 8)
                f[4] = grad;
        }
        return;
    }
    double r[HT_MAX_TERMS];
    int at = 1 + m->n_terms;
    for (int32_t j = 0; j < m->n_terms; j++)
        r[j] = m->tables[256 * j + record[m->term_feature[j]]];
    d[0] = hess;
    for (int32_t i = 0; i < m->n_terms; i++) {
        d[1 + i] = hess * r[i];
        for (int32_t j = i; j < m->n_terms; j++)
            d[at++] = hess * r[i] * r[j];
    }
    for (int32_t i = 0; i < m->n_terms; i++)
        d[at++] = grad * r[i];
    if (m->with_grad)
        d[at++] = grad;
    if (!wide)
        for (int32_t k = 0; k < m->cell_size; k++)
            f[k] = (float) d[k];
}

HT_INLINE void ht_moment_rows(const HtMoments *given, int wide, int lanes)
{
    const HtMoments m = *given;
    HT_ALIGNED(float f[HT_MAX_CELL]);
    HT_ALIGNED(double d[HT_MAX_CELL]);
    for (int k = 0; k < m.cell_size; k++) {
        f[k] = 0;
        d[k] = 0;
    }
    for (ptrdiff_t i = 0; i < m.n_rows; i++) {
        ptrdiff_t row = (ptrdiff_t) m.rows[i];
        const uint8_t *record = m.records + row * m.record_bytes;
        if (i + HT_PREFETCH_ROWS < m.n_rows) {
            ptrdiff_t ahead = (ptrdiff_t) m.rows[i + HT_PREFETCH_ROWS];
            HT_PREFETCH(m.records + ahead * m.record_bytes);
            HT_PREFETCH(m.grad + ahead);
            if (m.hess != NULL)
                HT_PREFETCH(m.hess + ahead);
        }
        ht_row_moments(&m, record, m.grad[row], m.hess == NULL ? m.constant_hess : m.hess[row],
                       f, d, wide, lanes);
        ht_moment_cells(&m, record, f, d, wide, lanes);
    }
}

#define HT_MOMENT_LANES(lanes)     \
    if (wide)                      \
        ht_moment_rows(m, 1, lanes); \
    else                           \
        ht_moment_rows(m, 0, lanes);

/* Add the rows to the cells, which are doubles where `wide` is set. */
static void ht_add_moment_rows(const HtMoments *m, int wide)
{
    if ((m->summed || m->n_terms == 1) && !m->with_grad) {
        HT_MOMENT_LANES(4)
    } else if (m->summed || m->n_terms == 1) {
        HT_MOMENT_LANES(8)
    } else {
        HT_MOMENT_LANES(0)
    }
}

#endif
