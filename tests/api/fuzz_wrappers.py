"""Random calls of wrapped envs and of RoleRows beside plain references: ``python -m tests.api.fuzz_wrappers SEED CALLS``.

Three envs with the same worlds get the same calls, with valid and invalid arguments: two wrapped ones, with NumPy arrays and with
tensors, and a bare one, from whose results the reference computes in Python what the wrappers should give. At random moments a
wrapped env is replaced by a copy of itself, and the original is stepped on: what both shared would show.
"""

from __future__ import annotations

import copy
import pickle
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch

import gpu_vecenv
from gpu_vecenv import GpuVectorEnv, RoleRows
from gpu_vecenv.errors import GpuVecenvError
from tests.api.fuzz import ODD_VALUES, host
from tests.roles import shared, town

KINDS: dict[str, Callable[..., Any]] = {
    "cartpole": partial(gymnasium.make_vec, "WarpCartPole-v1", max_episode_steps=5),
    "pendulum": partial(gymnasium.make_vec, "WarpPendulum-v1", max_episode_steps=4),
    "tag": partial(gymnasium.make_vec, "WarpTag-v0", num_taggers=1, num_runners=2, episode_length=4, tagging_distance=0.4),
    "tag rows": partial(gymnasium.make_vec, "WarpTag-v0", view="agents", num_taggers=1, num_runners=2, episode_length=4),
    "town": partial(GpuVectorEnv, town.SPEC, max_episode_steps=4),
    "citizens": partial(GpuVectorEnv, town.SPEC, max_episode_steps=4),
    "shared": partial(GpuVectorEnv, shared.SPEC, max_episode_steps=4),
}
MODES = ("same_step", "next_step", "disabled")
CALLS = {"step": 120, "reset": 16, "set_state": 8, "copy_worlds": 8, "copy": 1, "bind": 2, "rewind": 12, "unbind": 3,
         "observe": 4, "misuse": 8, "make": 4}  # fmt: skip
"""Weights of the calls. Copies make envs, which takes a hundred times as long as a step."""

COPIERS = (copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env)))
ODD = 0.06
"""Chance of an odd value in place of an argument."""


def double(values: Any) -> Any:
    return {name: double(part) for name, part in values.items()} if isinstance(values, dict) else 2 * values


def no_tax(obs: Any) -> Any:
    return np.zeros((len(obs), 1, 2), np.float32)


WRAPPERS = {
    "EpisodeStatistics": gpu_vecenv.EpisodeStatistics,
    "ClipReward": lambda env: gpu_vecenv.ClipReward(env, -1.5, 0.75),
    "TransformReward": lambda env: gpu_vecenv.TransformReward(env, double),
    "TransformObservation": lambda env: gpu_vecenv.TransformObservation(env, double),
    "ClipAction": gpu_vecenv.ClipAction,
}


class Reference:
    """What a stack of wrappers gives, computed from the results of the bare env, one env after the other."""

    def __init__(self, stack: list[str], env: Any, mode: str) -> None:
        num_envs = env.num_envs
        self._stack, self._mode = stack, mode
        self._roles = dict(env.role_counts) if isinstance(env, GpuVectorEnv) and env.layout.by_role else {}
        self._role_returns = {role: np.zeros(num_envs, np.float64) for role in self._roles}
        self._returns, self._lengths = [[0.0] * num_envs for _ in stack], [0] * num_envs
        self._ended: list[bool] | None = None

    def reset(self, obs: Any, mask: Any) -> Any:
        begun = [True] * len(self._lengths) if mask is None else mask.tolist()
        before = self._ended or [False] * len(begun)
        self._ended = [False if new else old for new, old in zip(begun, before, strict=True)]
        self._lengths = [0 if new else old for new, old in zip(begun, self._lengths, strict=True)]
        self._returns = [[0.0 if new else old for new, old in zip(begun, sums, strict=True)] for sums in self._returns]
        for sums in self._role_returns.values():
            sums[np.array(begun)] = 0
        return self._observed(obs)

    def step(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]) -> tuple[Any, ...]:
        assert self._ended is not None
        going = [not ended for ended in self._ended]
        flags = (terminated | truncated) & going
        over = info.get("_episode", flags).tolist()
        self._lengths = [steps + more for steps, more in zip(self._lengths, going, strict=True)]
        info = dict(info)
        if "final_obs" in info:
            info["final_obs"] = self._observed(info["final_obs"])
        for name, sums in zip(self._stack, self._returns, strict=True):
            if name == "ClipReward":
                reward = np.array([min(max(one, -1.5), 0.75) for one in reward.tolist()], np.float32)
            elif name == "TransformReward":
                reward = np.array([2 * one for one in reward.tolist()], np.float32)
            elif name == "EpisodeStatistics":
                for i, one in enumerate(reward):
                    sums[i] = float(np.float32(sums[i]) + one) if going[i] else sums[i]
                statistics = {"r": np.array(sums, np.float32), "l": np.array(self._lengths, np.int32)}
                info["episode"] = {**info.get("episode", {}), **statistics}
                info["_episode"] = np.array(over)
                if self._roles:
                    info["episode"]["role_r"] = self._by_role(info["agent_reward"], np.array(going))
        self._lengths = [0 if end else steps for end, steps in zip(over, self._lengths, strict=True)]
        self._returns = [[0.0 if end else total for end, total in zip(over, sums, strict=True)] for sums in self._returns]
        for sums in self._role_returns.values():
            sums[np.array(over)] = 0
        if self._mode != "same_step":
            kept = self._ended if self._mode == "disabled" else [False] * len(over)
            self._ended = [end or old for end, old in zip(flags.tolist(), kept, strict=True)]
        return self._observed(obs), reward, terminated, truncated, info

    def _by_role(self, rewards: np.ndarray, going: np.ndarray) -> dict[str, np.ndarray]:
        """Add the mean reward of each role's agents to its returns, and return them."""
        first = 0
        for role, count in self._roles.items():
            self._role_returns[role][going] += rewards[going, first : first + count].astype(np.float64).mean(1)
            first += count
        return {role: sums.copy() for role, sums in self._role_returns.items()}

    def _observed(self, obs: Any) -> Any:
        return double(obs) if "TransformObservation" in self._stack else obs


class WrapperFuzz:
    """Random calls, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.outcomes: Counter[str] = Counter()
        self._bases: dict[Any, list[Any]] = {}

    def run(self, calls: int) -> Counter[str]:
        """Make ``calls`` calls and return the count of each outcome."""
        self._make()
        names, weights = list(CALLS), np.array(list(CALLS.values())) / sum(CALLS.values())
        for _ in range(calls):
            getattr(self, f"_{self.rng.choice(names, p=weights)}")()
        return self.outcomes

    def _make(self) -> None:
        """Wrap envs of some kind, which are made once, because that takes a hundred times as long as a step."""
        kind, mode = str(self.rng.choice(list(KINDS))), str(self.rng.choice(MODES))
        key = kind, mode, copies, worlds = kind, mode, bool(self.rng.random() < 0.7), int(self.rng.integers(1, 4))
        if key not in self._bases or self.rng.random() < 0.02:
            self._bases[key] = [
                KINDS[kind](num_worlds=worlds, device="cpu", array=array, autoreset_mode=mode, copy=copies)
                for array in ("numpy", "torch", "numpy")
            ]
        self.key, self.kind, self.mode = key, kind, mode
        one, two, self.bare = [env.unwrapped for env in self._bases[key]]
        for env in (one, two, self.bare):
            env.unbind()
        if kind == "citizens":
            one, two, self.bare = [RoleRows(env, "citizen", {"mayor": no_tax}) for env in (one, two, self.bare)]
        choices = list(WRAPPERS) if isinstance(one.single_action_space, gymnasium.spaces.Box) else list(WRAPPERS)[:-1]
        self.stack = [str(name) for name in self.rng.permutation(choices)[: self.rng.integers(len(choices) + 1)]]
        for name in self.stack:
            one, two = WRAPPERS[name](one), WRAPPERS[name](two)
        self.wrapped = [one, two]
        self.reference = Reference(self.stack, self.bare, mode)
        self.outcomes[f"{kind}, {mode}"] += 1
        self._reset(all_envs=True)

    # ---- calls ------------------------------------------------------------------------------------------------

    def _all(self, name: str, call: Callable[[Any], Any]) -> list[Any] | None:
        """Make a call in all three envs, and return the results; None if it is refused, with the same error in all."""
        results, errors = [], []
        for env in (*self.wrapped, self.bare):
            try:
                results.append(call(env))
                errors.append("")
            except GpuVecenvError as error:
                errors.append(type(error).__name__)
        self.outcomes[f"{name} {errors[0] or 'ok'}"] += 1
        assert len(set(errors)) == 1, (name, self.kind, self.mode, self.stack, errors)
        return None if errors[0] else results

    def _step(self) -> None:
        actions, odd = self._valid(), self._odd()
        if self.rng.random() < ODD:
            if "ClipAction" in self.stack:
                return self._clipped(odd)
            actions = odd
        space = self.bare.single_action_space
        given = np.clip(actions, space.low, space.high) if "ClipAction" in self.stack else actions
        results = self._all("step", lambda env: env.step(given if env is self.bare else actions))
        if results:
            expected = self.reference.step(*results[2])
            for found in results[:2]:
                same(found, expected, f"step {self.kind} {self.mode} {self.stack}")

    def _clipped(self, actions: Any) -> None:
        """Give ClipAction odd actions, of which NumPy and torch clip different ones."""
        for env in self.wrapped:
            try:
                env.step(actions)
            except GpuVecenvError as error:
                self.outcomes[f"clipped {type(error).__name__}"] += 1
        self._make()

    def _reset(self, all_envs: bool = False) -> None:
        options: dict[str, Any] = {}
        seed = int(self.rng.integers(2**40))
        if not all_envs:
            seed = self._mostly(None if self.rng.random() < 0.5 else seed)
            if self.rng.random() < 0.6:
                options["reset_mask"] = self._mostly(self._mask())
        results = self._all("reset", lambda env: env.reset(seed=seed, options=options))
        if results:
            expected = self.reference.reset(results[2][0], options.get("reset_mask")), results[2][1]
            for found in results[:2]:
                same(found, expected, f"reset {self.kind} {self.mode} {self.stack}")

    def _set_state(self) -> None:
        state = self.bare.get_state()
        names = [str(name) for name in self.rng.permutation(list(state))[:2]]
        given = {name: self._mostly(np.roll(host(state[name]), 1, axis=0)) for name in names}
        self._all("set_state", lambda env: self._inner(env).set_state(given))

    def _copy_worlds(self) -> None:
        worlds = self.bare.num_worlds
        source, target, diverge = self._mostly(self.rng.integers(0, worlds, 1)), self._mostly([0]), self._mostly(False)
        self._all("copy_worlds", lambda env: self._inner(env).copy_worlds(source, target, diverge))

    def _observe(self) -> None:
        results = self._all("observe", lambda env: self._inner(env).observe())
        for found in (results or [])[:2]:
            same(found, results[2], "observe")  # type: ignore[index]

    def _bind(self) -> None:
        steps = int(self.rng.integers(1, 4))

        def bind(env: Any) -> None:
            inner = self._inner(env)
            slabs = inner.worlds.outputs.new_slabs(steps)
            inner.bind(**{name: slabs[name] for name in ("obs", "reward")})

        self._all("bind", bind)

    def _rewind(self) -> None:
        self._all("rewind", lambda env: self._inner(env).rewind())

    def _unbind(self) -> None:
        self._all("unbind", lambda env: self._inner(env).unbind())

    def _copy(self) -> None:
        """Replace an env by its copy, and step the original on."""
        place = int(self.rng.integers(2))
        original, copier = self.wrapped[place], COPIERS[self.rng.integers(len(COPIERS))]
        if self._inner(original).worlds.outputs.bound_obs is not None:
            self._unbind()
        self.wrapped[place] = copier(original)
        assert self._inner(self.wrapped[place]) is not self._inner(original)
        self.outcomes["copy ok"] += 1
        original.reset(seed=1)
        for _ in range(2):
            original.step(self._valid())
        self._bases[self.key] = [self._inner(env) for env in (*self.wrapped, self.bare)]

    def _misuse(self) -> None:
        """Wrap an env with odd arguments, or call what it lacks; nothing changes."""
        odd, env = self._odd(), self.wrapped[0]
        calls: list[Callable[[], Any]] = [
            lambda: gpu_vecenv.NormalizeObservation(env, odd),
            lambda: gpu_vecenv.NormalizeReward(env, odd, odd),
            lambda: gpu_vecenv.ClipReward(env, odd, odd),
            lambda: gpu_vecenv.TransformReward(env, odd),
            lambda: gpu_vecenv.TransformObservation(env, double, odd),
            lambda: gpu_vecenv.ClipAction(odd),
            lambda: gpu_vecenv.EpisodeStatistics(odd),
            lambda: RoleRows(env, odd),
            lambda: RoleRows(self._inner(env), odd, odd),
            lambda: RoleRows(self._inner(env), "citizen", {"mayor": odd}),
            lambda: gpu_vecenv.capture_steps(odd, odd),
            lambda: gpu_vecenv.capture_steps(env, odd, odd),
            lambda: gpu_vecenv.sample_mask(odd, odd, odd),
            lambda: gpu_vecenv.sample_mask(self._inner(env), odd, odd),
            lambda: gpu_vecenv.whole_obs(odd),
            lambda: gpu_vecenv.join_states([odd]),
            lambda: self._inner(env).call(odd, odd),
            lambda: self._inner(env).set_attr(odd, odd),
            lambda: self._inner(env).rollout(odd, odd, odd),
            lambda: self._inner(env).picture(odd) if not isinstance(odd, int) else None,
        ]
        number = int(self.rng.integers(len(calls)))
        before = self._inner(env).worlds.state.on_host()
        try:
            calls[number]()
            self.outcomes[f"misuse {number} ok"] += 1
        except GpuVecenvError as error:
            self.outcomes[f"misuse {number} {type(error).__name__}"] += 1
            same(before, self._inner(env).worlds.state.on_host(), f"state after misuse {number}")
        else:
            if number == 18:  # a rollout
                self._make()

    # ---- arguments --------------------------------------------------------------------------------------------

    @staticmethod
    def _inner(env: Any) -> Any:
        """The env of worlds inside of wrappers and RoleRows."""
        inner = env.unwrapped
        return inner.env if isinstance(inner, RoleRows) else inner

    def _odd(self) -> Any:
        return ODD_VALUES[self.rng.integers(len(ODD_VALUES))]

    def _mostly(self, valid: Any) -> Any:
        return self._odd() if self.rng.random() < ODD else valid

    def _mask(self) -> np.ndarray:
        if self.bare.view == "worlds" or self.bare.num_agents == 1:
            return self.rng.random(self.bare.num_envs) < 0.5
        worlds = self.rng.random(self.bare.num_worlds) < 0.5
        return np.concatenate([np.repeat(worlds, count) for count in self.bare.role_counts.values()])

    def _valid(self) -> Any:
        space = self.bare.single_action_space
        return self._sample(space, self.bare.num_envs)

    def _sample(self, space: Any, rows: int) -> Any:
        if isinstance(space, gymnasium.spaces.Dict):
            return {role: self._sample(part, rows) for role, part in space.items()}
        if isinstance(space, gymnasium.spaces.Box):
            return self.rng.uniform(-1, 1, (rows, *space.shape)).astype(np.float32)
        choices = space.nvec if hasattr(space, "nvec") else np.array(space.n)
        return self.rng.integers(0, choices, (rows, *choices.shape))


VALID = {"final_obs": "_final_obs", "final_action_mask": "_final_obs", "final_action_effects": "_final_obs",
         "episode": "_episode"}  # fmt: skip
"""Results with rows that may hold anything, and the mask of the other rows."""


def same(left: Any, right: Any, where: str) -> None:
    """Raise AssertionError unless two trees hold the same bits in the rows that are valid."""
    if isinstance(left, dict):
        assert left.keys() == right.keys(), (where, list(left), list(right))
        for name in left:
            a, b = left[name], right[name]
            if VALID.get(name) in left:
                rows = host(left[VALID[name]])
                a, b = chosen(a, rows), chosen(b, rows)
            same(a, b, f"{where} {name}")
    elif isinstance(left, tuple):
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            same(one, other, f"{where} {place}")
    else:
        one, other = host(left), host(right)
        if other.dtype == np.float64:  # a mean, which libraries add up in other orders
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=where)
            return
        assert (one.dtype, one.shape) == (other.dtype, other.shape), f"{where}: dtype or shape differs"
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), f"{where} differs: {one} {other}"


def chosen(tree: Any, rows: np.ndarray) -> Any:
    return {name: chosen(part, rows) for name, part in tree.items()} if isinstance(tree, dict) else host(tree)[rows]


def fuzz(seed: int, calls: int) -> Counter[str]:
    """Make random calls. An error gets a note with the command that reproduces it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        try:
            return WrapperFuzz(seed).run(calls)
        except Exception as error:
            error.add_note(f"python -m tests.api.fuzz_wrappers {seed} {calls}")
            raise


if __name__ == "__main__":
    start = time.perf_counter()
    for outcome, count in sorted(fuzz(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(f"{count:8,} {outcome}")
    print(f"{time.perf_counter() - start:.0f} s")
