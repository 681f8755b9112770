"""Random calls of two envs with the same worlds: ``python -m tests.api.fuzz SEED CALLS [DEVICE]``.

Both envs get the same calls, with valid and invalid arguments. Each call must give the same bits in both envs or raise the
same typed error in both. After an error the state must be unchanged.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections import Counter
from typing import Any

import gymnasium
import numpy as np
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.registration import IDS
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.trees import map_tree

ODD_VALUES = [
    None, True, False, -1, 0, 1, 7, 2**31 - 1, 2**31, 2**33, 2**64, -(2**63), 10**400, 10**5000, [10**5000], 0.0, -0.0, 0.5,
    1.0000001, 2.0, 1e-45, 1e-39, 1e39, 3e38, -3e38, float("nan"), float("inf"), -float("inf"), 1j, np.complex64(1 + 2j),
    np.int8(-1), np.float16(3), "x", "", b"1", "2024", (), [], {}, [1, [2]], [None], ["a"], [[]], {"a": 1}, range(3), slice(2),
    Ellipsis, object(), np.timedelta64(5, "s"), np.array(3), np.array("x"), np.zeros(0), np.zeros((2, 3, 4, 5)),
    np.zeros(3, "M8[s]"), np.array([1, 2], ">i4"), np.array([object()]), np.broadcast_to(np.float32(1), (4,)),
    np.ma.masked_array([1, 2], [0, 1]), torch.tensor(2), torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3).to_sparse(),
    torch.zeros(2, 2, device="meta"), torch._neg_view(torch.ones(2, 2)), torch.zeros(2, dtype=torch.complex64),
]  # fmt: skip
"""Values that a caller may pass by mistake; few arguments take any of them."""
CALLS = {"step": 12, "set_state": 4, "reset": 4, "rollout": 4, "copy_worlds": 4, "set_reset_pool": 4, "observe": 4,
         "get_state": 4, "check": 4, "bind": 4, "rewind": 4, "unbind": 4, "draw_start_states": 1, "render": 3}  # fmt: skip
"""Weights of the calls. ``draw_start_states`` makes an env, which takes a hundred times as long as a step."""
CHANCES = np.array(list(CALLS.values())) / sum(CALLS.values())
SPANS = (1e-45, 1e-39, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e12, 1e38)
CHANCE_OF_ODD_VALUE = 0.15


class Fuzz:
    """Random calls, drawn from a seed and made in two envs."""

    def __init__(self, seed: int, device: str = "cpu", log: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.device = device
        self.log = log
        self.outcomes: Counter[str] = Counter()
        self.envs: list[GpuVectorEnv] = []

    def run(self, calls: int) -> Counter[str]:
        """Make ``calls`` calls and return the count of each outcome."""
        done = 0
        while done < calls:
            if not self.envs or self.rng.random() < 0.02:
                self._make_envs()
            else:
                self._call()
            done += 1
        self._close()
        return self.outcomes

    # ---- one call in both envs --------------------------------------------------------------------------------

    def _both(self, name: str, calls: list[Any]) -> Any:
        """Make the call in both envs and return the first result; both must have the same outcome."""
        outcomes = []
        for call in calls:
            try:
                outcomes.append(("", call()))
            except (GpuVecenvError, gymnasium.error.Error) as error:
                outcomes.append((type(error).__name__, error))
        if self.log:
            print(name, outcomes[0][0], flush=True)
        self.outcomes[f"{name} {outcomes[0][0] or 'ok'}"] += 1
        assert outcomes[0][0] == outcomes[1][0], (name, outcomes)
        if not outcomes[0][0]:
            same(outcomes[0][1], outcomes[1][1], name)
        return None if outcomes[0][0] else outcomes[0][1]

    def _close(self) -> None:
        if self.envs:  # on CUDA, close() raises for earlier actions that were out of range
            self._both("close", [lambda env=env: env.close() for env in self.envs])
        self.envs = []

    def _make_envs(self) -> None:
        self._close()
        env_id = str(self.rng.choice(list(IDS)))
        options = self._options(env_id)
        kinds = [{"array": "numpy", "copy": True}, {"array": "torch", "copy": False}]
        made = []

        def make(kind: dict[str, Any]) -> None:
            made.append(gymnasium.make_vec(env_id, device=self.device, **{**kind, **options}).unwrapped)

        self._both("make", [lambda kind=kind: make(kind) for kind in kinds])
        if made and made[0].num_worlds * made[0].num_agents > 20_000:  # valid but slow
            made = []
        self.envs = made
        if made:
            seed = int(self.rng.integers(2**63))
            self._both("reset", [lambda env=env: env.reset(seed=seed) for env in made])
            self.outcomes[env_id] += 1

    def _call(self) -> None:
        name = str(self.rng.choice(list(CALLS), p=CHANCES))
        before = self.envs[0].worlds.state.on_host() if self.rng.random() < 0.2 else None
        made = getattr(self, f"_{name}")()
        ended = self.outcomes[f"{name} ok"]
        self._both(name, [lambda env=env: made(env) for env in self.envs])
        if before is not None and self.outcomes[f"{name} ok"] == ended:
            same(before, self.envs[0].worlds.state.on_host(), f"state after a refused {name}")
        if self.rng.random() < 0.05:
            same(self.envs[0].worlds.state.on_host(), self.envs[1].worlds.state.on_host(), f"states after {name}")

    # ---- arguments --------------------------------------------------------------------------------------------

    def _mostly(self, valid: Any) -> Any:
        return self._odd_value() if self.rng.random() < CHANCE_OF_ODD_VALUE else valid

    def _odd_value(self) -> Any:
        return ODD_VALUES[self.rng.integers(len(ODD_VALUES))]

    def _options(self, env_id: str) -> dict[str, Any]:
        spec = importlib.import_module(IDS[env_id]["vector_entry_point"].partition(":")[0] + ".spec").SPEC
        names = {param.name for param in spec.params}
        options: dict[str, Any] = {"num_envs": int(self.rng.choice([1, 2, 3, 31, 33, 70]))}
        for name, valid in (("view", ["worlds", "worlds", "agents"]), ("autoreset_mode", ["same_step", "next_step", "disabled"])):
            options[name] = self._mostly(str(self.rng.choice(valid)))
        if isinstance(options["view"], str) and options["view"] == "agents" and names & {"num_taggers", "observe", "players"}:
            options["num_worlds"] = options.pop("num_envs") % 5 + 1
        if self.rng.random() < 0.1:
            options["first_world"] = self._mostly(5)
        if "observe" in names:
            options["observe"] = "whole"  # one array for all agents, as the calls below expect
        for param in spec.params:
            if param.name == "num_runners":
                options[param.name] = int(self.rng.choice([1, 2, 7, 30, 450, 1100], p=[0.2, 0.2, 0.2, 0.15, 0.1, 0.15]))
            elif param.name == "num_taggers":
                options[param.name] = int(self.rng.choice([1, 2, 5]))
            if self.rng.random() < 0.15:
                options[param.name] = self._param(param)
        runners = options.get("num_runners")
        if isinstance(runners, int) and runners > 30 and "num_envs" in options:
            options["num_envs"] = 1
        return options

    def _param(self, param: Any) -> Any:
        if self.rng.random() < CHANCE_OF_ODD_VALUE:
            return self._odd_value()
        if param.dtype == "bool":
            return bool(self.rng.random() < 0.5)
        if param.dtype == "int32":
            return int(self.rng.choice([0, 1, 2, 5, 20, 100]))
        if param.dtype is None:
            return self._mostly(None)
        span = float(self.rng.choice([param.low, param.high, *SPANS, *(-s for s in SPANS)]))
        return span if self.rng.random() < 0.5 else span * float(self.rng.random())

    def _bits(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """Random bits. Read as floats, they include NaN, infinities and denormal numbers."""
        raw = self.rng.integers(0, 256, (int(np.prod(shape)) * np.dtype(dtype).itemsize,), np.uint8)
        return raw.view(dtype).reshape(shape).copy()

    def _field(self, field: Any, shape: tuple[int, ...], params: Any) -> Any:
        chance = self.rng.random()
        if chance < 0.05:
            return self._odd_value()
        if chance < 0.1 or field.dtype in ("float32", "uint64") and chance < 0.5:
            return self._bits(field.dtype, shape)
        low, high = field.bounds(params)
        low, high = max(low, -1000 if field.dtype[0] in "fi" else 0), min(high, 1000)
        draw = self.rng.uniform if field.dtype == "float32" else self.rng.integers
        values = draw(int(low), int(high) + 1, shape).astype(field.dtype)
        return values if chance < 0.9 else values.tolist()

    # ---- calls ------------------------------------------------------------------------------------------------

    def _action(self, lead: tuple[int, ...] = ()) -> Any:
        single, spaces = self.envs[0].single_action_space, self.envs[0].action_space
        if isinstance(single, gymnasium.spaces.Dict):
            return {role: self._action_of(one, lead + (spaces[role].shape or ())) for role, one in single.items()}
        return self._action_of(single, lead + (spaces.shape or ()))

    def _action_of(self, space: Any, shape: tuple[int, ...]) -> Any:
        chance = self.rng.random()
        if chance < 0.05:
            return self._odd_value()
        if isinstance(space, gymnasium.spaces.Box):
            values: np.ndarray = self._bits("float32", shape) if chance < 0.2 else self.rng.normal(0, 2, shape).astype(np.float32)
        elif chance < 0.15:
            values = self.rng.integers(-3, 400, shape)
        else:
            fewest = int(np.min(space.nvec if hasattr(space, "nvec") else space.n))
            values = self.rng.integers(0, fewest, shape).astype(self.rng.choice(["uint8", "int8", "int16", "int32", "int64"]))
        if chance > 0.95:
            values = values[..., :1] if values.ndim else values
        if self.device != "cpu" or chance > 0.7:
            return torch.as_tensor(values).to(self.device)
        return values.tolist() if chance > 0.68 else values

    def _step(self) -> Any:
        action = self._action()
        return lambda env: env.step(action)

    def _rollout(self) -> Any:
        steps = self._mostly(int(self.rng.integers(1, 6)))
        if self.rng.random() < 0.5:
            keep = self.rng.random() < 0.5
            return lambda env: env.rollout(num_steps=steps, keep_actions=keep)
        action = self._action((3,))
        return lambda env: env.rollout(action)

    def _reset(self) -> Any:
        chance, options = self.rng.random(), {}
        seed = self._mostly(None if chance < 0.4 else int(self.rng.integers(2**63)))
        if chance > 0.8:
            seed = self._mostly([int(s) for s in self.rng.integers(0, 9, self.envs[0].num_worlds)])
        if self.rng.random() < 0.3:
            options["reset_mask"] = self._mostly(self.rng.random(self.envs[0].num_envs) < 0.5)
        for option in self.envs[0].env_spec.reset_options:
            if self.rng.random() < 0.2:
                options[option.name] = self._mostly(float(self.rng.choice(SPANS)) * float(self.rng.choice([-1, 1])))
        given = self._odd_value() if self.rng.random() < 0.05 else options
        return lambda env: env.reset(seed=seed, options=given)

    def _set_state(self) -> Any:
        env = self.envs[0]
        fields = [f for f in env.layout.state if self.rng.random() < 0.3]
        state = {f.name: self._field(f, env.layout.state_shape(f, env.num_worlds), env.params) for f in fields}
        if self.rng.random() < 0.05:
            state["nothing"] = 1
        given = self._odd_value() if self.rng.random() < 0.03 else state

        def set_state(env: GpuVectorEnv) -> None:
            env.set_state(given)
            now, fields = env.worlds.state.on_host(), {field.name: field for field in env.layout.state}
            for name, value in given.items():  # accepted values are stored bit by bit
                value = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
                assert np.array(value, now[name].dtype).tobytes() == now[name].tobytes(), f"{name} was changed"
                low, high = fields[name].bounds(env.params)
                assert low == -np.inf and high == np.inf or ((now[name] >= low) & (now[name] <= high)).all(), f"{name} is outside"

        return set_state

    def _set_reset_pool(self) -> Any:
        env, size = self.envs[0], int(self.rng.integers(1, 5))
        if self.rng.random() < 0.4:
            return lambda env: env.set_reset_pool(None)
        pool = {f.name: self._field(f, env.layout.state_shape(f, size), env.params)
                for f in env.env_spec.state if self.rng.random() < 0.6}  # fmt: skip
        given = self._odd_value() if self.rng.random() < 0.05 else pool
        return lambda env: env.set_reset_pool(given)

    def _copy_worlds(self) -> Any:
        worlds = self.envs[0].num_worlds
        source, target = (self._mostly(self.rng.permutation(worlds)[: 1 + worlds // 3]) for _ in range(2))
        return lambda env: env.copy_worlds(source, target)

    def _bind(self) -> Any:
        chance, steps = self.rng.random(), int(self.rng.integers(1, 4))

        def bind(env: GpuVectorEnv) -> None:
            slabs = env.worlds.outputs.new_slabs(steps)
            if chance < 0.2:
                slabs["reward"] = slabs["obs"]
            if chance > 0.8:
                slabs = {name: slab for name, slab in slabs.items() if name in ("obs", "reward")}
            env.bind(**slabs)

        return bind if self.device == "cpu" else lambda env: None

    def _rewind(self) -> Any:
        return lambda env: env.rewind() if self.device == "cpu" else None

    def _unbind(self) -> Any:
        return lambda env: env.unbind()

    def _observe(self) -> Any:
        return lambda env: env.observe()

    def _check(self) -> Any:
        return lambda env: env.check()

    def _render(self) -> Any:
        return lambda env: env.render()

    def _get_state(self) -> Any:
        names = [self._mostly(f.name) for f in self.envs[0].layout.state if self.rng.random() < 0.3]
        return lambda env: env.get_state(*names)

    def _draw_start_states(self) -> Any:
        size, seed = self._mostly(int(self.rng.integers(1, 5))), self._mostly(3)
        seed = 3 if seed is None or isinstance(seed, list | tuple | range) else seed  # two envs draw different seeds
        size = 1 if isinstance(size, int) and size > 100 else size
        return lambda env: env.draw_start_states(size, seed)


ENDED = {"final_obs": "_final_obs", "final_action_mask": "_final_obs", "final_action_effects": "_final_obs",
         "episode": "_episode"}  # fmt: skip
"""Entries of ``info`` with values of worlds whose episode ended, and the entry that says which."""


def same(left: Any, right: Any, where: str) -> None:
    """Raise AssertionError unless both hold the same bits. Rows of ``ENDED`` without an ended episode are skipped."""
    if isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for name in left:
            a, b = left[name], right[name]
            if ENDED.get(name) in left:
                ended = host(left[ENDED[name]])
                a, b = (map_tree(lambda array, ended=ended: host(array)[ended], tree) for tree in (a, b))
            same(a, b, f"{where} {name}")
    elif isinstance(left, tuple):
        for place, (a, b) in enumerate(zip(left, right, strict=True)):
            same(a, b, f"{where} {place}")
    elif left is not None:
        a, b = host(left), host(right)
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), f"{where} differs"


def host(array: Any) -> np.ndarray:
    """Return any array as a contiguous NumPy array."""
    return np.ascontiguousarray(array.cpu().numpy() if isinstance(array, torch.Tensor) else array)


def fuzz(seed: int, calls: int, device: str = "cpu", log: bool = False) -> Counter[str]:
    """Make random calls. An untyped error gets a note with the command that reproduces it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Fuzz(seed, device, log).run(calls)
        except Exception as error:
            error.add_note(f"python -m tests.api.fuzz {seed} {calls} {device}")
            raise


if __name__ == "__main__":
    start = time.perf_counter()
    for outcome, count in sorted(fuzz(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4], log="--log" in sys.argv).items()):
        print(f"{count:8,} {outcome}")
    print(f"{time.perf_counter() - start:.0f} s")
