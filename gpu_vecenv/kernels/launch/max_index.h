// Maximum of given action indices, which the host checks before a launch.
#pragma once
#include "target/target.h"

template <class Index>
GV_FN Index gv_max_index_of(const Index* indices, gv_i64 count) {
    Index most = 0;
    for (gv_i64 i = 0; i < count; ++i) most = indices[i] > most ? indices[i] : most;
    return most;
}

// Maximum of indices of 4 or 8 bytes, read as unsigned numbers: a negative index exceeds every valid one.
GV_EXPORT gv_u64 gv_max_index(const void* indices, gv_i64 count, gv_i32 bytes) {
    return bytes == 8 ? gv_max_index_of((const gv_u64*)indices, count) : gv_max_index_of((const gv_u32*)indices, count);
}
