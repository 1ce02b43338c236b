/* Bodies that linear_kernels.h compiles once per vector width; no include guard on purpose. */

#if HT_VECTORS
typedef double HT_NAME(lanes) __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));
typedef int64_t HT_NAME(lane_bits) __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));
#define HT_LANES (HT_BYTES / 8)
/* x where the condition holds, else 0 */
#define HT_WHERE(condition, x) \
    ((HT_NAME(lanes)) ((condition) & (HT_NAME(lane_bits)) (x)))
#define HT_ALL_OF(x) ((HT_NAME(lanes)) {0} + (x))
#define HT_LANE(v, l) ((v)[l])
#else
typedef double HT_NAME(lanes);
#define HT_LANES 1
#define HT_WHERE(condition, x) ((condition) ? (x) : 0.0)
#define HT_ALL_OF(x) (x)
#define HT_LANE(v, l) (v)
#endif
/* Vectors per row of a tile, such that four rows of it fit the registers. */
#define HT_TILE_VECTORS (HT_LANES >= 8 ? 1 : 2)
#define HT_TILE_STEP (HT_TILE_VECTORS * HT_LANES)

HT_TARGET static void HT_NAME(add_tile)(const double *const *rows, int n, int i0, int j0,
                                        double *tile) {
    HT_NAME(lanes) sums[4][HT_TILE_VECTORS];
    for (int i = 0; i < 4; i++)
        for (int v = 0; v < HT_TILE_VECTORS; v++)
            sums[i][v] = *(const HT_NAME(lanes) *) (tile + 8 * i + v * HT_LANES);
    for (int r = 0; r < n; r++) {
        const double *row = rows[r];
        HT_NAME(lanes) right[HT_TILE_VECTORS];
        for (int v = 0; v < HT_TILE_VECTORS; v++)
            right[v] = *(const HT_NAME(lanes) *) (row + j0 + v * HT_LANES);
        for (int i = 0; i < 4; i++)
            for (int v = 0; v < HT_TILE_VECTORS; v++)
                sums[i][v] += row[i0 + i] * right[v];
    }
    for (int i = 0; i < 4; i++)
        for (int v = 0; v < HT_TILE_VECTORS; v++)
            *(HT_NAME(lanes) *) (tile + 8 * i + v * HT_LANES) = sums[i][v];
}

HT_TARGET static void HT_NAME(add_moments)(const double *table, ptrdiff_t stride,
                                           const uint32_t *rows, ptrdiff_t n, int m, double *cell) {
    const double *chunk[128];
    /* The rows of a chunk are read once per tile: they should stay in the L1 cache. */
    int most = 24576 / (8 * m);
    most = most > 128 ? 128 : most < 8 ? 8 : most;
    for (ptrdiff_t start = 0; start < n; start += most) {
        int size = (int) (n - start < most ? n - start : most);
        double *tile = cell;
        for (int r = 0; r < size; r++)
            chunk[r] = table + stride * (rows ? (ptrdiff_t) rows[start + r] : start + r);
        for (int i0 = 0; i0 < m; i0 += 4)
            for (int j0 = i0 / 8 * 8; j0 < m; j0 += 8, tile += 32)
                for (int part = 0; part < 8; part += HT_TILE_STEP)
                    HT_NAME(add_tile)(chunk, size, i0, j0 + part, tile + part);
    }
}

HT_TARGET static void HT_NAME(combine)(double *restrict target, const double *restrict other,
                                       ptrdiff_t n, double sign) {
    if (sign < 0)
        for (ptrdiff_t i = 0; i < n; i++)
            target[i] -= other[i];
    else
        for (ptrdiff_t i = 0; i < n; i++)
            target[i] += other[i];
}

/* Row i of the triangle: a regressor, or from p on a target. */
HT_TARGET static inline HT_NAME(lanes) *HT_NAME(triangle_row)(HT_NAME(lanes) *work, int p, int i)
{
    return work + (i < p ? i * (i + 1) / 2 : p * (p + 1) / 2 + (i - p) * (p + 1));
}

/* Entries of the columns j and j + 1 of a Cholesky factor, in the first `count` of four rows: each
 * row is read once for both columns. `first` and `second` are the rows of the two pivots. */
HT_TARGET static inline void HT_NAME(eliminate)(HT_NAME(lanes) *const *row, int count, int j,
                                                const HT_NAME(lanes) *first,
                                                const HT_NAME(lanes) *second,
                                                const HT_NAME(lanes) *inverse,
                                                HT_NAME(lanes) *left_over)
{
    const HT_NAME(lanes) *ra = row[0], *rb = row[1], *rc = row[2], *rd = row[3];
    HT_NAME(lanes) a[4], b[4];
    for (int r = 0; r < 4; r++) {
        a[r] = row[r][j];
        b[r] = row[r][j + 1];
    }
    for (int k = 0; k < j; k++) {
        HT_NAME(lanes) x = first[k], y = second[k];
        a[0] -= ra[k] * x;
        b[0] -= ra[k] * y;
        a[1] -= rb[k] * x;
        b[1] -= rb[k] * y;
        a[2] -= rc[k] * x;
        b[2] -= rc[k] * y;
        a[3] -= rd[k] * x;
        b[3] -= rd[k] * y;
    }
    for (int r = 0; r < count; r++) {
        a[r] *= inverse[j];
        b[r] = (b[r] - a[r] * second[j]) * inverse[j + 1];
        left_over[r] = left_over[r] - a[r] * a[r] - b[r] * b[r];
        row[r][j] = a[r];
        row[r][j + 1] = b[r];
    }
}

/* OUT the inverse pivot of column j, 0 if it is left out, and its entry of the factor. */
HT_TARGET static inline void HT_NAME(pivot)(const ht_linear_rules *rules, int j,
                                            HT_NAME(lanes) *row, HT_NAME(lanes) left_over,
                                            HT_NAME(lanes) varies, HT_NAME(lanes) ridge,
                                            HT_NAME(lanes) n_rows, HT_NAME(lanes) *inverse)
{
    HT_NAME(lanes) root;
    /* By way of memory: compilers make one square root per lane of a vector otherwise. */
    double x[HT_LANES];
    memcpy(x, &left_over, sizeof(x));
    for (int l = 0; l < HT_LANES; l++)
        x[l] = 1.0 / sqrt(x[l]);
    memcpy(&root, x, sizeof(x));
    root = HT_WHERE(left_over > HT_ALL_OF(0.0), root);
    if (j > 0) {
        root = HT_WHERE(left_over > rules->tolerance * (varies + ridge), root);
        root = HT_WHERE(varies > HT_ALL_OF(rules->least[j]), root);
        root = HT_WHERE(n_rows >= HT_ALL_OF(rules->least_rows), root);
    }
    *inverse = root;
    row[j] = left_over * root;
}

/* Factorise the normal equations in `work`. OUT the inverse pivots, 0 for a column that is left
 * out, the ridge that was added to the diagonal, and what is left over of the diagonal, of the
 * targets as well. */
HT_TARGET static void HT_NAME(factorise)(const ht_linear_rules *rules, HT_NAME(lanes) *work,
                                         HT_NAME(lanes) n_rows, HT_NAME(lanes) weight,
                                         HT_NAME(lanes) *inverse, HT_NAME(lanes) *ridge,
                                         HT_NAME(lanes) *varies, HT_NAME(lanes) *left_over)
{
    const int p = rules->n_columns, q = p + rules->n_targets;
    const HT_NAME(lanes) share = rules->relative + rules->relative_sum / weight;
    HT_NAME(lanes) *row = work;
    ridge[0] = HT_ALL_OF(0.0);
    HT_NAME(pivot)(rules, 0, row, work[0], work[0], ridge[0], n_rows, inverse);
    for (int i = 1; i < q; i++) {
        row = HT_NAME(triangle_row)(work, p, i);
        row[0] *= inverse[0]; /* sum / sqrt(weight) */
        left_over[i] = row[i < p ? i : p];
        if (i < p) {
            varies[i] = left_over[i] - row[0] * row[0];
            ridge[i] = share * varies[i] + rules->per_weight[i] * weight + rules->absolute[i];
            left_over[i] += ridge[i];
        }
        left_over[i] -= row[0] * row[0];
    }
    for (int j = 1; j < p; j += 2) {
        HT_NAME(lanes) *first = HT_NAME(triangle_row)(work, p, j), *second;
        HT_NAME(pivot)(rules, j, first, left_over[j], varies[j], ridge[j], n_rows, inverse + j);
        if (j + 1 == p) {
            for (int i = p; i < q; i++) {
                HT_NAME(lanes) x;
                row = HT_NAME(triangle_row)(work, p, i);
                x = row[j];
                for (int k = 0; k < j; k++)
                    x -= row[k] * first[k];
                row[j] = x * inverse[j];
                left_over[i] -= row[j] * row[j];
            }
            return;
        }
        second = HT_NAME(triangle_row)(work, p, j + 1);
        for (int k = 0; k < j; k++)
            second[j] -= second[k] * first[k];
        second[j] *= inverse[j];
        left_over[j + 1] -= second[j] * second[j];
        HT_NAME(pivot)(rules, j + 1, second, left_over[j + 1], varies[j + 1], ridge[j + 1], n_rows,
                       inverse + j + 1);
        for (int i = j + 2; i < q; i += 4) {
            HT_NAME(lanes) *rows[4];
            int count = q - i < 4 ? q - i : 4;
            for (int r = 0; r < 4; r++)
                rows[r] = HT_NAME(triangle_row)(work, p, i + (r < count ? r : count - 1));
            HT_NAME(eliminate)(rows, count, j, first, second, inverse, left_over + i);
        }
    }
}

/* OUT the losses of the fits to the normal equations in `work`, which are destroyed. coef: those of
 * the first `n` lanes, or NULL. vectors: scratch of five times the columns and the targets. */
HT_TARGET static HT_NAME(lanes) HT_NAME(fit_lanes)(const ht_linear_rules *rules,
                                                   HT_NAME(lanes) *work, HT_NAME(lanes) n_rows,
                                                   HT_NAME(lanes) weight, HT_NAME(lanes) *vectors,
                                                   int n, double *coef)
{
    const int p = rules->n_columns, q = p + rules->n_targets;
    HT_NAME(lanes) *inverse = vectors, *ridge = inverse + q, *varies = ridge + q;
    HT_NAME(lanes) *left_over = varies + q, *solution = left_over + q, sum = HT_ALL_OF(0.0);
    HT_NAME(factorise)(rules, work, n_rows, weight, inverse, ridge, varies, left_over);
    for (int t = 0; t < rules->n_targets; t++) {
        const HT_NAME(lanes) *row = HT_NAME(triangle_row)(work, p, p + t);
        HT_NAME(lanes) loss = left_over[p + t];
        if (coef || (rules->has_ridge && !rules->penalised)) {
            for (int k = p - 1; k >= 0; k--) {
                HT_NAME(lanes) x = row[k];
                for (int i = k + 1; i < p; i++)
                    x -= HT_NAME(triangle_row)(work, p, i)[k] * solution[i];
                solution[k] = x * inverse[k];
            }
            if (!rules->penalised)
                for (int k = 1; k < p; k++)
                    loss -= ridge[k] * solution[k] * solution[k];
        }
        if (coef)
            for (int l = 0; l < n; l++)
                for (int k = 0; k < p; k++)
                    coef[(l * (ptrdiff_t) rules->n_targets + t) * p + k] = HT_LANE(solution[k], l);
        sum += HT_WHERE(loss > HT_ALL_OF(0.0), loss);
    }
    return sum;
}

HT_TARGET static void HT_NAME(ridge_losses)(const ht_linear_rules *rules, const double *cells,
                                            ptrdiff_t stride, const double *total, int n,
                                            double *scratch, double *left, double *right,
                                            double *coef) {
    const int p = rules->n_columns, k = rules->n_targets, size = ht_triangle_size(p, k);
    const int tail = rules->tail;
    HT_NAME(lanes) *work = (HT_NAME(lanes) *) scratch, *other = work + size;
    HT_NAME(lanes) *vectors = other + size;
    for (int first = 0; first < n; first += HT_LANES) {
        HT_NAME(lanes) n_rows, weight, loss;
        const double *cell[HT_LANES];
        const int used = n - first < HT_LANES ? n - first : HT_LANES;
        for (int l = 0; l < HT_LANES; l++) {
            /* Unused lanes repeat the last candidate. */
            cell[l] = cells + stride * (first + (l < used ? l : used - 1));
            HT_LANE(n_rows, l) = cell[l][tail];
            HT_LANE(weight, l) = cell[l][tail + 1];
        }
        for (int e = 0; e < size; e++) {
            const int32_t at = rules->at[e];
            for (int l = 0; l < HT_LANES; l++)
                scratch[e * HT_LANES + l] = cell[l][at];
        }
        if (right)
            for (int e = 0; e < size; e++)
                other[e] = total[rules->at[e]] - work[e];
        loss = HT_NAME(fit_lanes)(rules, work, n_rows, weight, vectors, used,
                                  coef ? coef + (ptrdiff_t) first * k * p : coef);
        for (int l = 0; l < used; l++)
            left[first + l] = HT_LANE(loss, l);
        if (!right)
            continue;
        loss = HT_NAME(fit_lanes)(rules, other, total[tail] - n_rows, total[tail + 1] - weight,
                                  vectors, used, NULL);
        for (int l = 0; l < used; l++)
            right[first + l] = HT_LANE(loss, l);
    }
}

/* sums of each bin += residual times the columns of its rows; after the columns, the number of rows
 * and the sum of their weights (column 0 squared). */
HT_TARGET static void HT_NAME(add_scores)(const double *table, int m, const uint32_t *rows,
                                          ptrdiff_t n, const uint8_t *codes, const double *residual,
                                          double *sums) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *row = table + (ptrdiff_t) m * rows[i];
        double *cell = sums + (ptrdiff_t) (m + HT_CELL_TAIL) * codes[rows[i]];
        for (int j = 0; j < m; j += HT_LANES)
            *(HT_NAME(lanes) *) (cell + j) += residual[i] * *(const HT_NAME(lanes) *) (row + j);
        cell[m] += 1.0;
        cell[m + 1] += row[0] * row[0];
    }
}

/* Solve L x = b in place for n right-hand sides; b: (p, lanes), lanes a multiple of 8. */
HT_TARGET static void HT_NAME(forward)(int p, const double *factor, double *b, int lanes, int n) {
    for (int first = 0; first < n; first += HT_LANES)
        for (int i = 0; i < p; i++) {
            const double *row = factor + (ptrdiff_t) i * p;
            double *at = b + first;
            HT_NAME(lanes) x = *(HT_NAME(lanes) *) (at + (ptrdiff_t) i * lanes);
            for (int k = 0; k < i; k++)
                x -= row[k] * *(HT_NAME(lanes) *) (at + (ptrdiff_t) k * lanes);
            *(HT_NAME(lanes) *) (at + (ptrdiff_t) i * lanes) = x * row[i];
        }
}

#undef HT_LANES
#undef HT_WHERE
#undef HT_ALL_OF
#undef HT_LANE
#undef HT_TILE_VECTORS
#undef HT_TILE_STEP
