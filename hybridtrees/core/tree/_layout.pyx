"""Trees laid out for prediction: bit masks, linear leaves, walks."""

from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, fabs
from libc.stdlib cimport calloc, free

from hybridtrees.core.base._simd cimport ht_round_down
from hybridtrees.core.base._types cimport MISSING_STAYS, Node, int32_t, int64_t, intp_t, uint64_t
from hybridtrees.core.tree._walk_node cimport WalkNode

import numpy as np

from hybridtrees.core.base.checks import check_nodes
from hybridtrees.core.base.dtypes import aligned_empty


# ---- Trees laid out for bit-mask scoring, see `quickscorer.h` ---------------------------------
#
# A tree takes time in proportion to its mask entries, not to its depth: a split has an entry for
# each word of leaves that its left subtree reaches into. Up to some number of entries this is
# faster than a walk (Lucchese et al. 2015).


cdef enum:
    # Up to so many entries bit masks were measured to be faster than walks.
    MOST_ENTRIES_32 = 768
    MOST_ENTRIES_64 = 320

WORD_DTYPE = np.dtype([("start", np.int64), ("n_of_kind", np.int32, 3)], align=True)


cdef class BitMasks:
    """Bit masks of trees: 32 leaves a word for float32 tables (`narrow`), else 64."""

    def __init__(self, bint narrow):
        self.word_leaves = 32 if narrow else 64

    cdef int lay_out(
        self, const WalkNode* walk, const int64_t[::1] start, const int32_t[::1] n_leaves
    ) except -1:
        """Fill the words; trees with many entries get none, nor do those whose `n_leaves` is 0."""
        cdef intp_t tree, n_trees = n_leaves.shape[0], n_entries = 0, found
        cdef intp_t most = MOST_ENTRIES_32 if self.word_leaves == 32 else MOST_ENTRIES_64
        most_leaves = min(int(np.max(n_leaves, initial=0)), most + 1)
        self.n_below = np.empty(2 * most_leaves + 1, dtype=np.int32)
        self.first_leaf = np.empty(2 * most_leaves + 1, dtype=np.int32)
        self.tree_word = np.zeros(n_trees + 1, dtype=np.int64)
        for tree in range(n_trees):
            self.tree_word[tree + 1] = self.tree_word[tree]
            # Every split has at least one entry, so a tree with many leaves has too many.
            if not 0 < n_leaves[tree] <= most + 1:
                continue
            found = self.count(walk + start[tree], 2 * n_leaves[tree] - 1)
            if found <= most:
                n_entries += found
                self.tree_word[tree + 1] += (
                    n_leaves[tree] + self.word_leaves - 1) // self.word_leaves
        self.words = np.zeros(max(1, self.tree_word[n_trees]), dtype=WORD_DTYPE)
        n_entries = max(1, n_entries)
        self.column = np.empty(n_entries, dtype=np.int32)
        self.split = np.empty(n_entries, dtype=np.int32)
        if self.word_leaves == 32:
            self.threshold32 = np.empty(n_entries, dtype=np.float32)
            self.bits32 = np.empty(n_entries, dtype=np.int32)
        else:
            self.threshold64 = np.empty(n_entries)
            self.bits64 = np.empty(n_entries, dtype=np.int64)
        n_entries = 0
        for tree in range(n_trees):
            if self.tree_word[tree + 1] > self.tree_word[tree]:
                self.words[self.tree_word[tree]].start = n_entries
                n_entries += self.count(walk + start[tree], 2 * n_leaves[tree] - 1)
                self.fill(walk + start[tree], 2 * n_leaves[tree] - 1,
                          &self.words[self.tree_word[tree]])
        self.n_below = self.first_leaf = None
        return 0

    cdef intp_t count(self, const WalkNode* walk, int32_t n_nodes) noexcept:
        """Number of entries of a tree; OUT n_below and first_leaf of its nodes."""
        cdef intp_t k, left, found = 0
        # Children follow their parents.
        for k in range(n_nodes - 1, -1, -1):
            left = walk[k].left
            self.n_below[k] = 1 if walk[k].is_leaf else self.n_below[left] + self.n_below[left + 1]
        self.first_leaf[0] = 0
        for k in range(n_nodes):
            left = walk[k].left
            if not walk[k].is_leaf:
                self.first_leaf[left] = self.first_leaf[k]
                self.first_leaf[left + 1] = self.first_leaf[k] + self.n_below[left]
                found += (self.first_leaf[left + 1] - 1) // self.word_leaves - (
                    self.first_leaf[left] // self.word_leaves) + 1
        return found

    cdef void fill(self, const WalkNode* walk, int32_t n_nodes, MaskWord* words) noexcept:
        """Write the entries of the tree that was counted last."""
        cdef intp_t k, left, word, n_words, kind, at = words[0].start
        cdef uint64_t bits
        n_words = (self.n_below[0] + self.word_leaves - 1) // self.word_leaves
        for word in range(n_words):
            words[word].start = at
            for kind in range(3):
                for k in range(n_nodes):
                    left = walk[k].left
                    if walk[k].is_leaf or split_kind(&walk[k]) != kind:
                        continue
                    bits = self.cleared(self.first_leaf[k], self.n_below[left], word)
                    if bits == 0:
                        continue
                    self.column[at] = walk[k].column
                    self.split[at] = <int32_t>k
                    if self.word_leaves == 32:
                        self.threshold32[at] = ht_round_down(walk[k].threshold)
                        self.bits32[at] = <int32_t>~bits
                    else:
                        self.threshold64[at] = walk[k].threshold
                        self.bits64[at] = <int64_t>~bits
                    words[word].n_of_kind[kind] += 1
                    at += 1

    cdef uint64_t cleared(self, intp_t first, intp_t n, intp_t word) noexcept:
        """Bits of the leaves [first, first + n) in a word."""
        cdef intp_t base = word * self.word_leaves
        cdef intp_t low = max(first - base, 0), high = min(first + n - base, self.word_leaves)
        cdef uint64_t ones = ~(<uint64_t>0)
        if low >= high:
            return 0
        return (ones >> (64 - (high - low))) << low


cdef int split_kind(const WalkNode* node) noexcept:
    """0: numeric, missing values right; 1: numeric, missing values left; 2: categorical."""
    return 2 if node.category_start >= 0 else node.missing_left


# ---- Linear leaves laid out for prediction ----------------------------------------------------
#
# If a row meets many terms, as in boosted trees, its regressors are copied once and its leaves are
# evaluated by the kernels of `linear_leaves.h`. Otherwise, and for leaves with several outputs, the
# terms read the table directly.


cdef enum:
    MOST_ABOVE = 64          # splits above a node that `narrow_box` considers


cdef class LinearLeaves:
    """The linear parts of an ensemble with checked arrays."""

    def __init__(self, ensemble):
        self.float_chunks = None
        self.nodes = ensemble.nodes
        self.tree_start = ensemble.tree_start
        self.values = ensemble.values
        self.coef_ptr = ensemble.coef_ptr
        self.coef_feature = ensemble.coef_feature
        self.coef = ensemble.coef
        self.coef_center = ensemble.coef_center
        self.coef_low = ensemble.coef_low
        self.coef_high = ensemble.coef_high
        self.ranged = ensemble.value_range is not None
        if self.ranged:
            self.value_range = ensemble.value_range
        self.clipped = bool(
            np.any(ensemble.coef_low > -np.inf) or np.any(ensemble.coef_high < np.inf)
        )
        bounds = np.concatenate([ensemble.coef_low, ensemble.coef_high])
        with np.errstate(over="ignore"):
            self.float_bounds = bool(np.all(bounds.astype(np.float32) == bounds))
        n_trees = len(ensemble.tree_start) - 1
        n_terms = np.diff(ensemble.coef_ptr[ensemble.tree_start])
        self.is_linear = (n_terms > 0).astype(np.uint8)
        regressors = np.unique(ensemble.coef_feature).astype(np.int32)
        # Average number of terms that a row meets: it ends at one node of each tree.
        ends = (ensemble.nodes["left"] < 0) | (ensemble.nodes["missing_left"] == <int>MISSING_STAYS)
        n_ends = np.add.reduceat(ends.astype(np.int64), ensemble.tree_start[:n_trees])
        n_met = np.sum(n_terms / n_ends)
        self.by_rows = self.values.shape[1] == 1 and len(regressors) <= 2 * n_met
        if not self.by_rows:
            return
        self.regressors = regressors
        self.in_order = bool(regressors.max() == len(regressors) - 1)
        self.column = np.zeros(int(regressors.max()) + 1, dtype=np.int32)
        np.asarray(self.column)[regressors] = np.arange(len(regressors))
        self.number_chunks()

    def number_chunks(self):
        """Number the chunks of all nodes where rows may end, and fill them."""
        cdef intp_t tree, node, n_trees = self.tree_start.shape[0] - 1
        self.first_chunk = np.full(self.nodes.shape[0], -1, dtype=np.int32)
        self.first_end = np.zeros(n_trees, dtype=np.int32)
        self.is_finite = np.ones(n_trees, dtype=np.uint8)
        self.n_chunks = self.most_terms = 0
        self.box = np.empty((2, self.regressors.shape[0]))
        self.box[0], self.box[1] = -INFINITY, INFINITY
        stack = np.empty(self.nodes.shape[0] + 1, dtype=np.int32)
        above = np.empty(self.nodes.shape[0] + 1, dtype=np.int32)
        for tree in range(n_trees):
            if self.is_linear[tree]:
                self.place_chunks(tree, stack, above)
        if self.float_bounds:
            self.float_box = np.asarray(self.box).astype(np.float32)
        if self.n_chunks >= 2**31:
            self.by_rows = False
            return
        # The same number of pairs for all leaves: no branch to predict per row.
        self.n_pairs = <int>(self.most_terms // 2 + 1) if self.most_terms < HT_LANES else 0
        self.exact = aligned_empty(2 * HT_LANES * max(1, self.n_chunks), np.float64)
        if self.ranged:
            self.chunk_range = np.zeros((max(1, self.n_chunks), 2))
        self.wide_form = HT_PAIRS
        if (ht_vector_bytes() == 64 and self.regressors.shape[0] < HT_TABLE_COLUMNS
                and self.most_terms // HT_LANES + 1 < HT_MANY_CHUNKS):
            self.wide_form = HT_DOUBLES
        self.wide_size = ht_chunk_size(self.wide_form, self.clipped)
        self.wide_chunks = aligned_empty(self.wide_size * max(1, self.n_chunks), np.float64)
        for tree in range(n_trees):
            for node in range(self.tree_start[tree], self.tree_start[tree + 1]):
                if self.first_chunk[node] >= 0:
                    self.is_finite[tree] &= self.fill_exact(node)
                    self.fill_chunks(node)

    cdef int form_for(self, bint narrow) except -1:
        """Form of the chunks for a float32 (`narrow`) or float64 table, filled if necessary."""
        cdef float64_t[::1] made
        cdef intp_t chunk, size, wide_size
        if not (narrow and self.float_bounds and self.wide_form == HT_DOUBLES):
            return self.wide_form
        if self.float_chunks is None:
            size, wide_size = ht_chunk_size(HT_FLOATS, self.clipped), self.wide_size
            made = aligned_empty(size * max(1, self.n_chunks), np.float64)
            for chunk in range(self.n_chunks):
                ht_narrow_chunk(&self.wide_chunks[wide_size * chunk], self.clipped,
                                &made[size * chunk])
            # Another thread may have made and be reading them by now.
            if self.float_chunks is None:
                self.float_chunks = made
        return HT_FLOATS

    cdef intp_t chunks_of(self, intp_t node) noexcept:
        """Number of chunks for the terms of a node and its constant."""
        return (self.coef_ptr[node + 1] - self.coef_ptr[node]) // HT_LANES + 1

    cdef int place_chunks(self, intp_t tree, int32_t[::1] stack, int32_t[::1] above) except -1:
        """Number the chunks of a tree, leaves from left to right; `above` gets the parents."""
        cdef intp_t first = self.tree_start[tree], node, n_open = 1
        self.first_end[tree] = -1
        stack[0] = 0
        above[0] = -1
        while n_open:
            n_open -= 1
            node = first + stack[n_open]
            if self.nodes[node].left >= 0:
                above[self.nodes[node].right] = above[self.nodes[node].left] = stack[n_open]
                stack[n_open] = self.nodes[node].right
                stack[n_open + 1] = self.nodes[node].left
                n_open += 2
                if self.nodes[node].missing_left != MISSING_STAYS:
                    continue
            if self.first_end[tree] < 0:
                self.first_end[tree] = <int32_t>node
            # Too many chunks are detected at the end, by their number.
            self.first_chunk[node] = <int32_t>min(self.n_chunks, <intp_t>0x7FFFFFFF)
            self.n_chunks += self.chunks_of(node)
            self.most_terms = max(self.most_terms, self.coef_ptr[node + 1] - self.coef_ptr[node])
            if self.clipped:
                self.narrow_box(tree, node, above)
        return 0

    cdef int narrow_box(self, intp_t tree, intp_t node, const int32_t[::1] above) except -1:
        """Exclude from the box the values that the node clips, except those that cannot reach it.

        Only MOST_ABOVE splits above the node are considered; in deeper trees the box may be smaller
        than necessary.
        """
        cdef intp_t first = self.tree_start[tree], k, column
        cdef int32_t here, parent, n_above
        cdef float64_t low, high
        for k in range(self.coef_ptr[node], self.coef_ptr[node + 1]):
            low, high = -INFINITY, INFINITY
            here = <int32_t>(node - first)
            n_above = 0
            while above[here] >= 0 and n_above < MOST_ABOVE:
                n_above += 1
                parent = above[here]
                if (self.nodes[first + parent].feature == self.coef_feature[k]
                        and self.nodes[first + parent].category_start < 0):
                    if self.nodes[first + parent].left == here:
                        high = min(high, self.nodes[first + parent].threshold)
                    else:
                        low = max(low, self.nodes[first + parent].threshold)
                here = parent
            column = self.column[self.coef_feature[k]]
            if self.coef_low[k] > low:
                self.box[0, column] = max(self.box[0, column], self.coef_low[k])
            if self.coef_high[k] < high:
                self.box[1, column] = min(self.box[1, column], self.coef_high[k])
        return 0

    cdef intp_t constant_lane(self, intp_t node) noexcept:
        """The lane of the constant: the last one in use."""
        return 2 * self.n_pairs - 1 if self.n_pairs > 0 else HT_LANES * self.chunks_of(node) - 1

    cdef bint fill_exact(self, intp_t node) noexcept:
        """Fill `exact` for a node; returns whether a band cannot overflow without exact sums."""
        cdef intp_t first = self.coef_ptr[node], chunk = self.first_chunk[node], k, at
        cdef intp_t n_terms = self.coef_ptr[node + 1] - first, constant = self.constant_lane(node)
        for k in range(HT_LANES * self.chunks_of(node)):
            at = 2 * HT_LANES * (chunk + k // HT_LANES) + k % HT_LANES
            self.exact[at] = self.coef[first + k, 0] if k < n_terms else 0
            self.exact[at + HT_LANES] = self.coef_center[first + k] if k < n_terms else 0
            if k == constant:
                self.exact[at] = self.values[node, 0]
        if self.ranged:
            self.chunk_range[chunk, 0] = self.value_range[node, 0, 0]
            self.chunk_range[chunk, 1] = self.value_range[node, 1, 0]
        return fabs(self.folded_constant(node)) < DBL_MAX / (4 * HT_BAND)

    cdef float64_t folded_constant(self, intp_t node) noexcept:
        """Value of a node, without clipping, where all regressors are 0."""
        cdef float64_t value = self.values[node, 0]
        cdef intp_t k
        for k in range(self.coef_ptr[node], self.coef_ptr[node + 1]):
            value -= self.coef[k, 0] * self.coef_center[k]
        return value

    cdef int fill_chunks(self, intp_t node) except -1:
        """Fill the wide chunks of a node."""
        cdef intp_t first = self.coef_ptr[node], n_terms = self.coef_ptr[node + 1] - first, k
        cdef intp_t n = self.chunks_of(node)
        cdef float64_t* chunk = &self.wide_chunks[self.wide_size * self.first_chunk[node]]
        cdef float64_t* own
        for k in range(HT_LANES * n):
            own = chunk + self.wide_size * (k // HT_LANES)
            if k < n_terms:
                ht_set_lane(own, self.wide_form, self.clipped, k % HT_LANES,
                            self.column[self.coef_feature[first + k]], self.coef[first + k, 0],
                            self.coef_low[first + k], self.coef_high[first + k])
            else:
                ht_set_lane(own, self.wide_form, self.clipped, k % HT_LANES,
                            <int32_t>self.regressors.shape[0],
                            self.folded_constant(node) if k == self.constant_lane(node) else 0,
                            -INFINITY, INFINITY)
        ht_set_count(chunk, self.wide_form, <int32_t>n)
        return 0


# ---- Trees laid out for prediction ------------------------------------------------------------
#
# Every tree has a walk form, with small nodes whose right child follows the left one. Trees with
# few leaves also have bit masks.


cdef class EnsembleLayout:
    """All trees of an ensemble, ready to be walked or scored.

    Arrays that may come from a file are checked. Those of trees that were grown just now need
    not be (`check=False`), which saves much of the time of a round on a small validation table.
    """

    def __dealloc__(self):
        free(self.forms)
        free(self.walk)

    def __init__(self, ensemble, bint check=True):
        cdef intp_t tree, total
        cdef int32_t[::1] masked_leaves
        if check:
            check_nodes(ensemble)
        cdef const int64_t[::1] start = ensemble.tree_start
        cdef const int32_t[::1] output = ensemble.tree_output
        self.nodes = ensemble.nodes
        self.values = values_in_range(ensemble)
        self.categories = ensemble.categories
        self.n_features = ensemble.n_features
        self.n_outputs = ensemble.n_outputs
        self.n_values = <int32_t>self.values.shape[1]
        self.n_trees = start.shape[0] - 1
        self.order = np.argsort(ensemble.tree_output, kind="stable").astype(np.int32)
        self.output_start = np.searchsorted(
            np.asarray(ensemble.tree_output)[np.asarray(self.order)],
            np.arange(self.n_outputs + 1)).astype(np.int64)
        self.any_linear = len(ensemble.coef) > 0
        self.linear = LinearLeaves(ensemble) if self.any_linear else None
        self.summed = self.n_values == 1 and (not self.any_linear or self.linear.by_rows)
        any_stops = np.any(ensemble.nodes["missing_left"] == <int>MISSING_STAYS)
        total = self.nodes.shape[0]
        features = ensemble.nodes["feature"]
        is_split = ensemble.nodes["left"] >= 0
        self.only_numbers = bool(
            np.any(is_split) and np.all(ensemble.nodes["category_start"] < 0)
            and not any_stops)
        self.used = np.unique(features[is_split]).astype(np.int32)
        self.n_used = self.used.shape[0]
        column_of = np.full(max(1, self.n_features), -1, dtype=np.int32)
        column_of[np.asarray(self.used)] = np.arange(self.n_used, dtype=np.int32)
        thresholds = ensemble.nodes["threshold"][is_split]
        with np.errstate(over="ignore"):
            self.float_thresholds = bool(np.all(thresholds.astype(np.float32) == thresholds))
        self.forms = <TreeForm*>calloc(max(1, self.n_trees), sizeof(TreeForm))
        self.walk = <WalkNode*>calloc(max(1, total), sizeof(WalkNode))
        if self.forms == NULL or self.walk == NULL:
            raise MemoryError("no memory to lay out the trees")
        self.walk_origin = np.empty(total, dtype=np.int32)
        masked_leaves = np.zeros(self.n_trees, dtype=np.int32)
        self.leaf_node = np.empty(total, dtype=np.int32)
        self.leaf_value = np.zeros(total + 32)       # ht_add_values reads up to 32
        stack = np.empty(total + 1, dtype=np.int32)
        for tree in range(self.n_trees):
            self.forms[tree].start = start[tree]
            self.forms[tree].output = output[tree]
            self.forms[tree].linear = self.any_linear and self.linear.is_linear[tree]
            self.lay_out(tree, column_of)
            self.lay_out_leaves(tree, stack)
            masked_leaves[tree] = 0 if self.forms[tree].stops else self.forms[tree].n_leaves
        self.narrow_masks = BitMasks(True)
        self.narrow_masks.lay_out(self.walk, start, masked_leaves)
        if not self.float_thresholds:
            self.wide_masks = BitMasks(False)
            self.wide_masks.lay_out(self.walk, start, masked_leaves)

    cdef int lay_out(self, intp_t tree, const int32_t[::1] column_of) except -1:
        """Fill the walk form, breadth first: the top of the tree shares cache lines."""
        cdef TreeForm* form = &self.forms[tree]
        cdef const Node* nodes = &self.nodes[form.start]
        cdef WalkNode* walk = self.walk + form.start
        cdef int32_t* origin = &self.walk_origin[form.start]
        cdef const Node* node
        cdef int32_t k = 0, n = 1
        origin[0] = 0
        while k < n:
            node = nodes + origin[k]
            if node.left < 0:
                walk[k].is_leaf = 1
                walk[k].left = k
                walk[k].threshold = INFINITY
                walk[k].category_start = -1
                walk[k].missing_left = 1
                form.n_leaves += 1
            else:
                walk[k].left = n
                walk[k].threshold = node.threshold
                walk[k].column = column_of[node.feature]
                walk[k].category_start = node.category_start
                walk[k].category_words = node.category_words
                walk[k].category_limit = node.category_limit
                walk[k].missing_left = node.missing_left
                walk[k].leaf_below = (nodes[node.left].left < 0) | (
                    (nodes[node.right].left < 0) << 1)
                form.n_category += node.category_start >= 0
                form.stops = form.stops or node.missing_left == MISSING_STAYS
                origin[n] = node.left
                origin[n + 1] = node.right
                n += 2
            k += 1
        return 0

    cdef int lay_out_leaves(self, intp_t tree, int32_t[::1] stack) except -1:
        """List the leaves from left to right."""
        cdef TreeForm* form = &self.forms[tree]
        cdef const Node* nodes = &self.nodes[form.start]
        cdef intp_t position = form.start, n_open = 1
        cdef int32_t node
        stack[0] = 0
        while n_open:
            n_open -= 1
            node = stack[n_open]
            if nodes[node].left < 0:
                self.leaf_node[position] = node
                self.leaf_value[position] = self.values[form.start + node, 0]
                position += 1
            else:
                stack[n_open] = nodes[node].right
                stack[n_open + 1] = nodes[node].left
                n_open += 2
        return 0


def values_in_range(ensemble):
    """Values of the nodes, clipped to their ranges: the outputs of nodes without terms."""
    if ensemble.value_range is None:
        return ensemble.values
    return np.clip(ensemble.values, ensemble.value_range[:, 0], ensemble.value_range[:, 1])
