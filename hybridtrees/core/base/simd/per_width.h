/* Compile a body once per vector width, and choose the width at run time.
 *
 *     #define HT_BODY "loss_kernels_body.h"
 *     #include "per_width.h"
 *
 * includes the body, a header without an include guard in this folder, for vectors of 16 bytes and
 * on x86 also for 32 and 64 bytes. The body can use
 *
 *     HT_NAME(name)  name_16, name_32 or name_64, for everything that it defines
 *     HT_TARGET      function attribute that enables the instructions of this width
 *     HT_BYTES       the width
 *     HT_X86         whether it may call the intrinsics of this width
 *
 * Defined together with HT_BODY, HT_UP_TO_32 omits 64 bytes (call HT_DISPATCH_32 then), and
 * HT_WHOLE_VECTORS makes plain loops use 64 bytes: by default compilers prefer 32.
 *
 * A body does the same operations in the same order for every width, so that results do not
 * depend on the machine. */
#ifndef HYBRIDTREES_PER_WIDTH_H
#define HYBRIDTREES_PER_WIDTH_H

#include <stdlib.h>
#include <string.h>

#include "compiler.h"

/* MinGW's gcc does not align the stack for wide vectors. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__)) && !defined(__MINGW32__)
#define HT_X86 1
#else
#define HT_X86 0
#endif

#if HT_X86
#include <immintrin.h>
#endif

#define HT_JOIN_(a, b) a##b
#define HT_JOIN(a, b) HT_JOIN_(a, b)

/* The same features as tested in ht_vector_bytes. */
#define HT_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

/* clang ignores the whole attribute if it contains this option, which it does not know. */
#if defined(__clang__)
#define HT_PREFER_512 ""
#else
#define HT_PREFER_512 ",prefer-vector-width=512"
#endif

/* Bytes of the widest vectors of this machine: 16, 32 or 64. The environment variable
 * HYBRIDTREES_VECTOR_BITS, 128 or 256, limits them. */
HT_UNUSED static int ht_vector_bytes(void) {
#if HT_X86
    static int found = 0;
    if (found == 0) {
        const char *wanted = getenv("HYBRIDTREES_VECTOR_BITS");
        int bytes;
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
            bytes = 64;
        else
            bytes = __builtin_cpu_supports("avx2") ? 32 : 16;
        if (wanted && strcmp(wanted, "256") == 0 && bytes > 32)
            bytes = 32;
        if (wanted && strcmp(wanted, "128") == 0)
            bytes = 16;
        found = bytes;
    }
    return found;
#else
    return 16;
#endif
}

/* An expression that calls `name` of a body for a width of 16, 32 or 64 bytes. */
#if HT_X86
#define HT_DISPATCH(width, name, ...)                                                         \
    ((width) == 64   ? HT_JOIN(name, _64)(__VA_ARGS__)                                        \
     : (width) == 32 ? HT_JOIN(name, _32)(__VA_ARGS__)                                        \
                     : HT_JOIN(name, _16)(__VA_ARGS__))
#define HT_DISPATCH_32(width, name, ...)                                                      \
    ((width) >= 32 ? HT_JOIN(name, _32)(__VA_ARGS__) : HT_JOIN(name, _16)(__VA_ARGS__))
#else
#define HT_DISPATCH(width, name, ...) ((void) (width), HT_JOIN(name, _16)(__VA_ARGS__))
#define HT_DISPATCH_32 HT_DISPATCH
#endif

#endif

#define HT_NAME(name) HT_JOIN(name, _16)
#define HT_TARGET HT_UNUSED
#define HT_BYTES 16
#include HT_BODY
#undef HT_NAME
#undef HT_TARGET
#undef HT_BYTES

#if HT_X86
#define HT_NAME(name) HT_JOIN(name, _32)
#define HT_TARGET __attribute__((unused, target("avx2")))
#define HT_BYTES 32
#include HT_BODY
#undef HT_NAME
#undef HT_TARGET
#undef HT_BYTES

#ifndef HT_UP_TO_32
#define HT_NAME(name) HT_JOIN(name, _64)
#ifdef HT_WHOLE_VECTORS
#define HT_TARGET __attribute__((unused, target(HT_AVX512 HT_PREFER_512)))
#else
#define HT_TARGET __attribute__((unused, target(HT_AVX512)))
#endif
#define HT_BYTES 64
#include HT_BODY
#undef HT_NAME
#undef HT_TARGET
#undef HT_BYTES
#endif
#endif

#undef HT_BODY
#undef HT_UP_TO_32
#undef HT_WHOLE_VECTORS
