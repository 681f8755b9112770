// Hooks of envs/mountain_car that take (a, team) and do without GvWorld; see test_world_cost.py.
#include "valley.h"

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_ONCE {
        const gv_i64 row = gv_row(a, team.world, 0);
        const gv_i32 direction = gv_action_index(a, row, 0, 1, 3) - 1;
        drive(a, team, (float)direction * gv_params(a, team).force);
        a.agent_reward[row] = -1.0f;
    }
}
