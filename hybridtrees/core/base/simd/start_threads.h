/* How many threads the system allows this process to start.
 *
 * An OpenMP runtime aborts the process if it cannot start a thread, because of too little memory or
 * a limit on threads. So threads are first started here, where a failure can be handled, and a
 * parallel region gets at most as many as could be started. */
#ifndef HYBRIDTREES_START_THREADS_H
#define HYBRIDTREES_START_THREADS_H

#include "compiler.h"
#include "openmp_shim.h"

#ifdef _WIN32

static inline int ht_startable(int n, int allocating) { return n; }
static inline int ht_team_of(int n) { return n; }

#else

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Memory for the work itself, besides the stacks. */
#define HT_SPARE_BYTES ((size_t) 32 << 20)

/* Bytes in an environment variable such as OMP_STACKSIZE ("64M"; a plain number is in kB); 0: not
 * set. */
static inline size_t ht_stack_asked(const char *name) {
    const char *text = getenv(name);
    char *end;
    unsigned long long number;
    if (text == NULL)
        return 0;
    number = strtoull(text, &end, 10);
    while (*end == ' ')
        end++;
    switch (*end) {
    case 'b': case 'B': return number;
    case 'm': case 'M': return number << 20;
    case 'g': case 'G': return number << 30;
    default: return number << 10;
    }
}

/* OUT attributes of the threads that the OpenMP runtime will start; returns their stack size. */
static inline size_t ht_thread_attributes(pthread_attr_t *attributes) {
    size_t size = ht_stack_asked("OMP_STACKSIZE"), usual = 0;
    pthread_attr_init(attributes);
    pthread_attr_getstacksize(attributes, &usual);
    if (size == 0)
        size = ht_stack_asked("GOMP_STACKSIZE");
    if (size == 0 || pthread_attr_setstacksize(attributes, size) != 0)
        size = usual;
    return size;
}

/* Reserve n_bytes of address space; NULL on failure. */
static inline void *ht_reserve(size_t n_bytes) {
    void *block = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

static void *ht_wait_for_gate(void *gate) {
    pthread_mutex_lock((pthread_mutex_t *) gate);
    pthread_mutex_unlock((pthread_mutex_t *) gate);
    return NULL;
}

/* The first allocation of a thread makes the C library reserve address space for that thread. */
static void *ht_allocate_and_wait(void *gate) {
    void *volatile block = malloc(1);
    free(block);
    return ht_wait_for_gate(gate);
}

/* Start n threads at the same time, and end them; returns how many could be started. */
static inline int ht_startable(int n, int allocating) {
    void *(*work)(void *) = allocating ? ht_allocate_and_wait : ht_wait_for_gate;
    pthread_t *threads = malloc((size_t) n * sizeof(pthread_t));
    void *spare = ht_reserve(HT_SPARE_BYTES);
    pthread_attr_t attributes;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int k, started = 0;
    ht_thread_attributes(&attributes);
    pthread_mutex_lock(&gate);
    while (threads != NULL && spare != NULL && started < n
           && pthread_create(&threads[started], &attributes, work, &gate) == 0)
        started++;
    pthread_mutex_unlock(&gate);
    for (k = 0; k < started; k++)
        pthread_join(threads[k], NULL);
    pthread_attr_destroy(&attributes);
    if (spare != NULL)
        munmap(spare, HT_SPARE_BYTES);
    free(threads);
    return started;
}

/* Threads of the last parallel region of this thread, and of the largest one. libgomp ends threads
 * that the next region does not need and starts them again later; libomp keeps them. */
static HT_THREAD_LOCAL int ht_alive = 1;
static HT_THREAD_LOCAL int ht_most = 1;

/* Threads for a parallel region: n if they run already or can be started, else fewer. */
static inline int ht_team_of(int n) {
    pthread_attr_t attributes;
    if (n <= 1 || !HT_HAS_OPENMP)
        return n;
    if (n > ht_most) {
        n = ht_alive + ht_startable(n - ht_alive, 0);
        ht_most = n > ht_most ? n : ht_most;
    }
    else if (n > ht_alive) {
        /* As many could be started before, so only memory may be lacking: a quick check. */
        size_t size = (size_t) (n - ht_alive) * ht_thread_attributes(&attributes) + HT_SPARE_BYTES;
        void *room = ht_reserve(size);
        pthread_attr_destroy(&attributes);
        if (room == NULL)
            n = ht_alive;
        else
            munmap(room, size);
    }
#ifdef __clang__
    ht_alive = n > ht_alive ? n : ht_alive;
#else
    ht_alive = n;
#endif
    return n;
}

#endif
#endif
