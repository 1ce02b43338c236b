/* What a thread remembers between two looks for an interruption. */
#ifndef HYBRIDTREES_INTERRUPT_H
#define HYBRIDTREES_INTERRUPT_H

#include <stddef.h>
#include <time.h>

#include "compiler.h"

/* The flag that stops this thread; NULL: it stops when a signal handler of Python raises. */
static HT_THREAD_LOCAL const volatile int *ht_stop_flag = NULL;
static HT_THREAD_LOCAL double ht_last_look = 0;

static inline void ht_use_flag(const int *flag) { ht_stop_flag = flag; }

/* Whether the flag of this thread is set; -1: it has none. */
static inline int ht_flag(void) { return ht_stop_flag == NULL ? -1 : *ht_stop_flag; }

/* Whether the last time that this was true is a while ago. */
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
