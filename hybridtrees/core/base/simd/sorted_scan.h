/* Best cut of one sorted list: the inner loops of the exact search.
 *
 * C because each loop must be compiled with its flags as constants, and compilers do not reliably
 * inline nested Cython functions.
 *
 * A candidate is a cut after entry i, i in [first, last), if the next entry has another key. The
 * sums start with those of rows that are always on the left (rows with a missing value). The first
 * of equal candidates wins: a later one must be better by more than rounding errors. */
#ifndef HYBRIDTREES_SORTED_SCAN_H
#define HYBRIDTREES_SORTED_SCAN_H

#include <stdint.h>

#include "compiler.h"
#include "constants.h"
#include "entry.h"

typedef struct {
    const ht_entry *entries;
    const double *stats;    /* of each row, `width` numbers */
    intptr_t first, last;   /* candidates */
    double left_sum, left_weight; /* of the left side before the first entry */
    double sum, weight;     /* of the whole node */
    double least_weight;    /* of a child */
    double lambda;
    double step;            /* minimum weight between two candidates */
    double bar;             /* IN/OUT score that a candidate has to beat */
    double noise;           /* scores that differ by less are equal */
    double score;           /* OUT of the best candidate, unchanged if there is none */
} ht_cut_scan;

#define HT_AHEAD 24         /* how many entries ahead statistics are prefetched */

/* One number per row, all weights 1: gain / total = d^2 / (n_left n_right), with d the sum of the
 * left rows minus n_left times the mean of the node. */
HT_INLINE intptr_t ht_cut_unit_body(ht_cut_scan *scan, int far) {
    const ht_entry *entries = scan->entries;
    const double *y = scan->stats;
    const double mean = scan->sum / scan->weight, total = scan->weight;
    double sum = scan->left_sum, count = scan->left_weight, bar = scan->bar;
    const double noise = scan->noise;
    intptr_t i, best = -1;
    const intptr_t first = scan->first, last = scan->last;
    for (i = 0; i < first; i++) {
        sum += y[entries[i].row];
        count += 1.0;
    }
    for (; i < last; i++) {
        if (far)
            HT_PREFETCH(y + entries[i + HT_AHEAD < last ? i + HT_AHEAD : last].row);
        sum += y[entries[i].row];
        count += 1.0;
        if (entries[i].key != entries[i + 1].key) {
            const double d = sum - count * mean;
            const double score = d * d / (count * (total - count));
            if (score > bar) {
                bar = score + score * HT_TIE_SORTED + noise;
                scan->score = score;
                best = i;
            }
        }
    }
    scan->bar = bar;
    return best;
}

/* Weighted: the same with weights instead of counts. Newton: the score of both sides. */
HT_INLINE intptr_t ht_cut_pair_body(ht_cut_scan *scan, int newton, int far) {
    const ht_entry *entries = scan->entries;
    const double *stats = scan->stats;
    const double all = scan->sum, total = scan->weight, lambda = scan->lambda;
    const double mean = newton ? 0.0 : all / total, least = scan->least_weight;
    double sum = scan->left_sum, weight = scan->left_weight, bar = scan->bar;
    double next = weight + scan->step;
    const double noise = scan->noise, step = scan->step;
    intptr_t i, best = -1;
    const intptr_t first = scan->first, last = scan->last;
    for (i = 0; i < first; i++) {
        sum += stats[2 * (intptr_t)entries[i].row];
        weight += stats[2 * (intptr_t)entries[i].row + 1];
    }
    for (; i < last; i++) {
        const double *row = stats + 2 * (intptr_t)entries[i].row;
        double score;
        if (far)
            HT_PREFETCH(stats + 2 * (intptr_t)entries[i + HT_AHEAD < last ? i + HT_AHEAD : last].row);
        sum += row[0];
        weight += row[1];
        if (entries[i].key == entries[i + 1].key || weight < least || total - weight < least
            || weight < next)
            continue;
        next = weight + step;
        if (newton) {
            const double rest = all - sum;
            const double a = weight + lambda, b = total - weight + lambda;
            score = (sum * sum * b + rest * rest * a) / (a * b);
        } else {
            const double d = sum - weight * mean;
            score = d * d / (weight * (total - weight));
        }
        if (score > bar) {
            bar = score + score * HT_TIE_SORTED + noise;
            scan->score = score;
            best = i;
        }
    }
    scan->bar = bar;
    return best;
}

/* Classes: sums of squares of the class weights on both sides, updated with every entry. `left` and
 * `right` hold one weight per class and are changed. */
HT_INLINE intptr_t ht_cut_class_body(ht_cut_scan *scan, double *left, double *right, int weighted) {
    const ht_entry *entries = scan->entries;
    const double *stats = scan->stats;
    const double total = scan->weight, least = scan->least_weight;
    double square_left = scan->left_sum, square_right = scan->sum;
    double weight = scan->left_weight, bar = scan->bar;
    const double noise = scan->noise;
    intptr_t i, best = -1;
    const intptr_t last = scan->last;
    for (i = 0; i < last; i++) {
        const double *row = stats + (weighted ? 2 : 1) * (intptr_t)entries[i].row;
        const intptr_t label = (intptr_t)row[0];
        const double w = weighted ? row[1] : 1.0;
        double score;
        square_left += w * (2.0 * left[label] + w);
        square_right -= w * (2.0 * right[label] - w);
        left[label] += w;
        right[label] -= w;
        weight += w;
        if (i < scan->first || entries[i].key == entries[i + 1].key || weight < least
            || total - weight < least)
            continue;
        score = (square_left * (total - weight) + square_right * weight)
                / (weight * (total - weight));
        if (score > bar) {
            bar = score + score * HT_TIE_SORTED + noise;
            scan->score = score;
            best = i;
        }
    }
    scan->bar = bar;
    return best;
}

static intptr_t ht_cut_unit(ht_cut_scan *scan, int far) {
    return far ? ht_cut_unit_body(scan, 1) : ht_cut_unit_body(scan, 0);
}

static intptr_t ht_cut_pair(ht_cut_scan *scan, int newton, int far) {
    if (newton)
        return far ? ht_cut_pair_body(scan, 1, 1) : ht_cut_pair_body(scan, 1, 0);
    return far ? ht_cut_pair_body(scan, 0, 1) : ht_cut_pair_body(scan, 0, 0);
}

static intptr_t ht_cut_class(ht_cut_scan *scan, double *left, double *right, int weighted) {
    return weighted ? ht_cut_class_body(scan, left, right, 1)
                    : ht_cut_class_body(scan, left, right, 0);
}

#endif
