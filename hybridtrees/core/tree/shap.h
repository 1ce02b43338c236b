/* Shapley values of one tree for a block of rows, by quadrature along its paths.
 *
 * A coalition S of players (features) reaches a leaf with the weight w(S), the product over the
 * players of the path of q_f in S (1 if the row meets all conditions on f, else 0) and p_f outside
 * (the share of the training rows that meet them). With every player present with probability t,
 * the expected weight is P(t) = prod_f B_f(t), B_f = p_f (1 - t) + q_f t, and the Shapley value of
 * a player is the integral of the derivative by its own t over [0, 1] (Owen 1972). The integrand is
 * a polynomial, for which Gauss-Legendre quadrature is exact with half as many points as it has
 * degrees (as in Quadrature-TreeSHAP, Wettenstein et al. 2026, which fixes their number).
 *
 * The line of a leaf adds e_j = coef * (x_j - center) for the regressors present and nothing for the
 * others, as for missing ones. With r_f = (q_f - p_f) / B_f and G the factor of the leaf,
 *
 *     G    = a + t (sum of e_j off the path + sum of e_j q_j / B_j on the path),
 *     g_j  = e_j P off the path, e_j q_j p_j P / B_j^2 on the path,
 *     value of i       = integral of (r_i P G + g_i),
 *     interaction i, j = integral of (r_i r_j P G + g_i r_j + g_j r_i):
 *
 * a player that is on the path and in the line enters once. r_i P G is added up over the leaves
 * below each edge before it is integrated. A player with several edges on a path takes the place of
 * its earlier edge: on the way down P is divided by the B of that edge, and on the way up its r is
 * subtracted, so that sums telescope. */
#ifndef HYBRIDTREES_SHAP_H
#define HYBRIDTREES_SHAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "constants.h"

enum {
    HT_SHAP_ROWS = 32, /* rows of a block, one number of a vector each */
    HT_SHAP_STEP = 8,  /* more points than this are a multiple of it */
    HT_SHAP_POINTS = 64 /* most points: beyond 128 players the rest is below rounding */
};

enum { HT_SIDE_RIGHT = 0, HT_SIDE_LEFT = 1, HT_SIDE_STAY = HT_MISSING_STAYS };

/* A node in preorder, seen with the edge to it. Rows that end at an inner node because their value
 * is missing have a leaf of their own, its third child. */
typedef struct {
    double threshold;
    double share;  /* of the parent's rows */
    double merged; /* product of the shares of all edges of this player down to here */
    int32_t column; /* of the split, -1 in a leaf */
    int32_t player; /* of the split above, -1 at the root */
    int32_t level;
    int32_t before; /* level of the last edge above of the same player, 0: none */
    int32_t side;   /* of the parent */
    int32_t missing; /* where a missing value goes */
    int64_t node;   /* in the ensemble */
} HtShapNode;

typedef struct {
    const HtShapNode *nodes;
    ptrdiff_t n_nodes;
    int n_points;
    const double *points, *weights;
    const double *inverse; /* by node and point: 1 / (merged (1 - t) + t) */
    const double *value;   /* by node of the ensemble, of one output */
    ptrdiff_t value_stride;
    const double *range; /* lowest and highest value, NULL: none */
    ptrdiff_t range_stride, range_width;
    /* terms of lines */
    const int64_t *term_start;
    const int32_t *term_column, *term_player; /* terms of a node are sorted by player */
    const double *coef, *center, *low, *high;
    ptrdiff_t coef_stride;
} HtShapTree;

/* Scratch memory of a thread: see ht_shap_sizes. */
typedef struct {
    double *product;  /* by level and point: P */
    double *below;    /* by level and point, and one more: P G of the leaves below */
    double *met;      /* by level: q of the player of the edge */
    double *sides;    /* by level: rows that go left, right, stay */
    double *work;     /* points, and terms */
    const HtShapNode **at; /* by level */
    uint8_t *hidden;  /* by level: the player has an edge further down */
    int32_t *place;   /* by player: level of its last edge, 0: not on the path */
} HtShapScratch;

/* Doubles of each level of `product`, `below` and `sides`. */
static inline ptrdiff_t ht_product_size(int n_points) {
    return (ptrdiff_t) n_points * HT_SHAP_ROWS;
}
static inline ptrdiff_t ht_below_size(int n_points) {
    return (ptrdiff_t) (n_points + 1) * HT_SHAP_ROWS;
}

#define HT_BODY "shap_body.h"
#define HT_WHOLE_VECTORS
#include "per_width.h"

/* Add the values of a tree to values[player * stride + row], and its interactions, unless it is
 * NULL, to pairs[(i * n_players + j) * HT_SHAP_ROWS + row] for players i < j. x[column * stride +
 * row] are the columns. */
#define ht_shap_tree(width, ...) HT_DISPATCH(width, shap_tree, __VA_ARGS__)

#endif
