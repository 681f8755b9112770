// Loads of indices of actions, of five types.
#pragma once
#include "target/target.h"

// Types of an entry of an action in memory: its bytes, negative for int8. A number of a box is a float32, with the bytes of int32.
#define GV_INT8 (-1)
#define GV_UINT8 1
#define GV_INT16 2
#define GV_INT32 4
#define GV_INT64 8
GV_INLINE gv_i32 gv_entry_bytes(gv_i32 type) { return type < 0 ? -type : type; }

// Converts an index to 32 bits; returns -1, an invalid index, if it does not fit.
GV_INLINE gv_i32 gv_narrow(gv_i64 index) { return index == (gv_i32)index ? (gv_i32)index : -1; }
GV_INLINE gv_i32 gv_narrow(gv_i32 index) { return index; }  // also of smaller types

// Entry `at` of an array of actions, by a load for each type. The type of captured steps comes first: in a step of 2 us each
// comparison before its load can be measured.
GV_INLINE gv_i32 gv_typed_index(const void* actions, gv_i64 at, gv_i32 type) {
    if (type == GV_UINT8) return ((const gv_u8*)actions)[at];
    if (type == GV_INT32) return ((const gv_i32*)actions)[at];
    if (type == GV_INT64) return gv_narrow(((const gv_i64*)actions)[at]);
    if (type == GV_INT16) return ((const gv_i16*)actions)[at];
    return ((const gv_i8*)actions)[at];
}

// An index in two parts: a use of a value waits for its load, so all entries are loaded before the first is used. All lanes have
// the same type.
#if GV_WORD_LOADS
// The entry begins at bit `shift` of `word`; `high` is the other half of an int64. The whole word lies in one page of memory, so it
// may be loaded if the array ends inside it.
struct GvLoadedIndex {
    gv_u32 word, high;
    gv_i32 shift;
};
GV_INLINE GvLoadedIndex gv_load_index(const void* actions, gv_i64 at, gv_i32 type) {
    const char* const from = (const char*)actions + at * gv_entry_bytes(type);
    const gv_i32 skipped = (gv_i32)((gv_u64)from & 3);
    const gv_u32* const words = (const gv_u32*)(from - skipped);
    return {words[0], type == GV_INT64 ? words[1] : 0, 8 * skipped};
}
GV_INLINE gv_i32 gv_loaded_index(const GvLoadedIndex& loaded, gv_i32 type) {
    const gv_i32 unused = type >= GV_INT32 ? 0 : type == GV_INT16 ? 16 : 24;  // bits of the word above the entry
    const gv_u32 bits = loaded.word >> loaded.shift << unused;
    const gv_i32 index = type == GV_UINT8 ? (gv_i32)(bits >> unused) : (gv_i32)bits >> unused;
    return type == GV_INT64 && (gv_i32)loaded.high != index >> 31 ? -1 : index;
}
#else
struct GvLoadedIndex {
    gv_i32 index;
};
GV_INLINE GvLoadedIndex gv_load_index(const void* actions, gv_i64 at, gv_i32 type) {
    return {gv_typed_index(actions, at, type)};
}
GV_INLINE gv_i32 gv_loaded_index(const GvLoadedIndex& loaded, gv_i32) { return loaded.index; }
#endif

// Entry `at` of the actions that a hook reads. An agent alone in its world has them in variables, of a type that the compiler
// knows. In a rollout, a load for each type takes fewer registers than words, and other worlds hide its branches.
GV_INLINE gv_i32 gv_read_index(const void* actions, gv_i64 at, gv_i32 type) {
#if defined(GV_SINGLE) || GV_MODULE == 1
    return gv_typed_index(actions, at, type);
#else
    return gv_loaded_index(gv_load_index(actions, at, type), type);
#endif
}
