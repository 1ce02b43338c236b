"""Sorted lists of rows, and the slices of them that the nodes of a tree own."""

from hybridtrees.core._nodes cimport GrowNode
from hybridtrees.core._search cimport SplitSearch
from hybridtrees.core._types cimport (
    BinView, Entry, float64_t, int32_t, intp_t, uint8_t, uint32_t,
)

cdef enum:
    PARALLEL_ENTRIES = 65536          # entries of a node that are worth waking threads for


cdef class SortedLists(SplitSearch):
    cdef object keep                  # arrays behind the pointers below
    cdef Entry* master                # lists of the table, kept from tree to tree; or NULL
    cdef Entry* lists                 # lists of the nodes
    cdef Entry** list_scratch         # one list per thread
    cdef intp_t stride                # rows of a list
    cdef int32_t n_lists              # features, then one list per output (ABSOLUTE)
    cdef const int32_t* n_categories  # 0: numeric
    cdef uint8_t* side                # where each row goes
    cdef uint32_t* local_id           # number of each row in the lists that it is lent to
    cdef float64_t* totals            # of the node that is looked at
    cdef float64_t* own_target        # targets of lent rows
    cdef void* buffer(self, intp_t n_bytes) except NULL
    cdef void fill_list(self, int32_t k) noexcept nogil
    cdef bint sum_node(self, const GrowNode* node) noexcept nogil
    cdef void mark_sides(self, const GrowNode* node) noexcept nogil
    cdef void divide_lists(
        self, const GrowNode* node, int32_t first, int32_t last
    ) noexcept nogil
    cdef float64_t value_of(self, const GrowNode* node) noexcept nogil
    cdef int take_lists(self, SortedLists lender, const GrowNode* node) except -1 nogil
    cdef int take_rows(self, SplitSearch lender, const GrowNode* node) except -1 nogil
    cdef int take_codes(
        self, SplitSearch lender, const BinView* bins, const GrowNode* node
    ) except -1 nogil
