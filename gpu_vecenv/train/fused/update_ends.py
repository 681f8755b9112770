"""Start and end of a fused update, by one kernel each: ``kernels/learner/update_ends.cu``."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import UPDATE_ENDS
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import UpdateKernels
from gpu_vecenv.train.returns.moments import Moments
from gpu_vecenv.train.returns.scan import Advantages

TILE = 256
"""Samples of a team, ``GV_TILE`` of the kernels."""

SMALL = 1 << 14
"""Below this many samples a second CPU thread saves less time than it takes to wake it."""

SCALED_TO = 5.0
"""Logarithm to base 2 of the size to which derivatives are scaled: far from both ends of the range of 16 bits, 2^-24 to 2^16."""

NORMALIZE = {"none": 0, "rollout": 1, "minibatch": 2}
"""Values of ``PPOConfig.normalize_advantages`` and their numbers in the kernels."""

METRICS = 12
"""Number of ``PPO.metric_names``."""


class UpdateEnds:
    """Launches the first and the last kernel of an update."""

    def __init__(self, kernels: UpdateKernels, config: PPOConfig, scalars: DeviceScalars, factor: Tensor, deals: Tensor) -> None:
        """Store the addresses of settings and of the kernels' arrays.

        Args:
            kernels: kernels of the minibatches.
            config: hyperparameters.
            scalars: settings of this update.
            factor: factor of the learning rate, float32 ().
            deals: number of deals before this update, int64 (), which its end increases.
        """
        self._kept: dict[str, Tensor] = {}
        self._kernels, self._launches = kernels, launches(UPDATE_ENDS, kernels.device)
        self._args = args = _Args(num_agents=1, value_coef=config.value_coef, scaled_to=SCALED_TO)
        args.normalize = NORMALIZE[config.normalize_advantages]
        args.num_epochs = config.num_epochs
        args.num_work, args.num_stopped = kernels.work.numel(), kernels.stopped.numel()
        steps = kernels.adam.prepared()[0]["step"]
        if kernels.policy.box is not None:
            args.log_std, args.entries = kernels.policy.log_std.data_ptr(), kernels.policy.log_std.numel()
        self._point({
            "learning_rate": scalars.learning_rate, "factor": factor, "entropy_coef": scalars.entropy_coef, "step": steps,
            "rate": kernels.adam.rate, "scales": kernels.scales, "work": kernels.work, "stopped": kernels.stopped,
            "steps": kernels.steps, "deals": deals,
        })  # fmt: skip

    def begin(self, log_prob: Tensor, found: Advantages, moments: Moments, of_choice: Moments | None = None) -> Tensor:
        """Write the numbers of the samples, the learning rate and the scales of derivatives, and clear the sums.

        Args:
            log_prob: float32 (T, B), of the actions when they were taken.
            found: advantages, targets and values, float32 (T, B) each.
            moments: moments of the advantages and the targets that count.
            of_choice: moments of the advantages of samples with a choice; None if each sample that counts has one.

        Returns:
            float32 (T * B, 4): log-probability, value, advantage and target. Advantages are normalised if that is done over a
            rollout.
        """
        log_prob = log_prob if log_prob.stride(1) == 1 else log_prob.contiguous()
        numbers = torch.empty(log_prob.numel(), 4, dtype=torch.float32, device=log_prob.device)
        args, tiles = self._args, -(-len(numbers) // TILE)
        args.size, args.samples_per_step, args.log_prob_step = len(numbers), log_prob.shape[1], log_prob.stride(0)
        arrays = {"advantage": found.advantage, "target": found.target, "value": found.value}
        choice = {f"choice_{name}": array for name, array in (of_choice or moments)._asdict().items()}
        self._point({"log_prob": log_prob, **arrays, **moments._asdict(), **choice, "numbers": numbers})
        args.num_worlds = tiles
        self._launches.launch("gv_begin", args, tiles, len(numbers) < SMALL)
        return numbers

    def end(self) -> Tensor:
        """Count the deals, and return the numbers of ``PPO.metric_names``, float32 (METRICS,)."""
        metrics = torch.empty(METRICS, dtype=torch.float32, device=self._kernels.device)
        self._point({"metrics": metrics})
        self._args.num_worlds = 1
        self._launches.launch("gv_end", self._args, 1, True)
        return metrics

    def _point(self, arrays: dict[str, Tensor]) -> None:
        """Write addresses of arrays, which live until the kernels have used them."""
        self._kept |= arrays
        for name, array in arrays.items():
            setattr(self._args, name, array.data_ptr())


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/learner/update_ends.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "log_prob", "advantage", "target", "value", "mean", "var", "num_samples", "choice_mean", "choice_var",
            "choice_num_samples", "learning_rate", "factor", "entropy_coef", "log_std", "step", "numbers", "rate", "scales",
            "work", "stopped", "steps", "deals", "metrics", "invalid_actions",
        )),
        ("log_prob_step", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in (
            "num_worlds", "num_agents", "size", "samples_per_step", "entries", "num_work", "num_stopped", "normalize",
        )),
        *((name, ctypes.c_float) for name in ("value_coef", "scaled_to")),
        *((name, ctypes.c_int32) for name in ("num_epochs", "unused")),
    )  # fmt: skip
