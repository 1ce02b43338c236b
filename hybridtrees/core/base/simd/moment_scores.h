/* Scores of all cuts of one feature if both sides are small linear models. */
#ifndef HYBRIDTREES_MOMENT_SCORES_H
#define HYBRIDTREES_MOMENT_SCORES_H

#include "constants.h"
#include "simd.h"

/* Stride between the sums in an array of candidates. */
#define HT_CANDIDATES 264

/* The sums of a side: h, g, h l, h l l, g l over all its rows (l: the inherited linear part), then
 * h x, h x x, g x, h l x over the rows with a value of the feature. */
enum { HT_H, HT_G, HT_L, HT_LL, HT_GL, HT_X, HT_XX, HT_GX, HT_LX, HT_SUMS };

/* Twice the loss reduction by the model of a side. h, g, l: over all rows; hk, gk, lk: over those
 * with a value. */
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

/* OUT scores[c] of cuts whose left sides have the sums left[s * HT_CANDIDATES + c]; all: sums of
 * both sides; to_left, to_right: sums of the missing rows that go to a side; least: minimum
 * hessian of a side. */
#define ht_moment_scores(width, ...) HT_DISPATCH(width, moment_scores, __VA_ARGS__)

#endif
