// Catalytic reaction pathways: an atom, or one of two atoms, moves over a table of energies to a target. One lane a world.
#include "hooks.h"

#define ATOMS 2
#define MOVES 6  // x + 1, x - 1, y + 1, y - 1, z + 1, z - 1

struct Place {
    gv_i32 x, y, z;
};

GV_FN bool has_two_atoms(const GvArgs& a) { return gv_num_features(a) == 8; }
GV_FN Place target_of_first(const GvArgs& a) { return {(gv_i32)a.target_x, (gv_i32)a.target_y, (gv_i32)a.target_z}; }
GV_FN Place target_of_second(const GvArgs& a) { return {(gv_i32)a.target_x2, (gv_i32)a.target_y2, (gv_i32)a.target_z2}; }
GV_FN bool is_same(const Place& p, const Place& q) { return p.x == q.x && p.y == q.y && p.z == q.z; }

// A place of the state. The field has one bound for all axes, so a coordinate that a caller sets may lie after its axis.
GV_FN Place place_of(const GvArgs& a, gv_i32 x, gv_i32 y, gv_i32 z) {
    return {x < a.nx ? x : a.nx - 1, y < a.ny ? y : a.ny - 1, z < a.nz ? z : a.nz - 1};
}

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        s.x = (gv_u8)a.start_x;
        s.y = (gv_u8)a.start_y;
        s.z = (gv_u8)a.start_z;
        s.x2 = (gv_u8)a.start_x2;
        s.y2 = (gv_u8)a.start_y2;
        s.z2 = (gv_u8)a.start_z2;
        s.spare = s.spare2 = 0;
    }
}

// Coordinate `at` of a periodic axis with n cells, `by` cells further.
GV_FN gv_i32 stepped(gv_i32 at, gv_i32 by, gv_i32 n) {
    const gv_i32 to = at + by;
    return to < 0 ? n - 1 : to >= n ? 0 : to;
}

// The place after a move; the same place if `moves` is false.
GV_FN Place moved(const GvArgs& a, const Place& from, bool moves, gv_i32 move) {
    const gv_i32 by = !moves ? 0 : move % 2 == 0 ? 1 : -1, axis = move / 2;
    return {stepped(from.x, axis == 0 ? by : 0, a.nx), stepped(from.y, axis == 1 ? by : 0, a.ny),
            stepped(from.z, axis == 2 ? by : 0, a.nz)};
}

GV_FN bool is_outside(const GvArgs& a, const Place& p) { return p.z < a.z_slab_lower || p.z >= a.z_slab_upper; }

// Number of a place among those of the slab.
GV_FN gv_i32 cell_of(const GvArgs& a, const Place& p) {
    return (p.x * a.ny + p.y) * (a.z_slab_upper - a.z_slab_lower) + (p.z - a.z_slab_lower);
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        const gv_i32 entries = gv_num_entries(a);
        const bool two = has_two_atoms(a), joint = two && entries == 1;  // one index for atom and move
        const gv_i32 given_atom = entries == 2 ? gv_given_index(a, row, 0, entries) : 0;
        const gv_i32 given_last = gv_given_index(a, row, entries - 1, entries);
        const gv_i32 entry = gv_checked_index(a, given_atom, ATOMS);
        const gv_i32 last = gv_checked_index(a, given_last, joint ? ATOMS * MOVES : MOVES);
        const gv_i32 atom = joint ? last / MOVES : entry, move = joint ? last % MOVES : last;
        const Place before = place_of(a, s.x, s.y, s.z), before2 = place_of(a, s.x2, s.y2, s.z2);
        Place first = moved(a, before, atom == 0, move), second = moved(a, before2, atom == 1, move);
        const bool outside = is_outside(a, first) || (two && is_outside(a, second));
        if (outside && a.leaving_is_undone != 0.0f) {
            first = before;
            second = before2;
        }
        const gv_i32 cells = a.nx * a.ny * (a.z_slab_upper - a.z_slab_lower);
        const gv_i32 cell = outside ? 0 : two ? cell_of(a, first) * cells + cell_of(a, second) : cell_of(a, first);
        const GvVec<float, 2> reward_and_height = ((const GvVec<float, 2>*)a.cells)[cell];
        const bool arrived = is_same(first, target_of_first(a)) && (!two || is_same(second, target_of_second(a)));
        s.x = (gv_u8)first.x;
        s.y = (gv_u8)first.y;
        s.z = (gv_u8)first.z;
        if (two) {
            s.x2 = (gv_u8)second.x;
            s.y2 = (gv_u8)second.y;
            s.z2 = (gv_u8)second.z;
        }
        const float inside = arrived ? a.reward_at_target : reward_and_height.value[0];  // the sum is rounded once, by the spec
        a.agent_reward[row] = outside ? a.reward_outside + (arrived ? a.bonus : 0.0f) : inside;
        s.terminated = arrived;
        s.truncated = !arrived && s.t >= a.episode_length;
        gv_record_barrier(a, team, outside ? 0.0f : reward_and_height.value[1]);  // a cell outside has no energy
        gv_record_arrived(a, team, arrived ? 1.0f : 0.0f);
    }
}

// Distance from a target over that of the start.
GV_FN float distance(const Place& p, const Place& target, float at_start) {
    const float x = (float)(p.x - target.x), y = (float)(p.y - target.y), z = (float)(p.z - target.z);
    return gv_sqrt(x * x + y * y + z * z) / at_start;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    const auto s = gv_state(a, team);
    GV_ONCE {
        float* row = gv_obs_row(a, obs, team.world, 0);
        const float nx = (float)a.nx, ny = (float)a.ny, nz = (float)a.nz;
        const Place first = place_of(a, s.x, s.y, s.z), second = place_of(a, s.x2, s.y2, s.z2);
        const float near = distance(first, target_of_first(a), a.start_distance);
        const float x = (float)first.x / nx, y = (float)first.y / ny, z = (float)first.z / nz;
        if (has_two_atoms(a)) {
            const float near2 = distance(second, target_of_second(a), a.start_distance2);
            gv_write_row<8>(row, {x, y, z, (float)second.x / nx, (float)second.y / ny, (float)second.z / nz, near, near2});
        } else {
            gv_write_row<4>(row, {x, y, z, near});
        }
    }
}
