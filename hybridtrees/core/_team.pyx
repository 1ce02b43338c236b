"""Threads that go on alone while the cores are busy with other work.

A region that threads share ends when the last of them ends. Where another process holds a core,
that takes as long as a turn of the scheduler, which is many times what a small node takes alone. So
the time of every node is held against what there was to do and how quickly that was done at best,
which depends on the search. After a long wait, small nodes are left to one thread until they have
taken several times as long as the wait: on a busy machine waiting is a small part of the time, and
where it was an accident the threads soon meet again.
Results do not depend on the number of threads.

Nor does a team insist on its size: where the system does not let it start all its threads, those
that it has do the work.
"""

from hybridtrees.core._types cimport float64_t

cdef extern from "start_threads.h" nogil:
    int ht_startable(int n, bint allocating)
    int ht_team_of(int n)


cdef int team_of(int n_threads) noexcept nogil:
    """Threads for a parallel region that wants so many: fewer where no more can be started.

    To be asked by the thread that opens the region, and for that region only. All regions of this
    thread must ask, so that it is known how many threads wait for the next one.
    """
    return ht_team_of(n_threads)


def startable_threads(int n_threads):
    """How many of so many threads can be started beside this one, which can do the work of one."""
    cdef int n
    if n_threads <= 1:
        return n_threads
    with nogil:
        n = ht_startable(n_threads, True)
    return n


def team_threads(int n_threads):
    """Threads that a parallel region of this thread would get; for tests."""
    return team_of(n_threads)


def team_sizes(int n_threads, const float64_t[::1] updates, const float64_t[:, ::1] seconds):
    """Threads that a team takes for nodes one after the other; for tests.

    Parameters
    ----------
    n_threads : int
    updates : float64 array
        What there is to do for each node.
    seconds : float64 array of shape (n_nodes, 2)
        How long it takes one thread, and all of them.
    """
    cdef Team team
    cdef Py_ssize_t k
    open_team(&team, n_threads)
    sizes = []
    for k in range(updates.shape[0]):
        sizes.append(team_size(&team, updates[k]))
        note_time(&team, sizes[k], updates[k], seconds[k, 0 if sizes[k] == 1 else 1])
    return sizes
