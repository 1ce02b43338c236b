/* OpenMP calls that also compile without OpenMP. */
#ifndef HYBRIDTREES_OPENMP_SHIM_H
#define HYBRIDTREES_OPENMP_SHIM_H

#ifdef _OPENMP
#include <omp.h>
#define HT_HAS_OPENMP 1
#else
#define HT_HAS_OPENMP 0
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_max_threads(void) { return 1; }
static inline double omp_get_wtime(void) { return 0.0; }
#endif

#endif
