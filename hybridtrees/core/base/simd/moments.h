/* The loops that add the moments of a node's regressors to the cells of histograms.
 *
 * A cell is a vector [h, h r_1 .., h r_i r_j (i <= j) .., g r_1 ..] of the k regressors r, with g
 * at the end if `with_grad`, padded with zeros to a multiple of four. Regressors are looked up from
 * the codes of the row, so nothing is stored per row. A regressor may be the sum of several terms
 * (a linear function); a cell then has four numbers for any number of terms.
 *
 * With one regressor, rows are processed in blocks. Their moments and codes (four to a word) are
 * computed first. Then the block is added to the cells of four features at a time, which fit the L1
 * cache while the cells of all features do not. */
#ifndef HYBRIDTREES_MOMENTS_H
#define HYBRIDTREES_MOMENTS_H

#include "accumulate.h"
#include "simd.h"

#define HT_MAX_TERMS 16
#define HT_MAX_CELL 188 /* of 16 regressors, padded */
#define HT_MAX_FEATURES 64
#define HT_MOMENT_BLOCK 512

typedef struct {
    const uint8_t *records;
    ptrdiff_t record_bytes;
    const float *grad;
    const uint8_t *quantised;    /* gradients as int32, usually next to the codes, or NULL */
    ptrdiff_t quantised_step;    /* bytes from row to row */
    float unit;                  /* of these gradients */
    const float *hess;           /* NULL: constant_hess for all rows */
    float constant_hess;
    const uint32_t *rows;
    ptrdiff_t n_rows;
    int32_t n_terms;
    int32_t summed;              /* the sum of the terms is the only regressor */
    int32_t with_grad;           /* cells also hold g */
    const int32_t *term_feature;
    const float *tables;         /* value of each term for each of 256 codes */
    float offset;                /* added to the sum of terms */
    const int32_t *features;     /* features whose cells are filled, at most HT_MAX_FEATURES */
    int32_t n_features;
    int32_t contiguous;          /* the features are consecutive */
    const uint32_t *start;       /* first cell of each feature */
    int32_t cell_size;
    void *cells;                 /* float or double */
} HtMoments;

/* Regressor, statistics, moments and codes of the rows of a block. */
typedef struct {
    float regressor[HT_MOMENT_BLOCK];
    float grad[HT_MOMENT_BLOCK];
    float hess[HT_MOMENT_BLOCK];
    HT_ALIGNED(double moments[4 * HT_MOMENT_BLOCK]); /* or up to 8 floats per row */
    uint32_t codes[HT_MAX_FEATURES / 4][HT_MOMENT_BLOCK];
} HtMomentBlock;

HT_INLINE void ht_prefetch_row(const HtMoments *m, ptrdiff_t row) {
    const uint8_t *record = m->records + row * m->record_bytes;
    HT_PREFETCH(record);
    HT_PREFETCH(record + m->record_bytes - 1);
    if (m->quantised == NULL)
        HT_PREFETCH(m->grad + row);
    if (m->hess != NULL)
        HT_PREFETCH(m->hess + row);
}

/* Gradient of a row. The integers are usually in the same cache line as the codes. */
HT_INLINE float ht_row_grad(const HtMoments *m, ptrdiff_t row) {
    int32_t grad;
    if (m->quantised == NULL)
        return m->grad[row];
    memcpy(&grad, m->quantised + row * m->quantised_step, 4);
    return m->unit * (float) grad;
}

/* OUT regressors, statistics and codes of the first n rows; a small n_terms is a literal. */
HT_INLINE void ht_read_rows(const HtMoments *given, const uint32_t *rows, int n, ptrdiff_t n_left,
                            int n_terms, HtMomentBlock *block) {
    const HtMoments m = *given;
    const int n_words = (m.n_features + 3) / 4;
    size_t feature[HT_MAX_TERMS];
    for (int j = 0; j < n_terms; j++)
        feature[j] = (size_t) m.term_feature[j];
    for (int i = 0; i < n; i++) {
        const ptrdiff_t row = (ptrdiff_t) rows[i];
        const uint8_t *record = m.records + row * m.record_bytes;
        float sum = m.offset;
        if (i + HT_PREFETCH_ROWS < n_left)
            ht_prefetch_row(&m, (ptrdiff_t) rows[i + HT_PREFETCH_ROWS]);
        for (int j = 0; j < n_terms; j++)
            sum += m.tables[HT_CODES * j + record[feature[j]]];
        block->regressor[i] = sum;
        block->grad[i] = ht_row_grad(&m, row);
        block->hess[i] = m.hess == NULL ? m.constant_hess : m.hess[row];
        if (m.contiguous) {
            /* A record has four bytes after its codes, so the last word may extend beyond them. */
            const uint8_t *codes = record + m.features[0];
            for (int k = 0; k < n_words; k++)
                memcpy(&block->codes[k][i], codes + 4 * k, 4);
        } else {
            uint8_t codes[HT_MAX_FEATURES];
            for (int32_t j = 0; j < m.n_features; j++)
                codes[j] = record[m.features[j]];
            for (int k = 0; k < n_words; k++)
                memcpy(&block->codes[k][i], codes + 4 * k, 4);
        }
    }
}

static void ht_fill_block(const HtMoments *m, const uint32_t *rows, int n, ptrdiff_t n_left,
                          HtMomentBlock *block) {
    switch (m->n_terms) {
        case 1: ht_read_rows(m, rows, n, n_left, 1, block); break;
        case 2: ht_read_rows(m, rows, n, n_left, 2, block); break;
        case 3: ht_read_rows(m, rows, n, n_left, 3, block); break;
        case 4: ht_read_rows(m, rows, n, n_left, 4, block); break;
        case 5: ht_read_rows(m, rows, n, n_left, 5, block); break;
        default: ht_read_rows(m, rows, n, n_left, m->n_terms, block);
    }
}

#define HT_PUT_MOMENTS(real, to)                                                              \
    do {                                                                                      \
        const real r = block->regressor[i], h = block->hess[i];                               \
        (to)[0] = h;                                                                          \
        (to)[1] = h * r;                                                                      \
        (to)[2] = h * r * r;                                                                  \
        (to)[3] = block->grad[i] * r;                                                         \
    } while (0)

/* OUT moments of the rows of a block: four doubles, four floats, or eight floats of which the last
 * three are 0. */
static void ht_fill_moments(int n, int wide, int lanes, HtMomentBlock *block) {
    float *f = (float *) block->moments;
    if (wide) {
        for (int i = 0; i < n; i++)
            HT_PUT_MOMENTS(double, block->moments + 4 * i);
    } else if (lanes == 4) {
        for (int i = 0; i < n; i++)
            HT_PUT_MOMENTS(float, f + 4 * i);
    } else {
        for (int i = 0; i < n; i++) {
            HT_PUT_MOMENTS(float, f + 8 * i);
            f[8 * i + 4] = block->grad[i];
            f[8 * i + 5] = f[8 * i + 6] = f[8 * i + 7] = 0;
        }
    }
}

#if defined(__GNUC__)
typedef float ht_floats4 __attribute__((vector_size(16), may_alias));
typedef float ht_floats8 __attribute__((vector_size(32), may_alias));
typedef double ht_doubles4 __attribute__((vector_size(32), may_alias));
#define HT_ADD_VECTOR(cell, v) cell += v
#else
typedef struct { float lane[4]; } ht_floats4;
typedef struct { float lane[8]; } ht_floats8;
typedef struct { double lane[4]; } ht_doubles4;
#define HT_ADD_VECTOR(cell, v)                                                                \
    for (int lane = 0; lane < (int) (sizeof(v.lane) / sizeof(v.lane[0])); lane++)             \
        cell.lane[lane] += v.lane[lane]
#endif

/* Add n rows to the cells of `count` features, a literal from 1 to 4. Lanes are independent, so the
 * sums do not depend on the vector width. */
#define HT_DEFINE_ADD(name, vector)                                                           \
    HT_INLINE void name(vector *cells, const uint32_t *start, int count,                      \
                        const uint32_t *codes, const vector *moments, int n)                  \
    {                                                                                         \
        vector *first = cells + start[0], *second = cells + start[count > 1 ? 1 : 0];         \
        vector *third = cells + start[count > 2 ? 2 : 0];                                     \
        vector *fourth = cells + start[count > 3 ? 3 : 0];                                    \
        for (int i = 0; i < n; i++) {                                                         \
            const vector v = moments[i];                                                      \
            const uint32_t four = codes[i];                                                   \
            HT_ADD_VECTOR(first[HT_CODE(four, 0)], v);                                        \
            if (count > 1)                                                                    \
                HT_ADD_VECTOR(second[HT_CODE(four, 1)], v);                                   \
            if (count > 2)                                                                    \
                HT_ADD_VECTOR(third[HT_CODE(four, 2)], v);                                    \
            if (count > 3)                                                                    \
                HT_ADD_VECTOR(fourth[HT_CODE(four, 3)], v);                                   \
        }                                                                                     \
    }

/* The k-th of four codes that were copied byte by byte. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HT_CODE(four, k) (((four) >> (24 - 8 * (k))) & 255)
#else
#define HT_CODE(four, k) (((four) >> (8 * (k))) & 255)
#endif

HT_DEFINE_ADD(ht_add_floats4, ht_floats4)
HT_DEFINE_ADD(ht_add_floats8, ht_floats8)
HT_DEFINE_ADD(ht_add_doubles4, ht_doubles4)

#define HT_BODY "moments_body.h"
#define HT_UP_TO_32 /* no cell is wider */
#include "per_width.h"

/* Add the rows block by block; lanes: numbers per cell. */
static void ht_add_blocks(const HtMoments *m, int wide, int lanes, int width) {
    HtMomentBlock block;
    for (ptrdiff_t first = 0; first < m->n_rows; first += HT_MOMENT_BLOCK) {
        const ptrdiff_t rest = m->n_rows - first;
        const int n = (int) (rest < HT_MOMENT_BLOCK ? rest : HT_MOMENT_BLOCK);
        ht_fill_block(m, m->rows + first, n, rest, &block);
        ht_fill_moments(n, wide, lanes, &block);
        HT_DISPATCH_32(width, add_block, m, &block, n, wide, lanes);
    }
}

static void ht_row_moments(const HtMoments *m, const uint8_t *record, float grad, float hess,
                           double *d) {
    double r[HT_MAX_TERMS];
    int at = 1;
    if (m->summed) {
        float sum = m->offset;
        for (int32_t j = 0; j < m->n_terms; j++)
            sum += m->tables[HT_CODES * j + record[m->term_feature[j]]];
        r[0] = sum;
    } else {
        for (int32_t j = 0; j < m->n_terms; j++)
            r[j] = m->tables[HT_CODES * j + record[m->term_feature[j]]];
    }
    const int32_t n = m->summed ? 1 : m->n_terms;
    at += n;
    d[0] = hess;
    for (int32_t i = 0; i < n; i++) {
        d[1 + i] = hess * r[i];
        for (int32_t j = i; j < n; j++)
            d[at++] = hess * r[i] * r[j];
    }
    for (int32_t i = 0; i < n; i++)
        d[at++] = grad * r[i];
    if (m->with_grad)
        d[at++] = grad;
}

HT_INLINE void ht_add_rows_one_by_one(const HtMoments *given, int wide) {
    const HtMoments m = *given;
    HT_ALIGNED(float f[HT_MAX_CELL]);
    HT_ALIGNED(double d[HT_MAX_CELL]);
    memset(d, 0, sizeof(d));
    for (ptrdiff_t i = 0; i < m.n_rows; i++) {
        const ptrdiff_t row = (ptrdiff_t) m.rows[i];
        const uint8_t *record = m.records + row * m.record_bytes;
        if (i + HT_PREFETCH_ROWS < m.n_rows)
            ht_prefetch_row(&m, (ptrdiff_t) m.rows[i + HT_PREFETCH_ROWS]);
        ht_row_moments(&m, record, ht_row_grad(&m, row),
                       m.hess == NULL ? m.constant_hess : m.hess[row], d);
        if (!wide)
            for (int32_t k = 0; k < m.cell_size; k++)
                f[k] = (float) d[k];
        for (int32_t j = 0; j < m.n_features; j++) {
            const size_t cell = (size_t) m.cell_size * (m.start[j] + record[m.features[j]]);
            if (wide) {
                double *at = (double *) m.cells + cell;
                for (int32_t k = 0; k < m.cell_size; k++)
                    at[k] += d[k];
            } else {
                float *at = (float *) m.cells + cell;
                for (int32_t k = 0; k < m.cell_size; k++)
                    at[k] += f[k];
            }
        }
    }
}

/* Add the rows to the cells, which are doubles if `wide`, else floats; width: bytes of a vector. */
static void ht_add_moment_rows(const HtMoments *m, int wide, int width) {
    const int one = m->summed || m->n_terms == 1;
    if (one && !m->with_grad)
        ht_add_blocks(m, wide, 4, width);
    else if (one && !wide)
        ht_add_blocks(m, 0, 8, width);
    else if (wide)
        ht_add_rows_one_by_one(m, 1);
    else
        ht_add_rows_one_by_one(m, 0);
}

#endif
