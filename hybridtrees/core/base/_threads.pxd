"""What all rooms need: threads, and when to give up; sums in any order."""

from libc.math cimport INFINITY

from hybridtrees.core.base._exact_sum cimport HtExactSum
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._types cimport float64_t, intp_t


cdef bint interrupted() noexcept nogil


cdef inline bint team_stops(int* stopped) noexcept nogil:
    """The same for all threads of a parallel region, which share `stopped`."""
    if not stopped[0] and omp_get_thread_num() == 0 and interrupted():
        stopped[0] = True
    return stopped[0]


cdef inline int raise_stop(bint stopped) except -1 nogil:
    """Raise the exception that was set, behind the region where that happened."""
    return -1 if stopped else 0


cdef int team_of(int n_threads) noexcept nogil


cdef inline int threads_for(int n_threads, intp_t n_rows, intp_t least) noexcept nogil:
    """Threads among which rows are shared: each has some, or is not worth waking."""
    return <int>max(1, min(<intp_t>n_threads, n_rows // least))


cdef struct Team:
    int n_threads
    float64_t rate               # least seconds per update that a node has taken
    float64_t owed               # seconds that small nodes are still left to one thread


cdef inline void open_team(Team* team, int n_threads) noexcept nogil:
    team.n_threads = n_threads
    team.rate = INFINITY
    team.owed = 0


cdef inline int team_size(const Team* team, float64_t updates) noexcept nogil:
    """Threads for a node; `updates` of cells are what there is to do."""
    return 1 if team.owed > 0 and updates < 4e6 else team.n_threads


cdef inline void note_time(
    Team* team, int n_threads, float64_t updates, float64_t seconds
) noexcept nogil:
    """Take notice of the time that a node took with some threads."""
    cdef float64_t usual = 1e-3 + 32 * team.rate * updates
    if seconds <= 0:                        # the clock was set back
        return
    if n_threads == 1:
        team.owed -= seconds
    elif seconds > usual:
        # What stopped all threads, for minutes perhaps, says little about the cores.
        team.owed = min(8 * (seconds - usual), 0.25)
    team.rate = min(team.rate, seconds / updates)


cdef class ExactSum:
    cdef HtExactSum sum
