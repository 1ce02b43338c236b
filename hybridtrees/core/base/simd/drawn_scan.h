/* The rows of a small node in the order of one binned feature, and their best cut.
 *
 * C for the same reason as sorted_scan.h. Candidates and ties are those of sorted_scan.h, so that
 * both find the same cut. */
#ifndef HYBRIDTREES_DRAWN_SCAN_H
#define HYBRIDTREES_DRAWN_SCAN_H

#include <math.h>
#include <string.h>

#include "sorted_scan.h"

#define HT_FEW_ROWS 64            /* up to so many rows are sorted by comparing all pairs */

#if defined(__GNUC__)
typedef int16_t ht_lanes __attribute__((vector_size(16)));

/* OUT the rank of each of n distinct non-negative keys, in blocks of 8 lanes. */
HT_INLINE void ht_places_body(const int16_t *keys, intptr_t n, int16_t *places, int blocks) {
    ht_lanes key[HT_FEW_ROWS / 8], place[HT_FEW_ROWS / 8];
    intptr_t j;
    int b;
    for (b = 0; b < blocks; b++) {
        memcpy(&key[b], keys + 8 * b, 16);
        place[b] = (ht_lanes){0, 0, 0, 0, 0, 0, 0, 0};
    }
    for (j = 0; j < n; j++) {
        const int16_t k = keys[j];
        const ht_lanes all = {k, k, k, k, k, k, k, k};
        for (b = 0; b < blocks; b++)
            place[b] -= (ht_lanes)(key[b] > all); /* a true lane is -1 */
    }
    for (b = 0; b < blocks; b++)
        memcpy(places + 8 * b, &place[b], 16);
}
#else
HT_INLINE void ht_places_body(const int16_t *keys, intptr_t n, int16_t *places, int blocks) {
    intptr_t i, j;
    (void)blocks;
    for (i = 0; i < n; i++) {
        places[i] = 0;
        for (j = 0; j < n; j++)
            places[i] += keys[i] > keys[j];
    }
}
#endif

HT_INLINE intptr_t ht_lanes_for(intptr_t n) {
    return n <= 8 ? 8 : n <= 16 ? 16 : n <= 32 ? 32 : HT_FEW_ROWS;
}

static void ht_places(const int16_t *keys, intptr_t n, int16_t *places) {
    if (n <= 8)
        ht_places_body(keys, n, places, 1);
    else if (n <= 16)
        ht_places_body(keys, n, places, 2);
    else if (n <= 32)
        ht_places_body(keys, n, places, 4);
    else
        ht_places_body(keys, n, places, 8);
}

/* OUT the rows of a node sorted by code, as code * HT_FEW_ROWS + position in `rows`; stable. */
HT_INLINE void ht_order_few(const uint8_t *codes, const uint32_t *rows, intptr_t n,
                            uint16_t *order) {
    int16_t keys[HT_FEW_ROWS], places[HT_FEW_ROWS];
    intptr_t i;
    for (i = 0; i < n; i++)
        keys[i] = (int16_t)(codes[rows[i]] * HT_FEW_ROWS + (int)i);
    /* Unused lanes must be initialised. */
    for (; i < ht_lanes_for(n); i++)
        keys[i] = 0;
    ht_places(keys, n, places);
    for (i = 0; i < n; i++)
        order[places[i]] = (uint16_t)keys[i];
}

/* OUT a node's rows as a sorted list, as `count_codes` and stable division of lists make it. */
static void ht_list_codes(const uint8_t *codes, const uint32_t *rows, intptr_t n, int missing_code,
                          ht_entry *out) {
    intptr_t i;
    if (n <= HT_FEW_ROWS) {
        uint16_t order[HT_FEW_ROWS];
        ht_order_few(codes, rows, n, order);
        for (i = 0; i < n; i++) {
            const int code = order[i] / HT_FEW_ROWS;
            out[i].key = code == missing_code ? HT_MISSING_KEY : (uint32_t)code;
            out[i].row = rows[order[i] % HT_FEW_ROWS];
        }
    } else {
        uint32_t place[HT_CODES], total = 0;
        int b;
        memset(place, 0, sizeof(place));
        for (i = 0; i < n; i++)
            place[codes[rows[i]]]++;
        for (b = 0; b < HT_CODES; b++) {
            const uint32_t count = place[b];
            place[b] = total;
            total += count;
        }
        for (i = 0; i < n; i++) {
            const uint32_t row = rows[i];
            const int code = codes[row];
            const uint32_t to = place[code]++;
            out[to].key = code == missing_code ? HT_MISSING_KEY : (uint32_t)code;
            out[to].row = row;
        }
    }
}

/* A node whose rows have a target and a weight each. */
typedef struct {
    const double *stats;      /* (w y, w) of its rows, in their order */
    double sum, weight;
    double least_weight;      /* of a child */
    double bar;               /* score that a candidate has to beat */
    double noise;             /* scores that differ by less are equal */
    double slack;             /* the same for a draw among equal cuts */
    intptr_t first, last;     /* candidates: cuts after first + 1 to last rows */
} ht_pairs;

typedef struct {
    double score, bar;        /* of the best candidate; the score that the next has to beat */
    double near;              /* from this score on a candidate may be equally good */
    intptr_t n_left;          /* rows on the left of the best cut, 0: none */
    int tied;                 /* whether another candidate may be equally good */
} ht_found;

HT_INLINE void ht_offer(ht_found *found, const ht_pairs *node, double mean, double sum,
                        double weight, intptr_t n_left) {
    const double d = sum - weight * mean;
    const double score = d * d / (weight * (node->weight - weight));
    /* Most candidates fail this test. */
    if (score >= found->near) {
        const double least = score - 2 * HT_TIE_DRAWN * score - node->slack;
        found->tied = found->n_left > 0 && (score <= found->bar || found->score >= least);
        if (score > found->bar) {
            found->bar = score + score * HT_TIE_SORTED + node->noise;
            found->near = least < node->bar ? node->bar : least;
            found->score = score;
            found->n_left = n_left;
        }
    }
}

/* Two rows: one candidate. */
HT_INLINE void ht_cut_two(const ht_pairs *node, const uint8_t *codes, const uint32_t *rows,
                          ht_found *found) {
    const int a = codes[rows[0]], b = codes[rows[1]];
    const double *left = node->stats + (a < b ? 0 : 2);
    if (a != b && node->first < node->last && left[1] >= node->least_weight
        && node->weight - left[1] >= node->least_weight)
        ht_offer(found, node, node->sum / node->weight, left[0], left[1], 1);
}

HT_INLINE int ht_cut_few(const ht_pairs *node, const uint8_t *codes, const uint32_t *rows,
                         intptr_t n, int missing_code, ht_found *found) {
    const double least = node->least_weight, total = node->weight, mean = node->sum / total;
    double sum = 0.0, weight = 0.0;
    uint16_t order[HT_FEW_ROWS];
    intptr_t i;
    ht_order_few(codes, rows, n, order);
    if (order[n - 1] / HT_FEW_ROWS == missing_code)
        return 0;
    for (i = 0; i < node->last; i++) {
        const double *row = node->stats + 2 * (order[i] % HT_FEW_ROWS);
        const int differs = order[i] / HT_FEW_ROWS != order[i + 1] / HT_FEW_ROWS;
        sum += row[0];
        weight += row[1];
        if (differs && i >= node->first && weight >= least && total - weight >= least)
            ht_offer(found, node, mean, sum, weight, i + 1);
    }
    return 1;
}

/* Many rows: sums by code instead of a sorted list. Terms are added in another order than in a
 * list, so scores may differ in the last digits. */
HT_INLINE int ht_cut_many(const ht_pairs *node, const uint8_t *codes, const uint32_t *rows,
                          intptr_t n, int missing_code, ht_found *found) {
    const double least = node->least_weight, total = node->weight, mean = node->sum / total;
    const double *stats = node->stats;
    double cells[2 * HT_CODES], others[2 * HT_CODES], sum = 0.0, weight = 0.0;
    uint32_t counts[HT_CODES];
    const int n_codes = missing_code < HT_CODES ? missing_code + 1 : HT_CODES;
    intptr_t i, n_left = 0;
    int code;
    memset(cells, 0, 2 * n_codes * sizeof(double));
    memset(others, 0, 2 * n_codes * sizeof(double));
    memset(counts, 0, n_codes * sizeof(uint32_t));
    /* Two sets of sums: if most rows have the same code, each addition waits for the last one. */
    for (i = 0; i + 1 < n; i += 2) {
        const int a = codes[rows[i]], b = codes[rows[i + 1]];
        cells[2 * a] += stats[2 * i];
        cells[2 * a + 1] += stats[2 * i + 1];
        others[2 * b] += stats[2 * i + 2];
        others[2 * b + 1] += stats[2 * i + 3];
        counts[a]++;
        counts[b]++;
    }
    if (i < n) {
        const int a = codes[rows[i]];
        cells[2 * a] += stats[2 * i];
        cells[2 * a + 1] += stats[2 * i + 1];
        counts[a]++;
    }
    if (missing_code < HT_CODES && counts[missing_code] > 0)
        return 0;
    for (code = 0; n_left < node->last; code++) {
        if (counts[code] == 0)
            continue;
        n_left += counts[code];
        sum += cells[2 * code] + others[2 * code];
        weight += cells[2 * code + 1] + others[2 * code + 1];
        if (n_left > node->first && n_left <= node->last && weight >= least
            && total - weight >= least)
            ht_offer(found, node, mean, sum, weight, n_left);
    }
    return 1;
}

static int ht_all_equal(const uint8_t *codes, const uint32_t *rows, intptr_t n) {
    const int code = codes[rows[0]];
    intptr_t i = 1;
    while (i < n && codes[rows[i]] == code)
        i++;
    return i >= n;
}

/* OUT the best cut of a node's rows by one feature, as ht_cut_pair finds it in their list. Returns
 * 0, without a result, if a value is missing. */
static int ht_cut_codes(const ht_pairs *node, const uint8_t *codes, const uint32_t *rows,
                        intptr_t n, int missing_code, ht_found *out) {
    const ht_pairs own = *node; /* copies, which can stay in registers */
    ht_found found = {0.0, own.bar, own.bar, 0, 0};
    int done = 1;
    if (ht_all_equal(codes, rows, n))
        ;
    else if (n == 2 && codes[rows[0]] != missing_code && codes[rows[1]] != missing_code)
        ht_cut_two(&own, codes, rows, &found);
    else if (n <= HT_FEW_ROWS)
        done = ht_cut_few(&own, codes, rows, n, missing_code, &found);
    else
        done = ht_cut_many(&own, codes, rows, n, missing_code, &found);
    *out = found;
    return done;
}

/* OUT sum, weight and sum of squares of a node's pairs, as in `sum_rows`, and a copy of the pairs;
 * returns 0 if all targets are equal. */
static int ht_sum_pairs(const double *stats, const uint32_t *rows, intptr_t n, double *copy,
                        double *totals) {
    const double *first = stats + 2 * (intptr_t)rows[0];
    double sum = 0.0, weight = 0.0, square = 0.0;
    int differs = 0;
    intptr_t i;
    for (i = 0; i < n; i++) {
        const double *row = stats + 2 * (intptr_t)rows[i];
        const double other = first[0] * row[1];
        copy[2 * i] = row[0];
        copy[2 * i + 1] = row[1];
        sum += row[0];
        weight += row[1];
        differs |= fabs(row[0] * first[1] - other) > HT_EQUAL_RATIO * fabs(other);
        if (row[1] > 0)
            square += row[0] * row[0] / row[1];
    }
    totals[0] = sum;
    totals[1] = weight;
    totals[2] = square;
    return differs;
}

/* The same for targets of weight 1; the copy has pairs. */
static int ht_sum_units(const double *stats, const uint32_t *rows, intptr_t n, double *copy,
                        double *totals) {
    const double first = stats[rows[0]];
    double sum = 0.0, square = 0.0;
    int differs = 0;
    intptr_t i;
    for (i = 0; i < n; i++) {
        const double y = stats[rows[i]];
        copy[2 * i] = y;
        copy[2 * i + 1] = 1.0;
        sum += y;
        square += y * y;
        differs |= y != first;
    }
    totals[0] = sum;
    totals[1] = (double)n;
    totals[2] = square;
    return differs;
}

#endif
