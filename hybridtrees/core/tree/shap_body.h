/* Bodies that shap.h compiles once per vector width; no include guard on purpose. */

#define ROWS HT_SHAP_ROWS
#define EACH_ROW for (int r = 0; r < ROWS; r++)

/* Call a loop with the number of points as a literal N, if it is small: then the points of a row
 * stay in registers. */
#define HT_KNOWN_POINTS(n, name, ...)                                                         \
    switch (n) {                                                                              \
    case 1: { enum { N = 1 }; HT_NAME(name)(__VA_ARGS__); break; }                            \
    case 2: { enum { N = 2 }; HT_NAME(name)(__VA_ARGS__); break; }                            \
    case 3: { enum { N = 3 }; HT_NAME(name)(__VA_ARGS__); break; }                            \
    case 4: { enum { N = 4 }; HT_NAME(name)(__VA_ARGS__); break; }                            \
    case 5: { enum { N = 5 }; HT_NAME(name)(__VA_ARGS__); break; }                            \
    default: { const int N = n; HT_NAME(name)(__VA_ARGS__); break; }                          \
    }

/* OUT which rows of a split go left, right, or stay, as 0 and 1. */
HT_TARGET static void HT_NAME(find_sides)(const double *restrict x, double threshold, int missing,
                                          double *restrict sides) {
    double *restrict right = sides + HT_SIDE_RIGHT * ROWS;
    double *restrict left = sides + HT_SIDE_LEFT * ROWS;
    double *restrict stay = sides + HT_SIDE_STAY * ROWS;
    const double to_left = missing == HT_SIDE_LEFT, to_right = missing == HT_SIDE_RIGHT;
    const double stays = missing == HT_SIDE_STAY;
    EACH_ROW {
        double known = x[r] <= threshold ? 1.0 : 0.0;
        int gone = x[r] != x[r];
        left[r] = gone ? to_left : known;
        right[r] = gone ? to_right : 1.0 - known;
        stay[r] = gone ? stays : 0.0;
    }
}

/* total = sum over the points of part * factor. */
HT_TARGET static inline void HT_NAME(weigh)(const double *restrict part,
                                            const double *restrict factor, int n,
                                            double *restrict total) {
    EACH_ROW total[r] = part[r] * factor[0];
    for (int k = 1; k < n; k++)
        EACH_ROW total[r] += part[k * ROWS + r] * factor[k];
}

/* P of a level from that of the level above, for a player that is new on the path. */
HT_TARGET static inline void HT_NAME(extend)(const double *restrict above,
                                             const double *restrict side, double merged,
                                             const double *restrict points, int n,
                                             double *restrict met, double *restrict product) {
    EACH_ROW {
        const double q = side[r];
        met[r] = q;
        for (int k = 0; k < n; k++)
            product[k * ROWS + r] =
                above[k * ROWS + r] * (merged * (1.0 - points[k]) + q * points[k]);
    }
}

/* Go down the edge to a node: the P and q of its level. */
HT_TARGET static void HT_NAME(go_down)(const HtShapTree *tree, const HtShapNode *node,
                                       const HtShapScratch *scratch) {
    const int n = tree->n_points, level = node->level;
    const ptrdiff_t size = ht_product_size(n);
    const double *restrict above = scratch->product + (level - 1) * size;
    double *restrict product = scratch->product + level * size;
    double *restrict met = scratch->met + level * ROWS;
    const double *restrict side = scratch->sides + (3 * (level - 1) + node->side) * ROWS;
    scratch->at[level] = node;
    scratch->hidden[level] = 0;
    scratch->place[node->player] = level;
    if (node->before == 0) {
        HT_KNOWN_POINTS(n, extend, above, side, node->merged, tree->points, N, met, product)
        return;
    }
    const double *restrict old = scratch->met + node->before * ROWS;
    const double *inverse = tree->inverse + (scratch->at[node->before] - tree->nodes) * n;
    scratch->hidden[node->before] = 1;
    EACH_ROW met[r] = side[r] * old[r];
    for (int k = 0; k < n; k++) {
        const double t = tree->points[k], absent = node->merged * (1.0 - t);
        EACH_ROW {
            double ratio = (absent + met[r] * t) * inverse[k];
            product[k * ROWS + r] = above[k * ROWS + r] * (old[r] != 0.0 ? ratio : node->share);
        }
    }
}

/* pair += integral of part * r of the player whose edge is at `level`; last: sum of part / (1 - t). */
HT_TARGET static void HT_NAME(add_pair)(const HtShapTree *tree, const HtShapScratch *scratch,
                                        const double *restrict part, const double *restrict last,
                                        int level, double *restrict pair) {
    const HtShapNode *node = scratch->at[level];
    const double *restrict met = scratch->met + level * ROWS;
    const double share = 1.0 - node->merged;
    double total[ROWS];
    HT_NAME(weigh)(part, tree->inverse + (node - tree->nodes) * tree->n_points, tree->n_points,
                   total);
    EACH_ROW pair[r] += met[r] != 0.0 ? share * total[r] : -last[r];
}

static inline double *HT_NAME(pair_of)(double *pairs, ptrdiff_t n_players, ptrdiff_t i, ptrdiff_t j) {
    return pairs + (i < j ? i * n_players + j : j * n_players + i) * ROWS;
}

/* Add a part to the pairs of `player` with all other players of the path down to `level`. */
HT_TARGET static void HT_NAME(add_pairs)(const HtShapTree *tree, const HtShapScratch *scratch,
                                         const double *part, const double *last, int player,
                                         int level, double *pairs, ptrdiff_t n_players) {
    for (int m = 1; m <= level; m++) {
        const int other = scratch->at[m]->player;
        if (other != player && !scratch->hidden[m])
            HT_NAME(add_pair)(tree, scratch, part, last, m,
                              HT_NAME(pair_of)(pairs, n_players, player, other));
    }
}

/* The interactions of the player of an edge with those above it. */
HT_TARGET static void HT_NAME(interact)(const HtShapTree *tree, const HtShapNode *node,
                                        const HtShapScratch *scratch, double *pairs,
                                        ptrdiff_t n_players) {
    const int n = tree->n_points, level = node->level;
    const double *restrict below = scratch->below + level * ht_below_size(n);
    const double *restrict met = scratch->met + level * ROWS;
    const double *inverse = tree->inverse + (node - tree->nodes) * n;
    const double share = 1.0 - node->merged;
    double *restrict part = scratch->work;
    double last[ROWS];
    if (node->before == 0) {
        for (int k = 0; k < n; k++) {
            const double present = share * inverse[k], absent = -1.0 / (1.0 - tree->points[k]);
            EACH_ROW part[k * ROWS + r] = below[k * ROWS + r] * (met[r] != 0.0 ? present : absent);
        }
    } else {
        const HtShapNode *earlier = scratch->at[node->before];
        const double *restrict old = scratch->met + node->before * ROWS;
        const double *known = tree->inverse + (earlier - tree->nodes) * n;
        for (int k = 0; k < n; k++) {
            const double present = share * inverse[k], absent = -1.0 / (1.0 - tree->points[k]);
            const double was = (1.0 - earlier->merged) * known[k];
            EACH_ROW {
                double change = (met[r] != 0.0 ? present : absent) - was;
                part[k * ROWS + r] = old[r] != 0.0 ? below[k * ROWS + r] * change : 0.0;
            }
        }
    }
    EACH_ROW last[r] = 0.0;
    for (int k = 0; k < n; k++) {
        const double rest = 1.0 / (1.0 - tree->points[k]);
        EACH_ROW last[r] += part[k * ROWS + r] * rest;
    }
    HT_NAME(add_pairs)(tree, scratch, part, last, node->player, level - 1, pairs, n_players);
}

/* Value of a player that is new on the path; what is below is added to the level above. */
HT_TARGET static inline void HT_NAME(close)(const double *restrict below,
                                            const double *restrict inverse,
                                            const double *restrict met, double share, int n,
                                            double *restrict value, double *restrict above) {
    EACH_ROW {
        double total = 0.0;
        const double last = below[n * ROWS + r];
        for (int k = 0; k < n; k++) {
            total += below[k * ROWS + r] * inverse[k];
            above[k * ROWS + r] += below[k * ROWS + r];
        }
        above[n * ROWS + r] += last;
        value[r] += met[r] != 0.0 ? share * total : -last;
    }
}

/* The same for a player that takes the place of its earlier edge. */
HT_TARGET static inline void HT_NAME(replace)(
    const double *restrict below, const double *restrict inverse, const double *restrict met,
    double share, const double *restrict old_inverse, const double *restrict old,
    double old_share, int n, double *restrict value, double *restrict above) {
    EACH_ROW {
        double total = 0.0, earlier = 0.0;
        const double last = below[n * ROWS + r];
        for (int k = 0; k < n; k++) {
            total += below[k * ROWS + r] * inverse[k];
            earlier += below[k * ROWS + r] * old_inverse[k];
            above[k * ROWS + r] += below[k * ROWS + r];
        }
        above[n * ROWS + r] += last;
        double own = (met[r] != 0.0 ? share * total : -last) - old_share * earlier;
        value[r] += old[r] != 0.0 ? own : 0.0;
    }
}

/* Go up the edge of the lowest level: its player's share in what is below. */
HT_TARGET static void HT_NAME(go_up)(const HtShapTree *tree, int level,
                                     const HtShapScratch *scratch, double *values, ptrdiff_t stride,
                                     double *pairs, ptrdiff_t n_players) {
    const int n = tree->n_points;
    const HtShapNode *node = scratch->at[level];
    const double *inverse = tree->inverse + (node - tree->nodes) * n;
    const double *below = scratch->below + level * ht_below_size(n);
    double *above = scratch->below + (level - 1) * ht_below_size(n);
    const double *met = scratch->met + level * ROWS;
    const double share = 1.0 - node->merged;
    double *value = values + node->player * stride;
    if (pairs)
        HT_NAME(interact)(tree, node, scratch, pairs, n_players);
    if (node->before == 0) {
        HT_KNOWN_POINTS(n, close, below, inverse, met, share, N, value, above)
    } else {
        const HtShapNode *earlier = scratch->at[node->before];
        const double *old = scratch->met + node->before * ROWS;
        const double *old_inverse = tree->inverse + (earlier - tree->nodes) * n;
        HT_KNOWN_POINTS(n, replace, below, inverse, met, share, old_inverse, old,
                        1.0 - earlier->merged, N, value, above)
        scratch->hidden[node->before] = 0;
    }
    scratch->place[node->player] = node->before;
}

/* OUT e of each player of a line, in the order of its terms, and the constant of the leaf. A value
 * beyond the range of the leaf ends at it: the parts are shortened in proportion. Returns the
 * number of players. */
HT_TARGET static int HT_NAME(line_parts)(const HtShapTree *tree, const HtShapNode *node,
                                         const double *x, ptrdiff_t stride, double *constant,
                                         double *restrict part, double *restrict total) {
    const double start = tree->value[node->node * tree->value_stride];
    int n_parts = 0;
    int32_t player = -1;
    EACH_ROW total[r] = 0.0;
    for (int64_t j = tree->term_start[node->node]; j < tree->term_start[node->node + 1]; j++) {
        const double *restrict column = x + tree->term_column[j] * stride;
        const double coef = tree->coef[j * tree->coef_stride], center = tree->center[j];
        const double low = tree->low[j], high = tree->high[j];
        if (tree->term_player[j] != player) {
            player = tree->term_player[j];
            EACH_ROW part[n_parts * ROWS + r] = 0.0;
            n_parts++;
        }
        double *restrict own = part + (n_parts - 1) * ROWS;
        EACH_ROW {
            double value = column[r] < low ? low : column[r];
            value = value > high ? high : value;
            double term = column[r] == column[r] ? coef * (value - center) : 0.0;
            own[r] += term;
            total[r] += term;
        }
    }
    *constant = start;
    if (!tree->range)
        return n_parts;
    const double *range = tree->range + node->node * tree->range_stride;
    const double low = range[0], high = range[tree->range_width];
    double from = start < low ? low : start;
    from = from > high ? high : from;
    *constant = from;
    EACH_ROW {
        double end = start + total[r];
        int inside = end >= low && end <= high && from == start;
        end = end < low ? low : end;
        end = end > high ? high : end;
        double scale = total[r] != 0.0 ? (end - from) / total[r] : 0.0;
        total[r] = inside ? 1.0 : scale;
    }
    for (int i = 0; i < n_parts; i++)
        EACH_ROW part[i * ROWS + r] *= total[r];
    return n_parts;
}

/* g of one player of a line at all points, with the weights of the points; adds its value. */
HT_TARGET static void HT_NAME(add_own)(const HtShapTree *tree, const HtShapScratch *scratch,
                                       const double *restrict product, const double *restrict part,
                                       int place, double *restrict own, double *restrict value) {
    const int n = tree->n_points;
    if (place == 0) {
        for (int k = 0; k < n; k++)
            EACH_ROW {
                own[k * ROWS + r] = part[r] * (product[k * ROWS + r] * tree->weights[k]);
                value[r] += own[k * ROWS + r];
            }
        return;
    }
    const HtShapNode *node = scratch->at[place];
    const double *inverse = tree->inverse + (node - tree->nodes) * n;
    const double *restrict met = scratch->met + place * ROWS;
    for (int k = 0; k < n; k++) {
        const double factor = tree->weights[k] * node->merged * inverse[k] * inverse[k];
        EACH_ROW {
            own[k * ROWS + r] = part[r] * met[r] * (product[k * ROWS + r] * factor);
            value[r] += own[k * ROWS + r];
        }
    }
}

/* P G of a leaf with a line, and the values of its regressors. work: points, then players. */
HT_TARGET static void HT_NAME(add_line)(const HtShapTree *tree, const HtShapNode *node,
                                        const double *x, const HtShapScratch *scratch,
                                        double *values, ptrdiff_t stride, double *pairs,
                                        ptrdiff_t n_players) {
    const int n = tree->n_points, level = node->level;
    const double *restrict product = scratch->product + level * ht_product_size(n);
    double *restrict below = scratch->below + level * ht_below_size(n);
    double *restrict own = scratch->work, *restrict part = own + n * ROWS;
    double constant, total[ROWS], last[ROWS];
    const int n_parts = HT_NAME(line_parts)(tree, node, x, stride, &constant, part, total);
    int64_t j = tree->term_start[node->node];
    for (int k = 0; k < n; k++)
        EACH_ROW below[k * ROWS + r] = constant;
    for (int i = 0; i < n_parts; i++) {
        const int32_t player = tree->term_player[j];
        const int place = scratch->place[player];
        while (j < tree->term_start[node->node + 1] && tree->term_player[j] == player)
            j++;
        if (place == 0) {
            for (int k = 0; k < n; k++)
                EACH_ROW below[k * ROWS + r] += tree->points[k] * part[i * ROWS + r];
        } else {
            const double *inverse = tree->inverse + (scratch->at[place] - tree->nodes) * n;
            const double *restrict met = scratch->met + place * ROWS;
            for (int k = 0; k < n; k++) {
                const double factor = tree->points[k] * inverse[k];
                EACH_ROW below[k * ROWS + r] += factor * (part[i * ROWS + r] * met[r]);
            }
        }
        HT_NAME(add_own)(tree, scratch, product, part + i * ROWS, place, own,
                         values + player * stride);
        if (!pairs)
            continue;
        EACH_ROW last[r] = 0.0;
        for (int k = 0; k < n; k++) {
            const double rest = 1.0 / (1.0 - tree->points[k]);
            EACH_ROW last[r] += own[k * ROWS + r] * rest;
        }
        HT_NAME(add_pairs)(tree, scratch, own, last, player, level, pairs, n_players);
    }
    for (int k = 0; k < n; k++)
        EACH_ROW below[k * ROWS + r] *= product[k * ROWS + r] * tree->weights[k];
}

/* P G of a leaf without a line. */
HT_TARGET static inline void HT_NAME(weigh_leaf)(const double *restrict product, double value,
                                                 const double *restrict points,
                                                 const double *restrict weights, int n,
                                                 double *restrict below) {
    EACH_ROW {
        double last = 0.0;
        for (int k = 0; k < n; k++) {
            const double own = product[k * ROWS + r] * (value * weights[k]);
            below[k * ROWS + r] = own;
            last += own * (1.0 / (1.0 - points[k]));
        }
        below[n * ROWS + r] = last;
    }
}

/* P G of a leaf at all points, with their weights, and the sum of these over 1 - t. */
HT_TARGET static void HT_NAME(open_leaf)(const HtShapTree *tree, const HtShapNode *node,
                                         const double *x, const HtShapScratch *scratch,
                                         double *values, ptrdiff_t stride, double *pairs,
                                         ptrdiff_t n_players) {
    const int n = tree->n_points;
    const double *restrict product = scratch->product + node->level * ht_product_size(n);
    double *restrict below = scratch->below + node->level * ht_below_size(n);
    if (tree->term_start && (tree->range || tree->term_start[node->node]
                                                < tree->term_start[node->node + 1])) {
        HT_NAME(add_line)(tree, node, x, scratch, values, stride, pairs, n_players);
    } else {
        const double value = tree->value[node->node * tree->value_stride];
        HT_KNOWN_POINTS(n, weigh_leaf, product, value, tree->points, tree->weights, N, below)
        return;
    }
    EACH_ROW below[n * ROWS + r] = 0.0;
    for (int k = 0; k < n; k++) {
        const double rest = 1.0 / (1.0 - tree->points[k]);
        EACH_ROW below[n * ROWS + r] += below[k * ROWS + r] * rest;
    }
}

HT_TARGET static void HT_NAME(shap_tree)(const HtShapTree *tree, const double *x, ptrdiff_t stride,
                                         const HtShapScratch *scratch, double *values,
                                         double *pairs, ptrdiff_t n_players) {
    const int n = tree->n_points;
    int level = 0;
    for (ptrdiff_t i = 0; i < n * ROWS; i++)
        scratch->product[i] = 1.0;
    for (ptrdiff_t i = 0; i < tree->n_nodes; i++) {
        const HtShapNode *node = tree->nodes + i;
        for (; level >= node->level && level > 0; level--)
            HT_NAME(go_up)(tree, level, scratch, values, stride, pairs, n_players);
        level = node->level;
        if (level > 0)
            HT_NAME(go_down)(tree, node, scratch);
        if (node->column >= 0) {
            HT_NAME(find_sides)(x + node->column * stride, node->threshold, node->missing,
                                scratch->sides + 3 * level * ROWS);
            memset(scratch->below + level * ht_below_size(n), 0,
                   ht_below_size(n) * sizeof(double));
        } else {
            HT_NAME(open_leaf)(tree, node, x, scratch, values, stride, pairs, n_players);
        }
    }
    for (; level > 0; level--)
        HT_NAME(go_up)(tree, level, scratch, values, stride, pairs, n_players);
}

#undef ROWS
#undef EACH_ROW
#undef HT_KNOWN_POINTS
