// MountainCar by the rules of Gymnasium's MountainCar-v0: an engine that pushes left, not at all or right.
#include "valley.h"

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        const int direction = me.action.index() - 1;
        drive(w, (float)direction * w.params.force);
        me.reward = -1.0f;
    }
}
