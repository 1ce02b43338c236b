"""Nodes of a tree while it grows, and the category sets of their splits."""

from libc.math cimport INFINITY
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from hybridtrees.core._rng cimport keyed
from hybridtrees.core._types cimport float64_t, int32_t, intp_t, uint32_t, uint64_t

cdef enum:
    STREAM_CHILD = 4


cdef class NodeStore:
    """A growing array of nodes; a child always has a larger number than its parent."""

    def __cinit__(self):
        self.nodes = NULL
        self.words = NULL
        self.capacity = 0
        self.word_capacity = 0
        self.clear()

    def __dealloc__(self):
        free(self.nodes)
        free(self.words)

    cdef void clear(self) noexcept nogil:
        self.n_nodes = 0
        self.n_words = 0

    cdef int reserve(self, int32_t n) except -1 nogil:
        """Room for n nodes in all."""
        cdef GrowNode* nodes
        if n > self.capacity:
            nodes = <GrowNode*>realloc(self.nodes, n * sizeof(GrowNode))
            if nodes == NULL:
                with gil:
                    raise MemoryError("no memory for the nodes of a tree")
            self.nodes = nodes
            self.capacity = n
        return 0

    cdef int new_node(self) except -1 nogil:
        cdef GrowNode* node
        if self.n_nodes == self.capacity:
            self.reserve(2 * self.capacity + 64)
        node = self.nodes + self.n_nodes
        memset(node, 0, sizeof(GrowNode))
        node.left = -1
        node.right = -1
        node.parent = -1
        node.slot = -1
        node.split.feature = -1
        node.split.category_start = -1
        node.bounds.lower = -INFINITY
        node.bounds.upper = INFINITY
        node.groups = <uint64_t>0 - 1
        node.alone = -1
        self.n_nodes += 1
        return self.n_nodes - 1

    cdef int new_children(self, int32_t parent) except -1 nogil:
        """Two nodes one level below `parent`, named after their path."""
        cdef int32_t left = self.new_node()
        cdef int32_t right = self.new_node()
        cdef int32_t side
        cdef GrowNode* child
        self.nodes[parent].left = left
        self.nodes[parent].right = right
        for side in range(2):
            child = self.nodes + (right if side else left)
            child.parent = parent
            child.depth = self.nodes[parent].depth + 1
            child.bounds = self.nodes[parent].bounds
            child.groups = self.nodes[parent].groups
            child.alone = self.nodes[parent].alone
            child.key = keyed(self.nodes[parent].key, STREAM_CHILD, side)
        return 0

    cdef int new_words(self, intp_t n) except -1 nogil:
        """Start of n zero words for a category set."""
        cdef uint32_t* words
        cdef intp_t start = self.n_words
        if n == 0:              # there may be no array yet
            return <int>start
        if start + n > 0x7FFFFFFF:
            with gil:
                raise MemoryError("the category sets of a tree are too large")
        if start + n > self.word_capacity:
            words = <uint32_t*>realloc(self.words, (2 * (start + n)) * sizeof(uint32_t))
            if words == NULL:
                with gil:
                    raise MemoryError("no memory for the category sets of a tree")
            self.words = words
            self.word_capacity = 2 * (start + n)
        memset(self.words + start, 0, n * sizeof(uint32_t))
        self.n_words = start + n
        return <int>start

    cdef uint32_t* words_of(self, const GrowNode* node) noexcept nogil:
        """Category set of a node's split, NULL where it has none or it is empty."""
        if node.split.category_words == 0:
            return NULL
        return self.words + node.split.category_start

    cdef int copy(self, NodeStore other) except -1 nogil:
        """Hold what another store holds."""
        cdef intp_t i
        self.clear()
        self.reserve(other.n_nodes)
        memcpy(self.nodes, other.nodes, other.n_nodes * sizeof(GrowNode))
        self.n_nodes = other.n_nodes
        self.new_words(other.n_words)
        for i in range(other.n_words):
            self.words[i] = other.words[i]
        return 0

    cdef void prune(self, float64_t least_gain) noexcept nogil:
        """Undo the splits of less gain above two leaves, from below, and close up the numbers."""
        cdef int32_t k, to = 0
        cdef GrowNode* node
        cdef GrowNode* nodes = self.nodes
        for k in range(self.n_nodes - 1, -1, -1):
            node = nodes + k
            if (node.left >= 0 and nodes[node.left].left < 0 and nodes[node.right].left < 0
                    and node.split.gain < least_gain):
                nodes[node.left].parent = -1
                nodes[node.right].parent = -1
                node.left = -1
                node.right = -1
                node.split.feature = -1
                node.stay = node.stop
        # Parents stand before their children, so the new number of a parent is known. A node
        # without one has been cut off.
        for k in range(self.n_nodes):
            node = nodes + k
            if k > 0 and node.parent < 0:
                continue
            if node.left >= 0:
                nodes[node.left].parent = to
                nodes[node.right].parent = to
            if k > 0:
                if nodes[node.parent].left == k:
                    nodes[node.parent].left = to
                else:
                    nodes[node.parent].right = to
            if to != k:
                nodes[to] = node[0]
            to += 1
        self.n_nodes = to

    cdef int graft(self, int32_t at, NodeStore other, intp_t shift) except -1 nogil:
        """Put the tree of `other` in the place of node `at`; its rows begin at `shift`."""
        cdef int32_t k, first = self.n_nodes - 1, words, target
        cdef int32_t parent = self.nodes[at].parent
        cdef intp_t i
        cdef GrowNode* node
        words = self.new_words(other.n_words)
        for i in range(other.n_words):
            self.words[words + i] = other.words[i]
        for k in range(other.n_nodes):
            target = at if k == 0 else self.new_node()
            node = self.nodes + target
            node[0] = other.nodes[k]
            node.start += shift
            node.stop += shift
            node.stay += shift
            # Node k > 0 of the other tree has become node first + k.
            node.parent = parent if k == 0 else (
                at if node.parent == 0 else first + node.parent)
            if node.left >= 0:
                node.left += first
                node.right += first
            if node.split.category_start >= 0:
                node.split.category_start += words
        return 0
