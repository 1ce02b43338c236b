/* Loops of the losses that are worth wide vectors, one body per vector width.
 *
 * loss_kernels_body.h is included once per instruction set, as simd_body.h is by simd.h. All
 * widths do the same operations in the same order, element by element. */
#ifndef HYBRIDTREES_LOSS_KERNELS_H
#define HYBRIDTREES_LOSS_KERNELS_H

#include "simd.h"

/* Rows that are worked on together: what is kept of them stays in the nearest cache. */
#define HT_LOSS_ROWS 64

#define HT_NAME(name) HT_JOIN(name, _16)
#define HT_TARGET
#include "loss_kernels_body.h"
#undef HT_NAME
#undef HT_TARGET

#if HT_X86
#define HT_NAME(name) HT_JOIN(name, _32)
#define HT_TARGET __attribute__((target("avx2")))
#include "loss_kernels_body.h"
#undef HT_NAME
#undef HT_TARGET

#define HT_NAME(name) HT_JOIN(name, _64)
#define HT_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#include "loss_kernels_body.h"
#undef HT_NAME
#undef HT_TARGET
#endif

static inline void ht_softmax(int width, const double *raw, const double *y, ptrdiff_t n,
                              int n_classes, float *grad, float *hess, ptrdiff_t stride,
                              double *kept)
{
    HT_DISPATCH(width, softmax, raw, y, n, n_classes, grad, hess, stride, kept);
}

static inline double ht_logistic_loss(int width, const double *raw, const double *y, ptrdiff_t n)
{
#if HT_X86
    if (width == 64)
        return logistic_loss_64(raw, y, n);
    if (width == 32)
        return logistic_loss_32(raw, y, n);
#endif
    return logistic_loss_16(raw, y, n);
}

#endif
