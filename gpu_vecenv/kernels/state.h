// The spec's declarations as C: rows of agents, the state of a world by name, its parameters.
// args.h is generated from the spec. It lists fields, names, roles and parameters as macros.
#pragma once
#include "args.h"
#include "lib/vec.h"

// ---- rows -----------------------------------------------------------------------------------------------------

// Row of an agent in public arrays; agents are numbered role by role. A stride is at most the number of agents, so it
// fits 32 bits, and the product with a 32-bit world takes one instruction. If roles have spaces of their own, only the worlds view
// exists, in which the rows of a world follow one another; the compiler then knows the strides. Parameters may take the shared part of
// a role away (GV_MAY_BE_WHOLE). It is then the only one, and its rows are the same in both views.
#ifdef GV_BY_ROLE
#define GV_STRIDE(role) gv_num_agents(a)
#ifdef GV_MAY_BE_WHOLE
GV_INLINE bool gv_agents_view(const GvArgs& a) { return a.agents_view != 0; }
#else
GV_INLINE bool gv_agents_view(const GvArgs&) { return false; }
#endif
GV_INLINE gv_i64 gv_row(const GvArgs& a, gv_i64 world, gv_i32 agent) {
#define GV_ROLE(role, count, first) \
    if (first == 0) return a.role##_row + world * GV_STRIDE(role) + agent;
    GV_ROLES(GV_ROLE)
    return 0;  // never: the first role starts at agent 0
#undef GV_ROLE
}
#else
#define GV_STRIDE(role) (gv_i32)a.role##_stride
GV_INLINE bool gv_agents_view(const GvArgs& a) { return a.agents_view != 0; }
GV_INLINE gv_i64 gv_row(const GvArgs& a, gv_i64 world, gv_i32 agent) {
#define GV_ROW(role) a.role##_row + world * GV_STRIDE(role) + agent
#define GV_ROLE(role, count)             \
    if (agent < count) return GV_ROW(role); \
    agent -= count;
    GV_ROLES_BUT_LAST(GV_ROLE)
    return GV_LAST_ROLE(GV_ROW);
#undef GV_ROLE
#undef GV_ROW
}
#endif

// Adds `rows` to the first row of every role, and so to every result of gv_row().
GV_INLINE void gv_shift_rows(GvArgs& a, gv_i64 rows) {
#define GV_SHIFT(role) a.role##_row += rows;
#define GV_ROLE(role, count) GV_SHIFT(role)
    GV_ROLES_BUT_LAST(GV_ROLE)
    GV_LAST_ROLE(GV_SHIFT)
#undef GV_ROLE
#undef GV_SHIFT
}

// gv_citizen_count(a) is the number of agents of a role `citizen` in a world, gv_citizen_agent(a, i) the number of its agent i in the
// world, gv_citizen_row(a, world, i) that agent's row in public arrays of all agents.
#define GV_ROLE(role, count, first)                                                                  \
    GV_INLINE gv_i32 gv_##role##_count(const GvArgs& a) { return (void)a, count; }                        \
    GV_INLINE gv_i32 gv_##role##_agent(const GvArgs& a, gv_i32 i) { return (void)a, first + i; }           \
    GV_INLINE gv_i64 gv_##role##_row(const GvArgs& a, gv_i64 world, gv_i32 i) {                           \
        return a.role##_row + world * GV_STRIDE(role) + i;                                           \
    }
GV_ROLES(GV_ROLE)
#undef GV_ROLE

// Loop over the agents of a role, distributed over the lanes.
#define GV_FOR_ROLE(role, i) GV_FOR(i, gv_##role##_count(a))

// 1 if the agent is in the game; always 1 if the spec names no field with EnvSpec.alive.
GV_INLINE gv_u8 gv_alive(const GvArgs& a, gv_i64 world, gv_i32 agent) {
#ifdef GV_ALIVE_FIELD
    return a.GV_ALIVE_FIELD[world * gv_num_agents(a) + agent] != 0;
#else
    (void)a, (void)world, (void)agent;
    return 1;
#endif
}

// ---- one world ------------------------------------------------------------------------------------------------

// State of a world: a reference to each number that has a name, a pointer to each field of several numbers.
struct GvState {
#define GV_NUMBER(name, type, field, length, index) type& name;
#define GV_ARRAY(name, type, length) GvPointer<type> name;
    GV_NAMED_STATE(GV_NUMBER, GV_ARRAY)
#undef GV_NUMBER
#undef GV_ARRAY
    gv_i32& t;  // steps of this episode, the present one included
    gv_u8 &terminated, &truncated;
};

GV_INLINE GvState gv_state(const GvArgs& a, const GvTeam& team) {
    const gv_i64 w = team.world;
    GV_ENTER(team.world_number, a.t[w])
#define GV_NUMBER(name, type, field, length, index) a.field[w * length + index],
#define GV_ARRAY(name, type, length) GV_CHECKED_FIELD(a.name + w * length, length, name),
    return {GV_NAMED_STATE(GV_NUMBER, GV_ARRAY) a.t[w], a.terminated[w], a.truncated[w]};
#undef GV_NUMBER
#undef GV_ARRAY
}

// Value of a parameter or constant in one world. GV_BY_WORLD is 0 if no parameter has values by world; the compiler then removes the test.
template <class T>
GV_INLINE T gv_param_of_world(const T* by_world, T shared, gv_i64 world) {
    return GV_BY_WORLD && by_world ? by_world[world] : shared;
}

// Table of one world. Numbers from one world's to the next are 0 if all worlds share it.
template <class T>
GV_INLINE const T* gv_table_of_world(const T* table, gv_i32 stride, gv_i64 world) {
    return GV_BY_WORLD ? table + world * stride : table;
}

// Parameters and constants that may differ between worlds; the values of one world.
struct GvParams {
#define GV_PARAM(name, type) type name;
    GV_PARAMS_BY_WORLD(GV_PARAM)
#undef GV_PARAM
};

GV_INLINE GvParams gv_params(const GvArgs& a, const GvTeam& team) {
    (void)a, (void)team;
#define GV_PARAM(name, type) gv_param_of_world<type>(a.name##_by_world, a.name, team.world),
    return {GV_PARAMS_BY_WORLD(GV_PARAM)};
#undef GV_PARAM
}

// ---- copies ---------------------------------------------------------------------------------------------------

// Overwrites a field of this world, n numbers, by that of world `from` in the array at `source`; does nothing if `source` is 0.
template <class T>
GV_FN void gv_copy_field(const GvTeam& team, T* field, gv_u64 source, gv_i64 from, gv_i32 n) {
    if (source != 0) {
        GV_FOR(i, n) field[(gv_i64)team.world * n + i] = ((const T*)source)[from * n + i];
    }
}

// Overwrites the state of this world by that of world `from`. `sources` holds the addresses of the arrays, in the order of the
// state.
GV_FN void gv_copy_fields(const GvArgs& a, const GvTeam& team, const gv_u64* sources, gv_i64 from) {
    gv_i32 number = 0;
#define GV_COPY(name, type, length) gv_copy_field(team, a.name, sources[number++], from, length);
    GV_STATE_FIELDS(GV_COPY)
    GV_WORLD_FIELDS(GV_COPY)
#undef GV_COPY
}
