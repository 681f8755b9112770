// Copies the metrics of an iteration to the next row of memory of the host. A graph can record it, and each replay writes another
// row, so the host reads the row of an iteration while later ones run. One team, which takes the place of a world in GV_KERNEL.
#ifndef GV_SCRATCH
#define GV_SCRATCH 1  // unused
#endif
#include "target/target.h"

// gpu_vecenv/train/runner/metric_rows.py fills this struct.
struct GvArgs {
    const float* metrics;           // [count]
    float* rows;                    // [num_rows, count]
    gv_i32* row;                    // number of the row to write, then of the next one
    gv_i32* invalid_actions;        // unused; GV_KERNEL expects it
    gv_i32 num_worlds, num_agents;  // 1; 1
    gv_i32 count, num_rows;
};
static_assert(sizeof(GvArgs) == 48, "as in gpu_vecenv/train/runner/metric_rows.py");

GV_FN void gv_publish_row(const GvArgs& a, const GvTeam& team) {
    const gv_i32 row = *a.row;
    GV_FOR(i, a.count) a.rows[row * a.count + i] = a.metrics[i];
    gv_barrier(team);  // all lanes have read the number
    GV_ONCE *a.row = (row + 1) % a.num_rows;
}

GV_KERNEL(gv_publish, gv_publish_row)

#ifdef GV_PACK
#include "launch/threads.h"
#endif
