// Purposes of draws. The purpose is the high half of the last word of a counter; the low half is that of the agent's number, whose
// high half changes the key (gv_agent_key in lib/rng.h). Draws of one world, episode and step with different purposes are independent.
//
// purposes           draws
// 0, 1, ...          of an env's hooks, by gv_draw()
// 0xFAFE             of updates, whose key is the seed of an algorithm, with counters of their own (learner/noise.cu)
// 0xFAFF to 0xFBFE   of policies: four entries of an action share a draw; entries 4 q .. 4 q + 3 have GV_PURPOSE_POLICY - q
// 0xFBFF to 0xFFFE   of random actions of rollouts: entry n has GV_PURPOSE_ACTIONS - n
// 0xFFFF             of the reset pool
//
// An action has up to 1024 entries.
#pragma once

#define GV_PURPOSE_UPDATES 0xFAFEu
#define GV_PURPOSE_POLICY 0xFBFEu
#define GV_PURPOSE_ACTIONS 0xFFFEu
#define GV_PURPOSE_POOL 0xFFFFu
