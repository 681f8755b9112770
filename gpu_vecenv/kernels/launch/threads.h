// Host threads that share the worlds of a launch. They live as long as their env and sleep between launches.
// Each thread starts with the same chunks of worlds in every launch, so that its core's cache may still hold them. It then takes
// chunks that no other thread has taken, so a thread that wakes late costs little time.
#pragma once
#include <pthread.h>
#include <sched.h>
#include "target/target.h"

struct GvArgs;

typedef void (*GvHostKernel)(const GvArgs*, gv_i32, gv_i32);

struct GvThreads {
    pthread_mutex_t mutex;
    pthread_cond_t launched;
    gv_u64 launch;  // number of the last launch
    gv_i32 count, chunks_done, sleeping, closing;
    GvHostKernel kernel;
    const GvArgs* args;
    gv_i32 worlds, chunk_worlds;
    gv_u64 taken[1];  // [count * GV_CHUNKS] number of the launch in which each chunk was last taken
};

#define GV_CHUNKS 4  // chunks a thread; with few worlds some chunks are empty

#define GV_SPINS 1000  // 10 to 50 microseconds, so that launches in a loop find the threads awake

// Runs the chunks of a launch that no thread has taken, first those of this thread.
GV_FN void gv_run_chunks(GvThreads* threads, gv_u64 launch, gv_i32 thread) {
    const gv_i32 chunks = threads->count * GV_CHUNKS;
    for (gv_i32 i = 0; i < chunks; ++i) {
        const gv_i32 chunk = (thread * GV_CHUNKS + i) % chunks;
        gv_u64 last = __atomic_load_n(&threads->taken[chunk], __ATOMIC_ACQUIRE);
        // If this thread is late and the launch is over, all of its chunks are taken.
        if (last >= launch || !__atomic_compare_exchange_n(&threads->taken[chunk], &last, launch, false, __ATOMIC_ACQ_REL,
                                                          __ATOMIC_ACQUIRE))
            continue;
        // The launch cannot end before this chunk is done, so kernel, args and worlds do not change meanwhile.
        const gv_i64 lo = (gv_i64)chunk * threads->chunk_worlds, hi = lo + threads->chunk_worlds;
        if (lo < threads->worlds) threads->kernel(threads->args, (gv_i32)lo, hi < threads->worlds ? (gv_i32)hi : threads->worlds);
        __atomic_fetch_add(&threads->chunks_done, 1, __ATOMIC_RELEASE);
    }
}

// Bytes of a GvThreads for `count` threads.
GV_EXPORT gv_i32 gv_threads_size(gv_i32 count) { return (gv_i32)sizeof(GvThreads) + count * GV_CHUNKS * 8; }

// Initializes a GvThreads in zeroed memory.
GV_EXPORT void gv_threads_open(GvThreads* threads, gv_i32 count) {
    threads->count = count;
    pthread_mutex_init(&threads->mutex, nullptr);
    pthread_cond_init(&threads->launched, nullptr);
}

// Body of a thread: runs chunks of each launch until gv_threads_close. The caller of gv_threads_launch is thread 0 and does not run
// it.
GV_EXPORT void gv_threads_work(GvThreads* threads, gv_i32 thread) {
    gv_u64 seen = 0;
    for (;;) {
        gv_u64 launch = seen;
        for (gv_i32 spin = 0; launch == seen && spin < GV_SPINS; ++spin) {
            gv_pause();
            launch = __atomic_load_n(&threads->launch, __ATOMIC_ACQUIRE);
        }
        if (launch == seen) {
            pthread_mutex_lock(&threads->mutex);
            __atomic_fetch_add(&threads->sleeping, 1, __ATOMIC_SEQ_CST);
            while ((launch = __atomic_load_n(&threads->launch, __ATOMIC_SEQ_CST)) == seen && !threads->closing)
                pthread_cond_wait(&threads->launched, &threads->mutex);
            __atomic_fetch_sub(&threads->sleeping, 1, __ATOMIC_SEQ_CST);
            const bool closing = threads->closing != 0;
            pthread_mutex_unlock(&threads->mutex);
            if (closing) return;
        }
        seen = launch;
        gv_run_chunks(threads, launch, thread);
    }
}

// Runs a kernel over all worlds and returns when it is done. One launch at a time.
GV_EXPORT void gv_threads_launch(GvThreads* threads, GvHostKernel kernel, const GvArgs* args, gv_i32 worlds) {
    const gv_u64 launch = threads->launch + 1;
    const gv_i32 chunks = threads->count * GV_CHUNKS, share = (worlds + chunks - 1) / chunks;
    threads->kernel = kernel;
    threads->args = args;
    threads->worlds = worlds;
    threads->chunk_worlds = share <= GV_PACK ? share : (share + GV_PACK - 1) / GV_PACK * GV_PACK;
    __atomic_store_n(&threads->chunks_done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&threads->launch, launch, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&threads->sleeping, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&threads->mutex);
        pthread_cond_broadcast(&threads->launched);
        pthread_mutex_unlock(&threads->mutex);
    }
    gv_run_chunks(threads, launch, 0);
    for (gv_i32 spin = 0; __atomic_load_n(&threads->chunks_done, __ATOMIC_ACQUIRE) != chunks; ++spin) {
        if (spin < GV_SPINS) gv_pause();
        else sched_yield();
    }
}

// Makes all threads end; the memory must stay valid until they have ended.
GV_EXPORT void gv_threads_close(GvThreads* threads) {
    pthread_mutex_lock(&threads->mutex);
    threads->closing = 1;
    pthread_cond_broadcast(&threads->launched);
    pthread_mutex_unlock(&threads->mutex);
}
