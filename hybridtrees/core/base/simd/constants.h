/* Constants of C, Cython (through _types.pxd) and Python (through the module _types). */
#ifndef HYBRIDTREES_CONSTANTS_H
#define HYBRIDTREES_CONSTANTS_H

/* Storage of the statistics of a row: see StatsLayout in _types.pxd. PACKED16 is PAIR16 with both
 * sums in one word while a histogram is filled. */
enum StatsLayout { HT_GRAD_ONLY = 0, HT_PAIR16 = 1, HT_PAIR32 = 2, HT_PACKED16 = 3 };

enum Limit {
    HT_CODES = 256,         /* of a binned feature: its bins, and missing values */
    HT_MAX_BINS = 255,
    HT_UNIFORM_CELLS = 272, /* cells per feature in a uniform histogram: the codes, and padding so
                             * that features do not share cache sets */
    HT_MAX_REGRESSORS = 16, /* of a node of PLGB */
    HT_MISSING_STAYS = 2,   /* missing_left: rows without a value stay at their node */
    HT_SHORT_SET = 8        /* words up to which a category set is always stored as bits */
};

/* Keys of the exact search: a missing value, and the split key with which all values go left. */
#define HT_MISSING_KEY 0xFFFFFFFFu
#define HT_ALL_KEYS 0xFFFFFFFEu

/* Relative tolerances. Gains that differ by less than a TIE are equal: the lower feature wins. */
#define HT_TIE_BINNED 1e-7      /* integer sums: each statistic was rounded to about 1e-9 */
#define HT_TIE_SORTED 1e-11     /* float64 sums along lists in different orders */
#define HT_TIE_DRAWN 1e-10      /* a random cut among equal ones: wider than TIE_SORTED, so that all
                                 * cuts that tie with the best one take part */
/* Gains of the exact search are differences of scores, and lose digits where the scores are much
 * larger: these are shares of the node's score. */
#define HT_TIE_CUTS 1e-13       /* cuts of one feature: sums from both ends of a list */
#define HT_TIE_FEATURES 1e-14   /* cuts of two features: the scores are rounded once each */
#define HT_TIE_SQUARES 1e-22    /* squared difference of two means, as a share of the mean square:
                                 * the square of TIE_SORTED */
#define HT_ROUNDING 1e-12       /* error of a float64 sum of many rows */
#define HT_EQUAL_RATIO 8e-16    /* w y / w of equal targets y differ by the rounding of products */
#define HT_WHOLE 1e-9           /* sums of hessians that count rows are whole numbers up to this */
#define HT_DEPENDENT 1e-7       /* a column is dependent if its residual on earlier columns has a
                                 * smaller share of its sum of squares */
#define HT_CONSTANT 1e-10       /* a column is constant if centring leaves at most this share of its
                                 * sum of squares */
#define HT_CONSTANT_SCALED 1e-13 /* the same of a column that was standardised in the whole table, or
                                 * for its standard deviation as a share of the mean */
#define HT_ZERO_GAIN 1e-9       /* a loss of at most this share of the node's score is a gain of 0 */

/* Bounds that keep numbers positive. */
#define HT_TINY 1e-300          /* a divisor, or the argument of a logarithm */
#define HT_MIN_HESSIAN 1e-16    /* a leaf of confident predictions still has a weight */

/* Newton's method: a step is halved until the objective falls by this share of what its slope
 * predicts (Armijo 1966), or until the step is too small to matter. */
#define HT_DECREASE 1e-4
#define HT_SMALLEST_STEP 1e-10

#endif
