"""Threads that go on alone while the cores are busy with other work."""

from hybridtrees.core._types cimport float64_t, intp_t


cdef inline int threads_for(int n_threads, intp_t n_rows, intp_t least) noexcept nogil:
    """Threads among which rows are shared: each has some, or is not worth waking."""
    return <int>max(1, min(<intp_t>n_threads, n_rows // least))


cdef struct Team:
    int n_threads
    float64_t owed               # seconds that small nodes are still left to one thread


cdef inline int team_size(const Team* team, float64_t updates) noexcept nogil:
    """Threads for a node; `updates` of cells are what there is to do."""
    return 1 if team.owed > 0 and updates < 4e6 else team.n_threads


cdef inline void note_time(
    Team* team, int n_threads, float64_t updates, float64_t seconds
) noexcept nogil:
    """Take notice of the time that a node took with some threads."""
    if n_threads == 1:
        team.owed -= seconds
    elif seconds > 1e-3 + 1e-8 * updates:   # many times what one thread takes
        team.owed = 8 * seconds
