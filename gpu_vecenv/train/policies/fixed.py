"""The base of policies that have no weights."""

from __future__ import annotations

from torch import Tensor

from gpu_vecenv.train.policies.contract import Evaluated, Inputs, Policy


class FixedPolicy(Policy):
    """Acts by a rule, and is never trained: its log-probabilities, entropies and values are zeros that nothing reads."""

    def evaluate(self, inputs: Inputs, action: Tensor) -> Evaluated:
        """Return zeros: the policy is never trained."""
        zeros = self.value(inputs)
        return Evaluated(zeros, zeros, zeros)

    def value(self, inputs: Inputs) -> Tensor:
        """Return zeros: the policy is never trained."""
        obs = inputs.obs
        return obs.new_zeros(obs.shape[:1]) if isinstance(obs, Tensor) else obs["own"].new_zeros(obs["own"].shape[:2])
