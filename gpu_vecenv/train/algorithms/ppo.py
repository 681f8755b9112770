"""The PPO update of one policy over the rows it acts for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gpu_vecenv.train.algorithms.schedules import scalars_at
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.errors import CheckpointError
from gpu_vecenv.train.policies.policy import Policy
from gpu_vecenv.train.returns.gae import TransitionMasks, gae, next_values
from gpu_vecenv.train.returns.normalize import RewardNorm
from gpu_vecenv.train.run_folder.checkpoint import require_same_form
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.slabs import GroupSlabs, Observations, side_by_side

MAX_CHUNK_ROWS = 1 << 18
"""Most rows in one call of the critic outside minibatches; bounds temporary memory."""


class Minibatch(NamedTuple):
    """B transitions in any order."""

    obs: Tensor
    """float32 (B, F)."""
    action: Tensor
    """(B,) or (B, k)."""
    log_prob: Tensor
    """float32 (B,), of the action when it was taken."""
    value: Tensor
    """float32 (B,), before the update."""
    advantage: Tensor
    """float32 (B,)."""
    target: Tensor
    """float32 (B,), the value to learn."""
    valid: Tensor
    """bool (B,), False for transitions to ignore."""
    mask: Tensor | None = None
    """bool (B, M), choices that were allowed; None without masks."""


def masked_mean(x: Tensor, valid: Tensor) -> Tensor:
    """Return the mean of ``x`` over entries where ``valid``; 0 if there are none."""
    return torch.where(valid, x, 0.0).sum() / valid.sum().clamp(min=1)


def ppo_loss(
    policy: Policy, batch: Minibatch, config: PPOConfig, entropy_coef: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss to minimise, and its terms.

    Source: Schulman et al. 2017, equation 7, plus the value loss and entropy bonus of equation 9.

    Returns:
        Loss, float32 (), and detached 0-d tensors: ``policy_loss``, ``value_loss``, ``entropy`` (nats),
        ``kl`` (Schulman's k3 estimate), ``clip_fraction`` (share of ratios outside the clip range).
    """
    log_prob, entropy, value = policy.evaluate_actions(batch.obs, batch.action, batch.mask)
    log_ratio = log_prob - batch.log_prob
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - config.clip_coef, 1.0 + config.clip_coef)
    surrogate = torch.minimum(ratio * batch.advantage, clipped * batch.advantage)
    policy_loss = -masked_mean(surrogate, batch.valid)

    error = (value - batch.target).square()
    if config.clip_value:
        near = batch.value + (value - batch.value).clamp(-config.clip_coef, config.clip_coef)
        error = torch.maximum(error, (near - batch.target).square())
    value_loss = 0.5 * masked_mean(error, batch.valid)
    mean_entropy = masked_mean(entropy, batch.valid)

    loss = policy_loss + config.value_coef * value_loss - entropy_coef * mean_entropy
    with torch.no_grad():
        outside = ((ratio - 1.0).abs() > config.clip_coef).float()
        terms = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": mean_entropy.detach(),
            "kl": masked_mean(ratio - 1.0 - log_ratio, batch.valid),
            "clip_fraction": masked_mean(outside, batch.valid),
        }
    return loss, terms


class PPO:
    """One policy's learner: optimiser, reward scale, and the update over its rows of a rollout."""

    def __init__(
        self,
        policy: Policy,
        slices: list[slice],
        rollout: Rollout,
        config: PPOConfig,
        generator: torch.Generator,
    ):
        """Set up the optimiser.

        Args:
            policy: the policy to train.
            slices: its rows, in row order.
            rollout: the slabs it learns from.
            config: hyperparameters; the rollout must hold final observations if time limits are bootstrapped.
            generator: source of minibatch order, on the rollout's device.
        """
        self.policy = policy
        self.slices = slices
        self.rollout = rollout
        self.config = config
        self.generator = generator
        # The policy's rows in the slabs of its groups, which are laid side by side if there are several.
        self.groups: list[GroupSlabs] = []
        self.group_slices: list[slice] = []
        num_rows = 0
        for group, own in rollout.locate(slices):
            self.groups.append(group)
            self.group_slices += [slice(num_rows + s.start, num_rows + s.stop) for s in own]
            num_rows += group.num_rows
        device = rollout.reward.device
        rows = torch.cat([torch.arange(s.start, s.stop, device=device) for s in self.group_slices])
        steps = torch.arange(rollout.num_steps, device=device)
        # Indices of this policy's transitions in slabs of its groups, flattened to (T * rows).
        self.index = (steps.unsqueeze(1) * num_rows + rows).flatten()
        self.reward_norm = (
            RewardNorm(len(rows), config.gamma).to(device) if config.normalize_rewards else None
        )
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate, eps=1e-5)

    def update(self, masks: TransitionMasks, progress: float) -> dict[str, Tensor]:
        """Improve the policy on the collected rollout.

        Args:
            masks: of the whole rollout, (T, R).
            progress: fraction of the run that is done, 0 to 1, for schedules.

        Returns:
            0-d device tensors by name, means over minibatches. The caller reads them, with one host sync.
        """
        rate, entropy_coef, _ = scalars_at(self.config, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        masks = TransitionMasks(*(self._own_rows(mask) for mask in masks))
        slabs = self.groups[0] if len(self.groups) == 1 else side_by_side(self.groups)
        advantage, target, value = self._estimate(slabs, masks)
        spread = masked_variance(target, masks.valid)
        unexplained = masked_variance(target - value, masks.valid)
        if self.config.normalize_advantages == "rollout":
            advantage = advantage - masked_mean(advantage, masks.valid)
            advantage = advantage / (masked_variance(advantage, masks.valid).sqrt() + 1e-8)

        sums: dict[str, Tensor] = {}
        num_updates = 0
        for _ in range(self.config.num_epochs):
            kl_before = sums.get("kl")
            for batch in self._minibatches(slabs, advantage, target, value, masks.valid):
                terms = self._step(batch, entropy_coef)
                num_updates += 1
                sums = {name: sums[name] + term if sums else term for name, term in terms.items()}
            if self.config.target_kl is not None:
                kl = sums["kl"] if kl_before is None else sums["kl"] - kl_before
                if float(kl) / self.config.num_minibatches > self.config.target_kl:
                    break
        for steps in self._chunks(self.rollout.num_steps):
            self.policy.observe(slabs.obs.of(steps, self.group_slices), masks.valid[steps])
        metrics = {name: total / num_updates for name, total in sums.items()}
        metrics["explained_variance"] = 1.0 - unexplained / (spread + 1e-8)
        return metrics

    def state_dict(self) -> dict[str, object]:
        """Return Adam's moments and the reward scale; policy and options are saved by the trainer."""
        scale = None if self.reward_norm is None else self.reward_norm.state_dict()
        return {"optimizer": self.optimizer.state_dict()["state"], "reward_norm": scale}

    def load_state_dict(self, state: dict, where: str = "learner") -> None:
        """Restore what ``state_dict()`` returned; ``where`` names the state in errors.

        Raises:
            CheckpointError: the state has another form than this learner's, or a number of steps is negative or not finite.
        """
        expected = self.state_dict()
        if state.get("optimizer") != {}:  # empty before the first update
            parameters = enumerate(self.policy.parameters())
            expected["optimizer"] = {i: {"step": torch.zeros(()), "exp_avg": p, "exp_avg_sq": p} for i, p in parameters}
        require_same_form(state, expected, where)
        steps = [float(moments["step"]) for moments in state["optimizer"].values()]
        if not all(0 <= step < math.inf for step in steps):
            raise CheckpointError(f"{where}/optimizer: expected steps >= 0, got {steps}")
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state["optimizer"]})
        if self.reward_norm is not None:
            self.reward_norm.load_state_dict(state["reward_norm"])

    def _own_rows(self, slab: Tensor) -> Tensor:
        """Return this policy's rows of a (T, R) slab: a view if they are one slice, else a copy."""
        if len(self.slices) == 1:
            return slab[:, self.slices[0]]
        return torch.cat([slab[:, rows] for rows in self.slices], dim=1)

    def _chunks(self, num_steps: int) -> list[slice]:
        """Return the steps in slices with about MAX_CHUNK_ROWS of this policy's rows at most."""
        size = max(1, MAX_CHUNK_ROWS * self.rollout.num_steps // len(self.index))
        return [slice(t, min(t + size, num_steps)) for t in range(0, num_steps, size)]

    def _values(self, obs: Observations) -> Tensor:
        """Return the value of this policy's rows, float32 (S, n)."""
        chunks = self._chunks(len(obs.own))
        return torch.cat([self.policy.value(obs.of(steps, self.group_slices)) for steps in chunks])

    @torch.no_grad()
    def _estimate(self, slabs: GroupSlabs, masks: TransitionMasks) -> tuple[Tensor, Tensor, Tensor]:
        """Return advantage, value target and value, each float32 (T, n)."""
        config = self.config
        reward = self._own_rows(self.rollout.reward)
        if self.reward_norm is not None:
            reward = self.reward_norm(reward, masks.valid, masks.cut)
        value = self._values(slabs.obs)
        final_value = None
        if config.bootstrap_at_time_limit and slabs.final_obs is not None:
            final_value = self._values(slabs.final_obs)
        following = next_values(value, final_value, masks)
        advantage = gae(reward, value[:-1], following, masks.cut, config.gamma, config.gae_lambda)
        return advantage, advantage + value[:-1], value[:-1]

    def _minibatches(
        self, slabs: GroupSlabs, advantage: Tensor, target: Tensor, value: Tensor, valid: Tensor
    ) -> Iterator[Minibatch]:
        """Yield this policy's transitions as minibatches, in random order."""
        action, log_prob = slabs.action.flatten(0, 1), slabs.log_prob.flatten()
        mask = None if slabs.mask is None else slabs.mask.flatten(0, 1)
        order = torch.randperm(len(self.index), generator=self.generator, device=self.index.device)
        value, advantage, target, valid = (x.reshape(-1) for x in (value, advantage, target, valid))
        for chosen in order.tensor_split(self.config.num_minibatches):
            index = self.index[chosen]
            yield Minibatch(
                obs=slabs.obs.chosen(index),
                action=action[index],
                log_prob=log_prob[index],
                value=value[chosen],
                advantage=advantage[chosen],
                target=target[chosen],
                valid=valid[chosen],
                mask=None if mask is None else mask[index],
            )

    def _step(self, batch: Minibatch, entropy_coef: float) -> dict[str, Tensor]:
        """Take one optimiser step."""
        loss, terms = ppo_loss(self.policy, batch, self.config, entropy_coef)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        terms["grad_norm"] = nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        return terms


def masked_variance(x: Tensor, valid: Tensor) -> Tensor:
    """Return the variance of ``x`` over entries where ``valid``; 0 if there are none."""
    return masked_mean((x - masked_mean(x, valid)).square(), valid)
