/* Bodies that linear_leaves.h compiles once per vector width; no include guard on purpose. */

/* Lanes by pairs: the products of one leaf, halved to a pair. All but the first two arguments are
 * literals; n_pairs is 0 for records of any size. */
HT_TARGET HT_ALWAYS_INLINE double HT_NAME(leaf_value)(const double *record, const double *x,
                                                      int n_pairs, int exact, int clipped)
{
    const HtRecord r = ht_open_record(record, n_pairs > 0, exact, clipped);
    HtPair sum[HT_LINE / 2];
    for (ptrdiff_t chunk = 0; chunk < r.n; chunk++)
        for (int k = 0; k < (n_pairs ? n_pairs : HT_LINE / 2); k++) {
            const ptrdiff_t at = HT_LINE * chunk + 2 * k;
            HtPair given, one;
            if (k + 1 == n_pairs) {
                given = HT_PAIR_AND_ONE(x + r.column[at]);
            } else {
                uint32_t column[2]; /* with one load, of which there are enough */
                memcpy(column, r.column + at, sizeof(column));
                given = HT_PAIR_OF(x + column[0], x + column[1]);
            }
            one = given;
            if (clipped)
                one = HT_PAIR_CLIP(one, HT_PAIR_LOAD(r.low + at), HT_PAIR_LOAD(r.high + at));
            if (exact)
                one = HT_PAIR_FROM(given, one, HT_PAIR_LOAD(r.center + at));
            one = HT_PAIR_MUL(one, HT_PAIR_LOAD(r.coef + at));
            sum[k] = chunk ? HT_PAIR_ADD(sum[k], one) : one;
        }
    if (n_pairs == 0 || n_pairs > 2)
        sum[0] = HT_PAIR_ADD(sum[0], sum[2]);
    if (n_pairs == 0 || n_pairs > 3)
        sum[1] = HT_PAIR_ADD(sum[1], sum[3]);
    if (n_pairs != 1)
        sum[0] = HT_PAIR_ADD(sum[0], sum[1]);
    return HT_PAIR_SUM(sum[0]);
}

HT_TARGET HT_ALWAYS_INLINE void HT_NAME(add_by_pairs)(const HtLinearTree *tree,
                                                      const int32_t *leaf, const int32_t *rows,
                                                      int n_rows, double *total, int n_pairs,
                                                      int exact, int clipped)
{
    for (int k = 0; k < n_rows; k++) {
        const ptrdiff_t row = rows == NULL ? k : rows[k];
        const double *record
            = ht_record_of(tree, leaf[row], tree->start == NULL, clipped);
        const double value = HT_NAME(leaf_value)(
            record, (const double *) tree->x + row * tree->stride, n_pairs, exact, clipped);
        total[row] += tree->ranged ? ht_in_range(value, record) : value;
    }
}

#if HT_X86 && HT_BYTES == 64
/* Eight lanes at a time. Rows of up to 32 columns are looked up in registers; gathers are not used,
 * for many processors are slow at them. */

#define HT_SIX(row, at)                                                                       \
    (row)[(at)[5]], (row)[(at)[4]], (row)[(at)[3]], (row)[(at)[2]], (row)[(at)[1]],           \
        (row)[(at)[0]]

/* Eight columns of a row, of which it has at most n; 0: any number. */
HT_TARGET HT_ALWAYS_INLINE __m512d HT_NAME(pick_floats)(const float *row, const int32_t *column,
                                                        int n)
{
    const __m512i at
        = _mm512_castsi256_si512(_mm256_load_si256((const __m256i *) column));
    if (n == 0)
        return _mm512_cvtps_pd(
            _mm256_set_ps(row[column[7]], row[column[6]], HT_SIX(row, column)));
    return _mm512_cvtps_pd(_mm512_castps512_ps256(
        n <= 16 ? _mm512_permutexvar_ps(at, _mm512_loadu_ps(row))
                : _mm512_permutex2var_ps(_mm512_loadu_ps(row), at, _mm512_loadu_ps(row + 16))));
}

HT_TARGET HT_ALWAYS_INLINE __m512d HT_NAME(pick_doubles)(const double *row, const int32_t *column,
                                                         int n)
{
    const __m512i at
        = _mm512_cvtepi32_epi64(_mm256_load_si256((const __m256i *) column));
    __m512d first;
    if (n == 0)
        return _mm512_set_pd(row[column[7]], row[column[6]], HT_SIX(row, column));
    first = _mm512_permutex2var_pd(_mm512_loadu_pd(row), at, _mm512_loadu_pd(row + 8));
    if (n <= 16)
        return first;
    return _mm512_mask_blend_pd(
        _mm512_test_epi64_mask(at, _mm512_set1_epi64(16)), first,
        _mm512_permutex2var_pd(_mm512_loadu_pd(row + 16), at, _mm512_loadu_pd(row + 24)));
}

/* The lanes of a leaf; all but the first two arguments are literals. */
HT_TARGET HT_ALWAYS_INLINE __m512d HT_NAME(leaf_lanes)(const double *record, const void *row,
                                                       int single, int narrow, int n, int exact,
                                                       int clipped)
{
    const HtRecord r = ht_open_record(record, single, exact, clipped);
    __m512d sum = _mm512_setzero_pd();
    for (ptrdiff_t k = 0; k < r.n; k++) {
        const ptrdiff_t at = HT_LINE * k;
        const __m512d given = narrow
                                  ? HT_NAME(pick_floats)((const float *) row, r.column + at, n)
                                  : HT_NAME(pick_doubles)((const double *) row, r.column + at, n);
        __m512d x = given;
        if (clipped)
            x = _mm512_min_pd(_mm512_max_pd(x, _mm512_load_pd(r.low + at)),
                              _mm512_load_pd(r.high + at));
        if (exact)
            x = _mm512_maskz_sub_pd(_mm512_cmp_pd_mask(given, given, _CMP_ORD_Q), x,
                                    _mm512_load_pd(r.center + at));
        x = _mm512_mul_pd(x, _mm512_load_pd(r.coef + at));
        sum = k ? _mm512_add_pd(sum, x) : x;
    }
    return sum;
}

/* The lanes of eight rows, halved three times; row k of the sums is row HT_PLACE(k) of the lanes. */
#define HT_PLACE(k) ((k) % 2 * 4 + (k) / 2)
HT_TARGET HT_ALWAYS_INLINE __m512d HT_NAME(halve)(const __m512d *lanes)
{
    __m512d fours[4], twos[2];
    for (int k = 0; k < 4; k++)
        fours[k] = _mm512_add_pd(_mm512_mask_blend_pd(0xF0, lanes[2 * k], lanes[2 * k + 1]),
                                 _mm512_shuffle_f64x2(lanes[2 * k], lanes[2 * k + 1], 0x4E));
    for (int k = 0; k < 2; k++)
        twos[k] = _mm512_add_pd(_mm512_shuffle_f64x2(fours[2 * k], fours[2 * k + 1], 0x88),
                                _mm512_shuffle_f64x2(fours[2 * k], fours[2 * k + 1], 0xDD));
    return _mm512_add_pd(_mm512_unpacklo_pd(twos[0], twos[1]),
                         _mm512_unpackhi_pd(twos[0], twos[1]));
}

/* The sums of eight rows that follow each other, or stand in a list. */
HT_TARGET HT_ALWAYS_INLINE __m512d HT_NAME(eight_sums)(const HtLinearTree *tree,
                                                       const int32_t *leaf, const int32_t *rows,
                                                       int first, int single, int narrow, int n,
                                                       int exact, int clipped)
{
    const char *x = (const char *) tree->x;
    const ptrdiff_t step = tree->stride * (ptrdiff_t) (narrow ? sizeof(float) : sizeof(double));
    __m512d lanes[8];
    for (int k = 0; k < 8; k++) {
        const ptrdiff_t row = rows == NULL ? first + k : rows[k];
        lanes[HT_PLACE(k)] = HT_NAME(leaf_lanes)(ht_record_of(tree, leaf[row], single, clipped),
                                                 x + row * step, single, narrow, n, exact,
                                                 clipped);
    }
    return HT_NAME(halve)(lanes);
}

HT_TARGET HT_ALWAYS_INLINE void HT_NAME(add_by_eights)(const HtLinearTree *tree,
                                                       const int32_t *leaf, const int32_t *rows,
                                                       int n_rows, double *total, int single,
                                                       int narrow, int n, int exact, int clipped)
{
    int first = 0, own[8];
    double value[8];
    if (rows == NULL && !tree->ranged)
        for (; first + 8 <= n_rows; first += 8)
            _mm512_storeu_pd(
                total + first,
                _mm512_add_pd(_mm512_loadu_pd(total + first),
                              HT_NAME(eight_sums)(tree, leaf, NULL, first, single, narrow, n,
                                                  exact, clipped)));
    for (; first < n_rows; first += 8) {
        /* The last row is repeated where there are less than eight. */
        for (int k = 0; k < 8; k++) {
            own[k] = first + k < n_rows ? first + k : n_rows - 1;
            own[k] = rows == NULL ? own[k] : rows[own[k]];
        }
        _mm512_storeu_pd(value, HT_NAME(eight_sums)(tree, leaf, own, first, single, narrow, n,
                                                    exact, clipped));
        for (int k = 0; k < 8 && first + k < n_rows; k++)
            total[own[k]] += tree->ranged
                                 ? ht_in_range(value[k], ht_record_of(tree, leaf[own[k]], single,
                                                                      clipped))
                                 : value[k];
    }
}

/* `single` is no literal where records or rows are large. */
#define HT_BY_SIZE(add, ...)                                                                  \
    if (tree->start != NULL || tree->stride > HT_TABLE_COLUMNS)                               \
        add(tree, leaf, rows, n_rows, total, tree->start == NULL, 0, __VA_ARGS__);            \
    else if (tree->stride <= HT_TABLE_COLUMNS / 2)                                            \
        add(tree, leaf, rows, n_rows, total, 1, HT_TABLE_COLUMNS / 2, __VA_ARGS__);           \
    else                                                                                      \
        add(tree, leaf, rows, n_rows, total, 1, HT_TABLE_COLUMNS, __VA_ARGS__);
#define HT_FLOATS(tree, leaf, rows, n_rows, total, single, n, exact, clipped)                 \
    HT_NAME(add_by_eights)(tree, leaf, rows, n_rows, total, single, 1, n, exact, clipped)
#define HT_DOUBLES(tree, leaf, rows, n_rows, total, single, n, exact, clipped)                \
    HT_NAME(add_by_eights)(tree, leaf, rows, n_rows, total, single, 0, n, exact, clipped)
#define HT_CASE(exact, clipped)                                                               \
    case 2 * exact + clipped:                                                                 \
        if (n_rows == 1 && !tree->narrow) {                                                   \
            HT_NAME(add_by_pairs)(tree, leaf, rows, n_rows, total, 0, exact, clipped);        \
        } else if (tree->narrow) {                                                            \
            HT_BY_SIZE(HT_FLOATS, exact, clipped)                                             \
        } else {                                                                              \
            HT_BY_SIZE(HT_DOUBLES, exact, clipped)                                            \
        }                                                                                     \
        break;
#else
#define HT_PAIRS(n, exact, clipped)                                                           \
    case n:                                                                                   \
        HT_NAME(add_by_pairs)(tree, leaf, rows, n_rows, total, n, exact, clipped);            \
        break;
#define HT_CASE(exact, clipped)                                                               \
    case 2 * exact + clipped:                                                                 \
        switch (tree->start == NULL ? tree->n_pairs : 0) {                                    \
            HT_PAIRS(0, exact, clipped)                                                       \
            HT_PAIRS(1, exact, clipped)                                                       \
            HT_PAIRS(2, exact, clipped)                                                       \
            HT_PAIRS(3, exact, clipped)                                                       \
            HT_PAIRS(4, exact, clipped)                                                       \
        }                                                                                     \
        break;
#endif

HT_TARGET static void HT_NAME(add_leaves)(const HtLinearTree *tree, const int32_t *leaf,
                                          const int32_t *rows, int n_rows, double *total)
{
    switch (2 * (tree->exact != 0) + (tree->clipped != 0)) {
        HT_CASE(0, 0)
        HT_CASE(0, 1)
        HT_CASE(1, 0)
        HT_CASE(1, 1)
    }
}

#undef HT_SIX
#undef HT_PLACE
#undef HT_BY_SIZE
#undef HT_FLOATS
#undef HT_DOUBLES
#undef HT_PAIRS
#undef HT_CASE
