// Actions of Tag by hand, and values of parameters and tables that may differ between worlds.
#pragma once
#include "hooks.h"

#define PARAM(name) gv_param_of_world(a.name##_by_world, a.name, team.world)
#define TABLE(name) gv_table_of_world(a.name, a.name##_stride, team.world)

struct Change {
    float acceleration, turn;
};

GV_FN Change chosen_change(const GvArgs& a, const GvTeam& team, gv_i64 row) {
    if (a.continuous_actions) {
        return {gv_clamp(gv_action_value(a, row, 0, 2), PARAM(min_acceleration), PARAM(max_acceleration)),
                gv_clamp(gv_action_value(a, row, 1, 2), PARAM(min_turn), PARAM(max_turn))};
    }
    const gv_i32 accelerations = a.num_acceleration_levels + 1, turns = a.num_turn_levels + 1;
    if (a.flatten_actions) {
        const gv_i32 index = gv_action_index(a, row, 0, 1, accelerations * turns);
        return {TABLE(acceleration_table)[index / turns], TABLE(turn_table)[index % turns]};
    }
    const gv_i32 acceleration = gv_given_index(a, row, 0, 2), turn = gv_given_index(a, row, 1, 2);
    return {TABLE(acceleration_table)[gv_checked_index(a, acceleration, accelerations)],
            TABLE(turn_table)[gv_checked_index(a, turn, turns)]};
}
