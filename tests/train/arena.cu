// Two roles whose agents may be absent from an episode and may leave it; one observes a shared part, and both have masks.
#include "world.h"

#define CHOICES 4

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) {
        const auto draw = w.draw(0, me.index);
        me.place = draw.uniform(0);
        me.present = draw.uniform(1) >= w.params.absent;
    }
}

// Moves an agent of either role, and pays it: better near 0 and with the choice 2.
template <class Agent>
GV_FN void arena_move(const GvWorld& w, const Agent& me) {
    const int kind = me.action.index(1);
    me.place += 0.2f * (float)(me.action.index(0) - 1) + 0.01f * (float)kind;
    const bool here = me.present != 0;
    if (here && w.draw(1, me.index).uniform() < w.params.leaves) me.present = 0;
    me.reward = here ? 0.5f - gv_abs(me.place) + (kind == 2 ? 0.1f : 0.0f) : w.params.ghost;
}

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.role.red) arena_move(w, me);
    for (auto me : w.role.blue) arena_move(w, me);
    if (w.once) {
        w.terminate(w.draw(2).uniform() < w.params.ends);
        w.truncate_at(w.params.max_episode_steps);
    }
}

// In some steps one choice is forbidden, in some all are. With `shut` both entries have masks, which allow one choice in most steps.
GV_FN void arena_observe(const GvWorld& w, const GvObsRow& row, gv_u8* mask, int i) {
    row[0] = w.state.place[i];
    row[1] = (float)i;
    const bool free = w.params.shut == 0 || (w.t + i) % 4 == 0;
    if (w.params.shut != 0) {
        for (int choice = 0; choice < 3; ++choice) *mask++ = free || choice == w.t % 3;
    }
    for (int choice = 0; choice < CHOICES; ++choice) {
        mask[choice] = (w.t + i + choice) % 5 != 0 && (w.t + i) % 7 != 0 && (free || choice == i % CHOICES);
    }
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.role.red) {
        arena_observe(w, me.obs, me.mask, me.index);
        me.obs[2] = 0.1f * (float)w.t;
    }
    for (auto me : w.role.blue) arena_observe(w, me.obs, me.mask, me.index);
    if (w.once) w.role.blue.shared()[0] = 0.1f * (float)w.t;
}
