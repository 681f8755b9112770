// A world's row of a state array, taken from another array of the same shape.
#pragma once
#include "gv_device.h"

// Overwrite the n elements of this world by those of row `from` of the array at `source`; 0 leaves them as they are.
template <class T>
GV_FN void gv_take_row(const GvTeam& team, T* field, gv_u64 source, gv_i64 from, gv_i32 n) {
    if (source != 0) {
        GV_FOR(i, n) field[(gv_i64)team.world * n + i] = ((const T*)source)[from * n + i];
    }
}
