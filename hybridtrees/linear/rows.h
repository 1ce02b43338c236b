/* Loops over the entries of one row, see per_width.h. Rows are too short for 64-byte vectors. */
#ifndef HYBRIDTREES_ROWS_H
#define HYBRIDTREES_ROWS_H

#include <math.h>
#include <stddef.h>

#include "simd.h"

#define HT_BODY "rows_body.h"
#define HT_UP_TO_32
#include "per_width.h"

#define ht_load_f32(width, ...) HT_DISPATCH_32(width, load_f32, __VA_ARGS__)
#define ht_load_f64(width, ...) HT_DISPATCH_32(width, load_f64, __VA_ARGS__)
#define ht_scale_row(width, ...) HT_DISPATCH_32(width, scale, __VA_ARGS__)
#define ht_sum_row(width, ...) HT_DISPATCH_32(width, row_sums, __VA_ARGS__)
#define ht_logit_rows(width, ...) HT_DISPATCH_32(width, logit, __VA_ARGS__)

#endif
