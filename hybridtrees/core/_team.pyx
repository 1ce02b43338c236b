"""Threads that go on alone while the cores are busy with other work.

A region that threads share ends when the last of them ends. Where another process holds a core,
that takes as long as a turn of the scheduler, which is many times what a small node takes alone. So
the time of every node is held against what there was to do and how quickly that was done at best,
which depends on the search. After a long wait, small nodes are left to one thread until they have
taken several times as long as the wait: on a busy machine waiting is a small part of the time, and
where it was an accident the threads soon meet again.
Results do not depend on the number of threads.
"""

from hybridtrees.core._types cimport float64_t


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
