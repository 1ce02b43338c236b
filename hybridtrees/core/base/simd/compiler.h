/* Compiler-specific keywords and attributes. */
#ifndef HYBRIDTREES_COMPILER_H
#define HYBRIDTREES_COMPILER_H

#if defined(__GNUC__)
#define HT_VECTORS 1 /* the compiler has vector types */
#define HT_INLINE static inline __attribute__((always_inline))
#define HT_PREFETCH(address) __builtin_prefetch(address)
#define HT_POPCOUNT(word) __builtin_popcountll(word)
#define HT_ALIGNED(declaration) declaration __attribute__((aligned(64)))
#define HT_UNUSED __attribute__((unused)) /* for functions that not every module calls */
#else
#define HT_VECTORS 0
#define HT_INLINE static inline
#define HT_PREFETCH(address) ((void) 0)
static inline int HT_POPCOUNT(unsigned long long word) {
    int count = 0;
    for (; word; word &= word - 1)
        count++;
    return count;
}
#define HT_ALIGNED(declaration) declaration
#define HT_UNUSED
#endif

#ifdef _MSC_VER
#undef HT_INLINE
#define HT_INLINE static __forceinline
#define HT_THREAD_LOCAL __declspec(thread)
#else
#define HT_THREAD_LOCAL _Thread_local
#endif

#endif
