// COVID-19 and the economy: 51 governors choose a stringency, a planner a subsidy; a step is a day. README.md has the rules.
// A lane steps a state; the planner's rewards and the metrics are made from sums over the states.
#include "hooks.h"
#include "lib/powers.h"

// Sizes, as in spec.py.
#define STATES 51
#define LEVELS 10   // stringencies
#define DELAY 29    // days from a stringency to its rate of infection
#define RING 30     // days of stringency stored
#define FILTERS 5   // filters of unemployment
#define WINDOW 600  // days after which a change of stringency leaves the filters

// Entries of the table `vaccine_days`.
#define FIRST_VACCINES 0
#define FIRST_DELIVERY 1

// Observed quantities of a state, as they are staged in scratch.
#define STRINGENCY 0
#define PRODUCTION 1
#define SHARES 2  // of the population: susceptible, infected, recovered, dead, vaccinated, unemployed
#define NUM_SHARES 6
#define LAGGED 8  // the stringency that decides the rate of infection of the next day
#define SHOWN 9
#define MAY_CHANGE 9  // in the row after them: 1 if the governor may choose another stringency
#define STAGED 10

// Features of a governor: stringency, what all agents observe, its index as one-hot, then the other quantities of its state. Rows
// are written in quads of features.
#define KNOWN 4
#define ONE_HOT (1 + KNOWN)
#define GOVERNOR_FEATURES (ONE_HOT + STATES + SHOWN - 1)
#define QUADS (GOVERNOR_FEATURES / 4)

// Quantities summed over the states.
#define DIED 0
#define PRODUCED 1
#define PAID 2
#define UNEMPLOYED 3
#define VACCINATED 4
#define DEAD 5
#define LEVEL 6
#define SUMS 7
#define PARTS 8  // of a sum, which lanes add at the same time

struct Scratch {
    float *shown;   // [STAGED][STATES]
    float *summed;  // [SUMS][STATES]
    float *part;    // [SUMS][PARTS]
    float *total;   // [SUMS]
};

GV_FN Scratch scratch_of(const GvTeam& team) {
    float* first = team.scratch;
    float* part = first + (STAGED + SUMS) * STATES;
    return {first, first + STAGED * STATES, part, part + SUMS * PARTS};
}

// Stringency on a day of the episode; recorded ones before it. `day` is at least -DELAY.
GV_FN gv_i32 level_on(const GvArgs& a, const GvState& s, gv_i32 day, gv_i32 i) {
    return day >= 0 ? s.levels[day % RING * STATES + i] : a.recorded[(DELAY + day) * STATES + i];
}

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR_ROLE(governor, i) {
        s.susceptible[i] = a.first[i];
        s.infected[i] = a.first[STATES + i];
        s.recovered[i] = a.first[2 * STATES + i];
        s.vaccinated[i] = a.first[3 * STATES + i];
        s.unemployed[i] = a.first[4 * STATES + i];
        s.deaths[i] = a.mortality * a.first[2 * STATES + i];  // the vaccinated count, too, on this day alone
        s.production[i] = 0.0f;
        s.subsidy[i] = 0.0f;
        s.closed_until[i] = 0;
        for (gv_i32 k = 0; k < FILTERS; ++k) s.filters[k * STATES + i] = a.first_filters[k * STATES + i];
        for (gv_i32 day = 0; day < RING; ++day) s.levels[day * STATES + i] = a.recorded[DELAY * STATES + i];
    }
    GV_FOR(i, gv_num_agents(a)) s.health_index[i] = s.economic_index[i] = 0.0f;
    GV_ONCE s.subsidy_level = 0;
}

// ---- one day of a state ---------------------------------------------------------------------------------------

// Utility of an income, a share of a year's income without a pandemic: constant relative risk aversion.
GV_FN float utility(const GvArgs& a, float share) {
    const float income = gv_clamp(365.0f * share, 0.1f, 3.0f);
    const float power = a.eta == 2.0f ? 1.0f / income : gv_exp((1.0f - a.eta) * gv_log(income));
    return a.utility_of_one + power * a.per_power;
}

struct Epidemic {
    float susceptible, infected, recovered, vaccinated;
};

GV_FN Epidemic spread(const GvArgs& a, const GvState& s, gv_i32 i) {
    const float beta = a.beta[i] + a.beta[STATES + i] * (float)level_on(a, s, s.t - DELAY, i);  // may be negative
    const bool delivered = s.t >= a.vaccine_days[FIRST_VACCINES] && s.t % a.vaccine_interval == 0;
    const float doses = delivered ? a.doses[i] : 0.0f;
    const float susceptible = s.susceptible[i], infected = s.infected[i], newly = gv_min(doses, susceptible);
    const float exposed = delivered ? 1.0f - gv_min(1.0f, doses / (susceptible + 1.0e-10f)) : 1.0f;
    const float ds = -beta * (susceptible * a.per_person[i] * infected) * exposed - newly, dr = a.recovery * infected + newly;
    return {gv_max(0.0f, susceptible + ds), gv_max(0.0f, infected + (-ds - dr)), gv_max(0.0f, s.recovered[i] + dr),
            gv_max(0.0f, s.vaccinated[i] + newly)};
}

// Unemployed persons after a change of stringency. A change leaves the filters after WINDOW days, which is never one of the episode.
// Only a state that was set has later days than WINDOW.
GV_FN float unemployment(const GvArgs& a, const GvState& s, gv_i32 i, gv_i32 change) {
    const float leaving = s.t <= WINDOW ? (float)a.leaving[(s.t - 1) * STATES + i] : 0.0f;
    float sum = 0.0f;
    for (gv_i32 k = 0; k < FILTERS; ++k) {
        const float filter = s.filters[k * STATES + i] * a.decay[k] + (float)change - leaving * a.decay[FILTERS + k];
        s.filters[k * STATES + i] = filter;
        sum += a.weight[k * STATES + i] * filter;
    }
    return (gv_softplus(sum) + a.bias[i]) * a.percent[i];
}

GV_FN float reward_of(const GvArgs& a, float weight, float health, float economy) {
    return (weight * health + (1.0f - weight) * economy) * a.reward_scale;
}

// Stages what is observed of state i on day t.
GV_FN void show(const GvArgs& a, const GvState& s, float* shown, gv_i32 i) {
    const float per_person = a.per_person[i];
    shown[STRINGENCY * STATES + i] = (float)level_on(a, s, s.t, i) * a.per_level;
    shown[PRODUCTION * STATES + i] = s.production[i] * a.per_most[i];
    shown[SHARES * STATES + i] = s.susceptible[i] * per_person;
    shown[(SHARES + 1) * STATES + i] = s.infected[i] * per_person;
    shown[(SHARES + 2) * STATES + i] = s.recovered[i] * per_person;
    shown[(SHARES + 3) * STATES + i] = s.deaths[i] * per_person;
    shown[(SHARES + 4) * STATES + i] = s.vaccinated[i] * per_person;
    shown[(SHARES + 5) * STATES + i] = s.unemployed[i] * per_person;
    shown[LAGGED * STATES + i] = (float)level_on(a, s, s.t - (DELAY - 1), i) * a.per_level;
    shown[MAY_CHANGE * STATES + i] = s.t >= s.closed_until[i] ? 1.0f : 0.0f;
}

// `share` is the level of the subsidy, 1 for the highest.
GV_FN void govern(const GvArgs& a, const GvTeam& team, const GvState& s, gv_i32 i, float share) {
    const Scratch scratch = scratch_of(team);
    const gv_i32 t = s.t, choice = gv_action_index(a, gv_governor_action(a, team.world, i), 0, LEVELS + 1);
    const gv_i32 before = level_on(a, s, t - 1, i), level = choice != 0 ? choice : before;
    const Epidemic next = spread(a, s, i);  // reads the ring before this day replaces day t - RING
    const float deaths = a.mortality * (next.recovered - next.vaccinated), died = deaths - s.deaths[i];
    const float unemployed = unemployment(a, s, i, level - before), paid = share * a.full_subsidy[i];
    const float absent = (a.sick_rate * next.infected + deaths) * a.working_age + unemployed;
    const float produced = gv_max(0.0f, a.working_age_population[i] - absent) * a.per_worker + paid;
    const float health = (-died * a.cost_of_death[i] - a.bounds[i]) * a.bounds[STATES + i];
    const float economy = (utility(a, produced * a.per_norm[i]) - a.bounds[2 * STATES + i]) * a.bounds[3 * STATES + i];
    if (t == s.closed_until[i] + 1) s.closed_until[i] += choice == 0 ? 1 : a.action_cooldown;
    s.levels[t % RING * STATES + i] = (gv_u8)level;
    s.susceptible[i] = next.susceptible;
    s.infected[i] = next.infected;
    s.recovered[i] = next.recovered;
    s.vaccinated[i] = next.vaccinated;
    s.deaths[i] = deaths;
    s.unemployed[i] = unemployed;
    s.subsidy[i] = paid;
    s.production[i] = produced;
    s.health_index[i] += health;
    s.economic_index[i] += economy;
    const float values[SUMS] = {died, produced, paid, unemployed, next.vaccinated, deaths, (float)level};
    for (gv_i32 k = 0; k < SUMS; ++k) scratch.summed[k * STATES + i] = values[k];
    show(a, s, scratch.shown, i);
    a.agent_reward[gv_governor_row(a, team.world, i)] = reward_of(a, a.governor_health_weight[i], health, economy);
}

// ---- the nation -----------------------------------------------------------------------------------------------

// Rewards the planner and records the metrics. `total` are the sums over the states.
GV_FN void account(const GvArgs& a, const GvTeam& team, const GvState& s, const float* total) {
    const float income = total[PRODUCED] - (1.0f + a.risk_free_rate) * total[PAID];
    const float health = (-total[DIED] * a.planner_cost_of_death - a.planner_bounds[0]) * a.planner_bounds[1];
    const float economy = (utility(a, income * a.per_planner_norm) - a.planner_bounds[2]) * a.planner_bounds[3];
    s.health_index[STATES] += health;
    s.economic_index[STATES] += economy;
    a.agent_reward[gv_planner_row(a, team.world, 0)] = reward_of(a, a.planner_health_weight, health, economy);
    gv_record_deaths(a, team, total[DEAD] * 1.0e-3f);
    gv_record_vaccinated(a, team, total[VACCINATED] * a.percent_of_us);
    gv_record_unemployed(a, team, total[UNEMPLOYED] * a.percent_of_us);
    gv_record_stringency(a, team, total[LEVEL] * (1.0f / (float)STATES));
    gv_record_subsidies(a, team, total[PAID] * 1.0e-12f);
    gv_record_production(a, team, total[PRODUCED] * 1.0e-12f);
    gv_record_health(a, team, health);
    gv_record_economy(a, team, economy);
}

GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const Scratch scratch = scratch_of(team);
    const gv_i32 choice = gv_given_index(gv_planner_action(a, team.world, 0), 0);  // read by every lane, counted by one
    const gv_i32 chosen = choice >= 0 && choice <= a.num_subsidy_levels ? choice : 0;
    const gv_i32 subsidy_level = (s.t - 1) % a.subsidy_interval == 0 ? chosen : s.subsidy_level;
    const float share = (float)subsidy_level / (float)a.num_subsidy_levels;
    GV_FOR_ROLE(governor, i) govern(a, team, s, i, share);
    gv_barrier(team);  // every lane has read the level of the subsidy
    GV_ONCE {
        gv_checked_index(a, choice, a.num_subsidy_levels + 1);
        s.subsidy_level = subsidy_level;
    }
    GV_FOR(n, SUMS * PARTS) {
        const gv_i32 k = n / PARTS;
        float part = 0.0f;
        for (gv_i32 i = n % PARTS; i < STATES; i += PARTS) part += scratch.summed[k * STATES + i];
        scratch.part[n] = part;
    }
    gv_barrier(team);
    GV_FOR(k, SUMS) {
        float total = 0.0f;
        for (gv_i32 p = 0; p < PARTS; ++p) total += scratch.part[k * PARTS + p];
        scratch.total[k] = total;
    }
    gv_barrier(team);
    GV_ONCE {
        account(a, team, s, scratch.total);
        s.truncated = gv_time_is_up(s.t, a.episode_length);
    }
}

// ---- observations ---------------------------------------------------------------------------------------------

// Numbers that all agents observe.
struct Known {
    float subsidy, to_subsidy, to_vaccines, time;
};

// The time to the next vaccines is divided twice by the interval before the first delivery, as in the original.
GV_FN Known known_of(const GvArgs& a, const GvState& s) {
    const gv_i32 interval = a.vaccine_interval, first = a.vaccine_days[FIRST_DELIVERY], next = s.t + 1;
    const float left = (float)(a.subsidy_interval - s.t % a.subsidy_interval);
    return gv_dividing([&](auto by) -> Known {
        const float early = gv_min(1.0f, (float)(first - next) / by((float)interval)), late = (float)(interval - next % interval);
        return {(float)s.subsidy_level / by((float)a.num_subsidy_levels), left / by((float)a.subsidy_interval),
                (next <= first ? early : late) / by((float)interval), (float)s.t / by((float)a.episode_length)};
    });
}

GV_FN float known_at(const Known& known, gv_i32 k) {
    return k == 0 ? known.subsidy : k == 1 ? known.to_subsidy : k == 2 ? known.to_vaccines : known.time;
}

// Writes observations from what show() has staged on this day.
GV_FN void env_observe_step(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, since = s.t % a.subsidy_interval;
    const float* shown = scratch_of(team).shown;
    const Known known = known_of(a, s);
    float *governors = gv_governor_obs(a, obs, w, 0), *planner = gv_planner_obs(a, obs, w, 0);
    const bool aligned = gv_is_aligned<4>(governors);
    // Whole rows are written at once, because a GPU's memory takes 64 bytes at a time.
    gv_for_table(team, STATES, QUADS, [&](gv_i32 i, gv_i32 quad) {
        const float* state = shown + i;
        float values[4];
        if (quad == 0) {
            values[0] = state[STRINGENCY * STATES];
            values[1] = known.subsidy;
            values[2] = known.to_subsidy;
            values[3] = known.to_vaccines;
        } else if (quad < QUADS - 2) {
            const gv_i32 at = i + ONE_HOT - 4 * quad;  // place of the 1
            GV_UNROLL for (gv_i32 k = 0; k < 4; ++k) values[k] = at == k ? 1.0f : 0.0f;
            if (quad == 1) values[0] = known.time;
        } else {
            const float* from = state + (PRODUCTION + 4 * (quad - (QUADS - 2))) * STATES;
            GV_UNROLL for (gv_i32 k = 0; k < 4; ++k) values[k] = from[k * STATES];
        }
        gv_write_row(governors + i * GOVERNOR_FEATURES + 4 * quad, values, aligned);
    });
    float* const of_nation = planner + STATES;
    GV_FOR(i, STATES) {
        planner[i] = shown[STRINGENCY * STATES + i];
        of_nation[KNOWN + i] = shown[PRODUCTION * STATES + i];
    }
    GV_FOR(k, KNOWN) of_nation[k] = known_at(known, k);
    float* const shares = of_nation + KNOWN + STATES;
    gv_for_table(team, STATES, NUM_SHARES,
                 [&](gv_i32 i, gv_i32 k) { shares[i * NUM_SHARES + k] = shown[(SHARES + k) * STATES + i]; });
    GV_FOR(i, STATES) shares[NUM_SHARES * STATES + i] = shown[LAGGED * STATES + i];
    gv_u8 *governor_may = gv_governor_mask(a, obs, w, 0), *planner_may = gv_planner_mask(a, obs, w, 0);
    gv_for_table(team, STATES, LEVELS + 1,
                 [&](gv_i32 i, gv_i32 k) { governor_may[i * (LEVELS + 1) + k] = k == 0 || shown[MAY_CHANGE * STATES + i] != 0.0f; });
    GV_FOR(k, gv_planner_num_choices(a)) planner_may[k] = k == 0 || since == 0;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    gv_barrier(team);
    GV_FOR_ROLE(governor, i) show(a, s, scratch_of(team).shown, i);
    gv_barrier(team);
    env_observe_step(a, team, obs);
}
