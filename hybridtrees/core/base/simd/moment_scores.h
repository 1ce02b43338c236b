/* Scores of many cuts of one feature where both sides are small linear models. */
#ifndef HYBRIDTREES_MOMENT_SCORES_H
#define HYBRIDTREES_MOMENT_SCORES_H

#include "constants.h"
#include "simd.h"

/* Candidates from one sum to the next in an array of sums. */
#define HT_CANDIDATES 264

/* The sums of a side: h, g, h l, h l l, g l over all its rows (l: the linear part it inherits),
 * then h x, h x x, g x, h l x over the rows that have a value of the feature. */
enum { HT_H, HT_G, HT_L, HT_LL, HT_GL, HT_X, HT_XX, HT_GX, HT_LX, HT_SUMS };

/* Share that centring must leave of a column. */
#define HT_CONSTANT 1e-10

/* Twice the loss that the model of a side saves. h, g, l: over all rows; hk, gk, lk: over those
 * that have a value. */
HT_INLINE double ht_side_score(double h, double g, double l, double ll, double gl, double hk,
                               double gk, double lk, double x, double xx, double gx, double lx,
                               double lambda, int has_l, int has_x) {
    double score = g * g / (h + lambda);
    double inverse = 0.0, b = 0.0;
    if (has_l) {
        double mean = l / h;
        double a = ll - l * mean;
        b = gl - mean * g;
        a = a > HT_CONSTANT * ll ? a + lambda : 0.0;
        inverse = a > 0.0 ? 1.0 / a : 0.0;
        score += b * b * inverse;
    }
    if (has_x) {
        double center = hk > 0.0 ? x / hk : 0.0;
        double d = xx - x * center;
        double q = gx - center * gk;
        double left, gain;
        d = d > HT_CONSTANT * xx ? d + lambda : 0.0;
        left = d;
        if (has_l) {
            double e = lx - center * lk;
            left = d - e * e * inverse;
            q = q - e * b * inverse;
        }
        gain = q * q / left;
        score += left > HT_DEPENDENT * d ? gain : 0.0;
    }
    return score;
}

#define HT_WHOLE_VECTORS
#define HT_BODY "moment_scores_body.h"
#include "per_width.h"

/* scores[c] of the cuts after which the left side has the sums left[s * HT_CANDIDATES + c]; all:
 * the sums of both sides together; to_left, to_right: those of the rows without a value that join
 * a side; least: hessian that a side must have. */
#define ht_moment_scores(width, ...) HT_DISPATCH(width, moment_scores, __VA_ARGS__)

#endif
