/* For a wheel that is built on a newer Linux than it is for: the functions that glibc has given a
 * new version since 2.28 are asked for by their first. In the manylinux_2_28 image, where released
 * wheels are built, there is nothing newer. */
#ifdef __linux__
#if defined(__x86_64__)
#define HT_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define HT_FIRST_GLIBC "GLIBC_2.17"
#endif
#ifdef HT_FIRST_GLIBC
#define HT_FIRST(name) __asm__(".symver " #name "," #name "@" HT_FIRST_GLIBC);
HT_FIRST(pthread_attr_getstacksize)
HT_FIRST(pthread_attr_setstacksize)
HT_FIRST(pthread_create)
HT_FIRST(pthread_join)
#undef HT_FIRST
#endif
#endif
