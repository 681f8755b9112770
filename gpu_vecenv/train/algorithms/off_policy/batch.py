"""Batches of a replay buffer as rows, which networks read."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.train.policies.actor import ActorPolicy
from gpu_vecenv.train.policies.contract import Inputs, Observation
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.storage.replay import Batch


class Observed(NamedTuple):
    """Observations of R rows as networks read them."""

    features: Observation
    """Argument of ``ActorPolicy.outputs()`` for b samples; R = b or b * a."""
    rows: Tensor
    """float32 (R, features), for critics."""
    mask: Tensor | None
    """bool (R, M), see ``Inputs``."""

    @classmethod
    def of(cls, policy: ActorPolicy, inputs: Inputs) -> Observed:
        """Return inputs as the networks of a policy's algorithm read them."""
        features = policy.features(inputs.obs, inputs.agent)
        if isinstance(features, Tensor):
            rows = features.flatten(1)
        else:
            of_agents = features["own"]
            rows = torch.cat((features["shared"].unsqueeze(1).expand(*of_agents.shape[:2], -1), of_agents), dim=-1).flatten(0, 1)
        return cls(features, rows, None if inputs.mask is None else inputs.mask.reshape(-1, inputs.mask.shape[-1]))


class Minibatch(NamedTuple):
    """A batch as R rows: its transitions, or of samples of worlds those of its agents."""

    before: Observed
    """Before the step."""
    after: Observed
    """After it, or several steps later."""
    action: Tensor
    """float32 (R, k) in normalised units, or int64 (R, k)."""
    reward: Tensor
    """float32 (R,)."""
    discount: Tensor
    """float32 (R,), factor of the next value."""
    share: Tensor
    """float32 (R,), weight of each row in a mean: 1 divided by the number of rows that count, 0 for others."""
    weighted: Tensor
    """float32 (R,), ``share`` times importance weights."""

    @classmethod
    def of(cls, policy: ActorPolicy, batch: Batch, processes: Processes | None = None) -> Minibatch:
        """Return a batch as rows; ``processes`` have the parts of the batch."""
        count = batch.valid.sum()
        count = (count if processes is None else processes.sum(count)).clamp_(min=1)
        share = batch.valid / count
        weighted = share * (batch.weight if share.dim() == 1 else batch.weight.unsqueeze(1))
        action = policy.normalized_actions(batch.action) if policy.group.continuous else batch.action.long()
        action = action.reshape(share.numel(), -1)
        flat = (x.flatten() for x in (batch.reward, batch.discount, share, weighted))
        return cls(Observed.of(policy, batch.inputs), Observed.of(policy, batch.next_inputs), action, *flat)
