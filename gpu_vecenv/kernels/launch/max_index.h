// Maximum of given action indices, which the host checks before a launch.
#pragma once
#include "target/target.h"

template <class Index>
GV_FN Index gv_max_index_of(const Index* indices, gv_i64 count) {
    Index most = 0;
    for (gv_i64 i = 0; i < count; ++i) most = indices[i] > most ? indices[i] : most;
    return most;
}

// Maximum of indices, read as unsigned numbers: a negative index exceeds every valid one of its type. A type is its bytes,
// negative for int8.
GV_EXPORT gv_u64 gv_max_index(const void* indices, gv_i64 count, gv_i32 type) {
    switch (type) {
        case -1:
        case 1: return gv_max_index_of((const gv_u8*)indices, count);
        case 2: return gv_max_index_of((const gv_u16*)indices, count);
        case 4: return gv_max_index_of((const gv_u32*)indices, count);
        default: return gv_max_index_of((const gv_u64*)indices, count);
    }
}
