// Choir: singers choose notes. Test env for spaces that depend on parameters: a part that all observe alike or whole rows, masks or
// none, and a memory of any length.
#include "hooks.h"

GV_FN void env_reset(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    GV_FOR_ROLE(singer, i) s.note[i] = gv_below(gv_draw(a, team, 0, (gv_u32)i).word[0], 3);
    GV_FOR(k, gv_heard_axis0(a) * gv_singer_count(a)) s.heard[k] = -1;
    GV_ONCE s.lead = 0;
}

// A singer whose note is that of the first singer gets 1. Every lane reads the first singer's note.
GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, singers = gv_singer_count(a), steps = gv_heard_axis0(a);
    const gv_i32 lead = gv_action_index(a, team, gv_singer_action(a, w, 0), 0, 3);
    GV_FOR_ROLE(singer, i) {
        for (gv_i32 k = steps - 1; k > 0; --k) s.heard[k * singers + i] = s.heard[(k - 1) * singers + i];
        if (steps > 0) s.heard[i] = s.note[i];
        s.note[i] = i == 0 ? lead : gv_action_index(a, gv_singer_action(a, w, i), 0, 3);
        a.agent_reward[gv_singer_row(a, w, i)] = s.note[i] == lead ? 1.0f : 0.0f;
    }
    const float sum = gv_sum(team, singers, [&](gv_i32 i) { return (float)s.note[i]; });
    gv_record_notes(a, team, sum);
    GV_ONCE {
        s.lead = lead;
        s.truncated = gv_time_is_up(s.t, a.max_episode_steps);
    }
}

// All observe the first singer's note and the time; each its note, and those before. A singer may not repeat its note.
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    const GvState s = gv_state(a, team);
    const gv_i32 w = team.world, singers = gv_singer_count(a), steps = gv_heard_axis0(a);
    const bool whole = gv_singer_num_shared(a) == 0;
    if (!whole) {
        GV_ONCE {
            gv_singer_shared(a, obs, w)[0] = (float)s.lead;
            gv_singer_shared(a, obs, w)[1] = (float)s.t;
        }
    }
    GV_FOR_ROLE(singer, i) {
        float* row = gv_singer_obs(a, obs, w, i);
        if (whole) {
            *row++ = (float)s.lead;
            *row++ = (float)s.t;
        }
        row[0] = (float)s.note[i];
        for (gv_i32 k = 0; k < steps; ++k) row[1 + k] = (float)s.heard[k * singers + i];
        for (gv_i32 k = 0; k < gv_singer_num_choices(a); ++k) gv_singer_mask(a, obs, w, i)[k] = k != s.note[i];
    }
}
