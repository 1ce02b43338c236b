"""What the grower asks of a split search, and what all searches share.

A search owns the rows of the nodes and finds their best splits. Two exist: along histograms of
binned features (`_histogram_search`), and along sorted lists of rows (`_sorted_search`). The
grower decides which node comes next and knows nothing of either.
"""

from cython.parallel cimport prange

from hybridtrees.core._frontier cimport NodeQueue
from hybridtrees.core._interrupt cimport team_stops
from hybridtrees.core._leaves cimport cut_in_blocks
from hybridtrees.core._nodes cimport GrowNode, NodeStore
from hybridtrees.core._rng cimport draw_few, draw_sorted, keyed
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport (
    TARGET_CLASS_WEIGHTED, float64_t, int8_t, int32_t, intp_t, uint32_t, uint64_t,
)

import numpy as np

CRITERIA = {
    "newton": 0, "squares": 1, "entropy": 2, "misclassified": 3, "poisson": 4, "absolute": 5,
}

cdef enum:
    STREAM_TREE = 1           # streams of the feature draws
    STREAM_LEVEL = 2
    STREAM_NODE = 3

# Of a node without a split above it, and of every feature where any two may interact. In the
# latter case a node keeps the features of its path themselves: the first as `alone`, the second
# in place of the groups.
cdef uint64_t ALL_GROUPS = <uint64_t>0 - 1
cdef uint64_t ANY_TWO = <uint64_t>1 << 63


cdef class SplitSearch:
    """Base of the searches."""

    def __cinit__(self):
        self.store = NodeStore()
        self.target.data = NULL
        self.n_sampled = 0

    cdef int use_rules(self, params) except -1:
        """Fill the rules from a GrowerParams."""
        self.queue = NodeQueue(params.frontier)
        self.max_depth = params.max_depth or 2**15 - 1      # what a node's int16 can count
        self.min_samples_split = max(2, params.min_samples_split)
        self.max_features = params.max_features
        self.by_tree, self.by_level, self.by_node = params.feature_fractions
        self.rules.criterion = CRITERIA[params.criterion]
        self.rules.reg_lambda = params.reg_lambda
        self.rules.reg_alpha = params.reg_alpha
        self.rules.max_delta_step = params.max_delta_step
        self.rules.min_child_weight = params.min_child_weight
        self.rules.any_gain = params.min_gain == -np.inf
        self.rules.min_gain = params.min_gain
        self.rules.candidate_share = params.candidate_share
        self.rules.min_samples_leaf = max(1, params.min_samples_leaf)
        self.rules.max_cat_to_onehot = params.max_cat_to_onehot
        self.rules.stop_missing = params.missing == "stop"
        self.rules.random_ties = params.random_ties
        self.rules.monotone = NULL
        self.monotone = None
        self.groups = None
        if params.monotonic is not None:
            self.monotone = params.monotonic
            if self.monotone.shape[0] != self.n_features:
                raise ValueError("one monotone constraint per feature is needed")
            self.rules.monotone = &self.monotone[0]
        if params.interaction is not None:
            self.groups = params.interaction
            if self.groups.shape[0] != self.n_features:
                raise ValueError("one set of interaction groups per feature is needed")
        return 0

    cdef int use_target(self, data, layout, n_sums, binary) except -1:
        """Read the targets of the exact search: float64 of shape (n_rows, width)."""
        cdef const float64_t[:, ::1] view = data
        if view.shape[0] != self.n_rows:
            raise ValueError("one target per row is needed")
        if not 0 <= layout <= TARGET_CLASS_WEIGHTED:
            raise ValueError("unknown layout of targets")
        self.target_owner = data
        self.target.data = &view[0, 0]
        self.target.n_rows = view.shape[0]
        self.target.width = <int32_t>view.shape[1]
        self.target.layout = layout
        self.target.n_sums = n_sums
        self.target.binary = binary
        return 0

    cdef int set_rows(self, rows) except -1:
        """All rows (None) or ascending ids."""
        cdef const uint32_t[::1] given
        cdef intp_t i, n = self.n_rows
        if rows is None:
            self.n_sampled = n
            for i in prange(n, num_threads=team_of(self.n_threads if n > 65536 else 1), nogil=True,
                            schedule="static"):
                self.rows[i] = <uint32_t>i
            return 0
        given = rows
        if given.shape[0] == 0 or given.shape[0] > n:
            raise ValueError("rows must name between one and all rows")
        for i in range(given.shape[0]):
            if given[i] >= n or (i > 0 and given[i] <= given[i - 1]):
                raise ValueError("rows must be ascending ids of rows")
            self.rows[i] = given[i]
        self.n_sampled = given.shape[0]
        return 0

    cdef void draw_tree_features(self) noexcept nogil:
        self.n_tree_features = max(1, <int32_t>(self.n_features * self.by_tree))
        draw_sorted(keyed(self.seed, STREAM_TREE, 0), 0, NULL, self.n_features,
                    self.n_tree_features, &self.tree_features[0])

    cdef const int32_t* draw_node_features(
        self, int32_t node, int32_t lane, int32_t* n_drawn
    ) noexcept nogil:
        """Features that the node may be split on; two lanes may hold two nodes' draws."""
        cdef int32_t* features = &self.node_features[lane * self.n_features]
        cdef const int32_t* source = &self.tree_features[0]
        cdef int32_t k = self.n_tree_features, m
        if self.by_level < 1:
            m = max(1, <int32_t>(k * self.by_level))
            draw_sorted(keyed(self.seed, STREAM_LEVEL, self.store.nodes[node].depth), 0, source, k,
                        m, features)
            source = features
            k = m
        if self.by_node < 1 or 0 < self.max_features < k:
            m = max(1, <int32_t>(k * self.by_node))
            if 0 < self.max_features < m:
                m = self.max_features
            if source != features and self.max_features > 0:
                draw_few(keyed(self.store.nodes[node].key, STREAM_NODE, 0), 0, source, k, m,
                         features)
            else:
                draw_sorted(keyed(self.store.nodes[node].key, STREAM_NODE, 0), 0, source, k, m,
                            features)
            source = features
            k = m
        if self.groups is not None:
            k = self.keep_allowed(node, source, k, features)
            source = features
        n_drawn[0] = k
        return source

    cdef int32_t keep_allowed(
        self, int32_t node, const int32_t* features, int32_t n, int32_t* out
    ) noexcept nogil:
        """OUT the features that may interact with all those of the node's path."""
        cdef GrowNode* at = &self.store.nodes[node]
        cdef int32_t j, f, kept = 0
        cdef bint together, pairs = self.groups is not None and self.groups[0] == ANY_TWO
        cdef bint free = self.groups is None or (
            at.groups == ALL_GROUPS and (pairs or at.alone < 0))
        for j in range(n):
            f = features[j]
            if pairs:
                together = at.groups == <uint64_t>f
            else:
                together = free or self.groups[f] & at.groups != 0
            if free or together or f == at.alone:
                out[kept] = f
                kept += 1
        return kept

    cdef void constrain_children(self, int32_t node) noexcept nogil:
        """Groups that hold the features of the children's path, after a split."""
        cdef GrowNode* at = &self.store.nodes[node]
        cdef int32_t f = at.split.feature, side
        cdef GrowNode* child
        if self.groups is None:
            return
        for side in range(2):
            child = &self.store.nodes[at.right if side else at.left]
            if self.groups[f] == ANY_TWO:
                child.alone = f if at.alone < 0 else at.alone
                child.groups = at.groups if f == child.alone else <uint64_t>f
                continue
            child.groups = at.groups & self.groups[f]
            if self.groups[f] == 0:
                child.alone = f

    cdef void part_bounds(self, int32_t node, float64_t left, float64_t right) noexcept nogil:
        """A constrained split parts the range of values at the middle of its children's."""
        cdef GrowNode* at = &self.store.nodes[node]
        cdef int8_t sign = self.monotone[at.split.feature]
        cdef float64_t middle = 0.5 * (left + right)
        if at.split.is_categorical or sign == 0:
            return
        if sign > 0:
            self.store.nodes[at.left].bounds.upper = middle
            self.store.nodes[at.right].bounds.lower = middle
        else:
            self.store.nodes[at.left].bounds.lower = middle
            self.store.nodes[at.right].bounds.upper = middle

    cdef bint may_split(self, int32_t node) noexcept nogil:
        """Whether the stopping rules allow a split at all, before any search."""
        cdef intp_t n = self.store.nodes[node].stop - self.store.nodes[node].start
        return (
            self.store.nodes[node].depth < self.max_depth
            and n >= self.min_samples_split
            and n >= 2 * self.rules.min_samples_leaf
        )

    cdef bint stops(self) noexcept nogil:
        """Whether the growth is given up: an exception is set, and what was found is void."""
        return team_stops(&self.stopped)

    cdef int open_root(self) except -1 nogil:
        """Make the root; its rows are those set."""
        self.stopped = False
        self.store.clear()
        self.queue.n_open = 0
        self.store.new_node()
        self.store.nodes[0].stop = self.n_sampled
        self.store.nodes[0].stay = self.n_sampled
        self.store.nodes[0].key = self.seed
        return 0

    cdef int divide(self, int32_t node) except -1 nogil:
        """Move the node's rows to its two children, which exist."""
        return 0

    cdef int evaluate_root(self) except -1 nogil:
        """Find the best split of node 0."""
        return 0

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        """Find the best splits of those children of `node` that are asked for."""
        return 0

    cdef void forget(self, int32_t node) noexcept nogil:
        """Give back what is kept for a node that will not be split."""

    cdef int lend(self, int32_t node, SplitSearch other) except -1 nogil:
        """Hand the rows of a node to another search, which numbers them from 0."""
        return 0

    cdef void take_back(self, int32_t node, SplitSearch other) noexcept nogil:
        """Bring the node's rows into the order that the other search has left them in."""
        cdef intp_t start = self.store.nodes[node].start, i
        cdef int32_t k
        for k in range(other.store.n_nodes):
            if other.store.nodes[k].left >= 0:
                other.store.nodes[k].split.low_row = self.rows[
                    start + other.store.nodes[k].split.low_row]
                other.store.nodes[k].split.high_row = self.rows[
                    start + other.store.nodes[k].split.high_row]
        for i in range(other.n_sampled):
            self.row_scratch[start + i] = self.rows[start + other.rows[i]]
        for i in range(other.n_sampled):
            self.rows[start + i] = self.row_scratch[start + i]

    cdef int32_t n_node_sums(self) noexcept nogil:
        """Sums of a node, besides its weight."""
        return self.target.n_sums

    cdef bint can_walk(self) noexcept nogil:
        """Whether `leaf_of` knows where rows outside the sample belong."""
        return False

    cdef int32_t leaf_of(self, intp_t row) noexcept nogil:
        """Node where a row of the table ends."""
        return 0

    cdef intp_t[:, ::1] end_blocks(self):
        """Rows that end at each node, in blocks of bounded size: node, start and stop of each."""
        cdef int32_t k
        cdef intp_t n = 0
        cdef GrowNode* node
        cdef intp_t[:, ::1] ends = np.empty((self.store.n_nodes, 3), dtype=np.intp)
        with nogil:
            for k in range(self.store.n_nodes):
                node = &self.store.nodes[k]
                ends[n, 0] = k
                ends[n, 1] = node.start if node.left < 0 else node.stay
                ends[n, 2] = node.stop
                n += ends[n, 1] < ends[n, 2]
        return cut_in_blocks(ends[:n])

    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1:
        """OUT exact sums over the rows that end at each node (leaves, and rows that stay)."""
        return 0
