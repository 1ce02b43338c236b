"""Trees laid out for bit-mask scoring, see `mask_scores.h`.

The time that a tree takes grows with its entries, not with its depth: every split has one for each
word of leaves that its left subtree reaches into. A walk takes longer where these are not too many.
"""

from hybridtrees.core._simd cimport ht_round_down
from hybridtrees.core._types cimport int32_t, int64_t, intp_t, uint64_t
from hybridtrees.core._walk_node cimport WalkNode

import numpy as np

cdef enum:
    # Entries up to which scoring was measured to be quicker than walking.
    MOST_ENTRIES_32 = 768
    MOST_ENTRIES_64 = 320

WORD_DTYPE = np.dtype([("start", np.int64), ("n_of_kind", np.int32, 3)], align=True)


cdef class BitMasks:
    """The bit-mask forms of the trees of an ensemble.

    Parameters
    ----------
    narrow : bool
        Whether for float32 blocks, with words of 32 leaves; else for float64 ones and of 64.
    """

    def __init__(self, bint narrow):
        self.word_leaves = 32 if narrow else 64

    cdef int lay_out(
        self, const WalkNode* walk, const int64_t[::1] start, const int32_t[::1] n_leaves
    ) except -1:
        """Lay out trees given by the starts of their walk nodes.

        Trees that have many entries get no words, nor do those whose `n_leaves` is 0.
        """
        cdef intp_t tree, n_trees = n_leaves.shape[0], n_entries = 0, found
        cdef intp_t most = MOST_ENTRIES_32 if self.word_leaves == 32 else MOST_ENTRIES_64
        most_leaves = min(int(np.max(n_leaves, initial=0)), most + 1)
        self.n_below = np.empty(2 * most_leaves + 1, dtype=np.int32)
        self.first_leaf = np.empty(2 * most_leaves + 1, dtype=np.int32)
        self.tree_word = np.zeros(n_trees + 1, dtype=np.int64)
        for tree in range(n_trees):
            self.tree_word[tree + 1] = self.tree_word[tree]
            # Every split has an entry, so a tree of many leaves need not be counted.
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
        """Number of entries of a tree; also counts the leaves below its nodes."""
        cdef intp_t k, left, found = 0
        # Children stand behind their parents.
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
        """Write the entries of a tree that was counted just before."""
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
    """0: numeric, missing right; 1: numeric, missing left; 2: categories."""
    return 2 if node.category_start >= 0 else node.missing_left
