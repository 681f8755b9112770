// COVID-19 and the economy: 51 governors choose a stringency, a planner a subsidy; a step is a day. README.md has the rules.
// A lane steps a state; the planner's rewards and the metrics are made from sums over the states.
#include "world.h"
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

// Stringency on a day of the episode; recorded ones before it. `day` is at least -DELAY.
GV_FN int level_on(const GvWorld& w, int day, int i) {
    return day >= 0 ? w.at.levels(day % RING, i) : w.tables.recorded[(DELAY + day) * STATES + i];
}

GV_FN void env_reset(GvWorld& w) {
    const auto& first = w.tables.first;
    for (auto me : w.role.governor) {
        const int i = me.index;
        me.susceptible = first[i];
        me.infected = first[STATES + i];
        me.recovered = first[2 * STATES + i];
        me.vaccinated = first[3 * STATES + i];
        me.unemployed = first[4 * STATES + i];
        me.deaths = w.params.mortality * first[2 * STATES + i];  // the vaccinated count, too, on this day alone
        me.production = 0.0f;
        me.subsidy = 0.0f;
        me.closed_until = 0;
        for (int k = 0; k < FILTERS; ++k) w.at.filters(k, i) = w.tables.first_filters[k * STATES + i];
        for (int day = 0; day < RING; ++day) w.at.levels(day, i) = w.tables.recorded[DELAY * STATES + i];
    }
    for (auto me : w.agents) me.health_index = me.economic_index = 0.0f;
    if (w.once) w.state.subsidy_level = 0;
}

// ---- one day of a state ---------------------------------------------------------------------------------------

// Utility of an income, a share of a year's income without a pandemic: constant relative risk aversion.
GV_FN float utility(const GvWorld& w, float share) {
    const auto& p = w.params;
    const float income = gv_clamp(365.0f * share, 0.1f, 3.0f);
    const float power = p.eta == 2.0f ? 1.0f / income : gv_exp((1.0f - p.eta) * gv_log(income));
    return p.utility_of_one + power * p.per_power;
}

struct Epidemic {
    float susceptible, infected, recovered, vaccinated;
};

GV_FN Epidemic spread(const GvWorld& w, int i) {
    const auto& s = w.state;
    const auto& of = w.tables;
    const float beta = of.beta[i] + of.beta[STATES + i] * (float)level_on(w, w.t - DELAY, i);  // may be negative
    const bool delivered = w.t >= of.vaccine_days[FIRST_VACCINES] && w.t % w.params.vaccine_interval == 0;
    const float doses = delivered ? of.doses[i] : 0.0f;
    const float susceptible = s.susceptible[i], infected = s.infected[i], newly = gv_min(doses, susceptible);
    const float exposed = delivered ? 1.0f - gv_min(1.0f, doses / (susceptible + 1.0e-10f)) : 1.0f;
    const float ds = -beta * (susceptible * of.per_person[i] * infected) * exposed - newly;
    const float dr = w.params.recovery * infected + newly;
    return {gv_max(0.0f, susceptible + ds), gv_max(0.0f, infected + (-ds - dr)), gv_max(0.0f, s.recovered[i] + dr),
            gv_max(0.0f, s.vaccinated[i] + newly)};
}

// Unemployed persons after a change of stringency. A change leaves the filters after WINDOW days, which is never one of the episode.
// Only a state that was set has later days than WINDOW.
GV_FN float unemployment(const GvWorld& w, int i, int change) {
    const auto& of = w.tables;
    const float leaving = w.t <= WINDOW ? (float)of.leaving[(w.t - 1) * STATES + i] : 0.0f;
    float sum = 0.0f;
    for (int k = 0; k < FILTERS; ++k) {
        const float filter = w.at.filters(k, i) * of.decay[k] + (float)change - leaving * of.decay[FILTERS + k];
        w.at.filters(k, i) = filter;
        sum += of.weight[k * STATES + i] * filter;
    }
    return (gv_softplus(sum) + of.bias[i]) * of.percent[i];
}

GV_FN float reward_of(const GvWorld& w, float weight, float health, float economy) {
    return (weight * health + (1.0f - weight) * economy) * w.params.reward_scale;
}

// Stages what is observed of state i on day t.
GV_FN void show(const GvWorld& w, int i) {
    const auto& s = w.state;
    float* const shown = w.scratch.shown + i;
    const float per_person = w.tables.per_person[i];
    shown[STRINGENCY * STATES] = (float)level_on(w, w.t, i) * w.params.per_level;
    shown[PRODUCTION * STATES] = s.production[i] * w.tables.per_most[i];
    shown[SHARES * STATES] = s.susceptible[i] * per_person;
    shown[(SHARES + 1) * STATES] = s.infected[i] * per_person;
    shown[(SHARES + 2) * STATES] = s.recovered[i] * per_person;
    shown[(SHARES + 3) * STATES] = s.deaths[i] * per_person;
    shown[(SHARES + 4) * STATES] = s.vaccinated[i] * per_person;
    shown[(SHARES + 5) * STATES] = s.unemployed[i] * per_person;
    shown[LAGGED * STATES] = (float)level_on(w, w.t - (DELAY - 1), i) * w.params.per_level;
    shown[MAY_CHANGE * STATES] = w.t >= s.closed_until[i] ? 1.0f : 0.0f;
}

// `share` is the level of the subsidy, 1 for the highest.
GV_FN void govern(const GvWorld& w, const GvAgent_governor& me, float share) {
    const auto& of = w.tables;
    const auto& p = w.params;
    const int t = w.t, i = me.index, choice = me.action.index();
    const int before = level_on(w, t - 1, i), level = choice != 0 ? choice : before;
    const Epidemic next = spread(w, i);  // reads the ring before this day replaces day t - RING
    const float deaths = p.mortality * (next.recovered - next.vaccinated), died = deaths - me.deaths;
    const float unemployed = unemployment(w, i, level - before), paid = share * of.full_subsidy[i];
    const float absent = (p.sick_rate * next.infected + deaths) * p.working_age + unemployed;
    const float produced = gv_max(0.0f, of.working_age_population[i] - absent) * p.per_worker + paid;
    const float health = (-died * of.cost_of_death[i] - of.bounds[i]) * of.bounds[STATES + i];
    const float economy = (utility(w, produced * of.per_norm[i]) - of.bounds[2 * STATES + i]) * of.bounds[3 * STATES + i];
    if (t == me.closed_until + 1) me.closed_until += choice == 0 ? 1 : p.action_cooldown;
    w.at.levels(t % RING, i) = (gv_u8)level;
    me.susceptible = next.susceptible;
    me.infected = next.infected;
    me.recovered = next.recovered;
    me.vaccinated = next.vaccinated;
    me.deaths = deaths;
    me.unemployed = unemployed;
    me.subsidy = paid;
    me.production = produced;
    me.health_index += health;
    me.economic_index += economy;
    const float values[SUMS] = {died, produced, paid, unemployed, next.vaccinated, deaths, (float)level};
    for (int k = 0; k < SUMS; ++k) w.scratch.summed[k * STATES + i] = values[k];
    show(w, i);
    me.reward = reward_of(w, of.governor_health_weight[i], health, economy);
}

// ---- the nation -----------------------------------------------------------------------------------------------

// Rewards the planner and records the metrics, from the sums over the states.
GV_FN void account(const GvWorld& w) {
    const auto& p = w.params;
    const auto me = w.role.planner[0];
    const float *const total = w.scratch.total, *const bounds = w.tables.planner_bounds;
    const float income = total[PRODUCED] - (1.0f + p.risk_free_rate) * total[PAID];
    const float health = (-total[DIED] * p.planner_cost_of_death - bounds[0]) * bounds[1];
    const float economy = (utility(w, income * p.per_planner_norm) - bounds[2]) * bounds[3];
    me.health_index += health;
    me.economic_index += economy;
    me.reward = reward_of(w, p.planner_health_weight, health, economy);
    w.record.deaths(total[DEAD] * 1.0e-3f);
    w.record.vaccinated(total[VACCINATED] * p.percent_of_us);
    w.record.unemployed(total[UNEMPLOYED] * p.percent_of_us);
    w.record.stringency(total[LEVEL] * (1.0f / (float)STATES));
    w.record.subsidies(total[PAID] * 1.0e-12f);
    w.record.production(total[PRODUCED] * 1.0e-12f);
    w.record.health(health);
    w.record.economy(economy);
}

GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    const auto& of = w.scratch;
    const int chosen = w.role.planner[0].action.index();  // all lanes read it
    const int subsidy_level = (w.t - 1) % w.params.subsidy_interval == 0 ? chosen : s.subsidy_level;
    const float share = (float)subsidy_level / (float)w.params.num_subsidy_levels;
    for (auto me : w.role.governor) govern(w, me, share);
    w.barrier();  // every lane has read the level of the subsidy
    if (w.once) s.subsidy_level = subsidy_level;
    for (int n : w.each(SUMS * PARTS)) {
        const int k = n / PARTS;
        float part = 0.0f;
        for (int i = n % PARTS; i < STATES; i += PARTS) part += of.summed[k * STATES + i];
        of.part[n] = part;
    }
    w.barrier();
    for (int k : w.each(SUMS)) {
        float total = 0.0f;
        for (int p = 0; p < PARTS; ++p) total += of.part[k * PARTS + p];
        of.total[k] = total;
    }
    w.barrier();
    if (w.once) {
        account(w);
        w.truncate_at(w.params.episode_length);
    }
}

// ---- observations ---------------------------------------------------------------------------------------------

// Numbers that all agents observe.
struct Known {
    float subsidy, to_subsidy, to_vaccines, time;
};

// The time to the next vaccines is divided twice by the interval before the first delivery, as in the original.
GV_FN Known known_of(const GvWorld& w) {
    const auto& p = w.params;
    const int interval = p.vaccine_interval, first = w.tables.vaccine_days[FIRST_DELIVERY], next = w.t + 1;
    const float left = (float)(p.subsidy_interval - w.t % p.subsidy_interval);
    return gv_dividing([&](auto by) -> Known {
        const float early = gv_min(1.0f, (float)(first - next) / by((float)interval)), late = (float)(interval - next % interval);
        return {(float)w.state.subsidy_level / by((float)p.num_subsidy_levels), left / by((float)p.subsidy_interval),
                (next <= first ? early : late) / by((float)interval), (float)w.t / by((float)p.episode_length)};
    });
}

GV_FN float known_at(const Known& known, int k) {
    return k == 0 ? known.subsidy : k == 1 ? known.to_subsidy : k == 2 ? known.to_vaccines : known.time;
}

// Writes observations from what show() has staged on this day.
GV_FN void env_observe_step(GvWorld& w) {
    const int since = w.t % w.params.subsidy_interval;
    const float* shown = w.scratch.shown;
    const Known known = known_of(w);
    const auto governor = w.role.governor[0];  // whose row is the first of adjacent ones
    const auto me = w.role.planner[0];
    float *governors = governor.obs.at, *planner = me.obs.at;
    const bool aligned = gv_is_aligned<4>(governors);
    // Whole rows are written at once, because a GPU's memory takes 64 bytes at a time.
    gv_for_table(w.team, STATES, QUADS, [&](int i, int quad) {
        const float* state = shown + i;
        float values[4];
        if (quad == 0) {
            values[0] = state[STRINGENCY * STATES];
            values[1] = known.subsidy;
            values[2] = known.to_subsidy;
            values[3] = known.to_vaccines;
        } else if (quad < QUADS - 2) {
            const int at = i + ONE_HOT - 4 * quad;  // place of the 1
            GV_UNROLL for (int k = 0; k < 4; ++k) values[k] = at == k ? 1.0f : 0.0f;
            if (quad == 1) values[0] = known.time;
        } else {
            const float* from = state + (PRODUCTION + 4 * (quad - (QUADS - 2))) * STATES;
            GV_UNROLL for (int k = 0; k < 4; ++k) values[k] = from[k * STATES];
        }
        gv_write_row(governors + i * GOVERNOR_FEATURES + 4 * quad, values, aligned);
    });
    float* const of_nation = planner + STATES;
    for (int i : w.each(STATES)) {
        planner[i] = shown[STRINGENCY * STATES + i];
        of_nation[KNOWN + i] = shown[PRODUCTION * STATES + i];
    }
    for (int k : w.each(KNOWN)) of_nation[k] = known_at(known, k);
    float* const shares = of_nation + KNOWN + STATES;
    gv_for_table(w.team, STATES, NUM_SHARES,
                 [&](int i, int k) { shares[i * NUM_SHARES + k] = shown[(SHARES + k) * STATES + i]; });
    for (int i : w.each(STATES)) shares[NUM_SHARES * STATES + i] = shown[LAGGED * STATES + i];
    gv_u8* const governor_may = governor.mask;
    gv_for_table(w.team, STATES, LEVELS + 1,
                 [&](int i, int k) { governor_may[i * (LEVELS + 1) + k] = k == 0 || shown[MAY_CHANGE * STATES + i] != 0.0f; });
    for (int k : w.each(w.role.planner.num_choices())) me.mask[k] = k == 0 || since == 0;
}

GV_FN void env_observe(GvWorld& w) {
    w.barrier();
    for (auto me : w.role.governor) show(w, me.index);
    w.barrier();
    env_observe_step(w);
}
