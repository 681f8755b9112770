"""Batches as rows for SAC, TD3 and DDPG on the CPU, by one kernel of ``kernels/learner/host_off_policy.cu``."""

from __future__ import annotations

import torch

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import HOST_OFF_POLICY
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch, Observed
from gpu_vecenv.train.policies.actor import Deterministic, SquashedGaussian
from gpu_vecenv.train.storage.replay import Batch


class HostRows:
    """Rows of a batch whose arrays stay where they are, with the numbers that ``Minibatch.of()`` returns.

    Attributes:
        batch: the batch.
    """

    def __init__(self, policy: SquashedGaussian | Deterministic, batch: Batch) -> None:
        """Allocate the rows."""
        self.policy, self.batch, device = policy, batch, batch.valid.device
        rows, entries, samples = batch.valid.numel(), policy.group.num_entries, len(batch.weight)
        share, weighted = torch.empty(2, rows, dtype=torch.float32, device=device).unbind()
        action = torch.empty(rows, entries, dtype=torch.float32, device=device)
        self._call = Call(
            HOST_OFF_POLICY, device, rows=rows, entries=entries, num_agents=rows // samples, valid=batch.valid,
            importance=batch.weight, given=batch.action, centre=policy.box.centre, half_width=policy.box.half_width,
            share=share, weighted=weighted, action=action,
        )  # fmt: skip
        before, after = self._observed()
        reward, discount = batch.reward.flatten(), batch.discount.flatten()
        self._rows = Minibatch(before, after, action, reward, discount, share, weighted)
        obs = batch.inputs.obs
        self._are_views = isinstance(obs, torch.Tensor) and before.rows.data_ptr() == obs.data_ptr()

    def now(self) -> Minibatch:
        """Return the rows of the transitions that the batch has now. It is the same object if all of its arrays stay."""
        self._call.launch("gv_weigh", 1)
        if self._are_views:
            return self._rows
        before, after = self._observed()
        return self._rows._replace(before=before, after=after)

    def _observed(self) -> tuple[Observed, Observed]:
        """Return the observations of the batch, before and after."""
        return Observed.of(self.policy, self.batch.inputs), Observed.of(self.policy, self.batch.next_inputs)
