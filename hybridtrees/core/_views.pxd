"""C views over the Python objects that the kernels read."""

from hybridtrees.core._types cimport BinView, int32_t, uint8_t, uint32_t


cdef class BinnedView:
    cdef BinView view
    cdef readonly object binned
    cdef uint8_t[:, ::1] records
    cdef uint8_t[:, ::1] columns
    cdef const int32_t[::1] n_bins
    cdef const uint8_t[::1] has_missing
    cdef const uint8_t[::1] is_categorical
    cdef uint32_t[::1] cell_start
