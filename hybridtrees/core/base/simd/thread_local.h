/* A variable of which every thread has its own. */
#ifndef HYBRIDTREES_THREAD_LOCAL_H
#define HYBRIDTREES_THREAD_LOCAL_H

#ifdef _MSC_VER
#define HT_THREAD_LOCAL __declspec(thread)
#else
#define HT_THREAD_LOCAL _Thread_local
#endif

#endif
