"""The vectorised loops of simd.h."""

from hybridtrees.core.base._types cimport int64_t, intp_t

cdef extern from "simd.h" nogil:
    int ht_vector_bytes()
    float ht_round_up(double x)
    float ht_round_down(double t)
    void ht_newton_scores(
        int width, const double* left_grad, const double* left_hess, int first, int last,
        double grad, double hess, double reg_lambda, double* scores)
    double ht_newton_best(
        int width, const double* left_grad, const double* left_hess, int first, int last,
        double grad, double hess, double reg_lambda)
    void ht_unit_sums(
        int width, const int64_t* words, int n, int bits, double grad_unit, double hess_unit,
        double* left_grad, double* left_hess)
    double ht_exp(double x)
    void ht_logistic(
        int width, const double* raw, const double* y, intp_t n, float* grad, float* hess)
