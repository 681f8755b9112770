// Layout of the sums of an update in memory.
#pragma once
#include "learner/loss.h"
#include "learner/rows.h"

// GV_SPREADS: derivatives by log_std. GV_TWO_COUNTS: 1 if masks can leave a row without a choice; the critic then counts rows that
// the actor does not.
#define GV_TENSORS (4 * GV_LAST + (GV_SPREADS > 0 ? 1 : 0))

// Columns of a network's sums: weights and bias of each layer in turn, then log_std. The actor's GV_ACTOR_COLUMNS end with policy
// loss, entropy, kl, clip fraction and rows with a choice, the critic's GV_CRITIC_COLUMNS with value loss, and with rows if those of
// the actor are fewer.
GV_TABLE(gv_weight_column, GV_COLUMNS_AT)
GV_TABLE(gv_weight_columns, GV_WEIGHT_COLUMNS)  // by network, without log_std
#define GV_ACTOR_WEIGHTS (gv_weight_columns(0) + GV_SPREADS)
#define GV_CRITIC_WEIGHTS gv_weight_columns(1)
#define GV_COLUMNS (GV_ACTOR_COLUMNS + GV_CRITIC_COLUMNS)
