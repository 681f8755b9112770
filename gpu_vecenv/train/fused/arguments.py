"""Arguments of the kernels for the sizes of a policy: ``act.cu``, ``gradient.cu`` and ``rollout.cu`` in ``kernels/learner``."""

from __future__ import annotations

from typing import Any

from gpu_vecenv.backend.source import arguments
from gpu_vecenv.backend.trainer_programs import BOX, COUNTERS, NORM, SLAB
from gpu_vecenv.spec.arguments import Array, EnvArgs, Nested, Number, Struct, arrays, numbers
from gpu_vecenv.spec.layout import Layout

MAX_LAYERS = 4
"""Layers of a network with three hidden ones."""

LAYER = Struct(
    "GvLayer",
    Array("weight", "float32", "*outputs, *inputs", "as torch stores it"),
    Array("bias", "float32", "*outputs"),
)

TENSOR = Struct(
    "GvTensor",
    Array("weight", "float32", "*size", "a parameter", written=True),
    Array("m", "float32", "*size", "torch's state of Adam for it", written=True),
    Array("v", "float32", "*size", written=True),
    Array("step", "float32", "1", written=True),
    Number("first", "int32", "its first column in the sums"),
    Number("size", "int32"),
)

SETTINGS = Struct(
    "GvSettings",
    *numbers("float32", "clip", "entropy_coef", "value_coef"),
    Number("scale", "float32", "of derivatives in 16 bits, a power of 2"),
    Number("mean", "float32", "of advantages, which is subtracted"),
    Number("factor", "float32", "inverse of the deviation of advantages"),
    Number("clip_value", "int32"),
)
"""Settings of a minibatch, in the memory of a block."""

_SHARED: tuple[Any, ...] = (
    Nested("shared", SLAB, doc="this and the next ones: of observations with a shared part; a sample is a world"),
    Nested("shared_norm", NORM),
    Array("world_sums", "float32", "*worlds, *columns", "sums of the first layer over the shared part", written=True),
    Number("worlds_per_step", "int32"),
    Number("agents", "int32", "rows of a world, which follow each other"),
)

_UPDATE: tuple[Any, ...] = (
    Nested("layers", LAYER, (2, MAX_LAYERS), "of the actor and of the critic"),
    Nested("norm", NORM),
    Nested("obs", SLAB),
    Nested("action", SLAB),
    Nested("mask", SLAB, doc="null allows all choices"),
    Array("numbers", "float32", "*samples, 4", "log-probability, value, advantage, target"),
    Array("choice", "bool", "*samples", "the agent had a choice; null: it always had one"),
    Array("samples", "int32", "rows", "samples of the minibatch, -1 for rows that fill it up"),
    Array("moments", "float32", "2", "mean of the advantages, and the inverse of their deviation"),
    Nested("box", BOX),
    *arrays("float32", "1", "entropy_coef", "clip_coef"),
    Array("scales", "float32", "2", "of the actor's and of the critic's derivatives"),
    Array("rate", "float32", "1", "learning rate"),
    Array("stash", "half", "*columns, room", "of a split network, see split_gradient.cu", written=True),
    Array("packed_rows", "half", "*samples, *columns", "of a wide network: normal features", written=True),
    Array("first_weights", "half", "*columns, *features", "of its first layer", written=True),
    Array("first_biases", "float32", "*columns", written=True),
    *_SHARED,
    Array("packed_worlds", "half", "*worlds, *columns", "normal features of the shared part", written=True),
    Array("world_deltas", "half", "*worlds, *columns", "means of a world's derivatives, in stripes", written=True),
    Array("world_samples", "int32", "*worlds", "samples of the minibatch's worlds, -1 without one", written=True),
    Array("packed", "half", "*chunks, *numbers", "last layer of an actor with many heads, see many_heads.h", written=True),
    Array("allowed", "int32", "*samples, *words", "bits of masks of an actor with many heads", written=True),
    Array("kinds", "int32", "*samples", "first chunk with an allowed choice", written=True),
    Array("computed", "int32", "*tiles, *chunks", "1 if derivatives of a chunk are computed for a tile of rows", written=True),
    Array("partial", "float32", "*blocks, *columns", "of the actor, GV_ACTOR_COLUMNS each, then of the critic",
          written=True),
    Array("sums", "float32", "*columns", written=True),
    Array("squares", "float32", "*norms, *teams", "1 + GV_TWO_COUNTS norms of the teams of gv_reduce", written=True),
    Array("totals", "float32", "9", "sums of TERMS, gradient norm and 1 over steps; steps wanted; with a choice", written=True),
    Array("epoch_start", "float32", "2", "the totals of kl and of steps with a choice when the epoch started", written=True),
    Array("stopped", "int32", "*epochs + 1", "1 if no step may be taken in an epoch", written=True),
    Array("steps", "float32", "*minibatches + 1", "steps of Adam before each minibatch", written=True),
    Nested("tensors", TENSOR, (4 * MAX_LAYERS + 1,), "parameters of both networks, and log_std"),
    Number("rows", "int32", "of the minibatch, or of a part of it"),
    *numbers("int32", "samples_per_step", "actor_blocks", "critic_blocks", "epoch", "minibatch"),
    Number("ends_epoch", "int32", "1 after the last minibatch of an epoch"),
    Number("clip_value", "int32"),
    *numbers("float32", "value_coef", "max_grad_norm", "target_kl", "eps"),
    Number("room", "int32", "this and the next two: of a split network, see split_gradient.cu"),
    *numbers("int32", "slices", "adds"),
    Number("all_rows", "int32", "this and the next three: of a wide network; rows of the rollout"),
    Number("wide_slices", "int32", "slices of the sums of the first layer, but for the shared part"),
    Number("world_slices", "int32", "slices of the sums of the shared part"),
    Number("num_samples", "int32", "of the rollout, whose masks gv_pack_masks reads"),
)  # fmt: skip

UPDATE_ARGS = arguments(*_UPDATE, beside=(COUNTERS, SETTINGS))
"""Arguments of one minibatch."""

RECURRENT_UPDATE_ARGS = arguments(
    *_UPDATE,
    Array("valid", "bool", "*steps, *samples", "null: all transitions count"),
    Array("episode_end", "bool", "*steps, *samples", "the state is 0 before the next step"),
    Array("starts", "float32", "*segments, *samples, *units", "states before the first step of each segment", written=True),
    Number("length", "int32", "steps of a sequence"),
    Array("state", "float32", "*samples, *units", "this and the next ones are of gv_walk: states before step 0"),
    Nested("final_obs", SLAB),
    Array("timed_out", "bool", "*steps, *samples", "final observations whose values are wanted; null: none"),
    Array("value", "float32", "*steps + 1, *samples", written=True),
    Array("final_value", "float32", "*steps, *samples", written=True),
    Array("log_prob", "float32", "*steps, *samples", "null: not wanted", written=True),
    Number("segment", "int32", "steps from one of the starts to the next"),
    beside=(COUNTERS, SETTINGS),
)
"""Arguments of one minibatch of sequences."""

_ACT: tuple[Any, ...] = (
    Nested("layers", LAYER, (MAX_LAYERS,), "of the network"),
    Nested("norm", NORM),
    Nested("obs", SLAB),
    Nested("mask", SLAB, doc="null allows all choices; of gv_values see gv_wanted()"),
    Nested("action", SLAB),
    Nested("log_prob", SLAB),
    Array("units", "half", "*rows, *width", "of a split network, in stripes, with room for whole tiles", written=True),
    Array("first_weights", "half", "*columns, *features", "of the first layer of a wide network", written=True),
    Array("first_biases", "float32", "*columns", written=True),
    Array("packed_rows", "half", "*rows, *columns", "gets the normal features of the first packed_count rows", written=True),
    *_SHARED,
    Array("packed", "half", "*chunks, *numbers", "last layer of an actor with many heads, see many_heads.h", written=True),
    Array("allowed", "int32", "*rows, *words", "bits of masks of an actor with many heads", written=True),
    Array("result", "float32", "*rows", "values or log-probabilities; of gv_act its [rows, outputs], or null", written=True),
    Nested("box", BOX),
    Nested("draw", COUNTERS, doc="counters of the random numbers"),
    *numbers("int32", "rows", "samples_per_step", "likeliest"),
    Number("partly", "int32", "gv_first computes the rows that gv_wanted() names"),
    Number("packed_count", "int32"),
)

ACT_ARGS = arguments(*_ACT, beside=(SETTINGS,))
"""Arguments of a launch that computes one network for all rows."""

RECURRENT_ACT_ARGS = arguments(
    *_ACT,
    Array("state", "float32", "*rows, *units", "before the step"),
    Array("new_state", "float32", "*rows, *units", "after it", written=True),
    beside=(SETTINGS,),
)
"""Arguments of a step of a GRU for all rows."""


def rollout_args(layout: Layout) -> Struct:
    """Return the arguments of a rollout, which begin with those of the env's kernels."""
    return arguments(
        EnvArgs("env", layout.dtype.itemsize),
        Nested("layers", LAYER, (MAX_LAYERS,)),
        Nested("norm", NORM),
        Nested("box", BOX),
        Array("action", "any", "*steps, *worlds, *entries", "int32 or float32", written=True),
        Array("log_prob", "float32", "*steps, *worlds", written=True),
        Array("state", "float32", "*worlds, *units", "of a policy: before the first step, then after the last", written=True),
        Number("steps", "int32"),
        name="GvRolloutArgs",
        beside=(SLAB, COUNTERS, SETTINGS),
    )
