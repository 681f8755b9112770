// Catalytic reaction pathways: an atom, or one of two atoms, moves over a table of energies to a target. One lane a world.
#include "world.h"

#define MOVES 6  // x + 1, x - 1, y + 1, y - 1, z + 1, z - 1

struct Place {
    int x, y, z;
};

GV_FN bool has_two_atoms(const GvWorld& w) { return w.sizes.num_features == 8; }
GV_FN Place target_of_first(const GvWorld& w) { return {(int)w.params.target_x, (int)w.params.target_y, (int)w.params.target_z}; }
GV_FN Place target_of_second(const GvWorld& w) { return {(int)w.params.target_x2, (int)w.params.target_y2, (int)w.params.target_z2}; }
GV_FN bool is_same(const Place& p, const Place& q) { return p.x == q.x && p.y == q.y && p.z == q.z; }

// A place of the state. The field has one bound for all axes, so a coordinate that a caller sets may lie after its axis.
GV_FN Place place_of(const GvWorld& w, int x, int y, int z) {
    const auto& p = w.params;
    return {x < p.nx ? x : p.nx - 1, y < p.ny ? y : p.ny - 1, z < p.nz ? z : p.nz - 1};
}

GV_FN void env_reset(GvWorld& w) {
    const auto& s = w.state;
    const auto& p = w.params;
    if (w.once) {
        s.x = (gv_u8)p.start_x;
        s.y = (gv_u8)p.start_y;
        s.z = (gv_u8)p.start_z;
        s.x2 = (gv_u8)p.start_x2;
        s.y2 = (gv_u8)p.start_y2;
        s.z2 = (gv_u8)p.start_z2;
        s.spare = s.spare2 = 0;
    }
}

// Coordinate `at` of a periodic axis with n cells, `by` cells further.
GV_FN int stepped(int at, int by, int n) {
    const int to = at + by;
    return to < 0 ? n - 1 : to >= n ? 0 : to;
}

// The place after a move; the same place if `moves` is false.
GV_FN Place moved(const GvWorld& w, const Place& from, bool moves, int move) {
    const int by = !moves ? 0 : move % 2 == 0 ? 1 : -1, axis = move / 2;
    return {stepped(from.x, axis == 0 ? by : 0, w.params.nx), stepped(from.y, axis == 1 ? by : 0, w.params.ny),
            stepped(from.z, axis == 2 ? by : 0, w.params.nz)};
}

GV_FN bool is_outside(const GvWorld& w, const Place& p) { return p.z < w.params.z_slab_lower || p.z >= w.params.z_slab_upper; }

// Number of a place among those of the slab.
GV_FN int cell_of(const GvWorld& w, const Place& p) {
    return (p.x * w.params.ny + p.y) * (w.params.z_slab_upper - w.params.z_slab_lower) + (p.z - w.params.z_slab_lower);
}

GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    const auto& p = w.params;
    for (auto me : w.agents) {
        const int entries = w.sizes.num_entries;
        const bool two = has_two_atoms(w), joint = two && entries == 1;  // one index for atom and move
        const int given_atom = entries == 2 ? me.action.given_index(0) : 0, given_last = me.action.given_index(entries - 1);
        const int entry = entries == 2 ? me.action.checked_index(given_atom, 0) : 0;
        const int last = me.action.checked_index(given_last, entries - 1);
        const int atom = joint ? last / MOVES : entry, move = joint ? last % MOVES : last;
        const Place before = place_of(w, s.x, s.y, s.z), before2 = place_of(w, s.x2, s.y2, s.z2);
        Place first = moved(w, before, atom == 0, move), second = moved(w, before2, atom == 1, move);
        const bool outside = is_outside(w, first) || (two && is_outside(w, second));
        if (outside && p.leaving_is_undone != 0.0f) {
            first = before;
            second = before2;
        }
        const int cells = p.nx * p.ny * (p.z_slab_upper - p.z_slab_lower);
        const int cell = outside ? 0 : two ? cell_of(w, first) * cells + cell_of(w, second) : cell_of(w, first);
        const GvVec<float, 2> reward_and_height = ((const GvVec<float, 2>*)w.tables.cells)[cell];
        const bool arrived = is_same(first, target_of_first(w)) && (!two || is_same(second, target_of_second(w)));
        s.x = (gv_u8)first.x;
        s.y = (gv_u8)first.y;
        s.z = (gv_u8)first.z;
        if (two) {
            s.x2 = (gv_u8)second.x;
            s.y2 = (gv_u8)second.y;
            s.z2 = (gv_u8)second.z;
        }
        const float inside = arrived ? p.reward_at_target : reward_and_height.value[0];  // the sum is rounded once, by the spec
        me.reward = outside ? p.reward_outside + (arrived ? p.bonus : 0.0f) : inside;
        w.terminate(arrived);
        w.truncate(!arrived && w.t >= p.episode_length);
        w.record.barrier(outside ? 0.0f : reward_and_height.value[1]);  // a cell outside has no energy
        w.record.arrived(arrived ? 1.0f : 0.0f);
    }
}

// Distance from a target over that of the start.
GV_FN float distance(const Place& p, const Place& target, float at_start) {
    const float x = (float)(p.x - target.x), y = (float)(p.y - target.y), z = (float)(p.z - target.z);
    return gv_sqrt(x * x + y * y + z * z) / at_start;
}

GV_FN void env_observe(GvWorld& w) {
    const auto& s = w.state;
    const auto& p = w.params;
    for (auto me : w.agents) {
        const float nx = (float)p.nx, ny = (float)p.ny, nz = (float)p.nz;
        const Place first = place_of(w, s.x, s.y, s.z), second = place_of(w, s.x2, s.y2, s.z2);
        const float near = distance(first, target_of_first(w), p.start_distance);
        const float x = (float)first.x / nx, y = (float)first.y / ny, z = (float)first.z / nz;
        if (has_two_atoms(w)) {
            const float near2 = distance(second, target_of_second(w), p.start_distance2);
            me.obs = {x, y, z, (float)second.x / nx, (float)second.y / ny, (float)second.z / nz, near, near2};
        } else {
            me.obs = {x, y, z, near};
        }
    }
}
