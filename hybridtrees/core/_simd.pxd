"""The vectorised loops of simd.h."""

from hybridtrees.core._types cimport int32_t, int64_t, intp_t, uint64_t

cdef extern from "simd.h" nogil:
    enum:
        HT_BLOCK
    int ht_vector_bytes()
    int ht_lowest_bit(uint64_t bits)
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
    void ht_score_f32_m32(
        int width, const float* x, const int32_t* feature, const float* threshold,
        const int32_t* mask, int n_right, int n_left, int32_t* leaf)
    void ht_score_f32_m64(
        int width, const float* x, const int32_t* feature, const float* threshold,
        const int64_t* mask, int n_right, int n_left, int64_t* state)
    void ht_score_f64_m64(
        int width, const double* x, const int32_t* feature, const double* threshold,
        const int64_t* mask, int n_right, int n_left, int64_t* state)
    double ht_exp(double x)
    void ht_logistic(
        int width, const double* raw, const double* y, intp_t n, float* grad, float* hess)
