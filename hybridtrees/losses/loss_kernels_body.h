/* Bodies that loss_kernels.h compiles once per vector width; no include guard on purpose. */

/* Statistics of L = -log p_y: gradient p_k - 1[y = k], hessian 2 p_k (1 - p_k), an upper bound.
 *
 * raw is (n, n_classes); gradients and hessians of a class lie `stride` apart, and hess may be
 * NULL. `kept` has room for n_classes * HT_LOSS_ROWS numbers: rows are turned there, so that the
 * loops run along rows of one class. */
HT_TARGET static void HT_NAME(softmax)(const double *restrict raw, const double *restrict y,
                                       ptrdiff_t n, int n_classes, float *restrict grad,
                                       float *restrict hess, ptrdiff_t stride,
                                       double *restrict kept)
{
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
                    h[i] = (float) (second > 1e-16 ? second : 1e-16);
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

/* Sum of log(1 + exp(raw)) - y raw over rows of weight 1.
 *
 * One logarithm serves many rows: that of the product of all 1 + e, e = exp(-|raw|). Each of
 * eight products is kept less 1, so that small e are not lost; none waits for another. */
HT_TARGET static double HT_NAME(logistic_loss)(const double *restrict raw,
                                               const double *restrict y, ptrdiff_t n)
{
    double e[HT_LOSS_ROWS], plain[HT_LOSS_ROWS], product[8], part[8], sum = 0.0;
    for (ptrdiff_t start = 0; start < n; start += HT_LOSS_ROWS) {
        ptrdiff_t m = n - start < HT_LOSS_ROWS ? n - start : HT_LOSS_ROWS;
        for (ptrdiff_t i = 0; i < m; i++) {
            double r = raw[start + i];
            e[i] = ht_exp(-fabs(r));
            plain[i] = (r > 0.0 ? r : 0.0) - y[start + i] * r;
        }
        for (ptrdiff_t i = m; i < HT_LOSS_ROWS; i++)
            e[i] = plain[i] = 0.0;
        for (int j = 0; j < 8; j++)
            product[j] = part[j] = 0.0;
        for (ptrdiff_t i = 0; i < HT_LOSS_ROWS; i += 8)
            for (int j = 0; j < 8; j++) {
                part[j] += plain[i + j];
                product[j] += e[i + j] + product[j] * e[i + j];
            }
        for (int width = 4; width > 0; width /= 2)
            for (int j = 0; j < width; j++) {
                part[j] += part[j + width];
                product[j] += product[j + width] + product[j] * product[j + width];
            }
        sum += part[0] + log1p(product[0]);
    }
    return sum;
}
