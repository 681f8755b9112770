// A town: citizens work or strike, and a mayor sets a tax and a dole. Test env for roles with spaces of their own.
#include "hooks.h"

#define REST 0
#define WORK 1
#define STRIKE 2
#define STRIKE_STEPS 3

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR_ROLE(citizen, i) {
        s.wealth[i] = gv_uniform(gv_draw(a, team, 0, (gv_u32)i).word[0]);
        s.idle_until[i] = 0;
    }
    GV_ONCE s.tax = 0.0f;
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, t = s.t, citizens = gv_citizen_count(a);
    const GvAction mayor = gv_mayor_action(a, w, 0);
    const float tax = gv_clamp(gv_action_value(a, mayor, 0), 0.0f, 1.0f);
    const float dole = gv_clamp(gv_action_value(a, mayor, 1), 0.0f, 1.0f);
    GV_FOR_ROLE(citizen, i) {
        const gv_i32 choice = gv_action_index(a, gv_citizen_action(a, w, i), 0, 3);
        const float income = (choice == WORK ? a.skill[i] : 0.0f) * (1.0f - tax) + dole * 0.125f;
        s.wealth[i] += income;
        if (choice == STRIKE) s.idle_until[i] = t + STRIKE_STEPS;
        a.agent_reward[gv_citizen_row(a, w, i)] = income;
    }
    gv_barrier(team);
    const float total = gv_sum(team, citizens, [&](gv_i32 i) { return s.wealth[i]; });
    const gv_i32 idle = gv_count(team, citizens, [&](gv_i32 i) { return t < s.idle_until[i]; });
    gv_record_strikes(a, team, (float)idle);
    gv_record_tax(a, team, tax);
    GV_ONCE {
        s.tax = tax;
        a.agent_reward[gv_mayor_row(a, w, 0)] = total;
        s.terminated = total > a.rich;
        s.truncated = gv_time_is_up(t, a.max_episode_steps);
    }
}

// A citizen observes its wealth, its skill, the tax and the time; the mayor observes the wealth of all citizens and the time.
// During a strike only REST is allowed.
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world;
    float* mayor = gv_mayor_obs(a, obs, w, 0);
    GV_FOR_ROLE(citizen, i) {
        float* row = gv_citizen_obs(a, obs, w, i);
        row[0] = mayor[i] = s.wealth[i];
        row[1] = a.skill[i];
        row[2] = s.tax;
        row[3] = (float)s.t;
        gv_u8* mask = gv_citizen_mask(a, obs, w, i);
        mask[REST] = 1;
        mask[WORK] = mask[STRIKE] = s.t >= s.idle_until[i];
    }
    GV_ONCE mayor[gv_citizen_count(a)] = (float)s.t;
}
