"""The vectorised loops of rows.h."""

from hybridtrees.core.base._types cimport intp_t

# The folder of the engine is the one that the compiler looks in.
cdef extern from "../linear/rows.h" nogil:
    void ht_load_f32(
        int width, const float* x, intp_t n, const double* center, const double* inv_scale,
        const double* fill, double* out)
    void ht_load_f64(
        int width, const double* x, intp_t n, const double* center, const double* inv_scale,
        const double* fill, double* out)
    void ht_scale_row(int width, double* x, intp_t n, double factor)
    void ht_sum_row(
        int width, const double* x, intp_t n, double weight, double* sums, double* squares)
    void ht_logit_rows(
        int width, double* eta, const double* sign, const double* weight, intp_t n, double* curve,
        double* linear, double* ones)
