/* State of a thread between two checks for an interrupt. */
#ifndef HYBRIDTREES_INTERRUPT_H
#define HYBRIDTREES_INTERRUPT_H

#include <stddef.h>
#include <time.h>

#include "compiler.h"

/* The flag that stops this thread; NULL: it stops if a Python signal handler raises. */
static HT_THREAD_LOCAL const volatile int *ht_stop_flag = NULL;
static HT_THREAD_LOCAL double ht_last_look = 0;

static inline void ht_use_flag(const int *flag) { ht_stop_flag = flag; }

/* The flag of this thread; -1: it has none. */
static inline int ht_flag(void) { return ht_stop_flag == NULL ? -1 : *ht_stop_flag; }

/* Whether 20 ms have passed since this was last true. */
static inline int ht_time_to_look(void) {
    struct timespec now;
    double seconds;
    timespec_get(&now, TIME_UTC);
    seconds = (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
    if (seconds >= ht_last_look && seconds < ht_last_look + 0.02)
        return 0;
    ht_last_look = seconds;
    return 1;
}

#endif
