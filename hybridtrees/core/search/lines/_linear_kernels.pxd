"""The vectorised loops of linear_kernels.h."""

from hybridtrees.core.base._types cimport int32_t, intp_t, uint8_t, uint32_t

cdef extern from "linear_kernels.h" nogil:
    ctypedef struct LinearRules "ht_linear_rules":
        int n_columns, n_targets, tail
        const int32_t* at
        double relative, relative_sum
        const double* per_weight
        const double* absolute
        const double* least
        double tolerance, least_rows
        bint has_ridge, penalised, has_lasso, l1_sum
        double l1
        const double* l1_per_weight
    int ht_vector_bytes()
    int ht_padded(int m)
    int ht_cell_size(int m)
    int ht_cell_at(int m, int i, int j)
    int ht_triangle_size(int n_columns, int n_targets)
    void ht_fill_triangle(int m, int n_columns, int n_targets, int32_t* at)
    int ht_ridge_scratch(int n_columns, int n_targets)
    intp_t ht_lasso_scratch(int n_columns, int n_targets)
    void ht_add_moments(
        int width, const double* table, intp_t stride, const uint32_t* rows, intp_t n, int m,
        double* cell)
    void ht_combine(int width, double* target, const double* other, intp_t n, double sign)
    void ht_ridge_losses(
        int width, const LinearRules* rules, const double* cells, intp_t stride,
        const double* total, int n, double* scratch, double* left, double* right, double* coef)
    void ht_lasso_losses(
        const LinearRules* rules, const double* cells, intp_t stride, const double* total, int n,
        const double* start, double* scratch, double* loss, double* coef)
    void ht_factor(const LinearRules* rules, const double* cell, double* factor)
    void ht_add_scores(
        int width, const double* table, int m, const uint32_t* rows, intp_t n,
        const uint8_t* codes, const double* residual, double* sums)
    void ht_forward(int width, int p, const double* factor, double* b, int lanes, int n)
