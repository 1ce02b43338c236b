"""Passes over a table in blocks of standardised rows: moments, log-loss and its derivatives."""

from hybridtrees.core.base._types cimport float64_t, int64_t, intp_t


cdef struct TableView:
    const char* data
    const int64_t* indptr          # NULL: the table is dense
    const int64_t* indices
    const int64_t* rows            # NULL: all rows in their order
    const float64_t* center
    const float64_t* inv_scale
    const float64_t* fill
    const float64_t* absent        # what an entry that a sparse table does not store becomes
    intp_t row_stride              # in entries, dense only
    intp_t column_stride
    intp_t n_rows
    intp_t n_columns
    bint is_double


cdef void load_block(
    const TableView* table, intp_t start, intp_t n, float64_t* out, intp_t out_stride
) noexcept nogil


cdef class Table:
    cdef TableView view
    cdef readonly intp_t n_rows
    cdef readonly intp_t n_columns
    cdef readonly intp_t n_whole   # rows of the table of which `rows` are taken
    cdef int check_length(self, values, str name) except -1
    cdef tuple _kept               # the arrays behind the pointers


cdef intp_t block_rows(intp_t n_columns) noexcept nogil
cdef intp_t count_parts(intp_t n_rows, intp_t cells) noexcept nogil
