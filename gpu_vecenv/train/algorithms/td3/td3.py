"""Deterministic policy gradients of one policy: TD3 and DDPG."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch
from gpu_vecenv.train.algorithms.off_policy.dense import Dense
from gpu_vecenv.train.algorithms.off_policy.learner import OffPolicy
from gpu_vecenv.train.config.td3 import DDPGConfig, TD3Config
from gpu_vecenv.train.policies.actor import Deterministic
from gpu_vecenv.train.policies.contract import Actor, Draw, Inputs
from gpu_vecenv.train.policies.draw import draw_normal


class Explorer:
    """Acts as a deterministic policy with normal noise, within the bounds.

    The noise of different steps is independent, as in Fujimoto et al. 2018, section 6.1, and not an Ornstein-Uhlenbeck process.
    """

    def __init__(self, policy: Deterministic, deviation: float, device: torch.device):
        """Store the policy, and the deviation of actions whose bounds are -1 and 1."""
        self.policy = policy
        size = (policy.group.num_entries,)
        self.log_std = torch.full(size, math.log(deviation), dtype=torch.float32, device=device)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``; log-probabilities are those before an action is clipped."""
        mean = torch.tanh(self.policy.outputs(self.policy.features(inputs.obs, draw.agent)))
        action, log_prob = draw_normal(mean, self.log_std, draw, deterministic)[:2]
        return self.policy.env_actions(action), log_prob


class TD3(OffPolicy):
    """Critics learn the values of a slowly moving target policy, and the policy climbs the first critic."""

    terms = ("critic_loss", "q", "actor_loss")
    num_normals = 1
    policy: Deterministic
    options: TD3Config | DDPGConfig

    def __init__(self, policy: Deterministic, options: TD3Config | DDPGConfig, setup: Setup):
        """See ``Algorithm``."""
        inputs = policy.num_features + policy.group.num_entries
        super().__init__(policy, options, setup, options.num_critics, inputs, 1)
        self.target_network = copy.deepcopy(policy.network).requires_grad_(False)
        self.dense[self.target_network] = Dense.of(self.target_network)
        self.device = setup.device

    def explorer(self) -> Actor:
        """Return the policy with noise."""
        return Explorer(self.policy, self.options.exploration_noise, self.device)

    def gradient_step(self, step: int, batch: Minibatch, noise: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """See ``OffPolicy.gradient_step()``."""
        options = self.options
        with torch.no_grad():
            action = torch.tanh(self.outputs(batch.after.features, self.target_network))
            if options.target_noise:  # smoothing of the target policy, equation 14 of Fujimoto et al. 2018
                clip = options.target_noise_clip
                action = (action + (options.target_noise * noise[0]).clamp_(-clip, clip)).clamp_(-1.0, 1.0)
            following = self.targets(torch.cat((batch.after.rows, action), dim=1))
            target = self.head.target(following, batch.reward, batch.discount)
        terms, error = self.learn_critics(torch.cat((batch.before.rows, batch.action), dim=1), target, batch.weighted, 1.0)
        if (step + 1) % options.policy_delay:
            return terms, error
        action = torch.tanh(self.outputs(batch.before.features))
        loss, _ = self.learn_actor(torch.cat((batch.before.rows, action), dim=1), batch.share)
        share = options.tau * self.gate
        self.targets.follow(self.critics, share)
        with torch.no_grad():
            for target, source in zip(self.target_network.parameters(), self.policy.network.parameters(), strict=True):
                target.lerp_(source, share)
        return {**terms, "actor_loss": loss}, error

    def modules(self) -> dict[str, nn.Module]:
        """See ``OffPolicy.modules()``."""
        return {**super().modules(), "target_policy": self.target_network}
