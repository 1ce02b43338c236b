"""OpenMP calls, with serial substitutes if the compiler has no OpenMP."""

cdef extern from "openmp_shim.h" nogil:
    int HT_HAS_OPENMP
    int omp_get_thread_num()
    int omp_get_max_threads()
    double omp_get_wtime()
