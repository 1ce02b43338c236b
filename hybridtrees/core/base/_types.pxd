"""Scalar types, structs, enums and constants of the engine: their only home.

Numbers that C needs too stand in simd/constants.h. Python imports the enums from the module _types.
The NumPy mirrors of the structs that Python sees are in dtypes.py; a test compares sizes and
offsets.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef Py_ssize_t intp_t
ctypedef float float32_t
ctypedef double float64_t

ctypedef fused real_t:
    float
    double


cdef packed struct Node:
    # One node of a fitted tree, 64 bytes: one cache line.
    float64_t threshold      # x <= threshold goes left (numeric splits)
    float64_t gain           # loss reduction of the split, 0 in a leaf
    float64_t weight         # sum of hessians (the cover)
    int64_t n_samples        # rows of the training sample that reached the node
    int32_t left             # child ids, -1 in a leaf
    int32_t right
    int32_t parent           # -1 at the root
    int32_t feature          # -1 in a leaf
    int32_t category_start   # first word of the category set, -1 for a numeric split
    int32_t category_words   # its length in 32-bit words
    int16_t depth            # 0 at the root
    uint8_t bin              # last bin that goes left (numeric splits on binned data)
    uint8_t missing_left     # where a missing value goes: 1 left, 0 right, MISSING_STAYS
    int32_t category_limit   # what the words of the set mean: see _category_sets.pxd


cdef extern from "entry.h" nogil:
    ctypedef struct SortedEntry "ht_entry":
        uint32_t key
        uint32_t row


cdef extern from "constants.h" nogil:
    cpdef enum StatsLayout:
        # How one row's (grad, hess) is stored as integers, and what a histogram cell then is.
        GRAD_ONLY "HT_GRAD_ONLY"  # int32 grad; hess is one constant.
        #                           Cell: 1 word, (sum of grad << count_bits) + n
        PAIR16 "HT_PAIR16"        # int16 grad, uint16 hess.
        #                           Cell: 2 words, sum of grad and sum of hess
        PAIR32 "HT_PAIR32"        # int32 grad, int32 hess. Cell: 2 words, sum of grad,
        #                           (sum of hess << count_bits) + n; no n where count_bits is 0

    cpdef enum Limit:
        N_CODES "HT_CODES"
        MAX_BINS "HT_MAX_BINS"
        UNIFORM_CELLS "HT_UNIFORM_CELLS"
        MAX_REGRESSORS "HT_MAX_REGRESSORS"
        MISSING_STAYS "HT_MISSING_STAYS"

    const uint32_t HT_MISSING_KEY
    const uint32_t HT_ALL_KEYS
    const double HT_TIE_BINNED
    const double HT_TIE_SORTED
    const double HT_ROUNDING
    const double HT_DEPENDENT


cpdef enum Stream:
    # Of random bits (_rng.pxd): what a draw is for. Draws of one key never share a stream.
    STREAM_TREE = 1            # features of a tree
    STREAM_LEVEL = 2           # features of a level
    STREAM_NODE = 3            # features of a node
    STREAM_CHILD = 4           # keys of the children of a node
    STREAM_TIE = 5             # which of equally good features splits
    STREAM_CUT = 6             # which of equally good cuts of a feature is taken
    STREAM_REST = 7            # features to try after those drawn, where these cannot split
    STREAM_SAMPLE = 8          # rows that stand for the node


cpdef enum Frontier:
    DEPTH_WISE = 0
    BEST_FIRST = 1
    DEPTH_FIRST = 2


cpdef enum PackedFlag:
    # What the feature of a packed node says besides its number: see _packed.pyx.
    FEATURE_MASK = 0x0FFFFFFF
    MISSING_LEFT = 0x10000000
    MISSING_STOPS = 0x20000000
    HAS_SET = 0x40000000


cdef struct BinView:
    # Pointers into a BinnedMatrix, and where each feature's cells stand in a histogram.
    const uint8_t* records
    const uint8_t* columns
    const int32_t* n_bins          # value bins; the cell after them counts the missing rows
    const uint8_t* has_missing
    const uint8_t* is_categorical
    const uint32_t* cell_start     # first cell of each feature; its last entry is n_cells
    intp_t record_bytes
    intp_t n_rows
    intp_t n_cells
    int32_t n_features
    bint uniform                   # cell_start[f] is f * UNIFORM_CELLS


cdef struct StatsView:
    # Quantised statistics of every row: inside the records or in an array of their own.
    const uint8_t* data
    intp_t stride
    int32_t layout
    int32_t count_bits
    int32_t n_words                # 64-bit words of a histogram cell
    float64_t grad_unit            # what one integer step of grad (hess) is worth
    float64_t hess_unit


cdef struct NodeSums:
    int64_t grad
    int64_t hess
    int64_t n_samples


cpdef enum Criterion:
    # What a split is scored by; S the sums of a side, W its weight. A gain is score(left) +
    # score(right) - score(node), and the impurity of a side is what its score lacks.
    NEWTON = 0         # T(S)^2 / (W + lambda)
    SQUARES = 1        # sum of S_k^2 / W: squared error, Gini
    ENTROPY = 2        # sum of S_k log2(S_k / W)
    MISCLASSIFIED = 3  # largest S_k
    POISSON = 4        # sum of S_k log(S_k / W)
    ABSOLUTE = 5       # minus the sum of absolute deviations from the median


cpdef enum TargetLayout:
    # What stands in the row of a target, all float64.
    TARGET_UNWEIGHTED = 0  # y; every weight is 1
    TARGET_PAIR = 1    # w y, w (grad, hess)
    TARGET_VECTOR = 2  # w y_1, ..., w y_K, w
    TARGET_CLASS = 3   # class; every weight is 1
    TARGET_CLASS_WEIGHTED = 4  # class, w


cdef struct TargetView:
    # What the exact search adds up.
    const float64_t* data
    intp_t n_rows
    int32_t width      # numbers per row
    int32_t layout
    int32_t n_sums     # K: sums of a node, besides its weight
    bint binary        # y is 0 or 1, one of two classes


cdef struct SplitRules:
    int32_t criterion
    float64_t reg_lambda
    float64_t reg_alpha
    float64_t max_delta_step
    float64_t min_child_weight
    float64_t min_gain
    float64_t candidate_share      # weight between two candidates of the exact search
    int64_t min_samples_leaf
    int32_t max_cat_to_onehot
    bint any_gain                  # a split without gain is better than none
    bint stop_missing              # rows with a missing value stay at their node
    bint random_ties               # equal splits are drawn from, not taken in order
    const int8_t* monotone         # sign of the constraint of each feature; NULL: none


cdef struct Bounds:
    # Of a node's value, from the monotone splits above it.
    float64_t lower
    float64_t upper


cdef struct SplitInfo:
    float64_t gain
    int32_t feature                # -1: no admissible split
    int32_t bin
    uint8_t missing_left           # 1, 0 or MISSING_STAYS
    uint8_t is_categorical
    uint32_t categories[8]         # bins that go left; exact search: the limit of the set
    uint32_t key                   # exact search: last key that goes left
    uint32_t low_row               # rows whose values stand on both sides of the cut
    uint32_t high_row
    int32_t category_start         # exact search: set of the keys that go left, -1: none
    int32_t category_words
    NodeSums left
