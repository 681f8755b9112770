// Two roles with equal spaces, a shared part and one masked entry of two. Test env of the trainer.
#include "world.h"

// The right choice of the masked entry follows from the world's number and the step; the choice after it is forbidden.
GV_FN int pairs_right(const GvWorld& w, int t) { return (w.state.number + t) % 3; }

GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.number = (int)(w.draw(0).word[0] % 3u);
}

GV_FN void env_step(GvWorld& w) {
    const int right = pairs_right(w, w.t - 1);
    for (auto me : w.role.left) me.reward = me.action.index(1) == right ? 1.0f : 0.0f;
    for (auto me : w.role.right) me.reward = me.action.index(1) == right ? 1.0f : 0.0f;
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

GV_FN void pairs_observe(const GvObsRow& row, gv_u8* mask, int i, int right) {
    row[0] = (float)i;
    row[1] = 1.0f;
    for (int choice = 0; choice < 3; ++choice) mask[choice] = choice != (right + 1) % 3;
}

GV_FN void env_observe(GvWorld& w) {
    const int right = pairs_right(w, w.t);
    for (auto me : w.role.left) pairs_observe(me.obs, me.mask, me.in_role, right);
    for (auto me : w.role.right) pairs_observe(me.obs, me.mask, me.in_role, right);
    if (w.once) {
        for (int k = 0; k < 3; ++k) w.role.left.shared()[k] = w.role.right.shared()[k] = k == right ? 1.0f : 0.0f;
    }
}
