/* Bodies that rows.h compiles once per vector width; no include guard on purpose. */

/* out = (x - center) * inv_scale with `fill` in place of NaN. */
#define HT_LOAD(name, real)                                                                   \
    HT_TARGET static void HT_NAME(name)(                                                      \
        const real *restrict x, ptrdiff_t n, const double *restrict center,                   \
        const double *restrict inv_scale, const double *restrict fill, double *restrict out)  \
    {                                                                                         \
        for (ptrdiff_t j = 0; j < n; j++) {                                                   \
            double value = (double) x[j];                                                     \
            double given = fill[j];                                                           \
            value = value == value ? value : given;                                           \
            out[j] = (value - center[j]) * inv_scale[j];                                      \
        }                                                                                     \
    }

HT_LOAD(load_f32, float)
HT_LOAD(load_f64, double)
#undef HT_LOAD

HT_TARGET static void HT_NAME(scale)(double *restrict x, ptrdiff_t n, double factor) {
    for (ptrdiff_t j = 0; j < n; j++)
        x[j] *= factor;
}

HT_TARGET static void HT_NAME(row_sums)(const double *restrict x, ptrdiff_t n, double weight,
                                        double *restrict sums, double *restrict squares) {
    for (ptrdiff_t j = 0; j < n; j++) {
        double part = weight * x[j];
        sums[j] += part;
        squares[j] += part * x[j];
    }
}

/* Logistic loss of rows with scores `eta`, signs (+1 for class 1, -1 for class 0) and weights.
 *
 * With s = exp(-|eta|), which cannot overflow, the probability of the likelier class is
 * p = 1 / (1 + s). On return eta holds w (probability - truth), whose size is the probability of
 * the other class, curve the roots of w p (1 - p), linear the part max(0, -sign eta) of the loss
 * and ones 1 + s, of which the logarithm is the rest. */
HT_TARGET static void HT_NAME(logit)(
    double *restrict eta, const double *restrict sign, const double *restrict weight, ptrdiff_t n,
    double *restrict curve, double *restrict linear, double *restrict ones) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double away = sign[i] * eta[i], w = weight[i];
        double small = ht_exp(-fabs(eta[i])), likely = 1.0 / (1.0 + small);
        double unlikely = small * likely;
        curve[i] = sqrt(w * small) * likely;
        linear[i] = w * (away < 0.0 ? -away : 0.0);
        ones[i] = 1.0 + small;
        eta[i] = -sign[i] * w * (away < 0.0 ? likely : unlikely);
    }
}
