/* Loops of the losses that gain from wide vectors, see per_width.h. */
#ifndef HYBRIDTREES_LOSS_KERNELS_H
#define HYBRIDTREES_LOSS_KERNELS_H

#include "simd.h"

/* Rows of a block: their scores stay in the first-level cache. */
#define HT_LOSS_ROWS 64

#define HT_BODY "loss_kernels_body.h"
#include "per_width.h"

#define ht_softmax(width, ...) HT_DISPATCH(width, softmax, __VA_ARGS__)
#define ht_logistic_losses(width, ...) HT_DISPATCH(width, logistic_losses, __VA_ARGS__)

#endif
