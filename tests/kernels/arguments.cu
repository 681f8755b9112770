// Copies each member of its arguments, and the number and the count of teams, for tests.
#include "program_args.h"

GV_FN void gv_copy_team(const GvArgs& a, const GvLanes& team, gv_i32 index) {
    GV_ONCE a.seen[index] = index * 1000 + a.teams;
    if (index != a.teams - 1) return;
    GV_FOR(i, 2) a.copied[i] = a.pairs[1].values[i];
    GV_ONCE {
        a.copied[2] = a.pairs[0].scale;
        a.copied[3] = (float)a.wide;
        a.copied[4] = (float)a.count;
        a.copied[5] = a.flag[0] ? 1.0f : 0.0f;
    }
}

GV_PLAIN_KERNEL(gv_copy_members, gv_copy_team)
