// Choir: singers choose notes. Test env for spaces that depend on parameters: a part that all observe alike or whole rows, masks or
// none, and a memory of any length.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.role.singer) me.note = w.draw(0, me.index).below(3);
    for (int k : w.each(w.sizes.heard_axis0 * w.role.singer.count())) w.state.heard[k] = -1;
    if (w.once) w.state.lead = 0;
}

// A singer whose note is that of the first singer gets 1. Every lane reads the first singer's note.
GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    const int steps = w.sizes.heard_axis0;
    const int lead = w.role.singer[0].action.index();
    for (auto me : w.role.singer) {
        const int i = me.index;
        for (int k = steps - 1; k > 0; --k) w.at.heard(k, i) = w.at.heard(k - 1, i);
        if (steps > 0) s.heard[i] = me.note;
        me.note = i == 0 ? lead : me.action.index();
        me.reward = me.note == lead ? 1.0f : 0.0f;
    }
    w.record.notes(w.sum(w.role.singer, [&](auto it) { return (float)it.note; }));
    if (w.once) {
        s.lead = lead;
        w.truncate_at(w.params.max_episode_steps);
    }
}

// All observe the first singer's note and the time; each its note, and those before. A singer may not repeat its note.
GV_FN void env_observe(GvWorld& w) {
    const auto& s = w.state;
    const int steps = w.sizes.heard_axis0;
    const bool whole = w.role.singer.num_shared() == 0;
    if (!whole) {
        if (w.once) w.role.singer.shared() = {(float)s.lead, (float)w.t};
    }
    for (auto me : w.role.singer) {
        float* row = me.obs.at;
        if (whole) {
            *row++ = (float)s.lead;
            *row++ = (float)w.t;
        }
        row[0] = (float)me.note;
        for (int k = 0; k < steps; ++k) row[1 + k] = (float)w.at.heard(k, me.index);
        for (int k = 0; k < w.role.singer.num_choices(); ++k) me.mask[k] = k != me.note;
    }
}
