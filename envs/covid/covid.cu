// COVID-19 and the economy: 51 governors choose a stringency, a planner a subsidy; a step is a day. README.md has the rules.
// A lane steps a state; the planner's rewards and the metrics are made from sums over the states.
#include "hooks.h"
#include "lib/powers.h"

// As in spec.py.
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

// Features of a governor: stringency, what all agents observe, its index as one-hot, then the other quantities of its state.
#define KNOWN 4
#define ONE_HOT (1 + KNOWN)
#define GOVERNOR_FEATURES (ONE_HOT + STATES + SHOWN - 1)

// Quantities summed over the states.
#define DIED 0
#define PRODUCED 1
#define PAID 2
#define UNEMPLOYED 3
#define VACCINATED 4
#define DEAD 5
#define LEVEL 6
#define SUMS 7

struct Scratch {
    float *shown;   // [SHOWN][STATES]
    float *summed;  // [SUMS][STATES]
    float *total;   // [SUMS]
};

GV_FN Scratch scratch_of(const GvTeam& team) {
    float* first = team.scratch;
    return {first, first + SHOWN * STATES, first + (SHOWN + SUMS) * STATES};
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
    const float power = a.eta == 2.0f ? 1.0f / income : gv_pow(income, 1.0f - a.eta);
    return (1.0f + (power - 1.0f) / (1.0f - a.eta)) / 365.0f;
}

struct Epidemic {
    float susceptible, infected, recovered, vaccinated;
};

GV_FN Epidemic spread(const GvArgs& a, const GvState& s, gv_i32 i) {
    const float beta = a.beta[i] + a.beta[STATES + i] * (float)level_on(a, s, s.t - DELAY, i);  // may be negative
    const bool delivered = s.t >= a.vaccine_days[FIRST_VACCINES] && s.t % a.vaccine_interval == 0;
    const float doses = delivered ? a.doses[i] : 0.0f;
    const float susceptible = s.susceptible[i], infected = s.infected[i], newly = gv_min(doses, susceptible);
    const float exposed = 1.0f - gv_min(1.0f, doses / (susceptible + 1.0e-10f));
    const float ds = -beta * (susceptible / a.population[i] * infected) * exposed - newly, dr = a.recovery * infected + newly;
    return {gv_max(0.0f, susceptible + ds), gv_max(0.0f, infected + (-ds - dr)), gv_max(0.0f, s.recovered[i] + dr),
            gv_max(0.0f, s.vaccinated[i] + newly)};
}

// Unemployed persons after a change of stringency. A change leaves the filters after WINDOW days, which is never one of the episode.
GV_FN float unemployment(const GvArgs& a, const GvState& s, gv_i32 i, gv_i32 change) {
    const float leaving = (float)a.leaving[(s.t - 1) * STATES + i];
    float sum = 0.0f;
    for (gv_i32 k = 0; k < FILTERS; ++k) {
        const float filter = s.filters[k * STATES + i] * a.decay[k] + (float)change - leaving * a.decay[FILTERS + k];
        s.filters[k * STATES + i] = filter;
        sum += a.weight[k * STATES + i] * filter;
    }
    return (gv_softplus(sum) + a.bias[i]) * a.population[i] / 100.0f;
}

GV_FN float reward_of(const GvArgs& a, float weight, float health, float economy) {
    return (weight * health + (1.0f - weight) * economy) / a.reward_normalization_factor;
}

// Stages what is observed of state i on day t.
GV_FN void show(const GvArgs& a, const GvState& s, float* shown, gv_i32 i) {
    const float n = a.population[i];
    shown[STRINGENCY * STATES + i] = (float)level_on(a, s, s.t, i) / (float)LEVELS;
    shown[PRODUCTION * STATES + i] = s.production[i] / a.most[i];
    shown[SHARES * STATES + i] = s.susceptible[i] / n;
    shown[(SHARES + 1) * STATES + i] = s.infected[i] / n;
    shown[(SHARES + 2) * STATES + i] = s.recovered[i] / n;
    shown[(SHARES + 3) * STATES + i] = s.deaths[i] / n;
    shown[(SHARES + 4) * STATES + i] = s.vaccinated[i] / n;
    shown[(SHARES + 5) * STATES + i] = s.unemployed[i] / n;
    shown[LAGGED * STATES + i] = (float)level_on(a, s, s.t - (DELAY - 1), i) / (float)LEVELS;
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
    const float produced = gv_max(0.0f, a.population[i] * a.working_age - absent) * a.per_worker + paid;
    const float health = (-died * a.value_of_life / a.norm[i] - a.bounds[i]) * a.bounds[STATES + i];
    const float economy = (utility(a, produced / a.norm[i]) - a.bounds[2 * STATES + i]) * a.bounds[3 * STATES + i];
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
    const float health = (-total[DIED] * a.value_of_life / a.planner_norm - a.planner_bounds[0]) * a.planner_bounds[1];
    const float economy = (utility(a, income / a.planner_norm) - a.planner_bounds[2]) * a.planner_bounds[3];
    s.health_index[STATES] += health;
    s.economic_index[STATES] += economy;
    a.agent_reward[gv_planner_row(a, team.world, 0)] = reward_of(a, a.planner_health_weight, health, economy);
    gv_record_deaths(a, team, total[DEAD] / 1.0e3f);
    gv_record_vaccinated(a, team, 100.0f * total[VACCINATED] / a.us_population);
    gv_record_unemployed(a, team, 100.0f * total[UNEMPLOYED] / a.us_population);
    gv_record_stringency(a, team, total[LEVEL] / (float)STATES);
    gv_record_subsidies(a, team, total[PAID] / 1.0e12f);
    gv_record_production(a, team, total[PRODUCED] / 1.0e12f);
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
    GV_FOR(k, SUMS) {
        float total = 0.0f;
        for (gv_i32 i = 0; i < STATES; ++i) total += scratch.summed[k * STATES + i];
        scratch.total[k] = total;
    }
    gv_barrier(team);
    GV_ONCE {
        account(a, team, s, scratch.total);
        s.truncated = gv_time_is_up(s.t, a.episode_length);
    }
}

// ---- observations ---------------------------------------------------------------------------------------------

// Days to the next delivery over the interval. Before the first delivery the interval divides twice, as in the original.
GV_FN float vaccine_timer(const GvArgs& a, gv_i32 t) {
    const gv_i32 interval = a.vaccine_interval, first = a.vaccine_days[FIRST_DELIVERY], next = t + 1;
    const float days = next <= first ? gv_min(1.0f, (float)(first - next) / (float)interval) : (float)(interval - next % interval);
    return days / (float)interval;
}

// What all agents observe.
struct Known {
    float subsidy, to_subsidy, to_vaccines, time;
};

GV_FN float known_at(const Known& known, gv_i32 k) {
    return k == 0 ? known.subsidy : k == 1 ? known.to_subsidy : k == 2 ? known.to_vaccines : known.time;
}

// Writes observations from what show() has staged on this day.
GV_FN void env_observe_step(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, t = s.t, since = t % a.subsidy_interval;
    const float* shown = scratch_of(team).shown;
    const Known known = {(float)s.subsidy_level / (float)a.num_subsidy_levels,
                         (float)(a.subsidy_interval - since) / (float)a.subsidy_interval, vaccine_timer(a, t),
                         (float)t / (float)a.episode_length};
    float *governors = gv_governor_obs(a, obs, w, 0), *planner = gv_planner_obs(a, obs, w, 0);
    gv_for_table(team, STATES, GOVERNOR_FEATURES, [&](gv_i32 i, gv_i32 f) {
        const gv_i32 after = f - (ONE_HOT + STATES);  // features after the one-hot index
        float value;
        if (f > 0 && f < ONE_HOT) value = known_at(known, f - 1);
        else if (f >= ONE_HOT && after < 0) value = f - ONE_HOT == i ? 1.0f : 0.0f;
        else value = shown[(f == 0 ? STRINGENCY : PRODUCTION + after) * STATES + i];
        governors[i * GOVERNOR_FEATURES + f] = value;
    });
    GV_FOR(f, gv_planner_num_features(a)) {
        const gv_i32 productions = STATES + KNOWN, shares = productions + STATES, at = f - shares;  // shares are state by state
        gv_i32 from;
        if (f < STATES) from = STRINGENCY * STATES + f;
        else if (f < shares) from = PRODUCTION * STATES + (f - productions);
        else if (at < NUM_SHARES * STATES) from = (SHARES + at % NUM_SHARES) * STATES + at / NUM_SHARES;
        else from = LAGGED * STATES + (at - NUM_SHARES * STATES);
        planner[f] = f >= STATES && f < productions ? known_at(known, f - STATES) : shown[from];
    }
    gv_u8 *governor_may = gv_governor_mask(a, obs, w, 0), *planner_may = gv_planner_mask(a, obs, w, 0);
    gv_for_table(team, STATES, LEVELS + 1,
                 [&](gv_i32 i, gv_i32 k) { governor_may[i * (LEVELS + 1) + k] = k == 0 || t >= s.closed_until[i]; });
    GV_FOR(k, gv_planner_num_choices(a)) planner_may[k] = k == 0 || since == 0;
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    gv_barrier(team);
    GV_FOR_ROLE(governor, i) show(a, s, scratch_of(team).shown, i);
    gv_barrier(team);
    env_observe_step(a, team, obs);
}
