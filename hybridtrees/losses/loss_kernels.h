/* Loops of the losses that are worth wide vectors, one body per vector width.
 * All widths do the same operations in the same order, element by element. */
#ifndef HYBRIDTREES_LOSS_KERNELS_H
#define HYBRIDTREES_LOSS_KERNELS_H

#include "simd.h"

/* Rows that are worked on together: what is kept of them stays in the nearest cache. */
#define HT_LOSS_ROWS 64

#define HT_BODY "loss_kernels_body.h"
#include "per_width.h"

static inline void ht_softmax(int width, const double *raw, const double *y, ptrdiff_t n,
                              int n_classes, float *grad, float *hess, ptrdiff_t stride,
                              double *kept)
{
    HT_DISPATCH(width, softmax, raw, y, n, n_classes, grad, hess, stride, kept);
}

static inline void ht_logistic_losses(int width, const double *raw, const double *y, ptrdiff_t n,
                                      double *out)
{
    HT_DISPATCH(width, logistic_losses, raw, y, n, out);
}

#endif
