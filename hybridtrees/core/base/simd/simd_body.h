/* Bodies that simd.h compiles once per vector width; no include guard on purpose. */

#if HT_VECTORS
typedef double HT_NAME(vdouble) __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));
typedef int64_t HT_NAME(vlong) __attribute__((vector_size(HT_BYTES), aligned(8), may_alias));
#endif

/* Left sums of grad and hess after each candidate, from prefix sums of one-word cells
 * (grad << bits) + count. Sums of gradients stay below 2^47 and below 2^(62 - bits); the smaller
 * of the two is added to make every word positive, so that all parts lie in [0, 2^52): beside the
 * exponent of 2^52 they are the low bits of a double. (AVX2 has no instruction to convert them.) */
HT_TARGET static void HT_NAME(unit_sums)(const int64_t *restrict words, int n, int bits,
                                         double grad_unit, double hess_unit,
                                         double *restrict left_grad, double *restrict left_hess) {
    const int shift = bits > 15 ? 62 - bits : 47;
    const uint64_t exponent = (uint64_t) 0x433 << 52, offset = (uint64_t) 1 << (shift + bits);
    const uint64_t mask = ((uint64_t) 1 << bits) - 1;
    const double origin = 4503599627370496.0 + (double) ((uint64_t) 1 << shift);
    for (int b = 0; b < n; b++) {
        uint64_t word = (uint64_t) words[b] + offset;
        uint64_t grad_bits = (word >> bits) | exponent, hess_bits = (word & mask) | exponent;
        double grad, hess;
        memcpy(&grad, &grad_bits, 8);
        memcpy(&hess, &hess_bits, 8);
        left_grad[b] = (grad - origin) * grad_unit;
        left_hess[b] = (hess - 4503599627370496.0) * hess_unit;
    }
}

/* GL^2 / HL + GR^2 / HR with lambda added to the H: one division instead of two. */
#define HT_NEWTON_SCORE(gl, hl, gr, hr) (((gl) * (gl) * (hr) + (gr) * (gr) * (hl)) / ((hl) * (hr)))

HT_TARGET static void HT_NAME(newton_scores)(
    const double *restrict left_grad, const double *restrict left_hess, int first, int last,
    double grad, double hess, double lambda, double *restrict scores) {
    for (int b = first; b < last; b++) {
        double gl = left_grad[b], hl = left_hess[b];
        double gr = grad - gl, hr = (hess - hl) + lambda;
        hl += lambda;
        scores[b] = HT_NEWTON_SCORE(gl, hl, gr, hr);
    }
}

/* The largest of these scores, -inf for none. */
HT_TARGET static double HT_NAME(newton_best)(const double *left_grad, const double *left_hess,
                                             int first, int last, double grad, double hess,
                                             double lambda) {
    double best = -INFINITY;
    int b = first;
#if HT_VECTORS
    enum { LANES = HT_BYTES / 8 };
    HT_NAME(vdouble) top = best - (HT_NAME(vdouble)){0};
    for (; b + LANES <= last; b += LANES) {
        HT_NAME(vdouble) gl = *(const HT_NAME(vdouble) *) (left_grad + b);
        HT_NAME(vdouble) hl = *(const HT_NAME(vdouble) *) (left_hess + b);
        HT_NAME(vdouble) gr = grad - gl, hr = (hess - hl) + lambda;
        HT_NAME(vdouble) score;
        HT_NAME(vlong) better;
        hl += lambda;
        score = HT_NEWTON_SCORE(gl, hl, gr, hr);
        better = score > top;
        top = (HT_NAME(vdouble)) (((HT_NAME(vlong)) score & better)
                                  | ((HT_NAME(vlong)) top & ~better));
    }
    for (int lane = 0; lane < LANES; lane++)
        best = top[lane] > best ? top[lane] : best;
#endif
    for (; b < last; b++) {
        double gl = left_grad[b], hl = left_hess[b];
        double gr = grad - gl, hr = (hess - hl) + lambda, score;
        hl += lambda;
        score = HT_NEWTON_SCORE(gl, hl, gr, hr);
        best = score > best ? score : best;
    }
    return best;
}
#undef HT_NEWTON_SCORE

/* Gradient p - y and hessian p (1 - p) of the logistic loss, p = 1 / (1 + exp(-raw)). */
HT_TARGET static void HT_NAME(logistic)(const double *restrict raw, const double *restrict y,
                                        ptrdiff_t n, float *restrict grad, float *restrict hess) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double p = 1.0 / (1.0 + ht_exp(-raw[i]));
        double h = p * (1.0 - p);
        grad[i] = (float) (p - y[i]);
        hess[i] = (float) (h > HT_MIN_HESSIAN ? h : HT_MIN_HESSIAN);
    }
}
