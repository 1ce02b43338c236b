/* One row in the sorted list of a feature. */
#ifndef HYBRIDTREES_ENTRY_H
#define HYBRIDTREES_ENTRY_H

#include <stdint.h>

typedef struct {
    uint32_t key; /* rank of its value or code of its category; the largest key: missing */
    uint32_t row;
} ht_entry;

#endif
