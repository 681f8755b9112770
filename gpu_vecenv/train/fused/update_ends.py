"""Start and end of a fused update, by one kernel each: ``kernels/learner/update_ends.cu``."""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import NUM_METRICS, UPDATE_ENDS
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import UpdateKernels
from gpu_vecenv.train.returns.moments import Moments
from gpu_vecenv.train.returns.scan import Advantages

TILE = UPDATE_ENDS.macros["TILE"]
"""Samples of a team."""

SCALED_TO = 5.0
"""Logarithm to base 2 of the size to which derivatives are scaled: far from both ends of the range of 16 bits, 2^-24 to 2^16."""

NORMALIZE = {"none": 0, "rollout": UPDATE_ENDS.macros["OVER_ROLLOUT"], "minibatch": UPDATE_ENDS.macros["OVER_MINIBATCH"]}
"""Values of ``PPOConfig.normalize_advantages`` and their numbers in the kernels."""


class UpdateEnds:
    """Launches the first and the last kernel of an update."""

    def __init__(
        self, kernels: UpdateKernels, config: PPOConfig, scalars: DeviceScalars, factor: Tensor, shuffles: Tensor
    ) -> None:
        """Store the addresses of settings and of the kernels' arrays.

        Args:
            kernels: kernels of the minibatches.
            config: hyperparameters.
            scalars: settings of this update.
            factor: factor of the learning rate, float32 ().
            shuffles: number of shuffles before this update, int64 (), which its end increases.
        """
        steps = kernels.adam.prepared()[0]["step"]
        self._call = Call(
            UPDATE_ENDS, kernels.device, value_coef=config.value_coef, scaled_to=SCALED_TO, num_epochs=config.num_epochs,
            normalize=NORMALIZE[config.normalize_advantages], num_work=kernels.work.numel(),
            num_stopped=kernels.stopped.numel(), learning_rate=scalars.learning_rate, factor=factor,
            entropy_coef=scalars.entropy_coef, step=steps, rate=kernels.adam.rate, scales=kernels.scales, work=kernels.work,
            stopped=kernels.stopped, steps=kernels.steps, shuffles=shuffles,
        )  # fmt: skip
        if kernels.policy.box is not None:
            self._call.set(entries=kernels.policy.log_std.numel(), log_std=kernels.policy.log_std)

    def begin(self, log_prob: Tensor, estimates: Advantages, moments: Moments, of_choice: Moments | None = None) -> Tensor:
        """Write the numbers of the samples, the learning rate and the scales of derivatives, and clear the sums.

        Args:
            log_prob: float32 (T, B), of the actions when they were taken.
            estimates: advantages, targets and values, float32 (T, B) each.
            moments: moments of the advantages and the targets that count.
            of_choice: moments of the advantages of samples with a choice; None if each sample that counts has one.

        Returns:
            float32 (T * B, 4): log-probability, value, advantage and target. Advantages are normalised if that is done over a
            rollout.
        """
        log_prob = log_prob if log_prob.stride(1) == 1 else log_prob.contiguous()
        loss_inputs = torch.empty(log_prob.numel(), 4, dtype=torch.float32, device=log_prob.device)
        choice = of_choice or moments
        self._call.set(
            size=len(loss_inputs), samples_per_step=log_prob.shape[1], log_prob_step=log_prob.stride(0), log_prob=log_prob,
            advantage=estimates.advantage, target=estimates.target, value=estimates.value, mean=moments.mean, var=moments.var,
            num_samples=moments.num_samples, choice_mean=choice.mean, choice_var=choice.var,
            choice_num_samples=choice.num_samples,
        )  # fmt: skip
        self._call.args.numbers = loss_inputs.data_ptr()
        self._call.launch("gv_begin", -(-len(loss_inputs) // TILE), len(loss_inputs))
        return loss_inputs

    def end(self) -> Tensor:
        """Count the shuffles, and return the numbers of ``PPO.metric_names``, float32 (12,)."""
        metrics = torch.empty(NUM_METRICS, dtype=torch.float32, device=self._call.device)
        self._call.args.metrics = metrics.data_ptr()
        self._call.launch("gv_end", 1)
        return metrics
