// Functions of vectors, for each number of an array.
#include "learner/host_products.h"
#include "learner/host_transpose.h"
#include "lib/host_powers.h"
#include "program_args.h"

GV_FN void gv_apply(const GvArgs& a, const GvLanes&, gv_i32 team) {
    const gv_i64 first = (gv_i64)team * 16;
    for (gv_i64 i = first; i < first + 16; i += GV_WIDTH) {
        const GvVector x = gv_load_vector(a.x + i);
        gv_store_vector(a.exp + i, gv_exp(x));
        gv_store_vector(a.log + i, gv_log_inside(x));
        gv_store_vector(a.tanh + i, gv_tanh(x));
    }
}
GV_FN void gv_multiply(const GvArgs& a, const GvLanes&, gv_i32) {
    gv_product(a.rows, a.columns, a.inner, {a.left, a.inner, 1}, a.right, a.columns, a.start, a.columns, a.product, a.columns);
}
GV_FN void gv_turn(const GvArgs& a, const GvLanes&, gv_i32) {
    gv_copy_columns(a.left, a.rows, a.columns, a.product, a.inner);
}
GV_PLAIN_KERNEL(gv_apply_all, gv_apply)
GV_PLAIN_KERNEL(gv_multiply_all, gv_multiply)
GV_PLAIN_KERNEL(gv_turn_all, gv_turn)
