/* The loop that adds rows to a histogram, specialised by literal flags.
 *
 * It is C because every level must be inlined for the flags to become constants, which only a
 * compiler attribute can force. */
#ifndef HYBRIDTREES_ACCUMULATE_H
#define HYBRIDTREES_ACCUMULATE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"
#include "constants.h"

/* How many rows ahead codes are prefetched: about the latency of memory. */
#define HT_PREFETCH_ROWS 16
/* The same for rows in order. Narrow records may be written in blocks of rows before they are
 * read; for wide ones the hardware prefetcher does not load the next line in time. */
#define HT_AHEAD_NARROW 320
#define HT_AHEAD_WIDE 32

typedef struct {
    const uint8_t *records;     /* row-major codes */
    ptrdiff_t record_bytes;
    const uint32_t *cell_start; /* first cell of each feature */
    const uint8_t *stats;       /* quantised statistics */
    ptrdiff_t stats_stride;     /* in bytes */
    int count_bits;
    const uint32_t *rows;       /* row ids, NULL: the row numbers themselves */
    ptrdiff_t row_start, row_stop;
    const int32_t *features;    /* feature list, NULL: all in [first, last) */
    int32_t first, last;
    int64_t *hist;
} HtAccumulation;

HT_INLINE void ht_add(int64_t *origin, size_t cell, int64_t word0, int64_t word1, int two_words) {
    if (two_words) {
        origin[2 * cell] += word0;
        origin[2 * cell + 1] += word1;
    } else {
        origin[cell] += word0;
    }
}

/* Add a row to the cells of the features [f, f + count), whose codes are the bytes of `codes`.
 * With a constant distance between features the address needs no load and no arithmetic. */
HT_INLINE void ht_add_codes(const HtAccumulation *a, size_t f, uint64_t codes, int count,
                            int64_t word0, int64_t word1, int two_words, int uniform) {
    const size_t words = two_words ? 2 : 1;
    if (uniform) {
        int64_t *origin = a->hist + f * (HT_UNIFORM_CELLS * words);
        for (int k = 0; k < count; k++)
            ht_add(origin + k * (HT_UNIFORM_CELLS * words), (codes >> (8 * k)) & 255, word0,
                   word1, two_words);
    } else {
        for (int k = 0; k < count; k++)
            ht_add(a->hist, (size_t) a->cell_start[f + k] + ((codes >> (8 * k)) & 255), word0,
                   word1, two_words);
    }
}

/* Add one row to the cells of the features [first, last). Codes are read sixteen at a time: the
 * compiler could not move a byte load before a store to the histogram, which might overlap with
 * it. (Eight at a time took 10 % longer.) */
HT_INLINE void ht_add_row(const HtAccumulation *a, const uint8_t *record, int64_t word0,
                          int64_t word1, int two_words, int uniform) {
    size_t f = (size_t) a->first, last = (size_t) a->last;
    for (; f + 16 <= last; f += 16) {
        uint64_t low, high;
        memcpy(&low, record + f, 8);
        memcpy(&high, record + f + 8, 8);
        ht_add_codes(a, f, low, 8, word0, word1, two_words, uniform);
        ht_add_codes(a, f + 8, high, 8, word0, word1, two_words, uniform);
    }
    if (f + 8 <= last) {
        uint64_t codes;
        memcpy(&codes, record + f, 8);
        ht_add_codes(a, f, codes, 8, word0, word1, two_words, uniform);
        f += 8;
    }
    if (f + 4 <= last) {
        uint32_t codes;
        memcpy(&codes, record + f, 4);
        ht_add_codes(a, f, codes, 4, word0, word1, two_words, uniform);
        f += 4;
    }
    for (; f < last; f++)
        ht_add_codes(a, f, record[f], 1, word0, word1, two_words, uniform);
}

HT_INLINE void ht_add_listed(const HtAccumulation *a, const uint8_t *record, int64_t word0,
                             int64_t word1, int two_words) {
    for (int32_t j = a->first; j < a->last; j++) {
        int32_t f = a->features[j];
        ht_add(a->hist, (size_t) a->cell_start[f] + record[f], word0, word1, two_words);
    }
}

/* OUT the words that a row adds to its cells. */
HT_INLINE void ht_row_words(const uint8_t *stats, int layout, int count_bits, int64_t *word0,
                            int64_t *word1) {
    const int64_t scale = (int64_t) 1 << (layout == HT_PACKED16 ? 32 : count_bits);
    if (layout == HT_GRAD_ONLY) {
        int32_t grad;
        memcpy(&grad, stats, 4);
        *word0 = (int64_t) grad * scale + 1;
    } else if (layout == HT_PAIR32) {
        int32_t pair[2];
        memcpy(pair, stats, 8);
        *word0 = pair[0];
        *word1 = (int64_t) pair[1] * scale + (count_bits > 0);
    } else {
        int16_t grad;
        uint16_t hess;
        memcpy(&grad, stats, 2);
        memcpy(&hess, stats + 2, 2);
        *word0 = layout == HT_PACKED16 ? (int64_t) grad * scale + hess : grad;
        *word1 = hess;
    }
}

HT_INLINE void ht_accumulate_rows(const HtAccumulation *given, int layout, int use_rows,
                                  int use_list, int uniform) {
    /* A local copy, so that its fields can stay in registers across the stores. */
    const HtAccumulation a = *given;
    const int two_words = layout == HT_PAIR16 || layout == HT_PAIR32;
    const int wide = a.record_bytes > 64; /* the codes may lie in two cache lines */
    const ptrdiff_t in_order = (wide ? HT_AHEAD_WIDE : HT_AHEAD_NARROW) * a.record_bytes;
    for (ptrdiff_t i = a.row_start; i < a.row_stop; i++) {
        ptrdiff_t row = use_rows ? (ptrdiff_t) a.rows[i] : i;
        const uint8_t *record = a.records + row * a.record_bytes;
        const uint8_t *stats = a.stats + row * a.stats_stride;
        int64_t word0, word1 = 0;
        if (use_rows && i + HT_PREFETCH_ROWS < a.row_stop) {
            ptrdiff_t ahead = (ptrdiff_t) a.rows[i + HT_PREFETCH_ROWS];
            HT_PREFETCH(a.records + ahead * a.record_bytes + a.first);
            if (wide)
                HT_PREFETCH(a.records + ahead * a.record_bytes + a.last - 1);
            HT_PREFETCH(a.stats + ahead * a.stats_stride);
        }
        if (!use_rows) {
            uintptr_t ahead = (uintptr_t) record + in_order;
            HT_PREFETCH((const void *) (ahead + a.first));
            if (wide)
                HT_PREFETCH((const void *) (ahead + a.last - 1));
        }
        ht_row_words(stats, layout, a.count_bits, &word0, &word1);
        if (use_list)
            ht_add_listed(&a, record, word0, word1, two_words);
        else
            ht_add_row(&a, record, word0, word1, two_words, uniform);
    }
}

#define HT_ACCUMULATE_LAYOUT(layout)                                                          \
    static void ht_accumulate_##layout(const HtAccumulation *a, int uniform)                  \
    {                                                                                         \
        if (a->features != NULL)                                                              \
            ht_accumulate_rows(a, layout, 1, 1, 0);                                           \
        else if (a->rows == NULL && uniform)                                                  \
            ht_accumulate_rows(a, layout, 0, 0, 1);                                           \
        else if (a->rows == NULL)                                                             \
            ht_accumulate_rows(a, layout, 0, 0, 0);                                           \
        else if (uniform)                                                                     \
            ht_accumulate_rows(a, layout, 1, 0, 1);                                           \
        else                                                                                  \
            ht_accumulate_rows(a, layout, 1, 0, 0);                                           \
    }

HT_ACCUMULATE_LAYOUT(HT_GRAD_ONLY)
HT_ACCUMULATE_LAYOUT(HT_PAIR16)
HT_ACCUMULATE_LAYOUT(HT_PAIR32)
HT_ACCUMULATE_LAYOUT(HT_PACKED16)

/* Add rows to the histogram; a list of features requires row ids. */
static void ht_accumulate(const HtAccumulation *a, int layout, int uniform) {
    if (layout == HT_GRAD_ONLY)
        ht_accumulate_HT_GRAD_ONLY(a, uniform);
    else if (layout == HT_PAIR16)
        ht_accumulate_HT_PAIR16(a, uniform);
    else if (layout == HT_PAIR32)
        ht_accumulate_HT_PAIR32(a, uniform);
    else
        ht_accumulate_HT_PACKED16(a, uniform);
}

/* ---- Entries of rows -------------------------------------------------------------------- */

typedef struct {
    const int64_t *row_start;   /* first entry of each row */
    const uint8_t *cells;       /* cells of the entries, uint16 or uint32 */
    ptrdiff_t total;            /* the cell that all rows are added to */
    const uint8_t *stats;
    ptrdiff_t stats_stride;
    int count_bits;
    const uint32_t *rows;       /* row ids, NULL: the row numbers themselves */
    ptrdiff_t row_start_at, row_stop_at;
    int64_t *hist;
} HtStoredAccumulation;

HT_INLINE size_t ht_cell(const uint8_t *cells, int64_t entry, int wide) {
    return wide ? ((const uint32_t *) cells)[entry] : ((const uint16_t *) cells)[entry];
}

HT_INLINE void ht_add_entries(const HtStoredAccumulation *given, int layout, int use_rows,
                              int wide) {
    const HtStoredAccumulation a = *given;
    const int two_words = layout == HT_PAIR16 || layout == HT_PAIR32;
    int64_t total0 = 0, total1 = 0;
    for (ptrdiff_t i = a.row_start_at; i < a.row_stop_at; i++) {
        ptrdiff_t row = use_rows ? (ptrdiff_t) a.rows[i] : i;
        int64_t entry = a.row_start[row], last = a.row_start[row + 1], word0, word1 = 0;
        if (use_rows && i + 2 * HT_PREFETCH_ROWS < a.row_stop_at) {
            ptrdiff_t ahead = (ptrdiff_t) a.rows[i + HT_PREFETCH_ROWS];
            HT_PREFETCH(a.row_start + a.rows[i + 2 * HT_PREFETCH_ROWS]);
            HT_PREFETCH(a.cells + a.row_start[ahead] * (wide ? 4 : 2));
            HT_PREFETCH(a.stats + ahead * a.stats_stride);
        }
        ht_row_words(a.stats + row * a.stats_stride, layout, a.count_bits, &word0, &word1);
        total0 += word0;
        total1 += word1;
        /* Four cells are read before the first is added to: as far as the compiler knows, a store
         * to the histogram may change the next ones. */
        for (; entry + 4 <= last; entry += 4) {
            size_t cell[4];
            for (int k = 0; k < 4; k++)
                cell[k] = ht_cell(a.cells, entry + k, wide);
            for (int k = 0; k < 4; k++)
                ht_add(a.hist, cell[k], word0, word1, two_words);
        }
        for (; entry < last; entry++)
            ht_add(a.hist, ht_cell(a.cells, entry, wide), word0, word1, two_words);
    }
    ht_add(a.hist, (size_t) a.total, total0, total1, two_words);
}

#define HT_ADD_ENTRIES(layout)                                                                \
    static void ht_add_entries_##layout(const HtStoredAccumulation *a, int wide)              \
    {                                                                                         \
        if (a->rows == NULL && wide)                                                          \
            ht_add_entries(a, layout, 0, 1);                                                  \
        else if (a->rows == NULL)                                                             \
            ht_add_entries(a, layout, 0, 0);                                                  \
        else if (wide)                                                                        \
            ht_add_entries(a, layout, 1, 1);                                                  \
        else                                                                                  \
            ht_add_entries(a, layout, 1, 0);                                                  \
    }

HT_ADD_ENTRIES(HT_GRAD_ONLY)
HT_ADD_ENTRIES(HT_PAIR16)
HT_ADD_ENTRIES(HT_PAIR32)
HT_ADD_ENTRIES(HT_PACKED16)

/* Add the entries of rows, and the rows to the total. */
HT_UNUSED static void ht_accumulate_stored(const HtStoredAccumulation *a, int layout, int wide) {
    if (layout == HT_GRAD_ONLY)
        ht_add_entries_HT_GRAD_ONLY(a, wide);
    else if (layout == HT_PAIR16)
        ht_add_entries_HT_PAIR16(a, wide);
    else if (layout == HT_PAIR32)
        ht_add_entries_HT_PAIR32(a, wide);
    else
        ht_add_entries_HT_PACKED16(a, wide);
}

#endif
