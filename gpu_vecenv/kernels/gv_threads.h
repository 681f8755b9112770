// Threads of the host that share the worlds of a launch. They live as long as their env does and wait between launches.
// Worlds are handed out in chunks to whoever is free, the caller of a launch first: a thread that wakes late costs nothing.
#pragma once
#include <pthread.h>
#include <sched.h>
#include "gv_device.h"

typedef void (*GvHostKernel)(const GvArgs*, gv_i32, gv_i32);

struct GvThreads {
    pthread_mutex_t mutex;
    pthread_cond_t launched;
    gv_u64 left;  // number of the launch << 32 | chunks not handed out yet: one word, so that nobody takes one too many
    gv_u32 chunks_done;
    gv_i32 sleeping, closing;
    GvHostKernel kernel;
    const GvArgs* args;
    gv_i32 worlds, chunk_worlds;
};

#define GV_SPINS 1000  // some ten microseconds, or some fifty where a pause is long: launches in a loop find the threads awake

GV_FN void gv_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Run chunks of this launch until none is left.
GV_FN void gv_run_chunks(GvThreads* pool, gv_u64 launch) {
    for (;;) {
        gv_u64 left = __atomic_load_n(&pool->left, __ATOMIC_ACQUIRE);
        do {
            if (left >> 32 != launch || (gv_u32)left == 0) return;
        } while (!__atomic_compare_exchange_n(&pool->left, &left, left - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
        // The launch is not over before this chunk is, so what describes it stays as it is.
        const gv_i32 lo = (gv_i32)((gv_u32)left - 1) * pool->chunk_worlds, rest = pool->worlds - lo;
        pool->kernel(pool->args, lo, lo + (rest < pool->chunk_worlds ? rest : pool->chunk_worlds));
        __atomic_fetch_add(&pool->chunks_done, 1, __ATOMIC_RELEASE);
    }
}

#define GV_EXPORT extern "C" __attribute__((visibility("default")))

GV_EXPORT gv_i32 gv_threads_size() { return sizeof(GvThreads); }

GV_EXPORT void gv_threads_open(GvThreads* pool) {
    pthread_mutex_init(&pool->mutex, nullptr);
    pthread_cond_init(&pool->launched, nullptr);
}

// The life of a thread.
GV_EXPORT void gv_threads_work(GvThreads* pool) {
    gv_u64 seen = 0;
    for (;;) {
        gv_u64 launch = seen;
        for (gv_i32 spin = 0; launch == seen && spin < GV_SPINS; ++spin) {
            gv_pause();
            launch = __atomic_load_n(&pool->left, __ATOMIC_ACQUIRE) >> 32;
        }
        if (launch == seen) {
            pthread_mutex_lock(&pool->mutex);
            __atomic_fetch_add(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
            while ((launch = __atomic_load_n(&pool->left, __ATOMIC_SEQ_CST) >> 32) == seen && !pool->closing)
                pthread_cond_wait(&pool->launched, &pool->mutex);
            __atomic_fetch_sub(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
            const bool closing = pool->closing != 0;
            pthread_mutex_unlock(&pool->mutex);
            if (closing) return;
        }
        seen = launch;
        gv_run_chunks(pool, launch);
    }
}

// Run a kernel over all worlds, in chunks of `chunk_worlds`; returns when it is done. One launch at a time.
GV_EXPORT void gv_threads_launch(GvThreads* pool, GvHostKernel kernel, const GvArgs* args, gv_i32 worlds, gv_i32 chunk_worlds) {
    const gv_u64 launch = (__atomic_load_n(&pool->left, __ATOMIC_RELAXED) >> 32) + 1;
    const gv_u32 chunks = (gv_u32)((worlds + chunk_worlds - 1) / chunk_worlds);
    pool->kernel = kernel;
    pool->args = args;
    pool->worlds = worlds;
    pool->chunk_worlds = chunk_worlds;
    __atomic_store_n(&pool->chunks_done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->left, launch << 32 | chunks, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->sleeping, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->launched);
        pthread_mutex_unlock(&pool->mutex);
    }
    gv_run_chunks(pool, launch);
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
