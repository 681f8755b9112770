"""Rollouts of made-up worlds for tests of the replay buffer, and the transitions by loops over a deque of steps."""

from collections import deque
from types import SimpleNamespace

import numpy as np
import torch

from gpu_vecenv.train import Samples

FEATURES, SHARED, CHOICES, CRITIC = 3, 2, 4, 2


class Worlds:
    """Worlds whose agents are absent, leave, and whose episodes end by the rules, at a time limit, or both. All numbers of
    observations differ, and those that must not count are NaN.

    Args:
        num_worlds, agents: samples are worlds with ``agents`` rows if ``by_world``, else rows.
        steps: T, steps of a rollout.
        leaving: agents leave and may be absent.
        final_obs, shared, mask, final_mask, critic: further arrays; ``final_mask`` has an effect with both others alone.
        continuous: actions are two floats.
    """

    def __init__(
        self, num_worlds=4, agents=2, steps=5, by_world=False, leaving=True, final_obs=True, shared=False, mask=False,
        final_mask=True, critic=False, continuous=False, seed=0, device="cpu",
    ):  # fmt: skip
        self.rng, self.steps, self.device, self.by_world = np.random.default_rng(seed), steps, device, by_world
        self.leaving, self.with_final, self.shared, self.mask, self.critic = leaving, final_obs, shared, mask, critic
        self.final_mask, self.continuous, self.count = final_mask and mask and final_obs, continuous, 0
        self.num_worlds, self.agents = num_worlds, agents
        self.alive = self._new_agents()
        self.now = self._observed(self.alive)
        self.rows = self._rows()

    def _new_agents(self):
        shape = (self.num_worlds, self.agents)
        return self.rng.random(shape) < 0.8 if self.leaving else np.ones(shape, bool)

    def _numbers(self, *shape):
        first, self.count = self.count, self.count + int(np.prod(shape))
        return np.arange(first, self.count, dtype=np.float64).reshape(shape).astype(np.float32)

    def _observed(self, alive):
        n, a = alive.shape
        found = {"own": np.where(alive[..., None], self._numbers(n, a, FEATURES), np.nan)}
        if self.shared:
            found["shared"] = self._numbers(n, SHARED)
        if self.mask:
            found["mask"] = self.rng.random((n, a, CHOICES)) < 0.5
        if self.critic:
            found["critic"] = self._numbers(n, CRITIC)
        return found

    def _step(self):
        before, n = self.alive, self.num_worlds
        stays = before & (self.rng.random(before.shape) < (0.9 if self.leaving else 1.0))
        terminated, truncated = self.rng.random((2, n, 1)) < 0.08
        ended = terminated | truncated
        self.alive = np.where(ended, self._new_agents(), stays)
        final = {name: np.where(ended.reshape(n, *[1] * (x.ndim - 1)), x, np.nan)
                 for name, x in self._observed(stays).items() if name in ("own", "shared")}  # fmt: skip
        if self.final_mask:
            final["mask"] = self.rng.random((*before.shape, CHOICES)) < 0.5
        shape = (*before.shape, 2) if self.continuous else before.shape
        action = self.rng.normal(size=shape).astype(np.float32) if self.continuous else self.rng.integers(1, 9, shape, np.int32)
        step = dict(self.now, action=action, reward=np.where(before, self.rng.normal(size=before.shape), np.nan), valid=before,
                    episode_end=ended | ~stays, timed_out=truncated & ~terminated & stays,
                    ended=np.broadcast_to(ended, before.shape))  # fmt: skip
        step |= {f"final_{name}": x for name, x in final.items()}
        self.now = self._observed(self.alive)
        return step

    def rollout(self):
        """Return the samples of a rollout."""
        steps = [self._step() for _ in range(self.steps)]
        arrays = {name: np.stack([step[name] for step in steps]) for name in steps[0]}
        for name, x in self.now.items():
            arrays[name] = np.concatenate((arrays[name], x[None]))
        found = {}
        for name, x in arrays.items():
            x = x.astype(np.float32) if x.dtype == np.float64 else x
            if not self.by_world and name not in ("shared", "critic"):
                x = x.reshape(len(x), -1, *x.shape[3:])
            found[name] = torch.from_numpy(np.ascontiguousarray(x)).to(self.device)

        def observed(prefix):
            if not self.by_world:
                return found[f"{prefix}own"]
            return {name: found[prefix + name] for name in ("shared", "own") if prefix + name in found}

        return Samples(
            obs=observed(""), action=found["action"], log_prob=found["reward"], reward=found["reward"], valid=found["valid"],
            episode_end=found["episode_end"], ended=found["ended"], timed_out=found["timed_out"], mask=found.get("mask"),
            final_obs=observed("final_") if self.with_final else None, all_valid=not self.leaving, critic=found.get("critic"),
            final_mask=found.get("final_mask"),
        )  # fmt: skip

    def _rows(self):
        """Return the attributes of ``PolicyRows`` that a replay buffer reads."""
        n, a = self.num_worlds, self.agents
        shape, axes = ((n, a), (a,)) if self.by_world else ((n * a,), ())
        own = torch.zeros(shape[0], *axes, FEATURES)
        obs = own if not self.by_world else {**({"shared": torch.zeros(n, SHARED)} if self.shared else {}), "own": own}
        mask = torch.zeros(*shape, CHOICES, dtype=torch.bool) if self.mask else None
        actions = (self.steps, n * a, 2) if self.continuous else (self.steps, n * a)
        dtype = torch.float32 if self.continuous else torch.int32
        span = SimpleNamespace(slabs=SimpleNamespace(action=torch.zeros(actions, dtype=dtype)))
        return SimpleNamespace(
            num_samples=shape[0], shape=shape, spans=[span], with_ids=False, with_final_obs=self.with_final,
            with_next_masks=self.final_mask,
            rollout=SimpleNamespace(num_steps=self.steps, alive_next=torch.zeros(1) if self.leaving else None),
            group=SimpleNamespace(effects=()),
            inputs=lambda span, step: SimpleNamespace(obs=obs, mask=mask), critic_sources=("state",) if self.critic else (),
            sources={"state": CRITIC}, agents=(torch.arange(n * a, dtype=torch.int32).view(shape) % a,),
        )  # fmt: skip


def numpy_of(x):
    """Return a copy."""
    return x.detach().cpu().numpy().copy()


class Steps:
    """The last ``slots`` steps in a deque, and their transitions by a loop from step to step."""

    def __init__(self, slots, n_steps, gamma, masked_later=False):
        self.steps, self.slots, self.n, self.gamma, self.total = deque(maxlen=slots), slots, n_steps, gamma, 0
        self.after, self.newest = None, n_steps - 1 + masked_later

    def add(self, samples):
        """Take the steps of a rollout."""
        obs = samples.obs if isinstance(samples.obs, dict) else {"own": samples.obs}
        final = samples.final_obs if isinstance(samples.final_obs, dict) else {"own": samples.final_obs}
        final = {**final, "mask": samples.final_mask}
        named = {**obs, "mask": samples.mask, "critic": samples.critic}
        inputs = {name: numpy_of(x) for name, x in named.items() if x is not None}
        rest = {name: numpy_of(getattr(samples, name)) for name in
                ("action", "reward", "valid", "episode_end", "ended", "timed_out")}  # fmt: skip
        final = {name: numpy_of(x) for name, x in final.items() if x is not None}
        for t in range(samples.num_steps):
            step = {name: x[t] for name, x in rest.items()}
            step["inputs"] = {name: x[t] for name, x in inputs.items()}
            step["final"] = {name: x[t] for name, x in final.items()}
            self.steps.append(step)
        self.after = {name: x[-1] for name, x in inputs.items()}
        self.total += samples.num_steps

    def sampled(self):
        """Return the places that may be sampled, in a ring of ``slots + 1`` steps, to the number of the step and the sample."""
        first, found = self.total - len(self.steps), {}
        for k, step in enumerate(self.steps):
            if k + self.newest < len(self.steps):
                for b, valid in enumerate(step["valid"]):
                    if valid.any():
                        found[(first + k) % (self.slots + 1) * len(step["valid"]) + b] = (k, b)
        return found

    def transition(self, k, b):
        """Return the transition of sample b from the deque's step k: a dict of arrays of its agents."""
        start = self.steps[k]
        agents = np.atleast_1d(start["valid"][b])
        reward, discount = np.zeros(len(agents)), np.zeros(len(agents))
        ahead, limits, of_world = None, np.zeros(len(agents), bool), 0
        for i, valid in enumerate(agents):
            length = 0
            while valid:
                step = {name: np.atleast_1d(self.steps[k + length][name][b])[i] for name in
                        ("reward", "episode_end", "ended", "timed_out")}  # fmt: skip
                reward[i] += self.gamma**length * step["reward"]
                length += 1
                if step["episode_end"] or length == self.n:
                    limits[i] = step["timed_out"] and bool(self.steps[0]["final"])
                    terminal = step["episode_end"] and not limits[i]
                    discount[i] = 0 if terminal else self.gamma**length
                    if not terminal:
                        of_world = length
                    break
        if of_world:
            later = self.after if k + of_world == len(self.steps) else self.steps[k + of_world]["inputs"]
            ahead = {name: x[b] for name, x in later.items()}
            if limits.any():
                every = {"mask": np.ones_like(ahead["mask"])} if "mask" in ahead else {}
                ahead |= every | {name: x[b] for name, x in self.steps[k + of_world - 1]["final"].items()}
        now = {name: x[b] for name, x in start["inputs"].items()}
        zero = {name: np.zeros_like(x) for name, x in now.items()}
        return {
            "inputs": _cleaned(now, agents), "next": _cleaned(zero if ahead is None else ahead, discount != 0), "valid": agents,
            "reward": reward, "discount": discount, "action": _where(agents, start["action"][b]),
        }  # fmt: skip


def _where(counts, x, other=0):
    """Return an array of a sample with another number for agents that do not count."""
    x = np.asarray(x)
    of_sample = counts if x.ndim and len(x) == len(counts) and len(counts) > 1 else counts.any()
    return np.where(np.reshape(of_sample, (-1, *[1] * (x.ndim - 1)) if np.ndim(of_sample) else ()), x, other)


def _cleaned(inputs, counts):
    """Return inputs of a sample with zeros, and masks that allow all, for agents that do not count."""
    found = {name: _where(counts, x, name == "mask") for name, x in inputs.items() if name in ("own", "mask")}
    return found | {name: x if counts.any() else np.zeros_like(x) for name, x in inputs.items() if name not in found}
