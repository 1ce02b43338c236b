/* Vectorised loops, see per_width.h. */
#ifndef HYBRIDTREES_SIMD_H
#define HYBRIDTREES_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "constants.h"

/* exp(x) to about one unit in the last place, in a form that compilers can vectorise:
 * x = k ln 2 + r, |r| <= ln 2 / 2; the series of exp(r) to the 13th power; 2^k by its exponent
 * bits. Arguments are clipped to +-708, where exp is still a normal number. NaN gives NaN. */
static inline double ht_exp(double x) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    double rounded, k, r, series, power;
    int64_t bits;
    x = x > 708.0 ? 708.0 : x;
    x = x < -708.0 ? -708.0 : x;
    rounded = x * 1.4426950408889634074 + shift;
    k = rounded - shift;
    r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    series = 1.0 / 6227020800.0;
    series = series * r + 1.0 / 479001600.0;
    series = series * r + 1.0 / 39916800.0;
    series = series * r + 1.0 / 3628800.0;
    series = series * r + 1.0 / 362880.0;
    series = series * r + 1.0 / 40320.0;
    series = series * r + 1.0 / 5040.0;
    series = series * r + 1.0 / 720.0;
    series = series * r + 1.0 / 120.0;
    series = series * r + 1.0 / 24.0;
    series = series * r + 1.0 / 6.0;
    series = series * r + 0.5;
    series = series * r + 1.0;
    series = series * r + 1.0;
    memcpy(&bits, &rounded, 8);
    bits = (int64_t) ((uint64_t) (bits + 1023) << 52); /* the low bits of `rounded` are k */
    memcpy(&power, &bits, 8);
    return series * power;
}

#define HT_BODY "simd_body.h"
#include "per_width.h"

#define ht_newton_scores(width, ...) HT_DISPATCH(width, newton_scores, __VA_ARGS__)
#define ht_newton_best(width, ...) HT_DISPATCH(width, newton_best, __VA_ARGS__)
#define ht_unit_sums(width, ...) HT_DISPATCH(width, unit_sums, __VA_ARGS__)
#define ht_logistic(width, ...) HT_DISPATCH(width, logistic, __VA_ARGS__)

/* The smallest float that is not below x: it compares with a float threshold as x does. NaN stays
 * NaN. The next float of the same sign has the next bits. No branch, as half of all numbers are
 * rounded down. */
static inline float ht_round_up(double x) {
    float nearest = (float) x;
    int32_t bits;
    memcpy(&bits, &nearest, 4);
    bits += (1 | (bits >> 31)) & -((double) nearest < x);
    memcpy(&nearest, &bits, 4);
    return nearest;
}

/* The largest float that is not above t: for a float x, x <= t does not change. */
static inline float ht_round_down(double t) {
    float nearest = (float) t;
    return (double) nearest > t ? nextafterf(nearest, -INFINITY) : nearest;
}

#endif
