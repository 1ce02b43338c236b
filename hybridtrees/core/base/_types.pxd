"""Scalar types, structs, enums and constants of the engine, all defined here.

Constants shared with C are in simd/constants.h. Python imports the enums from the module _types.
dtypes.py has NumPy mirrors of the structs that Python reads; a test compares sizes and offsets.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef Py_ssize_t intp_t
ctypedef float float32_t
ctypedef double float64_t

ctypedef fused real_t:
    float
    double


cdef packed struct Node:
    # A node of a fitted tree: 64 bytes, one cache line.
    float64_t threshold      # x <= threshold goes left (numeric splits)
    float64_t gain           # loss reduction of the split, 0 in a leaf
    float64_t weight         # sum of hessians or sample weights
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
    int32_t category_limit   # encoding of the set: see _category_sets.pxd


cdef extern from "entry.h" nogil:
    ctypedef struct SortedEntry "ht_entry":
        uint32_t key
        uint32_t row


cdef extern from "constants.h" nogil:
    cpdef enum StatsLayout:
        # How the (grad, hess) of a row are stored as integers, and what a histogram cell holds.
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
        SHORT_SET "HT_SHORT_SET"

    const uint32_t HT_MISSING_KEY
    const uint32_t HT_ALL_KEYS
    const double HT_TIE_BINNED
    const double HT_TIE_SORTED
    const double HT_TIE_DRAWN
    const double HT_TIE_CUTS
    const double HT_TIE_FEATURES
    const double HT_TIE_SQUARES
    const double HT_ROUNDING
    const double HT_EQUAL_RATIO
    const double HT_WHOLE
    const double HT_DEPENDENT
    const double HT_CONSTANT
    const double HT_CONSTANT_SCALED
    const double HT_ZERO_GAIN
    const double HT_TINY
    const double HT_MIN_HESSIAN
    const double HT_DECREASE
    const double HT_SMALLEST_STEP


cpdef enum Stream:
    # Purposes of random draws (_rng.pxd): draws with the same key use different streams.
    STREAM_BINS = 0            # rows from which bins are learned
    STREAM_TREE = 1            # features of a tree
    STREAM_LEVEL = 2           # features of a level
    STREAM_NODE = 3            # features of a node
    STREAM_CHILD = 4           # keys of the children of a node
    STREAM_TIE = 5             # choice among equally good features
    STREAM_CUT = 6             # cut of a feature: among equally good ones, or of all
    STREAM_REST = 7            # further features, if no drawn one can be split
    STREAM_SAMPLE = 8          # sample of the rows of a node
    STREAM_ROWS = 9            # rows of a tree, without replacement
    STREAM_BOOTSTRAP = 10      # rows of a tree, with replacement
    STREAM_GRADIENTS = 11      # rows of a tree, by their gradients


cpdef enum Frontier:
    DEPTH_WISE = 0
    BEST_FIRST = 1
    DEPTH_FIRST = 2


cpdef enum PackedFlag:
    # Flags in the field `feature` of a packed node: see _packed.pyx.
    FEATURE_MASK = 0x0FFFFFFF
    MISSING_LEFT = 0x10000000
    MISSING_STOPS = 0x20000000
    HAS_SET = 0x40000000


cdef struct BinView:
    # Pointers into a BinnedMatrix or StoredBins, and the position of each feature's cells in a
    # histogram.
    const uint8_t* records         # NULL: StoredBins
    const uint8_t* columns
    # Entries of StoredBins, by row and by column. One more cell of a histogram, the last, has the
    # sums of all rows.
    const int64_t* row_start
    const uint8_t* row_cells       # uint16, or uint32 if wide_cells
    bint wide_cells
    const int64_t* column_start
    const uint32_t* column_rows
    const uint8_t* column_codes
    const uint8_t* default_code
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
    # Quantised statistics of every row, in the records or in a separate array.
    const uint8_t* data
    intp_t stride
    int32_t layout
    int32_t count_bits
    int32_t n_words                # 64-bit words of a histogram cell
    float64_t grad_unit            # value of one integer step of grad
    float64_t hess_unit            # and of hess


cdef struct NodeSums:
    int64_t grad
    int64_t hess
    int64_t n_samples


cpdef enum Criterion:
    # Score of a side with sums S and weight W. The gain of a split is score(left) + score(right)
    # - score(node); impurity decreases as the score increases.
    NEWTON = 0         # T(S)^2 / (W + lambda)
    SQUARES = 1        # sum of S_k^2 / W: squared error, Gini
    ENTROPY = 2        # sum of S_k log2(S_k / W)
    MISCLASSIFIED = 3  # largest S_k
    POISSON = 4        # sum of S_k log(S_k / W)
    ABSOLUTE = 5       # minus the sum of absolute deviations from the median


cpdef enum TargetLayout:
    # Contents of a row of the target matrix, all float64.
    TARGET_UNWEIGHTED = 0  # y; every weight is 1
    TARGET_PAIR = 1    # w y, w (grad, hess)
    TARGET_VECTOR = 2  # w y_1, ..., w y_K, w
    TARGET_CLASS = 3   # class; every weight is 1
    TARGET_CLASS_WEIGHTED = 4  # class, w


cdef struct TargetView:
    # Targets of the exact search.
    const float64_t* data
    intp_t n_rows
    int32_t width      # numbers per row
    int32_t layout
    int32_t n_sums     # K: sums of a node, without its weight
    bint binary        # y is the indicator of one of two classes


cdef struct SplitRules:
    int32_t criterion
    float64_t reg_lambda
    float64_t reg_alpha
    float64_t max_delta_step
    float64_t min_child_weight
    float64_t min_gain
    float64_t candidate_share      # share of the weight between two candidates (exact search)
    int64_t min_samples_leaf
    int32_t max_cat_to_onehot
    # Of splits by sets of more than FEW_CATEGORIES:
    float64_t cat_smooth           # rows of the node's mean that are added to every category
    float64_t cat_l2               # added to lambda in the gain
    float64_t min_data_per_group   # minimum number of rows between two cuts
    bint any_gain                  # splits without gain are allowed
    bint stop_missing              # rows with a missing value stay at their node
    bint random_ties               # draw among equal splits instead of taking the first
    bint random_thresholds         # draw one threshold of a feature instead of searching the best
    const int8_t* monotone         # sign of the constraint of each feature; NULL: none


cdef struct Bounds:
    # Bounds of a node's value, from the splits above it on constrained features.
    float64_t lower
    float64_t upper


cdef struct SplitInfo:
    float64_t gain
    int32_t feature                # -1: no admissible split
    int32_t bin
    uint8_t missing_left           # 1, 0 or MISSING_STAYS
    uint8_t is_categorical
    # Bins that go left; exact search: [0] is the set's limit. Of a number: a drawn threshold.
    uint32_t categories[8]
    uint32_t key                   # exact search: last key that goes left
    uint32_t low_row               # rows with the values next to the cut, below
    uint32_t high_row              # and above it
    int32_t category_start         # exact search: set of the keys that go left, -1: none
    int32_t category_words
    NodeSums left
