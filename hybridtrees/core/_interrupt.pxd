"""Whether a long computation is to be given up; see _interrupt.pyx."""

from hybridtrees.core._openmp cimport omp_get_thread_num


cdef bint interrupted() noexcept nogil


cdef inline bint team_stops(int* stopped) noexcept nogil:
    """The same for all threads of a parallel region, which share `stopped`."""
    if not stopped[0] and omp_get_thread_num() == 0 and interrupted():
        stopped[0] = True
    return stopped[0]


cdef inline int raise_stop(bint stopped) except -1 nogil:
    """Raise the exception that was set, behind the region where that happened."""
    return -1 if stopped else 0
