"""PPO with this package's wrappers against Gymnasium's, on Pendulum: ``python benchmarks/against_gymnasium_wrappers.py``.

All sides run ``examples/cleanrl_ppo_continuous_action.py`` with the same settings and seeds, and differ in the env:

- ``gpu_vecenv``: ``WarpPendulum-v1`` with the wrappers of this package, whose arrays stay on the device.
- ``Gymnasium, vector wrappers``: ``Pendulum-v1`` in a ``SyncVectorEnv`` with the wrappers of ``gymnasium.wrappers.vector``, which
  normalise by statistics of all envs together, as ours do. They need the next-step mode. All episodes of Pendulum end in the same
  step, so ``OnDevice`` makes the step that resets all envs at once, and the example sees the same-step mode.
- ``Gymnasium, a wrapper an env``: ``Pendulum-v1`` in a ``SyncVectorEnv`` in same-step mode. Each env has wrappers and so
  statistics of its own, as in CleanRL's ``ppo_continuous_action.py``.

Arrays of Gymnasium's envs are NumPy's; they are copied to the device in each step.

A run's curve is the mean return of the episodes that end in each iteration, as the policy acts in training, without iterations in
which none ends. Its return is the mean of the last tenth of the curve.

Stated beforehand: our wrappers are as good as Gymnasium's vector wrappers if a one-sided Welch test at the level 5 % shows that
the mean return with ours is not lower by 10 % of the range from random actions to the best return. The range is -1,223 to -150,
so the margin is 107.3, and the lower end of the 90 % interval of the difference, ours minus Gymnasium's, must be above -107.3.

Prints a line for each run and writes ``benchmarks/results/against_gymnasium_wrappers.json``.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium import wrappers
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers import vector
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import shared  # noqa: E402

from examples import cleanrl_ppo_continuous_action as example  # noqa: E402
from gpu_vecenv.backend.select import choose_device  # noqa: E402
from gpu_vecenv.bench.machine import machine  # noqa: E402

RANDOM, BEST, MARGIN_SHARE = -1223.0, -150.0, 0.1


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    seeds: int = 3
    """runs of a side, with the seeds 0, 1, ..."""
    num_envs: int = 64
    """worlds of a run"""
    total_steps: int = 400_000
    """steps of all worlds of a run"""
    device: str = "cpu"
    """device of the networks, and of our worlds"""
    out: Path = ROOT / "benchmarks" / "results" / "against_gymnasium_wrappers.json"
    """file of the results"""


class OnDevice(VectorWrapper):
    """Gymnasium's vector env with what the example reads: tensors on a device, in same-step mode, with ``_episode``.

    Args:
        env: a vector env whose episodes all end in the same step, in same-step or next-step mode.
        device: device of the tensors.
    """

    def __init__(self, env: VectorEnv, device: str) -> None:
        super().__init__(env)
        self.device = device

    @property
    def unwrapped(self) -> Any:
        """Itself, because the example reads ``unwrapped.device``."""
        return self

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Reset the env."""
        return self._tensor(self.env.reset(seed=seed, options=options)[0]), {}

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        """Step the env."""
        host = actions.cpu().numpy()
        obs, reward, terminated, truncated, info = self.env.step(host)
        ended = terminated | truncated
        final_obs, episode = obs, {name: np.zeros(self.num_envs) for name in ("r", "l")}
        if ended.any():
            assert ended.all()
            if self.env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP:
                obs, episode = self.env.step(host)[0], info["episode"]
            else:
                final_obs, episode = np.stack(list(info["final_obs"])), info["final_info"]["episode"]
        results = map(self._tensor, (obs, reward, terminated, truncated))
        tensors = {name: self._tensor(values) for name, values in (("final_obs", final_obs), ("_episode", ended))}
        return *results, {**tensors, "episode": {name: self._tensor(episode[name]) for name in ("r", "l")}}

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        """Return a copy of values on the device; floats become float32."""
        return torch.tensor(values.astype(np.float32) if values.dtype == np.float64 else values, device=self.device)


def clip(values: np.ndarray) -> np.ndarray:
    """Clip observations or rewards as CleanRL does."""
    return np.clip(values, -10, 10)


def make_together(args: example.Args, num_envs: int) -> tuple[OnDevice, None]:
    """Make Gymnasium's env with Gymnasium's vector wrappers."""
    make_one = partial(gymnasium.make, "Pendulum-v1")
    env: VectorEnv = SyncVectorEnv([make_one] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)
    env = vector.ClipAction(vector.RecordEpisodeStatistics(env))
    env = vector.TransformObservation(vector.NormalizeObservation(env), clip)
    env = vector.TransformReward(vector.NormalizeReward(env, gamma=args.gamma), clip)
    return OnDevice(env, choose_device(args.device)), None


def make_apart(args: example.Args, num_envs: int) -> tuple[OnDevice, None]:
    """Make Gymnasium's env with wrappers around each of its envs."""

    def make_one() -> gymnasium.Env:
        env: gymnasium.Env = wrappers.RecordEpisodeStatistics(gymnasium.make("Pendulum-v1"))
        env = wrappers.NormalizeObservation(wrappers.ClipAction(env))
        env = wrappers.TransformObservation(env, clip, env.observation_space)
        return wrappers.TransformReward(wrappers.NormalizeReward(env, gamma=args.gamma), clip)

    env = SyncVectorEnv([make_one] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    return OnDevice(env, choose_device(args.device)), None


OURS, TOGETHER, APART = "gpu_vecenv", "Gymnasium, vector wrappers", "Gymnasium, a wrapper an env"
MAKE = {OURS: example.make_env, TOGETHER: make_together, APART: make_apart}
"""How each side makes its env."""


def train(side: str, seed: int, options: Options) -> dict[str, Any]:
    """Train one run.

    Returns:
        ``curve``, its last tenth's mean ``return``, and ``rows_per_second``.
    """
    example.make_env = MAKE[side]
    example.evaluate = lambda *_: 0.0  # Gymnasium's envs have statistics of their own, which other worlds could not share
    with tempfile.TemporaryDirectory() as folder:
        args = example.Args(
            num_envs=options.num_envs, total_steps=options.total_steps, device=options.device, seed=seed, run_dir=folder
        )
        rate = example.train(args)["rows_per_second"]
        events = EventAccumulator(folder)
        events.Reload()
        curve = [round(event.value, 1) for event in events.Scalars("charts/episodic_return")]
    last = curve[-max(1, len(curve) // 10) :]
    return {"side": side, "seed": seed, "return": float(np.mean(last)), "rows_per_second": round(rate), "curve": curve}


def main(options: Options) -> None:
    """Run all seeds of all sides in turn."""
    torch.set_num_threads(1)
    settings = {name: getattr(options, name) for name in ("num_envs", "total_steps", "device")}
    margin = MARGIN_SHARE * (BEST - RANDOM)
    row: dict[str, Any] = {"machine": machine(choose_device(options.device)), "settings": settings, "margin": margin, "runs": []}
    for seed in range(options.seeds):
        for side in MAKE:
            run = train(side, seed, options)
            row["runs"].append(run)
            print(f"{side} seed {seed}: return {run['return']:.1f}, {run['rows_per_second']:,} rows a second", flush=True)
    returns = {side: [run["return"] for run in row["runs"] if run["side"] == side] for side in MAKE}
    comparison = shared.equivalence(returns[OURS], returns[TOGETHER], margin)
    row["comparison"] = {"mean": {side: float(np.mean(each)) for side, each in returns.items()}, **comparison}
    if comparison:
        row["comparison"]["as_good"] = comparison["welch_90"][0] > -margin
    shared.write(options.out, {"benchmark": "against_gymnasium_wrappers", "cases": {"pendulum": row}}, "cases")
    print(row["comparison"])


if __name__ == "__main__":
    main(tyro.cli(Options))
