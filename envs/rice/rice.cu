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

#define STAGED(n) (((n) + 3 & ~3) + 4)  // bytes with room for n that are copied in words

// Numbers that all regions observe alike.
GV_FN gv_i32 alike_of(const GvArgs& a) { return 8 + gv_negotiation_on(a) + 10 * REGIONS + PAIRS; }

#define PRIVATE 10  // numbers that a region observes of itself, the last one only with negotiation

// Scratch of a period: goods by importer and exporter, numbers by region, the tariffs on the goods, and levels of the actions, which lie
// behind the memory of an observation, because it reads the new tariffs from them.
struct Trade {
    float *goods, *output, *balance, *exports, *emission;
    gv_u8 *tariffs, *levels;
};

GV_FN Trade trade_of(const GvArgs& a, const GvTeam& team) {
    float *const r = team.scratch + PAIRS, *const observed = team.scratch + alike_of(a) + PRIVATE * REGIONS;
    gv_u8* const pairs = (gv_u8*)observed;
    return {team.scratch, r, r + REGIONS, r + 2 * REGIONS, r + 3 * REGIONS, (gv_u8*)(r + 4 * REGIONS),
            pairs + 3 * STAGED(PAIRS) * gv_negotiation_on(a)};
}

// Matrices of negotiation, by region and partner.
struct Proposals {
    gv_u8 *promises, *requests, *decisions;
};

GV_FN Proposals proposals_at(float* scratch) {
    gv_u8* const bytes = (gv_u8*)scratch;
    return {bytes, bytes + STAGED(PAIRS), bytes + 2 * STAGED(PAIRS)};
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

// Runs store(k, index) for n entries of each region from entry `first` on, those of all regions one after the other. Indices that are
// not below `choices` are counted and become 0. For a part of the entries, because whole actions are staged faster.
template <class Store>
GV_FN void read_entries(const GvArgs& a, const GvTeam& team, gv_i32 first, gv_i32 n, gv_i32 choices, Store store) {
    const gv_i32 entries = gv_region_num_entries(a);
    gv_i32 invalid = 0;
    gv_for_indices<4>(
        team, gv_region_action(a, team.world, 0), REGIONS * n, [&](gv_i32 k) { return first + k + k / n * (entries - n); },
        [&](gv_i32 k, gv_i32 index) {
            const bool valid = gv_is_choice(index, choices);
            invalid += !valid;
            store(k, (gv_u8)(valid ? index : 0));
        });
    for (; invalid > 0; --invalid) gv_fetch_add(a.invalid_actions);
}

GV_FN gv_i32 num_levels(const GvArgs& a) { return a.num_discrete_action_levels + a.full_rates; }

// Promises and requests take turns in an action.
GV_FN void propose(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    read_entries(a, team, PROPOSALS, 2 * REGIONS, num_levels(a),
                 [&](gv_i32 k, gv_u8 level) { (k & 1 ? s.requests : s.promises)[k / 2] = level; });
}

GV_FN void decide(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    read_entries(a, team, DECISIONS, REGIONS, 2, [&](gv_i32 k, gv_u8 accepts) {
        s.decisions[k] = k % (REGIONS + 1) == 0 ? 0 : accepts;  // a region does not decide about itself
    });
}

// Stages the matrices of negotiation.
GV_FN void stage_proposals(const GvArgs& a, const GvTeam& team, const Proposals& to) {
    const GvState s = gv_state(a, team);
    gv_copy_bytes_in(team, s.promises, PAIRS, to.promises);
    gv_copy_bytes_in(team, s.requests, PAIRS, to.requests);
    gv_copy_bytes_in(team, s.decisions, PAIRS, to.decisions);
}

// Least mitigation of region i: the highest of its own promises and of the requests to it in proposals that were accepted.
GV_FN gv_i32 agreed_mitigation(const Proposals& of, gv_i32 i) {
    gv_i32 least = 0;
    for (gv_i32 j = 0; j < REGIONS; ++j) {
        const gv_i32 promised = of.decisions[REGIONS * j + i] ? of.promises[REGIONS * i + j] : 0;
        const gv_i32 requested = of.decisions[REGIONS * i + j] ? of.requests[REGIONS * j + i] : 0;
        const gv_i32 most = promised > requested ? promised : requested;
        least = most > least ? most : least;
    }
    return least;
}

// ---- a period -------------------------------------------------------------------------------------------------

// Stages the levels of the actions and the present tariffs.
GV_FN void read_period(const GvArgs& a, const GvTeam& team, const Trade& of) {
    const GvState s = gv_state(a, team);
    gv_copy_bytes_in(team, s.tariffs, PAIRS, of.tariffs);
    if (gv_negotiation_on(a)) {
        read_entries(a, team, 0, PROPOSALS, num_levels(a), [&](gv_i32 k, gv_u8 level) { of.levels[k] = level; });
    } else {
        gv_stage_indices(a, team, gv_region_action(a, team.world, 0), REGIONS * PROPOSALS, num_levels(a), of.levels);
    }
}

// Production and output of each region, and the stocks of the next period that need no trade.
GV_FN void produce(const GvArgs& a, const GvTeam& team, const Trade& of, gv_i32 n) {
    const GvState s = gv_state(a, team);
    const float damages = damages_of(a, s.air);
    GV_FOR(i, REGIONS) {
        const gv_u8* const levels = of.levels + PROPOSALS * i;
        const gv_i32 savings = levels[SAVINGS], mitigation = levels[MITIGATION];
        const float capital = s.capital[i], intensity = s.intensity[i], technology = s.technology[i];
        const float cost = scaled(intensity, a.trends[2 * n]), abatement = cost * a.abatement[mitigation];
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
        s.technology[i] = scaled(technology, a.growth[REGIONS * n + i]);
        s.intensity[i] = scaled(intensity, a.trends[2 * n + 1]);
    }
}

// Sums of the numbers that value(k) adds for k = 0 .. 26, in the order of NumPy's sum over a row: eight sums side by side, then the
// rest. The loop keeps the compiler from loading all numbers at once, for which it has no registers.
template <class Value>
GV_FN auto row_sum(Value value) {
    const auto part = [&](gv_i32 k) { const auto first = value(k), second = first + value(k + 8); return second + value(k + 16); };
    const auto pair = [&](gv_i32 k) { const auto first = part(k); return first + part(k + 1); };
    decltype(value(0)) sum = {};
    GV_LOOP for (gv_i32 k = 0; k < 8; k += 4) {
        const auto first = pair(k), four = first + pair(k + 2);
        sum = k == 0 ? four : sum + four;
    }
    GV_LOOP for (gv_i32 k = 24; k < REGIONS; ++k) sum = sum + value(k);
    return sum;
}

// Goods that each region wants, as far as its output and its debt allow.
GV_FN void import_goods(const GvArgs& a, const GvTeam& team, const Trade& of) {
    GV_FOR(i, REGIONS) {
        float* const goods = of.goods + REGIONS * i;
        const gv_u8* const bids = of.levels + PROPOSALS * i + IMPORTS;
        const float output = of.output[i], paid = paid_share(a, of.balance[i], a.start[i]);
        const float total = row_sum([&](gv_i32 j) { return goods[j] = i == j ? 0.0f : a.rate[bids[j]] * output; });
        const float share = total > output ? output / total : 1.0f;
        for (gv_i32 j = 0; j < REGIONS; ++j) goods[j] = goods[j] * share * paid;
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
            const float share = most / total;
            for (gv_i32 i = 0; i < REGIONS; ++i) {
                float& goods = of.goods[REGIONS * i + j];
                goods *= share;
                delivered = i == 0 ? goods : delivered + goods;
            }
            total = delivered;
        }
        of.exports[j] = total;
    }
}

// Sums over the partners of a region.
struct Sums {
    float utility, goods;
};
GV_FN Sums operator+(const Sums& p, const Sums& q) { return {p.utility + q.utility, p.goods + q.goods}; }

// The root of a number from 0 on. On a GPU the root of 0 takes longer than all others, and a region gets no goods of itself.
GV_FN float root_of(float x) { return x > 0.0f ? gv_sqrt(x) : 0.0f; }

// Consumption, utility, balance and labour of each region.
GV_FN void consume(const GvArgs& a, const GvTeam& team, const Trade& of) {
    const GvState s = gv_state(a, team);
    GV_FOR(i, REGIONS) {
        const float* const goods = of.goods + REGIONS * i;
        const gv_u8 *const tariffs = of.tariffs + REGIONS * i, *const levels = of.levels + PROPOSALS * i;
        const float output = of.output[i], exports = of.exports[i], investment = a.rate[levels[SAVINGS]] * output;
        const float labor = s.labor[i], domestic = gv_max(0.0f, output - investment - exports);
        const Sums of_partners = row_sum([&](gv_i32 j) {
            return Sums{a.foreign_weight * root_of(goods[j] * (1.0f - a.rate[tariffs[j]])), goods[j]};
        });
        const float root = 0.5f * gv_sqrt(domestic) + of_partners.utility, consumption = root * root;
        const float utility = utility_of(a, consumption, labor);
        s.consumption[i] = consumption;
        s.utility[i] = utility;
        s.balance[i] = of.balance[i] + YEARS * (exports - of_partners.goods);
        s.labor[i] = next_labor(a, labor, i);
    }
    gv_u8* row = s.tariffs;
    const gv_u8* levels = of.levels + TARIFFS;
    GV_LOOP for (gv_i32 i = 0; i < REGIONS; ++i, row += REGIONS, levels += PROPOSALS) GV_FOR(j, REGIONS) row[j] = levels[j];
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
    const Trade of = trade_of(a, team);
    const Proposals proposals = proposals_at(team.scratch);
    const gv_i32 stage = stage_of(a, s.t), n = s.period < PERIODS ? s.period + 1 : PERIODS;  // a caller may set the last period
    const bool acts = stage == PERIOD;
    if (stage == PROPOSE) propose(a, team);
    if (stage == DECIDE) decide(a, team);
    if (acts) read_period(a, team, of);
    gv_barrier(team);
    if (acts) produce(a, team, of, n);
    if (stage == DECIDE) stage_proposals(a, team, proposals);
    gv_barrier(team);
    if (stage == DECIDE) GV_FOR(i, REGIONS) s.minimum_mitigation[i] = (gv_u8)agreed_mitigation(proposals, i);
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

// The part that all regions observe alike. `bids` are the levels of the period's actions, null if the step had none.
GV_FN void observe_world(const GvArgs& a, const GvTeam& team, const gv_u8* bids, float* to) {
    const GvState s = gv_state(a, team);
    const gv_i32 n = s.period, head = 8 + gv_negotiation_on(a);
    GV_ONCE {
        to[0] = s.air * 0.1f;
        to[1] = s.ocean * 0.1f;
        to[2] = s.c_air * 1.0e-4f;
        to[3] = s.c_upper * 1.0e-4f;
        to[4] = s.c_lower * 1.0e-4f;
        to[5] = of_period(a, n, FORCING);
        to[6] = of_period(a, n, LAND);
        to[7] = (float)s.t * 0.01f;
        if (gv_negotiation_on(a)) to[8] = (float)(s.t % 3);
    }
    const float capital_kept = n > 0 ? (float)a.kept_capital : 0.0f;
    GV_FOR(i, REGIONS) {
        float* const of = to + head + i;
        const float savings = a.rate[s.savings[i]], output = s.gross_output[i];
        of[0 * REGIONS] = s.capital[i] * 1.0e-4f;
        of[1 * REGIONS] = capital_kept;
        of[2 * REGIONS] = s.labor[i] * 1.0e-4f;
        of[3 * REGIONS] = output * 1.0e-3f;
        of[4 * REGIONS] = savings * output * 1.0e-3f;
        of[5 * REGIONS] = s.consumption[i] * 1.0e-3f;
        of[6 * REGIONS] = savings;
        of[7 * REGIONS] = a.rate[s.mitigation[i]];
        of[8 * REGIONS] = a.rate[s.export_limit[i]];
        of[9 * REGIONS] = s.balance[i] * 1.0e-3f;
    }
    float* tariffs = to + head + 10 * REGIONS;
    if (bids == nullptr) {
        gv_for_batches<4>(
            team, PAIRS, [&](gv_i32 k) { return s.tariffs[k]; }, [&](gv_i32 k, gv_u8 level) { tariffs[k] = a.rate[level] * 0.01f; });
        return;
    }
    const gv_u8* levels = bids + TARIFFS;  // the same numbers, without a wait for memory
    GV_LOOP for (gv_i32 i = 0; i < REGIONS; ++i, tariffs += REGIONS, levels += PROPOSALS) {
        GV_FOR(j, REGIONS) tariffs[j] = a.rate[levels[j]] * 0.01f;
    }
}

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
        of[7] = utility * of_period(a, s.period, DISCOUNT);
        of[8] = acted ? utility : 0.0f;  // reward of the last step
        of[9] = a.rate[s.minimum_mitigation[i]];
    }
}

// Pairs of region i and each other one: its promises, promises to it, its requests, requests to it, its decisions, decisions about it.
GV_FN void observe_pairs(const GvArgs& a, const GvTeam& team, const Proposals& of, gv_i32 i, float* to) {
    GV_FOR(j, REGIONS) {
        const gv_i32 its = REGIONS * i + j, about = REGIONS * j + i;
        to[j] = a.rate[of.promises[its]];
        to[REGIONS + j] = a.rate[of.promises[about]];
        to[2 * REGIONS + j] = a.rate[of.requests[its]];
        to[3 * REGIONS + j] = a.rate[of.requests[about]];
        to[4 * REGIONS + j] = (float)of.decisions[its];
        to[5 * REGIONS + j] = (float)of.decisions[about];
    }
}

// Writes a row a region: its id, in whole rows the part that all observe alike, its own numbers, and its pairs. For `bids` see
// observe_world.
GV_FN void observe_after(const GvArgs& a, const GvTeam& team, const gv_u8* bids, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, features = gv_region_num_features(a), negotiates = gv_negotiation_on(a);
    const gv_i32 private_count = PRIVATE - 1 + negotiates, alike = alike_of(a);
    const bool whole = gv_region_num_shared(a) == 0;
    float *const of_world = team.scratch, *const of_region = of_world + alike, *const rows = gv_region_obs(a, obs, w, 0);
    const Proposals proposals = proposals_at(of_region + PRIVATE * REGIONS);
    gv_barrier(team);  // env_step may still read scratch
    observe_world(a, team, bids, of_world);
    observe_own(a, team, of_region);
    if (negotiates) stage_proposals(a, team, proposals);
    gv_barrier(team);
    if (whole) gv_repeat_in_rows<32>(team, of_world, alike, rows + REGIONS, REGIONS, features);
    else gv_repeat_in_rows<8>(team, of_world, alike, gv_region_shared(a, obs, w), 1, features);
    float *row = rows, *private_part = rows + REGIONS + (whole ? alike : 0);
    const float* from = of_region;
    GV_LOOP for (gv_i32 i = 0; i < REGIONS; ++i, row += features, private_part += features, from += PRIVATE) {
        GV_FOR(k, REGIONS) row[k] = k == i ? 1.0f : 0.0f;
        GV_FOR(k, private_count) private_part[k] = from[k];
        if (negotiates) observe_pairs(a, team, proposals, i, private_part + private_count);
    }
    if (negotiates) {
        const gv_i32 choices = gv_region_num_choices(a);
        gv_for_table(team, REGIONS, choices, [&](gv_i32 i, gv_i32 k) {
            gv_region_mask(a, obs, w, i)[k] = k >= s.minimum_mitigation[i];
        });
        const gv_i32 next = stage_of(a, s.t + 1);  // the groups of entries are in the order of the stages
        gv_for_table(team, REGIONS, STAGES, [&](gv_i32 i, gv_i32 k) { gv_region_effects(a, obs, w, i)[k] = k == next; });
    }
}

GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) { observe_after(a, team, nullptr, obs); }

GV_FN void env_observe_step(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const bool acted = stage_of(a, gv_state(a, team).t) == PERIOD;
    observe_after(a, team, acted ? trade_of(a, team).levels : nullptr, obs);
}
