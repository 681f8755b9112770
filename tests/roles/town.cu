// A town: citizens work or strike, and a mayor sets a tax and a dole. Test env for roles with spaces of their own.
#include "hooks.h"

#define REST 0
#define WORK 1
#define STRIKE 2
#define CHOICES 3
#define STRIKE_STEPS 3

// Values of a world that observations show, in scratch, where each lane can read those of all citizens.
struct Scratch {
    float *wealth, *idle, *tax;  // [citizens], [citizens] 1 during a strike, [1]
};

GV_FN Scratch scratch_of(const GvArgs& a, const GvTeam& team) {
    const gv_i32 citizens = gv_citizen_count(a);
    return {team.scratch, team.scratch + citizens, team.scratch + 2 * citizens};
}

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
    const Scratch of = scratch_of(a, team);
    const gv_i32 w = team.world, t = s.t, citizens = gv_citizen_count(a);
    const GvAction mayor = gv_mayor_action(a, w, 0);
    const float given_tax = gv_given_value(mayor, 0), given_dole = gv_given_value(mayor, 1);
    const float tax = gv_clamp(gv_acting_value(given_tax), 0.0f, 1.0f);
    const float dole = gv_clamp(gv_acting_value(given_dole), 0.0f, 1.0f);
    GV_FOR_ROLE(citizen, i) {
        const gv_i32 given = gv_given_index(gv_citizen_action(a, w, i), 0);
        const float wealth = s.wealth[i], skill = a.skill[i];
        const gv_i32 idle_until = s.idle_until[i];  // all loads stand before the check, which waits for one of them
        const gv_i32 choice = gv_checked_index(a, given, CHOICES);
        const float income = (choice == WORK ? skill : 0.0f) * (1.0f - tax) + dole * 0.125f;
        const gv_i32 until = choice == STRIKE ? t + STRIKE_STEPS : idle_until;
        s.wealth[i] = of.wealth[i] = wealth + income;
        s.idle_until[i] = until;
        of.idle[i] = t < until ? 1.0f : 0.0f;
        a.agent_reward[gv_citizen_row(a, w, i)] = income;
    }
    GV_ONCE {
        s.tax = of.tax[0] = tax;
        gv_count_invalid(a, given_tax);
        gv_count_invalid(a, given_dole);
    }
    gv_barrier(team);
    const gv_i32 strikers = gv_count(team, citizens, [&](gv_i32 i) { return of.idle[i] != 0.0f; });
    const float total = gv_sum(team, citizens, [&](gv_i32 i) { return of.wealth[i]; });
    gv_record_strikes(a, team, (float)strikers);
    gv_record_tax(a, team, tax);
    GV_ONCE {
        a.agent_reward[gv_mayor_row(a, w, 0)] = total;
        s.terminated = total > a.rich;
        s.truncated = gv_time_is_up(t, a.max_episode_steps);
    }
}

// A citizen observes its wealth, its skill, the tax and the time; the mayor observes the wealth of all citizens and the time.
// During a strike only REST is allowed. Behind env_step, scratch holds the values.
GV_FN void env_observe_step(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const Scratch of = scratch_of(a, team);
    const gv_i32 w = team.world, citizens = gv_citizen_count(a);
    const float t = (float)a.t[w], tax = of.tax[0];
    const bool aligned = gv_is_aligned<4>(gv_citizen_obs(a, obs, 0, 0));
    float* mayor = gv_mayor_obs(a, obs, w, 0);
    GV_FOR_ROLE(citizen, i) {
        const float wealth = of.wealth[i];
        gv_write_row<4>(gv_citizen_obs(a, obs, w, i), {wealth, a.skill[i], tax, t}, aligned);
        gv_u8* mask = gv_citizen_mask(a, obs, w, i);
        mask[REST] = 1;
        mask[WORK] = mask[STRIKE] = of.idle[i] == 0.0f;
        mayor[i] = wealth;
    }
    GV_ONCE mayor[citizens] = t;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const Scratch of = scratch_of(a, team);
    gv_barrier(team);
    GV_FOR_ROLE(citizen, i) {
        of.wealth[i] = s.wealth[i];
        of.idle[i] = s.t < s.idle_until[i] ? 1.0f : 0.0f;
    }
    GV_ONCE of.tax[0] = s.tax;
    gv_barrier(team);
    env_observe_step(a, team, obs);
}
