/* Sums that depend neither on the order of their terms nor on a division into partial sums.
 *
 * Pre-rounded sums on a fixed grid (Demmel and Nguyen 2015, "Parallel reproducible summation"),
 * with integer accumulators. Every number is divided into slices, multiples of the units 2^(30 j):
 * adding 1.5 * 2^52 units to x rounds x to whole units, and the low bits of the result are that
 * integer. A slice has at most 29 bits and a sign, so that 2^34 of them can be added in an int64.
 * The three highest slices of the largest term are kept; the rest of each term is below 2^-60 of
 * the largest term.
 *
 * The slices of a number do not depend on other numbers, and integer addition commutes. A term with
 * a higher slice drops the lowest sum, with the same result in any order. */
#ifndef HYBRIDTREES_EXACT_SUM_H
#define HYBRIDTREES_EXACT_SUM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HT_SUM_BITS 30
#define HT_SUM_EMPTY (-1000)

typedef struct {
    int64_t word[3];
    int32_t top; /* j of the highest slice, HT_SUM_EMPTY while all terms are 0 */
    int32_t odd; /* bits 1, 2 and 4: whether inf, -inf and NaN are among the terms */
} HtExactSum;

static inline double ht_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

static inline uint64_t ht_to_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

/* 2^exponent, which must be a normal number. */
static inline double ht_power_of_two(int exponent) {
    return ht_from_bits((uint64_t) (exponent + 1023) << 52);
}

#define HT_BODY "exact_sum_body.h"
#define HT_WHOLE_VECTORS
#include "per_width.h"

#define ht_largest_float(width, ...) HT_DISPATCH(width, ht_largest_float, __VA_ARGS__)

static inline void ht_clear_sum(HtExactSum *sum) {
    sum->top = HT_SUM_EMPTY;
    sum->odd = 0;
    sum->word[0] = sum->word[1] = sum->word[2] = 0;
}

/* Make room for terms whose highest slice is `top`. */
static inline void ht_raise_sum(HtExactSum *sum, int top) {
    const int by = top - sum->top;
    if (by <= 0)
        return;
    sum->word[2] = by == 1 ? sum->word[1] : by == 2 ? sum->word[0] : 0;
    sum->word[1] = by == 1 ? sum->word[0] : 0;
    sum->word[0] = 0;
    sum->top = top;
}

static inline void ht_merge_sum(HtExactSum *sum, const HtExactSum *other) {
    ht_raise_sum(sum, other->top);
    for (int k = 0; k < 3; k++) {
        const int at = sum->top - other->top + k;
        if (at < 3)
            sum->word[at] += other->word[k];
    }
    sum->odd |= other->odd;
}

/* Highest slice of a number, given its bits without the sign. */
static inline int ht_top_slice(uint64_t bits) {
    int exponent = (int) (bits >> 52) - 1022;
    if (exponent == -1022)
        frexp(ht_from_bits(bits), &exponent);
    return (exponent + 1200) / HT_SUM_BITS - 1200 / HT_SUM_BITS; /* rounded down */
}

/* OUT the constants that round to the units of the three highest slices; returns a factor for the
 * terms, which keeps all units normal numbers near the ends of the range of doubles. */
static inline double ht_rounders(int top, double *c) {
    const int shift = top > 30 ? 4 : top < -30 ? -6 : 0;
    c[0] = 1.5 * ht_power_of_two(52 + HT_SUM_BITS * (top - shift));
    c[1] = c[0] / ((int64_t) 1 << HT_SUM_BITS);
    c[2] = c[1] / ((int64_t) 1 << HT_SUM_BITS);
    return ht_power_of_two(-HT_SUM_BITS * shift);
}

static inline void ht_add_term(HtExactSum *sum, double x) {
    const uint64_t infinite = (uint64_t) 0x7FF << 52, bits = ht_to_bits(fabs(x));
    double c[3], rest, moved;
    if (bits == 0)
        return;
    if (bits >= infinite) {
        sum->odd |= bits > infinite ? 4 : x > 0 ? 1 : 2;
        return;
    }
    ht_raise_sum(sum, ht_top_slice(bits));
    rest = x * ht_rounders(sum->top, c);
    for (int k = 0; k < 3; k++) {
        moved = rest + c[k];
        sum->word[k] += (int64_t) (ht_to_bits(moved) - ht_to_bits(c[k]));
        rest -= moved - c[k];
    }
}

static inline void ht_add_terms(int width, HtExactSum *sum, const double *x, ptrdiff_t n) {
    const uint64_t largest = HT_DISPATCH(width, ht_largest_bits, x, n);
    const int top = ht_top_slice(largest);
    uint64_t words[3];
    double c[3], factor;
    if (largest == 0)
        return;
    if (largest >= (uint64_t) 0x7FF << 52) {
        for (ptrdiff_t i = 0; i < n; i++)
            ht_add_term(sum, x[i]);
        return;
    }
    factor = ht_rounders(top, c);
    HT_DISPATCH(width, ht_slices, x, n, factor, c, words);
    ht_raise_sum(sum, top);
    for (int k = 0; k < 3; k++) {
        const int at = sum->top - top + k;
        if (at < 3)
            sum->word[at] += (int64_t) (words[k] - (uint64_t) n * ht_to_bits(c[k]));
    }
}

/* The sum, to about one unit in its last place. */
static inline double ht_sum_value(const HtExactSum *sum) {
    int64_t word[3], carry;
    double high, value;
    if (sum->odd)
        return sum->odd == 1 ? INFINITY : sum->odd == 2 ? -INFINITY : NAN;
    memcpy(word, sum->word, sizeof(word));
    for (int k = 2; k > 0; k--) { /* carry, so that no digits cancel below */
        carry = (word[k] + ((int64_t) 1 << 29)) >> HT_SUM_BITS;
        word[k] -= carry * ((int64_t) 1 << HT_SUM_BITS);
        word[k - 1] += carry;
    }
    high = (double) word[0];
    value = (double) (word[0] - (int64_t) high) * 1152921504606846976.0; /* 2^60 */
    value += (double) (word[1] * ((int64_t) 1 << HT_SUM_BITS) + word[2]);
    value += high * 1152921504606846976.0;
    if (sum->top < -30) /* the unit is not a normal number, or the sum is empty */
        return value == 0.0 ? 0.0 : ldexp(value, HT_SUM_BITS * (sum->top - 2));
    return value * ht_power_of_two(HT_SUM_BITS * (sum->top - 2));
}

#endif
