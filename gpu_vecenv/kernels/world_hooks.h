// Hooks that take GvWorld. The protocol calls hooks with (a, team); these functions pass its calls on. env_observe_step and env_settle
// are optional: kernel_source() in backend/source.py sees which of them the env defines.
#pragma once
#include "world.h"

GV_FLAT void env_reset(const GvArgs& a, const GvTeam& team) {
    GvWorld w(a, team);
    env_reset(w);
}
GV_FLAT void env_step(const GvArgs& a, const GvTeam& team) {
    GvWorld w(a, team);
    env_step(w);
}
GV_FLAT void env_observe(const GvArgs& a, const GvTeam& team, GvObs obs) {
    GvWorld w(a, team, obs);
    env_observe(w);
}
#ifdef GV_OBSERVES_STEP
GV_FLAT void env_observe_step(const GvArgs& a, const GvTeam& team, GvObs obs) {
    GvWorld w(a, team, obs);
    env_observe_step(w);
}
#endif
#ifdef GV_SETTLES
GV_FLAT void env_settle(const GvArgs& a, const GvTeam& team) {
    GvWorld w(a, team);
    env_settle(w);
}
#endif
