// A check of actions in front of a launch, on the host.
#pragma once
#include "gv_device.h"

template <class Index>
GV_FN Index gv_largest_of(const Index* indices, gv_i64 count) {
    Index largest = 0;
    for (gv_i64 i = 0; i < count; ++i) largest = indices[i] > largest ? indices[i] : largest;
    return largest;
}

// The largest of indices of 4 or 8 bytes, read without their signs: a negative one is larger than any that is valid.
extern "C" __attribute__((visibility("default"))) gv_u64 gv_largest(const void* indices, gv_i64 count, gv_i32 bytes) {
    return bytes == 8 ? gv_largest_of((const gv_u64*)indices, count) : gv_largest_of((const gv_u32*)indices, count);
}
