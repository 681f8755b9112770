// Copies the metrics of an iteration to the next row of memory of the host. A graph can record it, and each replay writes another
// row, so the host reads the row of an iteration while later ones run. There is one team.
#include "program_args.h"

GV_FN void gv_copy_to_row(const GvArgs& a, const GvLanes& team, gv_i32) {
    const gv_i32 row = *a.row;
    GV_FOR(i, a.count) a.rows[row * a.count + i] = a.metrics[i];
    gv_barrier(team);  // all lanes have read the number
    GV_ONCE *a.row = (row + 1) % a.num_rows;
}

GV_PLAIN_KERNEL(gv_metrics_to_host, gv_copy_to_row)
