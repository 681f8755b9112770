// MountainCarContinuous by the rules of Gymnasium's MountainCarContinuous-v0: an engine with a throttle, and a cost for its use.
#include "../mountain_car/valley.h"

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        const float action = me.action.value();
        const bool arrived = drive(w, gv_clamp(action, -1.0f, 1.0f) * w.params.power);
        // As in Gymnasium, the cost is computed from the action before it is clipped.
        me.reward = (arrived ? 100.0f : 0.0f) - 0.1f * action * action;
    }
}
