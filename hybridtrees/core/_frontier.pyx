"""The order in which a tree's open nodes are split: a binary heap under one of three rules."""

from libc.stdlib cimport free, realloc

from hybridtrees.core._types cimport (
    BEST_FIRST, DEPTH_FIRST, DEPTH_WISE, float64_t, int32_t,
)

FRONTIERS = {"depth-wise": DEPTH_WISE, "best-first": BEST_FIRST, "depth-first": DEPTH_FIRST}


cdef class NodeQueue:
    """Open nodes: level by level (lower id first), best gain first, or newest first.

    Equal gains go to the lower id, so the order never depends on anything but the tree.
    """

    def __cinit__(self, str frontier):
        self.heap = NULL
        self.n_open = 0
        self.capacity = 0
        self.kind = FRONTIERS[frontier]

    def __dealloc__(self):
        free(self.heap)

    cdef bint goes_before(self, OpenNode a, OpenNode b) noexcept nogil:
        """Whether node a is split before node b."""
        if self.kind == BEST_FIRST and a.gain != b.gain:
            return a.gain > b.gain
        if self.kind == DEPTH_FIRST:
            return a.node > b.node
        return a.node < b.node

    cdef int push(self, int32_t node, float64_t gain) except -1 nogil:
        cdef int32_t i = self.n_open, up
        cdef OpenNode entry
        cdef OpenNode* heap
        entry.node = node
        entry.gain = gain
        if self.n_open == self.capacity:
            heap = <OpenNode*>realloc(self.heap, (2 * self.capacity + 64) * sizeof(OpenNode))
            if heap == NULL:
                with gil:
                    raise MemoryError("no memory for the open nodes of a tree")
            self.heap = heap
            self.capacity = 2 * self.capacity + 64
        self.n_open += 1
        while i > 0:
            up = (i - 1) // 2
            if not self.goes_before(entry, self.heap[up]):
                break
            self.heap[i] = self.heap[up]
            i = up
        self.heap[i] = entry
        return 0

    cdef int32_t pop(self) noexcept nogil:
        """The node whose turn it is; the queue must not be empty."""
        cdef OpenNode top = self.heap[0], last
        cdef int32_t i = 0, child
        self.n_open -= 1
        last = self.heap[self.n_open]
        while 2 * i + 1 < self.n_open:
            child = 2 * i + 1
            if child + 1 < self.n_open and self.goes_before(self.heap[child + 1],
                                                            self.heap[child]):
                child += 1
            if not self.goes_before(self.heap[child], last):
                break
            self.heap[i] = self.heap[child]
            i = child
        self.heap[i] = last
        return top.node

    def order(self, gains):
        """Node numbers in the order in which they come out, all pushed beforehand."""
        for node, gain in enumerate(gains):
            self.push(node, gain)
        return [self.pop() for _ in range(self.n_open)]
