"""OpenMP calls, harmless where the compiler has no OpenMP."""

cdef extern from "openmp_shim.h" nogil:
    int HT_HAS_OPENMP
    int omp_get_thread_num()
    int omp_get_num_threads()
    int omp_get_max_threads()
    int omp_in_parallel()
    double omp_get_wtime()
