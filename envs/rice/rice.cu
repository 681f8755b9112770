// RICE-N: 27 regions trade, invest and cut emissions; one team a world, one region a lane. Rules: README.md in this folder. Rates are
// stored as levels, small integers, and w.tables.rate has their values.
#include "world.h"
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

GV_FN int stage_of(const GvWorld& w, int t) { return w.params.negotiation_on ? t % 3 : PERIOD; }

// ---- scratch --------------------------------------------------------------------------------------------------

#define STAGED(n) (((n) + 3 & ~3) + 4)  // bytes with room for n that are copied in words

// Numbers that all regions observe alike.
GV_FN int alike_of(const GvWorld& w) { return 8 + w.params.negotiation_on + 10 * REGIONS + PAIRS; }

#define PRIVATE 10  // numbers that a region observes of itself, the last one only with negotiation

// Scratch of a period: goods by importer and exporter, numbers by region, the tariffs on the goods, and levels of the actions, which lie
// behind the memory of an observation, because it reads the new tariffs from them.
struct Trade {
    float *goods, *output, *balance, *exports, *emission;
    gv_u8 *tariffs, *levels;
};

GV_FN Trade trade_of(const GvWorld& w) {
    float *const r = w.scratch.memory + PAIRS, *const observed = w.scratch.memory + alike_of(w) + PRIVATE * REGIONS;
    gv_u8* const pairs = (gv_u8*)observed;
    return {w.scratch.memory, r, r + REGIONS, r + 2 * REGIONS, r + 3 * REGIONS, (gv_u8*)(r + 4 * REGIONS),
            pairs + 3 * STAGED(PAIRS) * w.params.negotiation_on};
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

GV_FN void env_reset(GvWorld& w) {
    const auto& s = w.state;
    for (int i : w.each(REGIONS)) {
        s.capital[i] = w.tables.start[i];
        s.labor[i] = w.tables.start[REGIONS + i];
        s.technology[i] = w.tables.start[2 * REGIONS + i];
        s.intensity[i] = w.tables.start[3 * REGIONS + i];
        s.balance[i] = s.mitigation_cost[i] = s.production[i] = s.gross_output[i] = s.consumption[i] = s.utility[i] = 0.0f;
        s.savings[i] = s.mitigation[i] = s.export_limit[i] = s.minimum_mitigation[i] = 0;
    }
    for (int k : w.each(PAIRS)) s.tariffs[k] = 0;
    for (int k : w.each(PAIRS * w.params.negotiation_on)) s.promises[k] = s.requests[k] = s.decisions[k] = 0;
    if (w.once) {
        s.air = w.tables.start_climate[0];
        s.ocean = w.tables.start_climate[1];
        s.c_air = w.tables.start_climate[2];
        s.c_upper = w.tables.start_climate[3];
        s.c_lower = w.tables.start_climate[4];
        s.period = 0;
        s.damages = 0.0f;
    }
}

// ---- negotiation ----------------------------------------------------------------------------------------------

// Runs store(k, index) for n entries of each region from entry `first` on, those of all regions one after the other. Indices that are
// not below `choices` are counted and become 0. For a part of the entries, because whole actions are staged faster.
template <class Store>
GV_FN void read_entries(const GvWorld& w, int first, int n, int choices, Store store) {
    const int entries = w.role.region.num_entries();
    int invalid = 0;
    gv_for_indices<4>(
        w.team, w.role.region[0].action.place, REGIONS * n, [&](int k) { return first + k + k / n * (entries - n); },
        [&](int k, int index) {
            const bool valid = gv_is_choice(index, choices);
            invalid += !valid;
            store(k, (gv_u8)(valid ? index : 0));
        });
    for (; invalid > 0; --invalid) gv_fetch_add(w.a.invalid_actions);
}

GV_FN int num_levels(const GvWorld& w) { return w.params.num_discrete_action_levels + w.params.full_rates; }

// Promises and requests take turns in an action.
GV_FN void propose(const GvWorld& w) {
    const auto& s = w.state;
    read_entries(w, PROPOSALS, 2 * REGIONS, num_levels(w),
                 [&](int k, gv_u8 level) { (k & 1 ? s.requests : s.promises)[k / 2] = level; });
}

GV_FN void decide(const GvWorld& w) {
    const auto& s = w.state;
    read_entries(w, DECISIONS, REGIONS, 2, [&](int k, gv_u8 accepts) {
        s.decisions[k] = k % (REGIONS + 1) == 0 ? 0 : accepts;  // a region does not decide about itself
    });
}

// Stages the matrices of negotiation.
GV_FN void stage_proposals(const GvWorld& w, const Proposals& to) {
    const auto& s = w.state;
    gv_copy_bytes_in(w.team, s.promises, PAIRS, to.promises);
    gv_copy_bytes_in(w.team, s.requests, PAIRS, to.requests);
    gv_copy_bytes_in(w.team, s.decisions, PAIRS, to.decisions);
}

// Least mitigation of region i: the highest of its own promises and of the requests to it in proposals that were accepted.
GV_FN int agreed_mitigation(const Proposals& of, int i) {
    int least = 0;
    for (int j = 0; j < REGIONS; ++j) {
        const int promised = of.decisions[REGIONS * j + i] ? of.promises[REGIONS * i + j] : 0;
        const int requested = of.decisions[REGIONS * i + j] ? of.requests[REGIONS * j + i] : 0;
        const int most = promised > requested ? promised : requested;
        least = most > least ? most : least;
    }
    return least;
}

// ---- a period -------------------------------------------------------------------------------------------------

// Stages the levels of the actions and the present tariffs.
GV_FN void read_period(const GvWorld& w, const Trade& of) {
    const auto& s = w.state;
    gv_copy_bytes_in(w.team, s.tariffs, PAIRS, of.tariffs);
    if (w.params.negotiation_on) {
        read_entries(w, 0, PROPOSALS, num_levels(w), [&](int k, gv_u8 level) { of.levels[k] = level; });
    } else {
        gv_stage_indices(w.a, w.team, w.role.region[0].action.place, REGIONS * PROPOSALS, num_levels(w), of.levels);
    }
}

// Production and output of each region, and the stocks of the next period that need no trade.
GV_FN void produce(const GvWorld& w, const Trade& of, int n) {
    const auto& s = w.state;
    const float damages = damages_of(w, s.air);
    for (int i : w.each(REGIONS)) {
        const gv_u8* const levels = of.levels + PROPOSALS * i;
        const int savings = levels[SAVINGS], mitigation = levels[MITIGATION];
        const float capital = s.capital[i], intensity = s.intensity[i], technology = s.technology[i];
        const float cost = scaled(intensity, w.tables.trends[2 * n]), abatement = cost * w.tables.abatement[mitigation];
        const float production = production_of(w, technology, capital, s.labor[i]);
        const float output = gross_output_of(damages, abatement, production);
        s.savings[i] = (gv_u8)savings;
        s.mitigation[i] = (gv_u8)mitigation;
        s.export_limit[i] = levels[EXPORTS];
        s.mitigation_cost[i] = cost;
        s.production[i] = production;
        s.gross_output[i] = of.output[i] = output;
        of.balance[i] = s.balance[i] * w.params.interest;
        of.emission[i] = emission_of(w, intensity, w.tables.rate[mitigation], production, n);
        s.capital[i] = next_capital(w, capital, w.tables.rate[savings] * output);
        s.technology[i] = scaled(technology, w.tables.growth[REGIONS * n + i]);
        s.intensity[i] = scaled(intensity, w.tables.trends[2 * n + 1]);
    }
}

// Sums of the numbers that value(k) adds for k = 0 .. 26, in the order of NumPy's sum over a row: eight sums side by side, then the
// rest. The loop keeps the compiler from loading all numbers at once, for which it has no registers.
template <class Value>
GV_FN auto row_sum(Value value) {
    const auto part = [&](int k) { const auto first = value(k), second = first + value(k + 8); return second + value(k + 16); };
    const auto pair = [&](int k) { const auto first = part(k); return first + part(k + 1); };
    decltype(value(0)) sum = {};
    GV_LOOP for (int k = 0; k < 8; k += 4) {
        const auto first = pair(k), four = first + pair(k + 2);
        sum = k == 0 ? four : sum + four;
    }
    GV_LOOP for (int k = 24; k < REGIONS; ++k) sum = sum + value(k);
    return sum;
}

// Goods that each region wants, as far as its output and its debt allow.
GV_FN void import_goods(const GvWorld& w, const Trade& of) {
    for (int i : w.each(REGIONS)) {
        float* const goods = of.goods + REGIONS * i;
        const gv_u8* const bids = of.levels + PROPOSALS * i + IMPORTS;
        const float output = of.output[i], paid = paid_share(w, of.balance[i], w.tables.start[i]);
        const float total = row_sum([&](int j) { return goods[j] = i == j ? 0.0f : w.tables.rate[bids[j]] * output; });
        const float share = total > output ? output / total : 1.0f;
        for (int j = 0; j < REGIONS; ++j) goods[j] = goods[j] * share * paid;
    }
}

// Goods that each region delivers: at most its limit, and what it does not invest.
GV_FN void export_goods(const GvWorld& w, const Trade& of) {
    for (int j : w.each(REGIONS)) {
        const gv_u8* const levels = of.levels + PROPOSALS * j;
        const float output = of.output[j], rest = output - w.tables.rate[levels[SAVINGS]] * output;
        const float most = gv_min(w.tables.rate[levels[EXPORTS]] * output, rest);
        float total = of.goods[j], delivered = 0.0f;
        for (int i = 1; i < REGIONS; ++i) total += of.goods[REGIONS * i + j];
        if (total > most) {
            const float share = most / total;
            for (int i = 0; i < REGIONS; ++i) {
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
GV_FN void consume(const GvWorld& w, const Trade& of) {
    const auto& s = w.state;
    for (int i : w.each(REGIONS)) {
        const float* const goods = of.goods + REGIONS * i;
        const gv_u8 *const tariffs = of.tariffs + REGIONS * i, *const levels = of.levels + PROPOSALS * i;
        const float output = of.output[i], exports = of.exports[i], investment = w.tables.rate[levels[SAVINGS]] * output;
        const float labor = s.labor[i], domestic = gv_max(0.0f, output - investment - exports);
        const Sums of_partners = row_sum([&](int j) {
            return Sums{w.params.foreign_weight * root_of(goods[j] * (1.0f - w.tables.rate[tariffs[j]])), goods[j]};
        });
        const float root = 0.5f * gv_sqrt(domestic) + of_partners.utility, consumption = root * root;
        const float utility = utility_of(w, consumption, labor);
        s.consumption[i] = consumption;
        s.utility[i] = utility;
        s.balance[i] = of.balance[i] + YEARS * (exports - of_partners.goods);
        s.labor[i] = next_labor(w, labor, i);
    }
    gv_u8* row = s.tariffs;
    const gv_u8* levels = of.levels + TARIFFS;
    GV_LOOP for (int i = 0; i < REGIONS; ++i, row += REGIONS, levels += PROPOSALS) for (int j : w.each(REGIONS)) row[j] = levels[j];
}

GV_FN void end_period(const GvWorld& w, const Trade& of, int n) {
    const auto& s = w.state;
    if (w.once) {
        s.damages = damages_of(w, s.air);
        next_climate(w, s, of.emission, n);
        s.period = n;
        s.terminated = n >= PERIODS;
    }
}

// All worlds of a block come to each barrier, whatever their stages are.
GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    const Trade of = trade_of(w);
    const Proposals proposals = proposals_at(w.scratch.memory);
    const int stage = stage_of(w, s.t), n = s.period < PERIODS ? s.period + 1 : PERIODS;  // a caller may set the last period
    const bool acts = stage == PERIOD;
    if (stage == PROPOSE) propose(w);
    if (stage == DECIDE) decide(w);
    if (acts) read_period(w, of);
    w.barrier();
    if (acts) produce(w, of, n);
    if (stage == DECIDE) stage_proposals(w, proposals);
    w.barrier();
    if (stage == DECIDE) for (int i : w.each(REGIONS)) s.minimum_mitigation[i] = (gv_u8)agreed_mitigation(proposals, i);
    if (acts) import_goods(w, of);
    w.barrier();
    if (acts) export_goods(w, of);
    w.barrier();
    if (acts) consume(w, of);
    for (auto me : w.role.region) me.reward = acts ? me.utility : 0.0f;
    w.barrier();
    if (acts) end_period(w, of, n);
    const float output = w.sum(w.each(REGIONS), [&](int i) { return acts ? of.output[i] : 0.0f; });
    if (acts) {
        w.record.gross_output(output);
        w.record.economic_index((output - w.params.least_output) * w.params.per_output);
    }
    w.record.temperature_rise(s.air - w.tables.start_climate[0]);
    w.record.climate_index((s.air - w.tables.start_climate[0] - w.params.most_warming) * w.params.per_warming);
}

// ---- observation ----------------------------------------------------------------------------------------------

// The part that all regions observe alike. `bids` are the levels of the period's actions, null if the step had none.
GV_FN void observe_world(const GvWorld& w, const gv_u8* bids, float* to) {
    const auto& s = w.state;
    const int n = s.period, head = 8 + w.params.negotiation_on;
    if (w.once) {
        to[0] = s.air * 0.1f;
        to[1] = s.ocean * 0.1f;
        to[2] = s.c_air * 1.0e-4f;
        to[3] = s.c_upper * 1.0e-4f;
        to[4] = s.c_lower * 1.0e-4f;
        to[5] = of_period(w, n, FORCING);
        to[6] = of_period(w, n, LAND);
        to[7] = (float)w.t * 0.01f;
        if (w.params.negotiation_on) to[8] = (float)(w.t % 3);
    }
    const float capital_kept = n > 0 ? (float)w.params.kept_capital : 0.0f;
    for (int i : w.each(REGIONS)) {
        float* const of = to + head + i;
        const float savings = w.tables.rate[s.savings[i]], output = s.gross_output[i];
        of[0 * REGIONS] = s.capital[i] * 1.0e-4f;
        of[1 * REGIONS] = capital_kept;
        of[2 * REGIONS] = s.labor[i] * 1.0e-4f;
        of[3 * REGIONS] = output * 1.0e-3f;
        of[4 * REGIONS] = savings * output * 1.0e-3f;
        of[5 * REGIONS] = s.consumption[i] * 1.0e-3f;
        of[6 * REGIONS] = savings;
        of[7 * REGIONS] = w.tables.rate[s.mitigation[i]];
        of[8 * REGIONS] = w.tables.rate[s.export_limit[i]];
        of[9 * REGIONS] = s.balance[i] * 1.0e-3f;
    }
    float* tariffs = to + head + 10 * REGIONS;
    if (bids == nullptr) {
        gv_for_batches<4>(
            w.team, PAIRS, [&](int k) { return s.tariffs[k]; }, [&](int k, gv_u8 level) { tariffs[k] = w.tables.rate[level] * 0.01f; });
        return;
    }
    const gv_u8* levels = bids + TARIFFS;  // the same numbers, without a wait for memory
    GV_LOOP for (int i = 0; i < REGIONS; ++i, tariffs += REGIONS, levels += PROPOSALS) {
        for (int j : w.each(REGIONS)) tariffs[j] = w.tables.rate[levels[j]] * 0.01f;
    }
}

// Numbers that each region observes of itself, a row a region.
GV_FN void observe_own(const GvWorld& w, float* to) {
    const auto& s = w.state;
    const bool acted = stage_of(w, s.t) == PERIOD;
    for (int i : w.each(REGIONS)) {
        float* const of = to + PRIVATE * i;
        const float cost = s.mitigation_cost[i], utility = s.utility[i];
        of[0] = s.technology[i] * 0.01f;
        of[1] = s.intensity[i] * 10.0f;
        of[2] = cost;
        of[3] = s.damages;
        of[4] = cost * w.tables.abatement[s.mitigation[i]];
        of[5] = s.production[i] * 1.0e-3f;
        of[6] = utility;
        of[7] = utility * of_period(w, s.period, DISCOUNT);
        of[8] = acted ? utility : 0.0f;  // reward of the last step
        of[9] = w.tables.rate[s.minimum_mitigation[i]];
    }
}

// Pairs of region i and each other one: its promises, promises to it, its requests, requests to it, its decisions, decisions about it.
GV_FN void observe_pairs(const GvWorld& w, const Proposals& of, int i, float* to) {
    for (int j : w.each(REGIONS)) {
        const int its = REGIONS * i + j, about = REGIONS * j + i;
        to[j] = w.tables.rate[of.promises[its]];
        to[REGIONS + j] = w.tables.rate[of.promises[about]];
        to[2 * REGIONS + j] = w.tables.rate[of.requests[its]];
        to[3 * REGIONS + j] = w.tables.rate[of.requests[about]];
        to[4 * REGIONS + j] = (float)of.decisions[its];
        to[5 * REGIONS + j] = (float)of.decisions[about];
    }
}

// Writes a row a region: its id, in whole rows the part that all observe alike, its own numbers, and its pairs. For `bids` see
// observe_world. The addresses are those of the first region.
GV_FN void observe_after(const GvWorld& w, const gv_u8* bids, float* rows, float* shared, gv_u8* mask, gv_u8* effects) {
    const auto& s = w.state;
    const int features = w.role.region.num_features(), negotiates = w.params.negotiation_on;
    const int private_count = PRIVATE - 1 + negotiates, alike = alike_of(w);
    const bool whole = w.role.region.num_shared() == 0;
    float *const of_world = w.scratch.memory, *const of_region = of_world + alike;
    const Proposals proposals = proposals_at(of_region + PRIVATE * REGIONS);
    w.barrier();  // env_step may still read scratch
    observe_world(w, bids, of_world);
    observe_own(w, of_region);
    if (negotiates) stage_proposals(w, proposals);
    w.barrier();
    if (whole) gv_repeat_in_rows<32>(w.team, of_world, alike, rows + REGIONS, REGIONS, features);
    else gv_repeat_in_rows<8>(w.team, of_world, alike, shared, 1, features);
    float *row = rows, *private_part = rows + REGIONS + (whole ? alike : 0);
    const float* from = of_region;
    GV_LOOP for (int i = 0; i < REGIONS; ++i, row += features, private_part += features, from += PRIVATE) {
        for (int k : w.each(REGIONS)) row[k] = k == i ? 1.0f : 0.0f;
        for (int k : w.each(private_count)) private_part[k] = from[k];
        if (negotiates) observe_pairs(w, proposals, i, private_part + private_count);
    }
    if (negotiates) {
        const int choices = w.role.region.num_choices();
        gv_for_table(w.team, REGIONS, choices, [&](int i, int k) { mask[i * choices + k] = k >= s.minimum_mitigation[i]; });
        const int next = stage_of(w, w.t + 1);  // the groups of entries are in the order of the stages
        gv_for_table(w.team, REGIONS, STAGES, [&](int i, int k) { effects[i * STAGES + k] = k == next; });
    }
}

GV_FN void env_observe(GvWorld& w) {
    observe_after(w, nullptr, w.role.region[0].obs.at, w.role.region.shared().at, w.role.region[0].mask, w.role.region[0].effects);
}

GV_FN void env_observe_step(GvWorld& w) {
    const gv_u8* const bids = stage_of(w, w.t) == PERIOD ? trade_of(w).levels : nullptr;
    observe_after(w, bids, w.role.region[0].obs.at, w.role.region.shared().at, w.role.region[0].mask, w.role.region[0].effects);
}
