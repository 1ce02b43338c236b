/* Bodies that loss_kernels.h compiles once per vector width; no include guard on purpose. */

/* Statistics of L = -log p_y: gradient p_k - 1[y = k], hessian 2 p_k (1 - p_k), an upper bound.
 *
 * raw is (n, n_classes); gradients and hessians of a class lie `stride` apart, and hess may be
 * NULL. `kept` has room for n_classes * HT_LOSS_ROWS numbers: scores are transposed into it, so that
 * loops run over the rows of one class. */
HT_TARGET static void HT_NAME(softmax)(
    const double *restrict raw, const double *restrict y, ptrdiff_t n, int n_classes,
    float *restrict grad, float *restrict hess, ptrdiff_t stride, double *restrict kept) {
    double top[HT_LOSS_ROWS], total[HT_LOSS_ROWS];
    for (ptrdiff_t start = 0; start < n; start += HT_LOSS_ROWS) {
        ptrdiff_t m = n - start < HT_LOSS_ROWS ? n - start : HT_LOSS_ROWS;
        for (ptrdiff_t i = 0; i < m; i++) {
            const double *row = raw + (start + i) * n_classes;
            double *at = kept + i;
            for (int k = 0; k < n_classes; k++, at += HT_LOSS_ROWS)
                *at = row[k];
        }
        for (ptrdiff_t i = 0; i < m; i++) {
            top[i] = kept[i];
            total[i] = 0.0;
        }
        for (int k = 1; k < n_classes; k++) {
            const double *share = kept + (ptrdiff_t) k * HT_LOSS_ROWS;
            for (ptrdiff_t i = 0; i < m; i++)
                top[i] = share[i] > top[i] ? share[i] : top[i];
        }
        for (int k = 0; k < n_classes; k++) {
            double *share = kept + (ptrdiff_t) k * HT_LOSS_ROWS;
            for (ptrdiff_t i = 0; i < m; i++) {
                double e = ht_exp(share[i] - top[i]);
                share[i] = e;
                total[i] += e;
            }
        }
        for (int k = 0; k < n_classes; k++) {
            double *share = kept + (ptrdiff_t) k * HT_LOSS_ROWS;
            float *g = grad + k * stride + start;
            for (ptrdiff_t i = 0; i < m; i++) {
                share[i] = share[i] / total[i];
                g[i] = (float) share[i];
            }
            if (hess != NULL) {
                float *h = hess + k * stride + start;
                for (ptrdiff_t i = 0; i < m; i++) {
                    double second = 2.0 * share[i] * (1.0 - share[i]);
                    h[i] = (float) (second > HT_MIN_HESSIAN ? second : HT_MIN_HESSIAN);
                }
            }
        }
        for (ptrdiff_t i = 0; i < m; i++) {
            ptrdiff_t k = (ptrdiff_t) y[start + i];
            if (k >= 0 && k < n_classes)
                grad[k * stride + start + i] = (float) (kept[k * HT_LOSS_ROWS + i] - 1.0);
        }
    }
}

/* log(1 + exp(raw)) - y raw of every row.
 *
 * log(1 + e), e = exp(-|raw|) <= 1, is 2 atanh(s), s = e / (2 + e) <= 1/3: a series in s^2 that
 * vectorises, accurate to about one unit in the last place. */
HT_TARGET static void HT_NAME(logistic_losses)(const double *restrict raw, const double *restrict y,
                                               ptrdiff_t n, double *restrict out) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const double r = raw[i], e = ht_exp(-fabs(r)), s = e / (2.0 + e), square = s * s;
        double series = 1.0 / 33.0;
        series = series * square + 1.0 / 31.0;
        series = series * square + 1.0 / 29.0;
        series = series * square + 1.0 / 27.0;
        series = series * square + 1.0 / 25.0;
        series = series * square + 1.0 / 23.0;
        series = series * square + 1.0 / 21.0;
        series = series * square + 1.0 / 19.0;
        series = series * square + 1.0 / 17.0;
        series = series * square + 1.0 / 15.0;
        series = series * square + 1.0 / 13.0;
        series = series * square + 1.0 / 11.0;
        series = series * square + 1.0 / 9.0;
        series = series * square + 1.0 / 7.0;
        series = series * square + 1.0 / 5.0;
        series = series * square + 1.0 / 3.0;
        series = 2.0 * s + 2.0 * s * (series * square);
        out[i] = (r > 0.0 ? r : 0.0) - y[i] * r + series;
    }
}
