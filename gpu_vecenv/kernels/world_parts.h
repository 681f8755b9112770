// Parts of GvWorld that are the same for every env. world.h, which is generated from the spec, includes this header and adds what
// has names of the spec. Hooks use these types as `w.NAME` and `me.NAME`; their own names stand in messages of compilers.
#pragma once
#include "hooks.h"

// ---- phases ---------------------------------------------------------------------------------------------------

// Position in a loop of which each lane runs a part: lane, lane + lanes, lane + 2 lanes, ...
template <class Range>
struct GvPhase {
    const Range& range;
    gv_i32 k, lanes;
    GV_METHOD bool operator!=(gv_i32 end) const {
        GV_SET_AGENT(-1)  // each agent sets its number anew
        return k < end;
    }
    GV_METHOD void operator++() { k += lanes; }
    GV_METHOD auto operator*() const { return range.of_lane(k); }
};

// Numbers 0 .. n - 1, distributed over the lanes: `for (gv_i32 cell : w.each(n))`.
struct GvEach {
    const GvTeam& team;
    gv_i32 n;
    GV_METHOD GvPhase<GvEach> begin() const { return {*this, team.lane, team.lanes}; }
    GV_METHOD gv_i32 end() const { return n; }
    GV_METHOD gv_i32 count() const { return n; }
    GV_METHOD gv_i32 operator[](gv_i32 k) const { return k; }
    GV_METHOD gv_i32 at(gv_i32 k, bool) const { return k; }
    GV_METHOD gv_i32 of_lane(gv_i32 k) const { return k; }
};

// ---- rows of observations -------------------------------------------------------------------------------------

// Row of observations: `me.obs[3] = x`, or the whole row, `me.obs = {x, y}`. Rows by role have a table in memory and are written in
// vectors if its address allows them.
struct GvObsRow {
    GvPointer<float> at;
    const float* table;
    GV_METHOD GvObsRow(GvPointer<float> at, const float* table = nullptr) : at(at), table(table) {}
    GV_METHOD GvObsRow(const GvObsRow& other) : at(other.at), table(other.table) {}
    GvObsRow& operator=(const GvObsRow&) = delete;  // would neither copy numbers nor fail
    GV_METHOD float& operator[](GvIndex feature) const { return at[feature]; }
    template <gv_i32 n>
    GV_METHOD void operator=(const float (&values)[n]) const {
        GV_CHECK_LENGTH(at, n)
#ifdef GV_BY_ROLE
        if constexpr (n % 2 == 0) {
            gv_write_row<n>(at, values, gv_is_aligned<n>(table));
            return;
        }
#endif
        gv_write_row<n>(at, values);
    }
};

// Room that scratch needs for gathered rows, besides the rows: those of each role keep their distance from a 16-byte boundary.
GV_FN constexpr gv_i32 gv_gather_margin(gv_i32 roles) { return 6 * roles - 2; }

// Pairs of an agent and another element: `for (auto [me, it] : w.pairs(w.agents))`. The pairs of an agent may be the work of several
// lanes, which write its row together. If scratch has room, rows are gathered there, and written in whole lines behind the loop.
// `Others` is a reference to a range of the world, or w.each(n) itself: C++17 would destroy that before the loop begins.
template <class Agent, class Other>
struct GvPair {
    Agent me;
    Other it;
};

template <class Agents, class Others>
struct GvPairs {
    const GvTeam& team;
    const Agents& agents;
    Others others;
    bool gathered;
    typename Agents::Rows memory, rows;  // the same addresses if rows are not gathered

    GV_METHOD GvPairs(const GvTeam& team, const Agents& agents, const Others& others, float* scratch, gv_i32 room)
        : team(team), agents(agents), others(others), gathered(agents.is_gathered(room)), memory(agents.rows_in_memory()),
          rows(gathered ? agents.rows_gathered(scratch, memory) : memory) {}
    GV_METHOD ~GvPairs() {
        if (!gathered) return;
        gv_barrier(team);
        agents.copy_out(rows, memory);
    }
    GvPairs(const GvPairs&) = delete;

    // Steps through the pairs as gv_for_table does.
    struct At {
        const GvPairs& pairs;
        gv_i32 row, column, step, rest;  // rest is 0 for a lane that keeps its column
        GV_METHOD bool operator!=(gv_i32 end) const {
            GV_SET_AGENT(-1)
            return row < end;
        }
        GV_METHOD void operator++() {
            row += step;
            column += rest;
            if (column >= pairs.others.count()) {
                column -= pairs.others.count();
                ++row;
            }
        }
        GV_METHOD auto operator*() const {
            return GvPair<decltype(pairs.agents.in_row(row, pairs.rows)), decltype(pairs.others.at(column, true))>{
                pairs.agents.in_row(row, pairs.rows), pairs.others.at(column, true)};
        }
    };
    GV_METHOD At begin() const {
        const gv_i32 columns = others.count(), step = team.lanes / columns, rest = team.lanes - step * columns;
        const gv_i32 row = team.lane / columns;
        const bool keeps_column = 8 * rest <= team.lanes;
        return {*this, keeps_column && row >= step ? agents.count() : row, team.lane - row * columns, step, keeps_column ? 0 : rest};
    }
    GV_METHOD gv_i32 end() const { return agents.count(); }
};

// ---- draws and actions ----------------------------------------------------------------------------------------

// Four random words.
struct GvDrawn : GvDraw {
    GV_METHOD float uniform(gv_i32 k = 0) const { return gv_uniform(word[k]); }                // [0, 1)
    GV_METHOD gv_i32 below(gv_i32 n, gv_i32 k = 0) const { return gv_below(word[k], n); }      // 0 .. n - 1
};

// One lane counts an invalid entry of an action. For an element of a phase, a pair, w.count or w.sum it is the lane that works on it.
// All lanes may read an agent that is taken by its number, such as w.agents[j]; there the first lane counts.
struct GvCounting {
    const GvArgs& a;
    bool counts;
    GV_METHOD gv_i32 index(gv_i32 given, gv_i32 choices) const {
        if (gv_is_choice(given, choices)) return given;
        if (counts) gv_fetch_add(a.invalid_actions);
        return 0;
    }
    GV_METHOD float value(float given) const {
        if (given == given) return given;
        if (counts) gv_fetch_add(a.invalid_actions);
        return 0.0f;
    }
};

// ---- calls of a world -----------------------------------------------------------------------------------------

struct GvWorldCalls {
    const GvArgs& a;  // `a` and `team` are for library calls, such as the search for neighbours
    const GvTeam& team;
    const bool once;  // true in one lane: `if (w.once) { ... }`

    GV_METHOD void barrier() const { gv_barrier(team); }
    GV_METHOD GvEach each(gv_i32 n) const { return {team, n}; }
    GV_METHOD GvDrawn draw(gv_u32 purpose, gv_i32 agent = 0) const { return {gv_draw(a, team, purpose, (gv_u32)agent)}; }

    // Number of elements of a range for which test(element) is true. The results are the same in all lanes.
    template <class Range, class Test>
    GV_METHOD gv_i32 count(const Range& range, Test test) const {
        return gv_count(team, range.count(), [&](gv_i32 k) { return test(range.at(k, true)); });
    }
    GV_METHOD bool any(bool condition) const { return gv_any(team, condition); }
    template <class Range, class Test>
    GV_METHOD bool any(const Range& range, Test test) const {
        return count(range, test) > 0;
    }
    // Sum of value(element), added in the same order for every team size.
    template <class Range, class Value>
    GV_METHOD float sum(const Range& range, Value value) const {
        return gv_sum(team, range.count(), [&](gv_i32 k) { return value(range.at(k, true)); });
    }
    // Several sums at once, each with the bits of sum(): `const auto [food, wood] = w.sum(w.agents, f, g).value`.
    template <class Range, class... Values>
    GV_METHOD GvVec<float, sizeof...(Values)> sum(const Range& range, Values... values) const {
        typedef GvVec<float, sizeof...(Values)> Addends;
        return gv_sum_each(team, range.count(), [&](gv_i32 k, bool counts) { return Addends{values(range.at(k, counts))...}; });
    }
};
