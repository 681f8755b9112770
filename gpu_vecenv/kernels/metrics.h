// Metrics of episodes: one number of each episode, for each metric of the spec.
//
// gv_record_NAME(a, team, value) adds the value of a step to the number of the episode. All lanes call it with the same value, or
// one lane under GV_ONCE. The number is a state field, so that copies of worlds continue it.
#pragma once
#include "state.h"

#define GV_UNRECORDED 0x7fc00000u  // NaN, in metrics without a record in this episode

GV_INLINE float gv_reduced_sum(float so_far, float value) { return so_far + value; }
GV_INLINE float gv_reduced_mean(float so_far, float value) { return so_far + value; }  // divided by the steps at the end
GV_INLINE float gv_reduced_max(float so_far, float value) { return value > so_far ? value : so_far; }
GV_INLINE float gv_reduced_min(float so_far, float value) { return value < so_far ? value : so_far; }
GV_INLINE float gv_reduced_last(float, float value) { return value; }

// Numbers of the episode of one world.
struct GvNumbers {
#define GV_METRIC(name, reduction) float name;
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
};

// gv_number_NAME is the number of the episode: in variables while a step holds it (launch/in_memory.h), otherwise in memory.
#define GV_METRIC(name, reduction)                                                                                \
    GV_INLINE float& gv_number_##name(const GvArgs& a, const GvTeam& team) {                                           \
        return team.numbers ? team.numbers->name : a.episode_##name[team.world];                                   \
    }                                                                                                              \
    GV_INLINE void gv_record_##name(const GvArgs& a, const GvTeam& team, float value) {                                \
        float& number = gv_number_##name(a, team);                                                                 \
        GV_ONCE number = number == number ? gv_reduced_##reduction(number, value) : value;                         \
    }
GV_METRICS(GV_METRIC)
#undef GV_METRIC

// Loads the numbers of the episode into variables. Only those of the lane that runs GV_ONCE are used.
GV_FN void gv_load_metrics(const GvArgs& a, const GvTeam& team, GvNumbers& numbers) {
    (void)a, (void)team, (void)numbers;
#define GV_METRIC(name, reduction) \
    numbers.name = 0.0f;           \
    GV_ONCE numbers.name = a.episode_##name[team.world];
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

GV_FN void gv_store_metrics(const GvArgs& a, const GvTeam& team, const GvNumbers& numbers) {
    (void)a, (void)team, (void)numbers;
#define GV_METRIC(name, reduction) GV_ONCE a.episode_##name[team.world] = numbers.name;
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

// Clears the metrics at the start of an episode.
GV_FN void gv_clear_metrics(const GvArgs& a, const GvTeam& team) {
    (void)a, (void)team;
#define GV_METRIC(name, reduction) GV_ONCE a.episode_##name[team.world] = gv_from_bits(GV_UNRECORDED);
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}

#define GV_STEPS_sum 1
#define GV_STEPS_mean a.t[team.world]
#define GV_STEPS_max 1
#define GV_STEPS_min 1
#define GV_STEPS_last 1

// One lane writes all rows: while a step holds the number, no other lane has it.
GV_FN void gv_write_metric(const GvArgs& a, const GvTeam& team, bool finished, float* out, float number) {
    if (!finished) return;
    GV_ONCE {
        if (gv_agents_view(a)) {
            for (gv_i32 agent = 0; agent < gv_num_agents(a); ++agent) out[gv_row(a, team.world, agent)] = number;
        } else {
            out[team.world] = number;
        }
    }
}

// Writes the metrics in the step that ends an episode. A barrier must follow the last record.
GV_FN void gv_write_metrics(const GvArgs& a, const GvTeam& team, bool finished) {
    (void)a, (void)team;
    if (!finished) return;  // most steps load no number
#define GV_METRIC(name, reduction) \
    gv_write_metric(a, team, finished, a.out_episode_##name, gv_number_##name(a, team) / (float)GV_STEPS_##reduction);
    GV_METRICS(GV_METRIC)
#undef GV_METRIC
}
