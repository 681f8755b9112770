// Prints and checks of debug builds (GV_DEBUG). In other builds GV_PRINT is nothing, and the arrays of hooks are plain pointers.
//
//   GV_PRINT("speed", me.vx)   prints file, line, step, world and agent with the value, on every target
//
// An index outside of a state field, a row or scratch writes one text, the first of a launch, to gv_fault_record. The access then
// goes to the first element, so that the launch ends, and the host raises the text as an error. So does a read of an action at a
// reset, which gives 0.
#pragma once
#include "target/types.h"

#ifndef GV_DEBUG

#define GV_PRINT(name, value) ((void)sizeof(value))
typedef gv_i32 GvIndex;
#define GV_HERE(index) (index)
template <class T>
using GvPointer = T*;
#define GV_ENTER(number, time)
#define GV_SET_AGENT(number)
#define GV_CHECKED(array, count, name) (array)
#define GV_CHECKED_FIELD(array, count, field) (array)
#define GV_CHECKED_ROW(array, row, length, name) ((array) + (row) * (length))
#define GV_CHECKED_AGENT(k, count, name) (k)
#define GV_CHECKED_AXIS(k, length, name) (k)
#define GV_CHECK_LENGTH(row, n)
#define GV_CHECK_ACTION(actions, entry)

#else

#ifdef GV_EXPORT
#include <stdio.h>
#endif

// Place of a lane: what it works on.
struct GvDebugPlace {
    gv_i32 world, t, agent;  // agent is -1 outside of phases over agents
};

#ifdef GV_EXPORT
#define GV_FOR_BREAKS static __attribute__((noinline, unused))
static thread_local GvDebugPlace gv_place_of_lane = {-1, -1, -1};
GV_FN GvDebugPlace& gv_place() { return gv_place_of_lane; }
GV_FN bool gv_is_first(gv_i32* flag) { return __atomic_exchange_n(flag, 1, __ATOMIC_RELAXED) == 0; }
#define GV_GLOBAL __attribute__((visibility("default")))
#define GV_FLUSH fflush(stdout)
#else
#define GV_FOR_BREAKS static __device__ __noinline__
#define GV_MOST_LANES (1 << 20)  // of a launch; as in backend/debug.py
static __device__ GvDebugPlace gv_places[GV_MOST_LANES];
GV_FN GvDebugPlace& gv_place() { return gv_places[(blockIdx.x * blockDim.x + threadIdx.x) % GV_MOST_LANES]; }
GV_FN bool gv_is_first(gv_i32* flag) { return atomicExch(flag, 1) == 0; }
#define GV_GLOBAL __device__
#define GV_FLUSH ((void)0)
#endif

#define GV_ENTER(number, time) gv_place() = {number, time, -1};
#define GV_SET_AGENT(number) gv_place().agent = number;

// ---- text -----------------------------------------------------------------------------------------------------

// Text of at most 511 letters, for both targets.
struct GvText {
    char* at;
    gv_i32 length = 0;
    GV_METHOD GvText(char* at) : at(at) { *at = 0; }
    GV_METHOD GvText& operator<<(char letter) {
        if (length < 511) at[length++] = letter;
        at[length] = 0;
        return *this;
    }
    GV_METHOD GvText& operator<<(const char* text) {
        for (; *text; ++text) *this << *text;
        return *this;
    }
    GV_METHOD GvText& operator<<(gv_i64 number) {
        char digits[20];
        gv_i32 n = 0;
        gv_u64 rest = number < 0 ? 0 - (gv_u64)number : (gv_u64)number;
        do digits[n++] = (char)('0' + rest % 10);
        while (rest /= 10);
        if (number < 0) *this << '-';
        while (n > 0) *this << digits[--n];
        return *this;
    }
    GV_METHOD GvText& operator<<(gv_i32 number) { return *this << (gv_i64)number; }
    // "walk.cu:17": a file without its folder, and a line.
    GV_METHOD GvText& source(const char* file, gv_i32 line) {
        const char* name = file;
        for (const char* c = file; *c; ++c) name = *c == '/' ? c + 1 : name;
        return *this << name << ':' << line;
    }
    // "step 12, world 3, agent 5".
    GV_METHOD GvText& place() {
        const GvDebugPlace& here = gv_place();
        *this << "step " << here.t << ", world " << here.world;
        return here.agent < 0 ? *this : *this << ", agent " << here.agent;
    }
};

// ---- prints ---------------------------------------------------------------------------------------------------

#define GV_PRINT(name, value) gv_print(name, value, __FILE__, __LINE__)
#define GV_PRINT_AS(format, ...)                                                     \
    char source[512], place[512];                                                    \
    GvText(source).source(file, line);                                               \
    GvText(place).place();                                                           \
    printf("%s: %s: %s = " format "\n", source, place, name, __VA_ARGS__);           \
    GV_FLUSH;
GV_FN void gv_print(const char* name, bool value, const char* file, gv_i32 line) { GV_PRINT_AS("%d", (int)value) }
GV_FN void gv_print(const char* name, gv_i32 value, const char* file, gv_i32 line) { GV_PRINT_AS("%d", value) }
GV_FN void gv_print(const char* name, gv_u32 value, const char* file, gv_i32 line) { GV_PRINT_AS("%u", value) }
GV_FN void gv_print(const char* name, gv_i64 value, const char* file, gv_i32 line) { GV_PRINT_AS("%lld", value) }
GV_FN void gv_print(const char* name, gv_u64 value, const char* file, gv_i32 line) { GV_PRINT_AS("%llu", value) }
// double: printf takes no float.
GV_FN void gv_print(const char* name, float value, const char* file, gv_i32 line) { GV_PRINT_AS("%.9g", (double)value) }
// double: values of hooks that compute in double.
GV_FN void gv_print(const char* name, double value, const char* file, gv_i32 line) { GV_PRINT_AS("%.17g", value) }
#undef GV_PRINT_AS

// ---- checks ---------------------------------------------------------------------------------------------------

// The first fault of a launch.
struct GvFault {
    gv_i32 set;
    char text[512];
};
extern "C" {
GV_GLOBAL GvFault gv_fault_record = {0, {0}};
}

// An index, and the place in the source where it was written.
struct GvIndex {
    gv_i64 value;
    const char *file, *function;
    gv_i32 line;
    GV_METHOD GvIndex(gv_i64 value, const char* file = __builtin_FILE(), gv_i32 line = __builtin_LINE(),
                      const char* function = __builtin_FUNCTION())
        : value(value), file(file), function(function), line(line) {}
    GV_METHOD operator gv_i32() const { return (gv_i32)value; }
};

// Default argument of a function: an index with the place of the call, which a conversion in the declaration would not have.
#define GV_HERE(index) GvIndex(index, __builtin_FILE(), __builtin_LINE(), __builtin_FUNCTION())

// Records a fault, the first of a launch. The place for a breakpoint.
GV_FOR_BREAKS void gv_fault(const GvText& text) {
    if (!gv_is_first(&gv_fault_record.set)) return;
    (GvText(gv_fault_record.text) << text.at << "; ").place();
}

// Records an index of `name`, or of its row `row` if that is not -1, which has the elements 0 to count - 1.
GV_FN void gv_wrong_index(const GvIndex& index, gv_i64 value, gv_i64 count, const char* name, gv_i64 row, const char* shape) {
    char letters[512];
    GvText text(letters);
    text.source(index.file, index.line) << ": " << index.function << ": index " << value << " of ";
    if (row >= 0) text << "row " << row << " of ";
    text << name << (count > 0 ? ", which has the elements 0 to " : ", which has ") << (count > 0 ? count - 1 : 0);
    if (count <= 0) text << " elements";
    if (*shape) text << ", shape " << shape;
    gv_fault(text);
}

// A pointer that knows its array: elements `low` to `high` - 1 from here may be accessed.
template <class T>
struct GvPointer {
    T* at;
    gv_i64 low, high;
    const char *name, *shape;
    gv_i64 row;
    GV_METHOD T& operator[](const GvIndex& index) const {
        const bool inside = index.value >= low && index.value < high;
        if (!inside) gv_wrong_index(index, index.value - low, high - low, name, row, shape);
        return at[inside ? index.value : low];
    }
    GV_METHOD T& operator*() const { return (*this)[0]; }
    GV_METHOD GvPointer operator+(gv_i64 n) const { return {at + n, low - n, high - n, name, shape, row}; }
    GV_METHOD GvPointer operator-(gv_i64 n) const { return *this + -n; }
    GV_METHOD GvPointer& operator+=(gv_i64 n) { return *this = *this + n; }
    GV_METHOD GvPointer& operator++() { return *this += 1; }
    // A template, because of a plain conversion to T* the index of another type than gv_i64 would be ambiguous.
    template <class U>
    GV_METHOD operator U*() const {
        return (U*)at;
    }
};

template <class T>
GV_FN GvPointer<T> gv_checked(T* array, gv_i64 count, const char* name, const char* shape = "") {
    return {array, 0, count, name, shape, -1};
}
template <class T>
GV_FN GvPointer<T> gv_checked_row(const GvPointer<T>& array, gv_i64 row, gv_i64 length, const char*) {
    return {array.at + row * length, 0, length, array.name, array.shape, row};
}
template <class T>
GV_FN GvPointer<T> gv_checked_row(T* array, gv_i64 row, gv_i64 length, const char* name) {
    return {array + row * length, 0, length, name, "", -1};
}
GV_FN gv_i32 gv_checked_number(const GvIndex& k, gv_i32 count, const char* name) {
    const bool inside = k.value >= 0 && k.value < count;
    if (!inside) gv_wrong_index(k, k.value, count, name, -1, "");
    return inside ? (gv_i32)k.value : 0;
}
#define GV_CHECKED(array, count, name) gv_checked(array, count, name)
#define GV_CHECKED_FIELD(array, count, field) gv_checked(array, count, "w.state." #field, GV_SHAPE_##field)
// `me.obs = {...}` writes the whole row.
GV_FN void gv_check_length(const GvPointer<float>& row, gv_i64 n) {
    char letters[512];
    if (n != row.high) gv_fault(GvText(letters) << n << " numbers for " << row.name << ", which has " << row.high);
}
#define GV_CHECK_LENGTH(row, n) gv_check_length(row, n);
// A reset has no actions.
GV_FN gv_i32 gv_no_action(const GvIndex& entry) {
    char letters[512];
    GvText text(letters);
    text.source(entry.file, entry.line) << ": " << entry.function << ": an action is read where there is none, outside of a step";
    gv_fault(text);
    return 0;
}
#define GV_CHECK_ACTION(actions, entry) \
    if ((actions) == nullptr) return gv_no_action(entry);
#define GV_CHECKED_ROW(array, row, length, name) gv_checked_row(array, row, length, name)
#define GV_CHECKED_AGENT(k, count, name) gv_checked_number(k, count, name)
#define GV_CHECKED_AXIS(k, length, name) gv_checked_number(k, length, name)

#endif
