// RICE-N: 27 regions trade, invest and cut emissions; one team a world, one region a lane. Rules: README.md in this folder. Rates are
// stored as levels, small integers, and a.rate has their values.
#include "hooks.h"
#include "economy.h"

#define PAIRS (REGIONS * REGIONS)

// Entries of an action: those that a period reads, then those of negotiation.
#define SAVINGS 0
#define MITIGATION 1
#define EXPORTS 2
#define TARIFFS 3
#define IMPORTS 30
#define PROPOSALS 57
#define DECISIONS 111

// Steps with negotiation; without, every step is a period.
#define PERIOD 0
#define PROPOSE 1
#define DECIDE 2
#define STAGES 3

GV_FN gv_i32 stage_of(const GvArgs& a, gv_i32 t) { return gv_negotiation_on(a) ? t % 3 : PERIOD; }

// ---- scratch --------------------------------------------------------------------------------------------------

// Of a period: goods by importer and exporter, numbers by region, levels of the actions, and the tariffs on the goods.
struct Trade {
    float *goods, *output, *balance, *exports, *emission;
    gv_u8 *levels, *tariffs;
};

GV_FN Trade trade_of(const GvTeam& team) {
    float* const r = team.scratch + PAIRS;
    gv_u8* const bytes = (gv_u8*)(r + 4 * REGIONS);
    return {team.scratch, r, r + REGIONS, r + 2 * REGIONS, r + 3 * REGIONS, bytes, bytes + REGIONS * PROPOSALS};
}

// ---- reset ----------------------------------------------------------------------------------------------------

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, REGIONS) {
        s.capital[i] = a.start[i];
        s.labor[i] = a.start[REGIONS + i];
        s.technology[i] = a.start[2 * REGIONS + i];
        s.intensity[i] = a.start[3 * REGIONS + i];
        s.balance[i] = s.mitigation_cost[i] = s.production[i] = s.gross_output[i] = s.consumption[i] = s.utility[i] = 0.0f;
        s.savings[i] = s.mitigation[i] = s.export_limit[i] = s.minimum_mitigation[i] = 0;
    }
    GV_FOR(k, PAIRS) s.tariffs[k] = 0;
    GV_FOR(k, PAIRS * gv_negotiation_on(a)) s.promises[k] = s.requests[k] = s.decisions[k] = 0;
    GV_ONCE {
        s.air = a.start_climate[0];
        s.ocean = a.start_climate[1];
        s.c_air = a.start_climate[2];
        s.c_upper = a.start_climate[3];
        s.c_lower = a.start_climate[4];
        s.period = 0;
        s.damages = 0.0f;
    }
}

// ---- negotiation ----------------------------------------------------------------------------------------------

// Level or decision in an entry of a region's action.
GV_FN gv_i32 entry_of(const GvArgs& a, gv_i32 world, gv_i32 region, gv_i32 entry, gv_i32 choices) {
    return gv_action_index(a, gv_region_action(a, world, region), entry, choices);
}

GV_FN gv_i32 level_of(const GvArgs& a, gv_i32 world, gv_i32 region, gv_i32 entry) {
    return entry_of(a, world, region, entry, a.num_discrete_action_levels + a.full_rates);
}

GV_FN void propose(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    gv_for_table(team, REGIONS, 2 * REGIONS, [&](gv_i32 i, gv_i32 k) {
        (k & 1 ? s.requests : s.promises)[REGIONS * i + k / 2] = (gv_u8)level_of(a, team.world, i, PROPOSALS + k);
    });
}

GV_FN void decide(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    gv_for_table(team, REGIONS, REGIONS, [&](gv_i32 i, gv_i32 j) {
        const gv_i32 accepts = entry_of(a, team.world, i, DECISIONS + j, 2);
        s.decisions[REGIONS * i + j] = i != j && accepts == 1;
    });
}

// Least mitigation of region i: the highest of its own promises and of the requests to it in proposals that were accepted.
GV_FN gv_i32 agreed_mitigation(const GvState& s, gv_i32 i) {
    gv_i32 least = 0;
    for (gv_i32 j = 0; j < REGIONS; ++j) {
        const gv_i32 promised = s.decisions[REGIONS * j + i] ? s.promises[REGIONS * i + j] : 0;
        const gv_i32 asked = s.decisions[REGIONS * i + j] ? s.requests[REGIONS * j + i] : 0;
        const gv_i32 most = promised > asked ? promised : asked;
        least = most > least ? most : least;
    }
    return least;
}

// ---- a period -------------------------------------------------------------------------------------------------

// Gathers the levels of the actions and the present tariffs, and stores the new ones.
GV_FN void read_period(const GvArgs& a, const GvTeam& team, const Trade& of) {
    const GvState s = gv_state(a, team);
    const gv_i32 choices = a.num_discrete_action_levels + a.full_rates;
    gv_i32 invalid = 0;
    gv_for_batches<4>(team, PAIRS, [&](gv_i32 k) { return s.tariffs[k]; }, [&](gv_i32 k, gv_u8 level) { of.tariffs[k] = level; });
    gv_for_batches<4>(
        team, REGIONS * PROPOSALS,
        [&](gv_i32 k) { return gv_given_index(gv_region_action(a, team.world, k / PROPOSALS), k % PROPOSALS); },
        [&](gv_i32 k, gv_i32 level) {
            const bool valid = gv_is_choice(level, choices);
            invalid += !valid;
            of.levels[k] = valid ? (gv_u8)level : 0;
        });
    for (; invalid > 0; --invalid) gv_fetch_add(a.invalid_actions);
}

// Production and output of each region, and the stocks of the next period that need no trade.
GV_FN void produce(const GvArgs& a, const GvTeam& team, const Trade& of, gv_i32 n) {
    const GvState s = gv_state(a, team);
    const float damages = damages_of(a, s.air);
    GV_FOR(i, REGIONS) {
        const gv_u8* const levels = of.levels + PROPOSALS * i;
        const gv_i32 savings = levels[SAVINGS], mitigation = levels[MITIGATION];
        const float capital = s.capital[i], intensity = s.intensity[i], technology = s.technology[i];
        const float cost = scaled(intensity, of_period(a, n, COST)), abatement = cost * a.abatement[mitigation];
        const float production = production_of(a, technology, capital, s.labor[i]);
        const float output = gross_output_of(damages, abatement, production);
        s.savings[i] = (gv_u8)savings;
        s.mitigation[i] = (gv_u8)mitigation;
        s.export_limit[i] = levels[EXPORTS];
        s.mitigation_cost[i] = cost;
        s.production[i] = production;
        s.gross_output[i] = of.output[i] = output;
        of.balance[i] = s.balance[i] * a.interest;
        of.emission[i] = emission_of(a, intensity, a.rate[mitigation], production, n);
        s.capital[i] = next_capital(a, capital, a.rate[savings] * output);
        s.technology[i] = scaled(technology, exact(a.growth, REGIONS * n + i));
        s.intensity[i] = scaled(intensity, of_period(a, n, INTENSITY));
    }
}

// Sum of value(0) .. value(26) in the order of NumPy's sum over a row: eight sums side by side, then the rest. Each is called once.
// The loop keeps the compiler from loading all values at once, for which it has no registers.
template <class Value>
GV_FN float row_sum(Value value) {
    const auto part = [&](gv_i32 k) { return (value(k) + value(k + 8)) + value(k + 16); };
    const auto pair = [&](gv_i32 k) { const float first = part(k); return first + part(k + 1); };
    float sum = 0.0f;
    GV_LOOP for (gv_i32 k = 0; k < 8; k += 4) {
        const float first = pair(k), four = first + pair(k + 2);
        sum = k == 0 ? four : sum + four;
    }
    GV_LOOP for (gv_i32 k = 24; k < REGIONS; ++k) sum += value(k);
    return sum;
}

// Goods that each region wants, as far as its output and its debt allow.
GV_FN void import_goods(const GvArgs& a, const GvTeam& team, const Trade& of) {
    GV_FOR(i, REGIONS) {
        float* const goods = of.goods + REGIONS * i;
        const gv_u8* const bids = of.levels + PROPOSALS * i + IMPORTS;
        const float output = of.output[i], paid = paid_share(a, of.balance[i], a.start[i]);
        const float total = row_sum([&](gv_i32 j) { return goods[j] = i == j ? 0.0f : a.rate[bids[j]] * output; });
        if (total > output) {
            for (gv_i32 j = 0; j < REGIONS; ++j) goods[j] = goods[j] / total * output;
        }
        if (paid != 1.0f) {
            for (gv_i32 j = 0; j < REGIONS; ++j) goods[j] *= paid;
        }
    }
}

// Goods that each region delivers: at most its limit, and what it does not invest.
GV_FN void export_goods(const GvArgs& a, const GvTeam& team, const Trade& of) {
    GV_FOR(j, REGIONS) {
        const gv_u8* const levels = of.levels + PROPOSALS * j;
        const float output = of.output[j], rest = output - a.rate[levels[SAVINGS]] * output;
        const float most = gv_min(a.rate[levels[EXPORTS]] * output, rest);
        float total = of.goods[j], delivered = 0.0f;
        for (gv_i32 i = 1; i < REGIONS; ++i) total += of.goods[REGIONS * i + j];
        if (total > most) {
            for (gv_i32 i = 0; i < REGIONS; ++i) {
                float& goods = of.goods[REGIONS * i + j];
                goods = goods / total * most;
                delivered = i == 0 ? goods : delivered + goods;
            }
            total = delivered;
        }
        of.exports[j] = total;
    }
}

// Consumption, utility, balance and labour of each region.
GV_FN void consume(const GvArgs& a, const GvTeam& team, const Trade& of) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, REGIONS) {
        const float* const goods = of.goods + REGIONS * i;
        const gv_u8 *const tariffs = of.tariffs + REGIONS * i, *const levels = of.levels + PROPOSALS * i;
        const float output = of.output[i], exports = of.exports[i], investment = a.rate[levels[SAVINGS]] * output;
        const float labor = s.labor[i], domestic = gv_max(0.0f, output - investment - exports);
        const float foreign = row_sum([&](gv_i32 j) { return a.foreign_weight * gv_sqrt(goods[j] * (1.0f - a.rate[tariffs[j]])); });
        const float root = 0.5f * gv_sqrt(domestic) + foreign, consumption = root * root;
        const float utility = utility_of(a, consumption, labor);
        s.consumption[i] = consumption;
        s.utility[i] = utility;
        s.balance[i] = of.balance[i] + YEARS * (exports - row_sum([&](gv_i32 j) { return goods[j]; }));
        s.labor[i] = next_labor(a, labor, i);
    }
    gv_for_table(team, REGIONS, REGIONS, [&](gv_i32 i, gv_i32 j) {
        s.tariffs[REGIONS * i + j] = of.levels[PROPOSALS * i + TARIFFS + j];
    });
}

GV_FN void end_period(const GvArgs& a, const GvTeam& team, const Trade& of, gv_i32 n) {
    const GvState s = gv_state(a, team);
    GV_ONCE {
        s.damages = damages_of(a, s.air);
        next_climate(a, s, of.emission, n);
        s.period = n;
        s.terminated = n >= PERIODS;
    }
}

// All worlds of a block come to each barrier, whatever their stages are.
GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const Trade of = trade_of(team);
    const gv_i32 stage = stage_of(a, s.t), n = s.period < PERIODS ? s.period + 1 : PERIODS;  // a caller may set the last period
    const bool acts = stage == PERIOD;
    if (stage == PROPOSE) propose(a, team);
    if (stage == DECIDE) decide(a, team);
    if (acts) read_period(a, team, of);
    gv_barrier(team);
    if (acts) produce(a, team, of, n);
    if (stage == DECIDE) GV_FOR(i, REGIONS) s.minimum_mitigation[i] = (gv_u8)agreed_mitigation(s, i);
    gv_barrier(team);
    if (acts) import_goods(a, team, of);
    gv_barrier(team);
    if (acts) export_goods(a, team, of);
    gv_barrier(team);
    if (acts) consume(a, team, of);
    GV_FOR(i, REGIONS) a.agent_reward[gv_region_row(a, team.world, i)] = acts ? s.utility[i] : 0.0f;
    gv_barrier(team);
    if (acts) end_period(a, team, of, n);
    const float output = gv_sum(team, REGIONS, [&](gv_i32 i) { return acts ? of.output[i] : 0.0f; });
    if (acts) {
        gv_record_gross_output(a, team, output);
        gv_record_economic_index(a, team, (output - a.least_output) * a.per_output);
    }
    gv_record_temperature_rise(a, team, s.air - a.start_climate[0]);
    gv_record_climate_index(a, team, (s.air - a.start_climate[0] - a.most_warming) * a.per_warming);
}

// ---- observation ----------------------------------------------------------------------------------------------

// What all regions observe alike.
GV_FN void observe_world(const GvArgs& a, const GvTeam& team, float* to) {
    const GvState s = gv_state(a, team);
    const gv_i32 n = s.period, head = 8 + gv_negotiation_on(a);
    GV_ONCE {
        to[0] = s.air * 0.1f;
        to[1] = s.ocean * 0.1f;
        to[2] = s.c_air * 1.0e-4f;
        to[3] = s.c_upper * 1.0e-4f;
        to[4] = s.c_lower * 1.0e-4f;
        to[5] = rounded_of_period(a, n, FORCING);
        to[6] = rounded_of_period(a, n, LAND);
        to[7] = (float)s.t * 0.01f;
        if (gv_negotiation_on(a)) to[8] = (float)(s.t % 3);
    }
    const float kept = n > 0 ? a.numbers[2 * KEEP] : 0.0f;
    GV_FOR(i, REGIONS) {
        float* const of = to + head + i;
        const float savings = a.rate[s.savings[i]], output = s.gross_output[i];
        of[0 * REGIONS] = s.capital[i] * 1.0e-4f;
        of[1 * REGIONS] = kept;
        of[2 * REGIONS] = s.labor[i] * 1.0e-4f;
        of[3 * REGIONS] = output * 1.0e-3f;
        of[4 * REGIONS] = savings * output * 1.0e-3f;
        of[5 * REGIONS] = s.consumption[i] * 1.0e-3f;
        of[6 * REGIONS] = savings;
        of[7 * REGIONS] = a.rate[s.mitigation[i]];
        of[8 * REGIONS] = a.rate[s.export_limit[i]];
        of[9 * REGIONS] = s.balance[i] * 1.0e-3f;
    }
    gv_for_batches<4>(
        team, PAIRS, [&](gv_i32 k) { return s.tariffs[k]; },
        [&](gv_i32 k, gv_u8 level) { to[head + 10 * REGIONS + k] = a.rate[level] * 0.01f; });
}

#define PRIVATE 10  // numbers that a region observes of itself, the last one only with negotiation

// Numbers that each region observes of itself, a row a region.
GV_FN void observe_own(const GvArgs& a, const GvTeam& team, float* to) {
    const GvState s = gv_state(a, team);
    const bool acted = stage_of(a, s.t) == PERIOD;
    GV_FOR(i, REGIONS) {
        float* const of = to + PRIVATE * i;
        const float cost = s.mitigation_cost[i], utility = s.utility[i];
        of[0] = s.technology[i] * 0.01f;
        of[1] = s.intensity[i] * 10.0f;
        of[2] = cost;
        of[3] = s.damages;
        of[4] = cost * a.abatement[s.mitigation[i]];
        of[5] = s.production[i] * 1.0e-3f;
        of[6] = utility;
        of[7] = utility * rounded_of_period(a, s.period, DISCOUNT);
        of[8] = acted ? utility : 0.0f;  // reward of the last step
        of[9] = a.rate[s.minimum_mitigation[i]];
    }
}

// Pair k of region i: its promises, promises to it, its requests, requests to it, its decisions, decisions about it.
GV_FN float observed_pair(const GvArgs& a, const GvState& s, gv_i32 i, gv_i32 k) {
    const gv_i32 matrix = k / REGIONS, j = k % REGIONS, at = matrix & 1 ? REGIONS * j + i : REGIONS * i + j;
    if (matrix >= 4) return (float)s.decisions[at];
    return a.rate[(matrix < 2 ? s.promises : s.requests)[at]];
}

// Writes a row a region: its id, in whole rows the part that all observe alike, its own numbers, and its pairs.
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, features = gv_region_num_features(a), numbers = gv_negotiation_on(a) ? PRIVATE : PRIVATE - 1;
    const bool whole = gv_region_num_shared(a) == 0;
    const gv_i32 alike = whole ? 8 + gv_negotiation_on(a) + 10 * REGIONS + PAIRS : 0, own = REGIONS + alike;
    float *const of_world = team.scratch, *const of_region = team.scratch + alike;
    gv_barrier(team);  // env_step may still read scratch
    observe_world(a, team, whole ? of_world : gv_region_shared(a, obs, w));
    observe_own(a, team, of_region);
    gv_barrier(team);
    float* const rows = gv_region_obs(a, obs, w, 0);
    gv_for_table(team, REGIONS, features, [&](gv_i32 i, gv_i32 k) {
        float value;
        if (k < REGIONS) value = k == i ? 1.0f : 0.0f;
        else if (k < own) value = of_world[k - REGIONS];
        else if (k < own + numbers) value = of_region[PRIVATE * i + k - own];
        else value = observed_pair(a, s, i, k - own - numbers);
        rows[features * i + k] = value;
    });
    if (gv_negotiation_on(a)) {
        const gv_i32 choices = gv_region_num_choices(a);
        gv_for_table(team, REGIONS, choices, [&](gv_i32 i, gv_i32 k) {
            gv_region_mask(a, obs, w, i)[k] = k >= s.minimum_mitigation[i];
        });
        const gv_i32 next = stage_of(a, s.t + 1);  // the groups of entries are in the order of the stages
        gv_for_table(team, REGIONS, STAGES, [&](gv_i32 i, gv_i32 k) { gv_region_effects(a, obs, w, i)[k] = k == next; });
    }
}
