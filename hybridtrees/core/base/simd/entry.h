/* One row in the sorted list of a feature. */
#ifndef HYBRIDTREES_ENTRY_H
#define HYBRIDTREES_ENTRY_H

#include <stdint.h>

typedef struct {
    uint32_t key; /* rank of its value, code of its category; the largest: missing */
    uint32_t row;
} ht_entry;

#endif
