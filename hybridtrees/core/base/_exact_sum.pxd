"""Sums that do not depend on the order of their terms; see exact_sum.h."""

from hybridtrees.core.base._types cimport intp_t

cdef extern from "exact_sum.h" nogil:
    ctypedef struct HtExactSum:
        pass
    float ht_largest_float(int width, const float* x, intp_t n)
    void ht_clear_sum(HtExactSum* sum)
    void ht_merge_sum(HtExactSum* sum, const HtExactSum* other)
    void ht_add_terms(int width, HtExactSum* sum, const double* x, intp_t n)
    void ht_add_term(HtExactSum* sum, double x)
    double ht_sum_value(const HtExactSum* sum)

cdef enum:
    SUM_ROWS = 512        # terms that are computed before they are added
