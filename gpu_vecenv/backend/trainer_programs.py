"""Kernels of the trainer that do not depend on sizes of a policy, with their arguments. The package has them compiled for CPUs.

Launches are in ``train``: those of ``kernels/returns`` in ``train/returns``, of ``kernels/policy`` in ``train/policies``, and so
on. The declarations stand here because the build of the package compiles the kernels without torch.
"""

from __future__ import annotations

from gpu_vecenv.backend.source import KERNEL_FOLDER, Program, arguments
from gpu_vecenv.spec.arguments import Array, Nested, Number, Struct, arrays, numbers

COUNTERS = Struct(
    "GvCounters",
    Array("seed", "uint64", "*worlds"),
    *arrays("int32", "*worlds", "world_id", "episode", "t"),
    Array("world", "int32", "*rows", "world of each row"),
    Array("agent", "int32", "*rows", "agent of each row"),
)
"""Counters of rows: random keys and steps of worlds, and the world and the agent of each row."""

DRAW = Program(
    "draws",
    KERNEL_FOLDER / "policy" / "draw.cu",
    arguments(
        Nested("draw", COUNTERS, doc="counters of the random numbers"),
        Array("logits", "float32", "rows, columns"),
        Array("mean", "float32", "rows, entries"),
        Array("log_std", "float32", "entries"),
        Array("low", "float32", "entries", "lower bounds of uniform numbers"),
        Array("high", "float32", "entries", "upper bounds"),
        Array("mask", "bool", "rows, mask_columns", "or null, which allows all choices"),
        Array("epsilon", "float32", "1", "probability of a uniform choice in place of the greedy one; null: 0"),
        Array("first", "int32", "entries", "first column of each entry"),
        Array("choices", "int32", "entries", "number of choices"),
        Array("mask_first", "int32", "entries", "first column of the mask, -1 for an entry without one"),
        Array("action", "any", "rows, entries", "int32 or float", written=True),
        *arrays("float32", "rows", "log_prob", "entropy", written=True),
        *numbers("int32", "rows", "entries", "columns", "mask_columns"),
        Number("tile_rows", "int32", "rows of a tile"),
        Number("stride", "int32", "floats of a row in scratch; 0 to read logits where they are"),
        Number("likeliest", "int32", "1: take the likeliest action"),
    ),
    scratch=4096,
    small=2048,
)

SQUASH = Program(
    "squashed actions",
    KERNEL_FOLDER / "policy" / "squash.cu",
    arguments(
        Array("outputs", "float32", "rows, 2 * entries", "means, and logarithms of deviations"),
        Array("noise", "float32", "rows, entries", "standard normal"),
        Array("action", "float32", "rows, entries", written=True),
        Array("log_prob", "float32", "rows", written=True),
        Array("of_action", "float32", "rows, entries", "derivatives by the actions"),
        Array("of_log_prob", "float32", "rows", "derivatives by the log-densities"),
        Array("of_outputs", "float32", "rows, 2 * entries", "derivatives by the outputs", written=True),
        Number("low", "float32", "least logarithm of a deviation"),
        Number("high", "float32", "largest one"),
        *numbers("int32", "rows", "entries"),
    ),
    (("TILE", 128),),  # rows of a team
    small=2048,
)

_LAYER_NORM_ARGS = arguments(
    *arrays("float32", "rows, width", "x", "of_y", doc="rows, and derivatives by y"),
    *arrays("float32", "width", "weight", "bias"),
    *arrays("float32", "rows, width", "y", "of_x", doc="results, and derivatives by x", written=True),
    Array("moments", "float32", "rows, 2", "mean of a row, and factor that makes its deviation 1", written=True),
    Array("of_tiles", "float32", "*tiles, 2, width", "derivatives by weight and bias, sums of each tile", written=True),
    Number("eps", "float32"),
    Number("relu", "int32", "1: a ReLU is behind the norm"),
    *numbers("int32", "rows", "width"),
    Number("tile_rows", "int32", "rows of a tile"),
)

LAYER_NORMS = {
    width: Program(
        f"layer norms of {width} numbers",
        KERNEL_FOLDER / "policy" / "layer_norm.cu",
        _LAYER_NORM_ARGS,
        (("WIDTH", width),),
        scratch=4 * 2 * width,  # sums for weight and bias of the four groups of a block
        resident=resident,
        prebuilt=False,  # torch's own norms are fast on the CPU
    )
    for width, resident in ((64, 9), (128, 9), (256, 6), (512, 3))
}
"""By the width of rows. A lane keeps its numbers of rows, weight, bias and their derivatives in registers."""

SCAN = Program(
    "returns",
    KERNEL_FOLDER / "returns" / "scan.cu",
    arguments(
        Array("reward", "float32", "steps, columns"),
        Array("value", "float32", "steps + 1, columns"),
        Array("final_value", "float32", "steps, columns", "or null"),
        *arrays("bool", "steps, columns", "valid", "episode_end", "timed_out"),
        Array("reward_scale", "float32", "1", "factor of rewards, which are then clipped; null leaves them as they are"),
        Array("running", "float32", "*sums, columns", "sums of the episodes that have not ended", written=True),
        Array("results", "float32", "*results, steps, columns", written=True),
        Array("finished", "bool", "steps, columns", written=True),
        *numbers("int32", "steps", "columns"),
        *numbers("float32", "gamma", "decay", "max_reward"),
    ),
    (("TILE", 32),),  # columns of a team: few, so that many multiprocessors take part
    lanes=256,
    scratch=6400,
)

FLAGS = Struct(
    "GvFlags",
    Array("at", "bool", "*steps, *worlds, *agents", strided=True),
    Number("step", "int64", "distance between two steps"),
    *numbers("int64", "world", "agent"),
)

MASKS = Program(
    "masks of transitions",
    KERNEL_FOLDER / "returns" / "masks.cu",
    arguments(
        Nested("alive_start", FLAGS, doc="of one step: alive before the first one"),
        Nested("agent_alive", FLAGS),
        Nested("terminated", FLAGS),
        Nested("truncated", FLAGS),
        Nested("alive_reset", FLAGS, doc="alive after a reset; null: all are"),
        *arrays("bool", "steps, columns", "valid", "episode_end", "timed_out", "ended", written=True, strided=True),
        Number("step", "int64", "distance between two steps of these"),
        Number("steps", "int32"),
        Number("columns", "int32", "worlds times agents"),
        Number("agents", "int32"),
    ),
    (("TILE", 128), ("STEPS", 8)),  # columns and steps of a team
)

CHOICES = Program(
    "transitions with a choice",
    KERNEL_FOLDER / "returns" / "choices.cu",
    arguments(
        Array("mask", "bool", "*steps, *samples, *agents, *choices", "a byte a choice", strided=True),
        Number("step", "int64", "distance between the masks of two steps"),
        *numbers("int64", "sample", "agent"),
        Array("ends", "int32", "entries", "end of the choices of each masked entry"),
        Array("valid", "bool", "rows", "the transition counts"),
        Array("choice", "bool", "rows", "it counts, and the agent has a choice", written=True),
        Number("rows", "int64", "transitions: steps times columns"),
        Number("columns", "int32", "samples of a step times agents of a sample"),
        *numbers("int32", "agents", "entries"),
    ),
    (("TILE", 128), ("STRANDS", 8)),  # rows of a team, and most lanes that share a row
    scratch=128,
)

EFFECTS = Program(
    "masks of policies",
    KERNEL_FOLDER / "returns" / "effects.cu",
    arguments(
        Array("mask", "bool", "rows, mask_columns", "of the env, or null"),
        Array("effects", "bool", "rows, num_groups"),
        Array("sources", "int32", "columns", "column of `mask` that a choice depends on; -1 for none"),
        Array("groups", "int32", "columns", "the same of `effects`"),
        Array("out", "bool", "rows, columns", written=True),
        Number("rows", "int64"),
        *numbers("int32", "columns", "mask_columns", "num_groups"),
    ),
    (("ITEMS", 256), ("DEPTH", 2)),  # items of a team, and rows of an item
    resident=8,  # leaves registers for the flags of an item
)

MOMENTS = Program(
    "running statistics",
    KERNEL_FOLDER / "returns" / "moments.cu",
    arguments(
        Array("samples", "float32", "rows, features", "in steps of rows, and columns, of any strides", strided=True),
        Array("valid", "bool", "rows"),
        Array("tiles", "float64", "num_tiles * 3 * features + 1",
              "count, mean, and sum of squares about it, of each tile; then the number of samples before", written=True),
        *arrays("float64", "features", "mean", "var", written=True),
        Array("num_samples", "float64", "1", written=True),
        *arrays("float32", "features", "offset", "scale", "shift", doc="or null", written=True),
        *numbers("int64", "rows", "rows_per_step", "step_stride", "row_stride", "feature_stride"),
        *numbers("int32", "num_tiles", "features"),
        Number("group", "int32", "features of a group"),
        Number("is_new", "int32", "1 if the running ones are undefined and count no sample"),
    ),
    (("ITEMS", 128), ("DEPTH", 32)),  # sums of a team: strands of rows times features of a group; rows of a strand in a tile
    scratch=4096,
)  # fmt: skip

MINIBATCH_MOMENTS = Program(
    "moments of minibatches",
    KERNEL_FOLDER / "returns" / "minibatch_moments.cu",
    arguments(
        Array("numbers", "float32", "*samples", "of sample s at s * stride", strided=True),
        Array("samples", "int32", "*minibatches, places", "-1 for places that are left over"),
        Array("counts", "bool", "*samples", "false for samples to leave out; null: all count"),
        Array("minibatch_moments", "float32", "*minibatches, 2", written=True),
        Number("stride", "int64"),
        Number("places", "int32"),
    ),
    lanes=512,
    scratch=4096,
)

PLACES = 4096
"""Worlds in all steps of a team that looks for ends of episodes."""

EPISODES = Program(
    "returns of episodes",
    KERNEL_FOLDER / "returns" / "episodes.cu",
    arguments(
        Array("sums", "float32", "2, size // worlds, rows", "return and length of a row's episode so far"),
        Array("ended", "bool", "size // worlds, rows", "the episode of the row's world ended"),
        Array("counted", "bool", "size // worlds, rows",
              "an episode of the row ended that counts; with one agent in a world as `ended`"),
        Array("agents", "int32", "agents_of_world, 2",
              "an agent's row in the first world, and the rows from a world to the next"),
        Array("listed", "float32", f"3, tiles * {PLACES}",
              "return, length and agents of ended episodes, summed over the agents; those of a tile begin at its first place",
              written=True),
        Array("counts", "int32", "tiles", "ended episodes of a tile; later those of all tiles before it", written=True),
        Array("totals", "float64", "3, tiles", "sums over the ended episodes of a tile", written=True),
        Array("recent", "float32", "3, window", "the last episodes that ended, as in `listed`, the very last one first",
              written=True),
        Array("num_recent", "int64", "1", "how many of them there are", written=True),
        Array("means", "float32", "4",
              "return and length, over the episodes that ended in the rollout, and over the last ones", written=True),
        Number("size", "int64", "places, which are worlds in all steps"),
        Number("rows", "int64", "rows of a step"),
        *numbers("int32", "tiles", "window", "worlds", "agents_of_world"),
    ),
    (("TILE", PLACES),),
    scratch=4096,
)  # fmt: skip

METRICS = Program(
    "means of metrics of episodes",
    KERNEL_FOLDER / "returns" / "metrics.cu",
    arguments(
        Array("metrics", "float32", "*metrics, size", "of each step and world, valid where an episode ended", strided=True),
        Number("metric", "int64", "distance between two metrics"),
        *numbers("int64", "metric_step", "metric_world"),
        Array("terminated", "bool", "size", "an episode ended by the rules", strided=True),
        Array("truncated", "bool", "size", "an episode ended at the time limit", strided=True),
        Number("flag_step", "int64", "distance between two steps"),
        Number("flag_world", "int64"),
        Array("totals", "float64", "*metrics, tiles, 2", "sum of a metric and number of its records", written=True),
        Array("means", "float32", "*metrics", "NaN without a record", written=True),
        Number("size", "int64", "places"),
        *numbers("int32", "worlds", "tiles"),
    ),
    (("TILE", PLACES),),
    scratch=4096,
)

SHUFFLE = Program(
    "order of minibatches",
    KERNEL_FOLDER / "learner" / "shuffle.cu",
    arguments(
        Array("seed", "uint64", "1", "an order has the seed seed + shuffle + its number"),
        Array("valid", "bool", "size", "the transition counts"),
        Array("running_count", "int32", "size", "transitions that count, up to and with each; null if all count"),
        Array("chosen", "int32", "size", "the transitions that count", written=True),
        Array("index", "int64", "*orders, minibatches, places", written=True),
        Array("used", "bool", "*orders, minibatches, places", written=True),
        Array("samples", "int32", "*orders, minibatches, places",
              "the transition, or -1 for a place that is left over; null to write index and used", written=True),
        *numbers("int32", "size", "minibatches"),
        Number("places", "int32", "places of a minibatch"),
        Number("shuffle", "int32"),
    ),
    (("TILE", 512),),  # places or transitions of a team
    small=2048,
)  # fmt: skip

NOISE = Program(
    "random numbers of updates",
    KERNEL_FOLDER / "learner" / "noise.cu",
    arguments(
        Array("count", "int64", "1", "number of the draw"),
        Array("high", "int64", "1", "integers are below it; null for other numbers"),
        Array("out", "any", "rows, entries", "float, or int64 for integers", written=True),
        Number("seed", "uint64"),
        *numbers("int32", "rows", "entries"),
    ),
    (("TILE", 512),),  # numbers of a team
    small=2048,
)

RING_LEVEL = Struct(
    "GvLevel",
    Number("first", "int64", "its first node in a tree"),
    Number("nodes", "int64", "those of level 0, which is in no tree, are places"),
)

MAX_RING_LEVELS = 8
"""Levels of a replay buffer's trees of sums, with that of the places; a node has 64 children."""

RING = Struct(
    "GvRing",
    Array("steps", "int64", "1", "steps that were copied to the ring", written=True),
    Array("flags", "uint8", "*slots, samples, agents", written=True),
    Array("reward", "float32", "*slots, samples, agents"),
    Array("priority", "float32", "*slots, samples", "null without priorities", written=True),
    Array("counts", "float64", "*nodes", "tree; null if every transition counts", written=True),
    Array("masses", "float64", "*nodes", "tree; null without priorities", written=True),
    Nested("level", RING_LEVEL, (MAX_RING_LEVELS,)),
    Number("slots", "int64", "S + 1"),
    *numbers("int64", "samples", "agents"),
    Number("n_steps", "int32", "steps that a transition sums, at most"),
    Number("newest", "int32", "newest steps, which are not sampled"),
    Number("levels", "int32", "number of the last level"),
)
"""Ring of a replay buffer, see ``kernels/learner/replay.h``."""

RING_PART = Struct(
    "GvRingPart",
    Array("slab", "any", "*steps, *samples, *width", strided=True),
    Array("ring", "any", "*slots, *samples, *width", written=True),
    Number("step", "int64", "bytes from a step of the slab to the next"),
    Number("sample", "int64", "bytes from a sample of the slab to the next"),
    Number("steps", "int64", "steps to copy"),
    Number("width", "int64", "numbers of a sample"),
    Number("bytes", "int32", "of a number: 1 or 4"),
    Number("at_ends", "int32", "1: copy samples alone whose episode ended"),
    Number("end_tile", "int32", "end of its tiles among those of all parts"),
)

MAX_RING_PARTS = 10
"""Arrays of a replay buffer that a launch copies or gathers, at most."""

REPLAY_ADD = Program(
    "steps of a replay buffer",
    KERNEL_FOLDER / "learner" / "replay_add.cu",
    arguments(
        Nested("ring", RING),
        Nested("parts", RING_PART, (MAX_RING_PARTS,)),
        *arrays("bool", "num_steps, *samples, agents", "valid", "episode_end", "timed_out", "ended"),
        Array("largest", "float32", "1", "priority of new transitions"),
        Array("filled", "int64", "1", "transitions that can be sampled", written=True),
        Array("places", "int64", "count", "places whose sums to add up; null for those of a rollout"),
        Number("num_steps", "int64", "steps of a rollout"),
        Number("bootstraps", "int32", "1: a value is added at time limits"),
        Number("at_level", "int32", "level to add up"),
        Number("count", "int64", "nodes to add up"),
    ),
    (("TILE", 512),),  # numbers of a team
    small=2048,
)

BATCH_PART = Struct(
    "GvBatchPart",
    Array("ring", "any", "*slots, *samples, *width"),
    Array("final_ring", "any", "*slots, *samples, *width", "final observations; null for none"),
    Array("to", "any", "*rows, *width", written=True),
    Number("width", "int64", "numbers of an agent if by_agent, else of a sample"),
    Number("bytes", "int32", "of a number: 1 or 4"),
    Number("by_agent", "int32", "1: numbers of each agent, else of the sample"),
    Number("is_next", "int32", "1: after the steps, else before"),
    Number("otherwise", "int32", "number of agents that do not count"),
    Number("end_tile", "int32", "end of its tiles among those of all parts"),
)

REPLAY_SAMPLE = Program(
    "transitions of a replay buffer",
    KERNEL_FOLDER / "learner" / "replay_sample.cu",
    arguments(
        Nested("ring", RING),
        Nested("parts", BATCH_PART, (MAX_RING_PARTS,)),
        Array("draws", "int64", "1", "number of the draw", written=True),
        Array("filled", "int64", "1", "transitions that can be sampled"),
        Array("gammas", "float32", "*powers", "discount of 0, 1, ... steps"),
        Array("beta", "float32", "1", "exponent of importance weights; null without priorities"),
        Array("place", "int64", "rows", written=True),
        Array("weight", "float32", "rows", written=True),
        Array("valid", "bool", "rows, *agents", written=True),
        *arrays("float32", "rows, *agents", "reward", "discount", written=True),
        Array("ahead", "int64", "rows, *agents",
              "twice the place of the next inputs, plus 1 for final observations; -1 for none", written=True),
        Array("error", "float32", "rows"),
        Array("largest", "float32", "1", "largest priority"),
        Array("priorities", "float32", "rows", written=True),
        *numbers("float32", "epsilon", "exponent"),
        Number("seed", "uint64"),
        Number("rows", "int32", "transitions of a batch"),
    ),
    (("TILE", 512),),  # numbers of a team
    small=2048,
)  # fmt: skip

NUM_METRICS = 12
"""Number of ``PPO.metric_names``."""

UPDATE_ENDS = Program(
    "start and end of updates",
    KERNEL_FOLDER / "learner" / "update_ends.cu",
    arguments(
        Array("log_prob", "float32", "size", "of sample b in step t at t * log_prob_step + b", strided=True),
        Array("advantage", "float32", "size", "0 for samples that do not count, as the next two"),
        *arrays("float32", "size", "target", "value"),
        Array("mean", "float64", "2", "of advantages and targets that count"),
        Array("var", "float64", "2"),
        Array("num_samples", "float64", "1"),
        Array("choice_mean", "float64", "*features", "of advantages of samples with a choice"),
        Array("choice_var", "float64", "*features"),
        Array("choice_num_samples", "float64", "1"),
        *arrays("float32", "1", "learning_rate", "factor", "entropy_coef"),
        Array("log_std", "float32", "entries", "or null"),
        Array("step", "float32", "1", "number of Adam's steps"),
        Array("numbers", "float32", "size, 4", "log-probability, value, advantage, target", written=True),
        Array("rate", "float32", "1", "learning rate of the steps", written=True),
        Array("scales", "float32", "2", "of the actor's and of the critic's derivatives", written=True),
        Array("work", "float32", "num_work", "totals and other sums, and `steps`", written=True),
        Array("stopped", "int32", "num_stopped", written=True),
        Array("steps", "float32", "*minibatches", written=True),
        Array("shuffles", "int64", "1", "shuffles before the update, then with it", written=True),
        Array("metrics", "float32", f"{NUM_METRICS}", "PPO.metric_names", written=True),
        Number("log_prob_step", "int64"),
        *numbers("int32", "size", "samples_per_step", "entries", "num_work", "num_stopped"),
        Number("normalize", "int32", "GV_OVER_ROLLOUT, GV_OVER_MINIBATCH, or neither"),
        Number("value_coef", "float32"),
        Number("scaled_to", "float32", "logarithm to base 2 of the size of scaled derivatives"),
        Number("num_epochs", "int32", "shuffles of the update"),
    ),
    (("TILE", 256), ("OVER_ROLLOUT", 1), ("OVER_MINIBATCH", 2)),  # samples of a team; values of `normalize`
)

SEARCHED = Struct(
    "GvChunk",
    Array("numbers", "any", "*count", "floats of `bytes` bytes"),
    Number("exponent", "uint64", "bits that are all 1 in an infinity and in NaN, and only there"),
    *numbers("int32", "count", "bytes"),
    Number("state", "int64", "the state that they belong to"),
)

FINITE = Program(
    "search for numbers that are not finite",
    KERNEL_FOLDER / "learner" / "finite.cu",
    arguments(
        Array("chunks", "GvChunk", "*chunks"),
        Array("flags", "float32", "*states", "1 for a state with such a number, else left as it is", written=True),
        beside=(SEARCHED,),
    ),
)

METRICS_TO_HOST = Program(
    "metrics of iterations",
    KERNEL_FOLDER / "learner" / "metrics_to_host.cu",
    arguments(
        Array("metrics", "float32", "count"),
        Array("rows", "float32", "num_rows, count", "in memory of the host", written=True),
        Array("row", "int32", "1", "number of the row to write, then of the next one", written=True),
        *numbers("int32", "count", "num_rows"),
    ),
)

ADAM_PART = Struct(
    "GvAdamPart",
    *arrays("float32", "*count", "weight", "m", "v", written=True),
    Array("gradient", "float32", "*count"),
    Array("step", "float32", "1", "steps of the parameter", written=True),
    Number("count", "int64"),
    Number("end_tile", "int32", "end of its tiles among those of all parts"),
)

MAX_ADAM_PARTS = 32
"""Parameters of a step of Adam, at most."""

ADAM_STEP = Program(
    "step of Adam",
    KERNEL_FOLDER / "learner" / "adam_step.cu",
    arguments(
        Nested("parts", ADAM_PART, (MAX_ADAM_PARTS,)),
        Array("squares", "float32", "tiles", "sum of the squares of a tile's gradient", written=True),
        Array("rate", "float32", "1", "learning rate"),
        Array("factors", "float32", "last_factor + 1, 2",
              "by the number of steps: factors of the rate, for Adam's step and for the first moment; null: 1 and 0"),
        Array("mask", "bool", "1", "the step is wanted"),
        Array("norm", "float32", "1", "of the gradient before it is clipped", written=True),
        Array("divisor", "float32", "1", "of gradients, which clips them", written=True),
        Array("taken", "bool", "1", "the step is wanted, and the gradient is finite", written=True),
        Number("max_norm", "float32"),
        Number("scale", "float32", "factor of the gradients that are given"),
        Number("eps", "float32"),
        *numbers("int32", "tiles", "num_parts", "last_factor"),
    ),
    (
        ("TILE", 1024),  # numbers of a team
        ("M_DECAY", "0.9f"), ("M_SHARE", "0.1f"), ("LOG_M_DECAY", "-0.10536051565782628"),
        ("V_DECAY", "0.999f"), ("V_SHARE", "0.001f"), ("LOG_V_DECAY", "-0.0010005003335835335"),
    ),
    scratch=128,
    small=2048,
)  # fmt: skip

CRITICS = Program(
    "losses of critics",
    KERNEL_FOLDER / "learner" / "critics.cu",
    arguments(
        Array("values", "float32", "count, rows"),
        Array("target", "float32", "rows"),
        Array("share", "float32", "rows", "weight of each row"),
        Array("alpha", "float32", "1", "temperature; null: the first value counts, and no log-density"),
        Array("log_prob", "float32", "rows"),
        Array("slopes", "float32", "count, rows", "derivatives by the values", written=True),
        Array("log_prob_slopes", "float32", "rows", "derivatives by the log-densities", written=True),
        Array("results", "float32", "2", "loss, and mean value or entropy", written=True),
        Number("factor", "float32", "of the loss of critics"),
        Number("scale", "float32", "of derivatives"),
        Number("count", "int32", "critics"),
        Number("rows", "int32"),
    ),
    lanes=512,
    scratch=1536,
)

Q_LOSS = Program(
    "loss of values of actions",
    KERNEL_FOLDER / "learner" / "q_loss.cu",
    arguments(
        Array("values", "float32", "units * width, choices", "outputs of the network"),
        Array("action", "int32", "*transitions, width, entries"),
        Array("first", "int32", "entries", "first choice of each entry of an action"),
        Array("index", "int64", "units", "unit of the rollout of each unit of the minibatch"),
        Array("used", "bool", "units", "0 for units that fill the minibatch up"),
        Array("target", "float32", "*transitions, *teams", "a unit is one team if sums_rows, else each of its rows"),
        Array("learned", "bool", "*transitions, *teams"),
        Array("valid", "bool", "*transitions, width", "rows that count in their team"),
        Array("total", "float32", "1", "teams of the minibatch that are learned from"),
        Array("slopes", "float32", "units * width, choices", "derivatives by the values", written=True),
        Array("terms", "float32", "tiles, 2", "loss and mean value", written=True),
        Array("norm", "float32", "1", "of the gradient"),
        Array("taken", "bool", "1", "the step was taken"),
        Array("sums", "float32", "4", "of loss, mean value, norm and 1 in the steps that were taken", written=True),
        Number("scale", "float32", "of derivatives"),
        *numbers("int32", "units", "width", "entries", "choices", "tiles"),
        Number("sums_rows", "int32", "1: values of a unit are added up"),
    ),
    (("TILE", 128),),  # units of a team
    scratch=256,
    small=2048,
)  # fmt: skip

NORM = Struct(
    "GvNorm",
    Array("offset", "float32", "*features", "of the normal feature (x - offset) scale + shift"),
    *arrays("float32", "*features", "scale", "shift"),
    Number("limit", "float32", "normal features are clipped to [-limit, limit]"),
)

SLAB = Struct(
    "GvSlab",
    Array("at", "any", "*steps, *samples, *numbers", strided=True),
    Number("step", "int64", "numbers from one step to the next"),
    Number("sample", "int64", "numbers from one sample to the next"),
)

BOX = Struct(
    "GvBox",
    Array("log_std", "float32", "*entries", "natural logarithm of the deviation"),
    *arrays("float32", "*entries", "centre", "half_width"),
)

HOST_TENSOR = Struct(
    "GvHostTensor",
    Array("weight", "float32", "*outputs, *inputs", "a parameter; a bias has one output", written=True),
    *arrays("float32", "*outputs, *inputs", "m", "v", written=True),
    Array("step", "float32", "1", "steps of Adam", written=True),
    *numbers("int32", "outputs", "inputs"),
    Number("by_inputs", "int32", "1: a row has the weights of an input; 0: of an output, as those of torch's linear layers"),
    Number("first", "int32", "its first column in the sums"),
    Number("partial_at", "int32", "its first number in the sums of a team, where rows are multiples of GV_STEP"),
    Number("forward_at", "int32", "place of [inputs, outputs] among packed weights, GV_NO_FORM or GV_AS_STORED"),
    Number("backward_at", "int32", "the same of [outputs, inputs]"),
)

MOST_HOST_LAYERS, MOST_HOST_ENTRIES = 8, 64
"""Layers of a network, and entries of an action, of the update on the host."""

_HOST_NETWORKS = (("MOST_LAYERS", MOST_HOST_LAYERS), ("TANH", 0), ("RELU", 1), ("ELU", 2), ("SILU", 3),
                  ("NO_FORM", -1), ("AS_STORED", -2))  # fmt: skip
_HOST_ADAM = (
    ("M_DECAY", "0.9f"), ("M_SHARE", "0.1f"), ("LOG_M_DECAY", "-0.10536051565782628"),
    ("V_DECAY", "0.999f"), ("V_SHARE", "0.001f"), ("LOG_V_DECAY", "-0.0010005003335835335"),
)  # fmt: skip

HOST_UPDATE = Program(
    "updates on the host",
    KERNEL_FOLDER / "learner" / "host_update.cu",
    arguments(
        Nested("tensors", HOST_TENSOR, (4 * MOST_HOST_LAYERS + 1,), "of the actor, log_std, of the critic"),
        Nested("norm", NORM),
        Nested("obs", SLAB),
        Nested("action", SLAB),
        Nested("mask", SLAB, doc="null allows all choices; of gv_outputs: the rows that are wanted, null: all"),
        Nested("box", BOX),
        Array("entries", "int32", "num_entries, 3", "number of choices, first output, and first column of the mask or -1"),
        Array("numbers", "float32", "*samples, 4", "log-probability, value, advantage, target"),
        Array("choice", "bool", "*samples", "the agent had a choice; null: it always had one"),
        Array("samples", "int32", "rows", "samples of the minibatch, -1 for rows that fill it up"),
        Array("moments", "float32", "2", "mean of the advantages, and the inverse of their deviation"),
        *arrays("float32", "1", "entropy_coef", "clip_coef"),
        Array("rate", "float32", "1", "learning rate"),
        Array("packed", "float32", "*packed", "most_columns zeros, then weights as factors", written=True),
        Array("partial", "float32", "blocks * (actor_partial + critic_partial)", "sums of each team, the actor's first",
              written=True),
        Array("sums", "float32", "*columns", "those of all teams, without gaps", written=True),
        Array("squares", "float32", "num_tensors", "sums of squares", written=True),
        Array("room", "float32", "*teams, room_floats", "units and derivatives of the tiles of a team", written=True),
        Array("totals", "float32", "9", "as of learner/totals.h", written=True),
        Array("epoch_start", "float32", "2", written=True),
        Array("stopped", "int32", "*epochs + 1", "no step may be taken in the epoch", written=True),
        Array("steps", "float32", "*minibatches + 1", "Adam's steps before each minibatch", written=True),
        Array("result", "float32", "*rows, outputs", "of gv_outputs", written=True),
        *numbers("int32", "features", "activation", "outputs", "num_entries", "num_tensors", "num_layers"),
        Number("critic_first", "int32", "first tensor of the critic"),
        *numbers("int32", "rows", "blocks", "samples_per_step", "minibatch", "epoch", "ends_epoch", "clip_value"),
        *numbers("int32", "actor_partial", "critic_partial", "actor_terms", "critic_terms"),
        Number("two_counts", "int32", "1 if masks can leave a row without a choice"),
        Number("most_columns", "int32", "columns of the widest matrix of a tile"),
        Number("room_floats", "int32"),
        Number("network", "int32", "of gv_outputs: 0 for the actor, 1 for the critic"),
        *numbers("float32", "value_coef", "max_grad_norm", "eps", "target_kl"),
    ),
    (
        ("ROWS", 96), *_HOST_NETWORKS, ("POLICY_LOSS", 0), ("ENTROPY", 1), ("KL", 2), ("OUTSIDE", 3), ("COUNT", 4),
        ("VALUE_LOSS", 5), ("VALUE_COUNT", 6),
        ("SPREADS", 7), ("MOST_TERMS", 7 + MOST_HOST_ENTRIES), *_HOST_ADAM,
    ),
    small=4096,
    wide=True,
)  # fmt: skip

HOST_GROUP = Struct(
    "GvHostGroup",
    Array("rate", "float32", "1", "learning rate"),
    Array("steps", "float32", "parameters", "steps of Adam of each parameter of torch", written=True),
    Array("taken", "bool", "1", "the step was taken", written=True),
    *numbers("int32", "first", "count", "parameters"),
)
"""Tensors of an optimiser, which follow each other."""

HOST_PHASE = Struct("GvHostPhase", *numbers("int32", "phase", "group", "teams"))
"""A phase of a gradient step, the optimiser whose tensors it computes, and its teams."""

MOST_HOST_PHASES = 12
MOST_HOST_NETWORKS = 6
"""Networks of an off-policy algorithm: policy and two critics, each with its target."""

HOST_OFF_POLICY = Program(
    "off-policy updates on the host",
    KERNEL_FOLDER / "learner" / "host_off_policy.cu",
    arguments(
        Nested("tensors", HOST_TENSOR, (2 * MOST_HOST_LAYERS * MOST_HOST_NETWORKS + 1,),
               "of the policy, the target policy, the critics and the target critics; the temperature"),
        Nested("groups", HOST_GROUP, (3,), "of the critics, the policy and the temperature"),
        Nested("phases", HOST_PHASE, (MOST_HOST_PHASES,), "of a gradient step, in their order"),
        *arrays("float32", "rows, features", "before", "after"),
        Array("action", "float32", "rows, entries", "in normalised units", written=True),
        *arrays("float32", "rows", "reward", "discount"),
        Array("share", "float32", "rows", "weight of each row in a mean", written=True),
        Array("weighted", "float32", "rows", "share times importance", written=True),
        Array("valid", "bool", "rows", "this and the next two are of gv_weigh: agents that count"),
        Array("importance", "float32", "*samples", "weights of samples of num_agents rows"),
        Array("given", "float32", "rows, entries", "actions in the env's units"),
        Array("noise", "float32", "*normals, rows, entries", "standard normal: of next actions, then of SAC's actions"),
        Array("log_temperature", "float32", "1", "null without one"),
        Array("gate", "bool", "1", "steps are wanted"),
        Array("error", "float32", "rows", "mean absolute error of the critics; null: not wanted", written=True),
        Array("results", "float32", "5", "loss and mean value of the critics; loss, entropy and temperature of the policy",
              written=True),
        Array("packed", "float32", "*packed", "most_columns zeros, then weights as factors", written=True),
        Array("partial", "float32", "blocks * partial_floats", "sums of each team: a gradient, and terms behind it",
              written=True),
        Array("sums", "float32", "*columns", "those of all teams, without gaps", written=True),
        Array("squares", "float32", "*tensors", "sums of squares", written=True),
        Array("room", "float32", "blocks * room_floats", "units and derivatives of the tiles of a team", written=True),
        Nested("draw", COUNTERS, doc="this and the next ones are of gv_act: counters of the random numbers"),
        *arrays("float32", "entries", "centre", "half_width", doc="of actions in the env's units, also of gv_weigh"),
        *arrays("float32", "entries", "lowest", "highest", doc="of actions in the env's units"),
        Array("drawn", "float32", "rows, entries", "in the env's units", written=True),
        Array("log_prob", "float32", "rows", written=True),
        Number("log_deviation", "float32", "logarithm of the deviation of the noise that explores"),
        *numbers("int32", "likeliest", "squashes"),
        *numbers("int32", "rows", "features", "entries", "activation", "num_layers", "blocks", "num_agents"),
        Number("critics", "int32", "1 or 2"),
        Number("first_critic", "int32", "its network; target critics follow the critics"),
        Number("next_policy", "int32", "network that chooses next actions: 0, the policy, or 1, its target"),
        *numbers("int32", "first_phase", "end_phase", "phase", "group"),
        *numbers("int32", "most_columns", "room_floats", "partial_floats"),
        Number("terms_at", "int32", "the first term in the sums of a team"),
        Number("low", "float32", "least logarithm of a deviation"),
        Number("high", "float32", "largest one"),
        Number("factor", "float32", "of the loss of the critics"),
        *numbers("float32", "target_noise", "noise_clip", "tau", "target_entropy", "eps"),
    ),
    (
        ("ROWS", 256), *_HOST_NETWORKS, *_HOST_ADAM,
        ("FORMS", 0), ("LEARN", 1), ("ADD_UP", 2), ("DECIDE", 3), ("TAKE", 4), ("FOLLOW", 5),
    ),
    small=4096,
    wide=True,
)  # fmt: skip

HOST_MEMORY = Program(
    "memories on the host",
    KERNEL_FOLDER / "policy" / "host_memory.cu",
    arguments(
        Array("read", "float32", "steps, rows, gates * units", "products of weights and observations"),
        Array("state", "float32", "rows, parts * units", "before the first step"),
        Array("episode_end", "bool", "steps, rows", "the state after the step is forgotten"),
        Array("by_inputs", "float32", "units, gates * units", "recurrent weights, transposed"),
        Array("by_outputs", "float32", "gates * units, units", "recurrent weights"),
        Array("bias", "float32", "gates * units", "of the recurrent products"),
        Array("states", "float32", "steps, rows, parts * units", "after each step", written=True),
        Array("before", "float32", "kept_steps, rows, parts * units", "states before each step", written=True),
        Array("kept", "float32", "kept_steps, rows, 4 * units", "gates of each step, for the derivatives", written=True),
        Array("of_states", "float32", "steps, rows, parts * units", "derivatives by the states"),
        *arrays("float32", "steps, rows, gates * units", "of_read", "of_products", doc="of_products is null for an LSTM",
                written=True),
        Array("of_state", "float32", "rows, parts * units", written=True),
        *numbers("int32", "steps", "rows", "units"),
        Number("gates", "int32", "3 of a GRU, 4 of an LSTM"),
        Number("parts", "int32", "of a state: 1 of a GRU, 2 of an LSTM"),
        Number("kept_steps", "int32", "steps, or 1 if no derivatives are wanted"),
    ),
    (("ROWS", 24), ("UNITS", 16)),  # rows of a team, whole tiles of products; units are multiples
    small=4096,
    wide=True,
)  # fmt: skip

PROGRAMS = (DRAW, SQUASH, SCAN, MASKS, CHOICES, EFFECTS, MOMENTS, MINIBATCH_MOMENTS, EPISODES, METRICS, SHUFFLE, NOISE,
            REPLAY_ADD, REPLAY_SAMPLE, UPDATE_ENDS, FINITE, METRICS_TO_HOST, ADAM_STEP, CRITICS, Q_LOSS)  # fmt: skip

CUDA_PROGRAMS = tuple(LAYER_NORMS.values())
"""Programs of CUDA, which run on the CPU in tests alone."""

HOST_PROGRAMS = (HOST_UPDATE, HOST_OFF_POLICY, HOST_MEMORY)
"""Programs of the CPU alone."""
