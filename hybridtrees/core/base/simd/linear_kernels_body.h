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

/* Entries of column j of a Cholesky factor below the diagonal, for up to four rows at once. */
HT_TARGET static inline void HT_NAME(eliminate)(HT_NAME(lanes) *const *row, int count,
                                                const HT_NAME(lanes) *pivot_row, int j,
                                                HT_NAME(lanes) inverse)
{
    if (count == 4) {
        HT_NAME(lanes) a = row[0][j], b = row[1][j], c = row[2][j], d = row[3][j];
        const HT_NAME(lanes) *ra = row[0], *rb = row[1], *rc = row[2], *rd = row[3];
        for (int k = 0; k < j; k++) {
            HT_NAME(lanes) x = pivot_row[k];
            a -= ra[k] * x;
            b -= rb[k] * x;
            c -= rc[k] * x;
            d -= rd[k] * x;
        }
        row[0][j] = a * inverse;
        row[1][j] = b * inverse;
        row[2][j] = c * inverse;
        row[3][j] = d * inverse;
        return;
    }
    for (int r = 0; r < count; r++) {
        HT_NAME(lanes) a = row[r][j];
        for (int k = 0; k < j; k++)
            a -= row[r][k] * pivot_row[k];
        row[r][j] = a * inverse;
    }
}

/* Row i of the triangle: a regressor, or from p on a target. */
HT_TARGET static inline HT_NAME(lanes) *HT_NAME(triangle_row)(HT_NAME(lanes) *work, int p, int i)
{
    return work + (i < p ? i * (i + 1) / 2 : p * (p + 1) / 2 + (i - p) * (p + 1));
}

/* Factorise the normal equations in `work`. OUT the inverse pivots, 0 for a column that is left
 * out, and the ridge that was added to the diagonal. */
HT_TARGET static void HT_NAME(factorise)(const ht_linear_rules *rules, HT_NAME(lanes) *work,
                                         HT_NAME(lanes) n_rows, HT_NAME(lanes) weight,
                                         HT_NAME(lanes) *inverse, HT_NAME(lanes) *ridge)
{
    const int p = rules->n_columns, q = p + rules->n_targets;
    const HT_NAME(lanes) share = rules->relative + rules->relative_sum / weight;
    for (int j = 0; j < p; j++) {
        HT_NAME(lanes) *row = HT_NAME(triangle_row)(work, p, j), pivot = row[j], whole, root;
        HT_NAME(lanes) varies = pivot, left_over;
        ridge[j] = HT_ALL_OF(0.0);
        if (j > 0) {
            varies = pivot - row[0] * row[0]; /* row[0] is sum / sqrt(weight) */
            ridge[j] = share * varies + rules->per_weight[j] * weight + rules->absolute[j];
            pivot += ridge[j];
        }
        whole = varies + ridge[j];
        left_over = pivot;
        for (int k = 0; k < j; k++)
            left_over -= row[k] * row[k];
        root = left_over;
        for (int l = 0; l < HT_LANES; l++) {
            double x = HT_LANE(left_over, l);
            HT_LANE(root, l) = x > 0.0 ? 1.0 / sqrt(x) : 0.0;
        }
        if (j > 0) {
            root = HT_WHERE(left_over > rules->tolerance * whole, root);
            root = HT_WHERE(varies > HT_ALL_OF(rules->least[j]), root);
            root = HT_WHERE(n_rows >= HT_ALL_OF(rules->least_rows), root);
        }
        inverse[j] = root;
        row[j] = left_over * root;
        for (int i = j + 1; i < q; i += 4) {
            HT_NAME(lanes) *rows[4];
            int count = q - i < 4 ? q - i : 4;
            for (int r = 0; r < count; r++)
                rows[r] = HT_NAME(triangle_row)(work, p, i + r);
            HT_NAME(eliminate)(rows, count, row, j, root);
        }
    }
}

HT_TARGET static void HT_NAME(ridge_losses)(const ht_linear_rules *rules, const double *cells,
                                            ptrdiff_t stride, const double *total, int n,
                                            double *scratch, double *loss, double *coef) {
    const int p = rules->n_columns, size = ht_triangle_size(p, rules->n_targets);
    HT_NAME(lanes) *work = (HT_NAME(lanes) *) scratch, *inverse = work + size;
    HT_NAME(lanes) *ridge = inverse + p, *solution = ridge + p;
    for (int first = 0; first < n; first += HT_LANES) {
        HT_NAME(lanes) n_rows, weight, sum = HT_ALL_OF(0.0);
        for (int l = 0; l < HT_LANES; l++) {
            /* Unused lanes repeat the last candidate. */
            int own = first + l < n ? first + l : n - 1;
            const double *cell = cells + stride * own;
            double *to = scratch + l;
            if (total)
                for (int e = 0; e < size; e++)
                    to[e * HT_LANES] = total[rules->at[e]] - cell[rules->at[e]];
            else
                for (int e = 0; e < size; e++)
                    to[e * HT_LANES] = cell[rules->at[e]];
            HT_LANE(n_rows, l) = total ? total[rules->tail] - cell[rules->tail] : cell[rules->tail];
            HT_LANE(weight, l) = total ? total[rules->tail + 1] - cell[rules->tail + 1]
                                       : cell[rules->tail + 1];
        }
        HT_NAME(factorise)(rules, work, n_rows, weight, inverse, ridge);
        for (int t = 0; t < rules->n_targets; t++) {
            const HT_NAME(lanes) *row = HT_NAME(triangle_row)(work, p, p + t);
            HT_NAME(lanes) left_over = row[p];
            for (int k = 0; k < p; k++)
                left_over -= row[k] * row[k];
            if (coef || (rules->has_ridge && !rules->penalised)) {
                for (int k = p - 1; k >= 0; k--) {
                    HT_NAME(lanes) x = row[k];
                    for (int i = k + 1; i < p; i++)
                        x -= HT_NAME(triangle_row)(work, p, i)[k] * solution[i];
                    solution[k] = x * inverse[k];
                }
                if (!rules->penalised)
                    for (int k = 1; k < p; k++)
                        left_over -= ridge[k] * solution[k] * solution[k];
            }
            if (coef)
                for (int l = 0; l < HT_LANES && first + l < n; l++)
                    for (int k = 0; k < p; k++)
                        coef[((first + l) * (ptrdiff_t) rules->n_targets + t) * p + k] =
                            HT_LANE(solution[k], l);
            sum += HT_WHERE(left_over > HT_ALL_OF(0.0), left_over);
        }
        for (int l = 0; l < HT_LANES && first + l < n; l++)
            loss[first + l] = HT_LANE(sum, l);
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
