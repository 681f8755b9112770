// Hooks of envs/mountain_car_continuous that take (a, team) and do without GvWorld; see test_world_cost.py.
#include "valley.h"

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        const float action = gv_action_value(a, row, 0, 1);
        const bool arrived = drive(a, team, gv_clamp(action, -1.0f, 1.0f) * gv_params(a, team).power);
        // The cost is computed from the action before it is clipped, as in Gymnasium.
        a.agent_reward[row] = (arrived ? 100.0f : 0.0f) - 0.1f * action * action;
    }
}
