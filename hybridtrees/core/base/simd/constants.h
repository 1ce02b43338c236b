/* Numbers that C, Cython and Python share. Cython reads them through _types.pxd, Python through
 * the module _types. */
#ifndef HYBRIDTREES_CONSTANTS_H
#define HYBRIDTREES_CONSTANTS_H

/* How the statistics of a row are stored: see StatsLayout in _types.pxd. The last is PAIR16 whose
 * two sums share a word while a histogram is filled. */
enum StatsLayout { HT_GRAD_ONLY = 0, HT_PAIR16 = 1, HT_PAIR32 = 2, HT_PACKED16 = 3 };

enum Limit {
    HT_CODES = 256,         /* of a binned feature: of its bins, and one for missing values */
    HT_MAX_BINS = 255,
    HT_UNIFORM_CELLS = 272, /* cells from one feature to the next where all have as many: the
                             * codes, and padding against sets of the cache that all share */
    HT_MAX_REGRESSORS = 16, /* of a node of PLGB */
    HT_MISSING_STAYS = 2    /* in place of a side: rows without a value stay at their node */
};

/* Key of a missing value in the exact search. The one below it as the last key that goes left
 * means that all values do. */
#define HT_MISSING_KEY 0xFFFFFFFFu
#define HT_ALL_KEYS 0xFFFFFFFEu

/* Relative differences. Two gains that differ by less are equal, and the lower feature wins. */
#define HT_TIE_BINNED 1e-7      /* sums of integers: each statistic was rounded to about 1e-9 */
#define HT_TIE_SORTED 1e-11     /* sums of float64 along lists whose order differs */
#define HT_ROUNDING 1e-12       /* error of a float64 sum of many rows; less is nothing */
#define HT_DEPENDENT 1e-7       /* share of a column's square that the columns before must leave */

#endif
