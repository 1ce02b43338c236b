/* What compilers spell differently. */
#ifndef HYBRIDTREES_COMPILER_H
#define HYBRIDTREES_COMPILER_H

#if defined(__GNUC__)
#define HT_VECTORS 1 /* the compiler knows vector types */
#define HT_INLINE static inline __attribute__((always_inline))
#define HT_PREFETCH(address) __builtin_prefetch(address)
#define HT_ALIGNED(declaration) declaration __attribute__((aligned(64)))
#define HT_UNUSED __attribute__((unused)) /* where not every module calls a function */
#else
#define HT_VECTORS 0
#define HT_INLINE static inline
#define HT_PREFETCH(address) ((void) 0)
#define HT_ALIGNED(declaration) declaration
#define HT_UNUSED
#endif

/* A variable of which every thread has its own. */
#ifdef _MSC_VER
#undef HT_INLINE
#define HT_INLINE static __forceinline
#define HT_THREAD_LOCAL __declspec(thread)
#else
#define HT_THREAD_LOCAL _Thread_local
#endif

#endif
