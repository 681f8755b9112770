// Correction of the moments of Adam for their start from zeros.
#pragma once
#include "lib/powers.h"
#include "program_args.h"

// double: 1 - beta^n of a float would lose its digits for small n.
// 1 - beta^n, for the beta of the first or the second moment.
GV_FN float gv_bias_correction(bool second, float n) {
    const double log_beta = second ? GV_LOG_V_DECAY : GV_LOG_M_DECAY;
    return (float)(1.0 - gv_exp_for_power((double)n * log_beta));
}
