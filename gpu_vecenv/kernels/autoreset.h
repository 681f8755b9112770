// The effect of a step on the episode of a world, as one function of values. Every path calls it: worlds in memory, register
// worlds, packs, and the rollout of the learner.
#pragma once
#include "target/target.h"

#define GV_NEXT_STEP 0
#define GV_SAME_STEP 1
#define GV_DISABLED 2

struct GvOutcome {
    bool terminated, truncated;  // flags that the step gives
    bool finished;               // the step ends the episode
    bool restarts;               // the step starts the next episode
};

// The outcome of a step in a mode of autoreset. If `was_finished`, an earlier step has ended the episode, env_step does not run,
// and the flags are those of that earlier step. Otherwise they are those that env_step has set.
GV_FN GvOutcome gv_outcome(gv_i32 autoreset, bool was_finished, bool terminated, bool truncated) {
    if (was_finished) {
        const bool restarts = autoreset == GV_NEXT_STEP;  // the start is the whole step, so it gives the flags of a start
        return {terminated && !restarts, truncated && !restarts, false, restarts};
    }
    const bool finished = terminated || truncated;
    return {terminated, truncated, finished, finished && autoreset == GV_SAME_STEP};
}
