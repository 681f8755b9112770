// Threads of the host that share the worlds of a launch. They live as long as their env does and wait between launches.
// Each begins with chunks of worlds of its own, which its core's cache holds since the last launch, and goes on with those that
// others have not come to: a thread that wakes late costs little.
#pragma once
#include <pthread.h>
#include <sched.h>
#include "gv_device.h"

typedef void (*GvHostKernel)(const GvArgs*, gv_i32, gv_i32);

struct GvThreads {
    pthread_mutex_t mutex;
    pthread_cond_t launched;
    gv_u64 launch;  // number of the last launch
    gv_i32 threads, chunks_done, sleeping, closing;
    GvHostKernel kernel;
    const GvArgs* args;
    gv_i32 worlds, chunk_worlds;
    gv_u64 taken[1];  // [threads * GV_CHUNKS] number of the launch in which each chunk was last taken
};

#define GV_CHUNKS 4  // of each thread; every launch has as many, some of them empty

#define GV_SPINS 1000  // some ten microseconds, or some fifty where a pause is long: launches in a loop find the threads awake

GV_FN void gv_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Run the chunks of this launch that nobody has taken, from those of this thread on.
GV_FN void gv_run_chunks(GvThreads* pool, gv_u64 launch, gv_i32 thread) {
    const gv_i32 chunks = pool->threads * GV_CHUNKS;
    for (gv_i32 i = 0; i < chunks; ++i) {
        const gv_i32 chunk = (thread * GV_CHUNKS + i) % chunks;
        gv_u64 last = __atomic_load_n(&pool->taken[chunk], __ATOMIC_ACQUIRE);
        // Whoever is late, and looks for chunks of a launch that is over, finds them all taken, then or later.
        if (last >= launch || !__atomic_compare_exchange_n(&pool->taken[chunk], &last, launch, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        // The launch is not over before this chunk is, so what describes it stays as it is.
        const gv_i64 lo = (gv_i64)chunk * pool->chunk_worlds, hi = lo + pool->chunk_worlds;
        if (lo < pool->worlds) pool->kernel(pool->args, (gv_i32)lo, hi < pool->worlds ? (gv_i32)hi : pool->worlds);
        __atomic_fetch_add(&pool->chunks_done, 1, __ATOMIC_RELEASE);
    }
}

#define GV_EXPORT extern "C" __attribute__((visibility("default")))

GV_EXPORT gv_i32 gv_threads_size(gv_i32 threads) { return (gv_i32)sizeof(GvThreads) + threads * GV_CHUNKS * 8; }

// In memory that is zero.
GV_EXPORT void gv_threads_open(GvThreads* pool, gv_i32 threads) {
    pool->threads = threads;
    pthread_mutex_init(&pool->mutex, nullptr);
    pthread_cond_init(&pool->launched, nullptr);
}

// The life of a thread; the caller of launches is thread 0.
GV_EXPORT void gv_threads_work(GvThreads* pool, gv_i32 thread) {
    gv_u64 seen = 0;
    for (;;) {
        gv_u64 launch = seen;
        for (gv_i32 spin = 0; launch == seen && spin < GV_SPINS; ++spin) {
            gv_pause();
            launch = __atomic_load_n(&pool->launch, __ATOMIC_ACQUIRE);
        }
        if (launch == seen) {
            pthread_mutex_lock(&pool->mutex);
            __atomic_fetch_add(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
            while ((launch = __atomic_load_n(&pool->launch, __ATOMIC_SEQ_CST)) == seen && !pool->closing)
                pthread_cond_wait(&pool->launched, &pool->mutex);
            __atomic_fetch_sub(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
            const bool closing = pool->closing != 0;
            pthread_mutex_unlock(&pool->mutex);
            if (closing) return;
        }
        seen = launch;
        gv_run_chunks(pool, launch, thread);
    }
}

// Run a kernel over all worlds; returns when it is done. One launch at a time.
GV_EXPORT void gv_threads_launch(GvThreads* pool, GvHostKernel kernel, const GvArgs* args, gv_i32 worlds) {
    const gv_u64 launch = pool->launch + 1;
    const gv_i32 chunks = pool->threads * GV_CHUNKS, fair = (worlds + chunks - 1) / chunks;
    pool->kernel = kernel;
    pool->args = args;
    pool->worlds = worlds;
    pool->chunk_worlds = fair <= GV_BLOCK ? fair : (fair + GV_BLOCK - 1) / GV_BLOCK * GV_BLOCK;
    __atomic_store_n(&pool->chunks_done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->launch, launch, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->sleeping, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->launched);
        pthread_mutex_unlock(&pool->mutex);
    }
    gv_run_chunks(pool, launch, 0);
    for (gv_i32 spin = 0; __atomic_load_n(&pool->chunks_done, __ATOMIC_ACQUIRE) != chunks; ++spin) {
        if (spin < GV_SPINS) gv_pause();
        else sched_yield();
    }
}

// Let all threads end; the memory of the pool must stay until they have.
GV_EXPORT void gv_threads_close(GvThreads* pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->closing = 1;
    pthread_cond_broadcast(&pool->launched);
    pthread_mutex_unlock(&pool->mutex);
}
