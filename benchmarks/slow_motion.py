"""CartPole learning in slow motion: ``python benchmarks/slow_motion.py --device cuda:0``.

Trains CartPole and keeps the policy after each iteration, with the time of the device at which it was ready. Then each of these
policies plays one episode in each of many worlds, which gives the learning curve, and a few worlds are played on in slow motion:
in each step they act by the newest policy that training had by then.

Writes times, returns and the states of the worlds of the picture to ``benchmarks/results/slow_motion.json``, and the picture to
``docs/figures/slow_motion.gif``. ``--draw-only`` draws the picture from the file, on any machine.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import shared  # noqa: E402
import slow_motion_picture  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402
from gpu_vecenv.envs import cartpole  # noqa: E402
from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer  # noqa: E402

ON_GPU = torch.cuda.is_available()

WARM_UP = 3
"""Iterations before the clock starts: the trainer records its graph in the third one."""

PLAYED_A_SECOND = 50
"""Steps of CartPole in a second of the picture: ``tau`` is 0.02 s, so poles fall as fast as real ones."""

LARGEST_RETURN = 500
"""Steps of an episode that the time limit ends, as in the registered env; the reward of a step is 1."""

STATE_DIGITS = 4
"""Digits behind the point in the file."""


@dataclass(frozen=True)
class Options:
    """Options of the script. On a CPU a smaller run is shown in real time."""

    device: str = "cuda:0" if ON_GPU else "cpu"
    """``cpu`` or ``cuda:0``."""
    num_envs: int = 2048 if ON_GPU else 64
    """Worlds of the training."""
    ppo: PPOConfig = field(
        default_factory=lambda: PPOConfig(
            num_steps=128 if ON_GPU else 64, num_epochs=4, num_minibatches=4, learning_rate=4e-3, entropy_coef=0.0
        )
    )
    """Hyperparameters."""
    iterations: int = 20 if ON_GPU else 30
    """Iterations after the clock starts."""
    slower: float = 100.0 if ON_GPU else 1.0
    """Seconds of the picture for a second of training."""
    after_s: float = 2.0
    """Seconds of the picture after the last iteration."""
    worlds: int = 4
    """Worlds in the picture."""
    episodes: int = 256
    """Episodes behind a point of the learning curve."""
    seed: int = 1
    """Seed of the run and of the worlds that are played."""
    out: Path = ROOT / "benchmarks" / "results" / "slow_motion.json"
    """File of the results."""
    figure: Path = ROOT / "docs" / "figures" / "slow_motion.gif"
    """File of the picture, .gif or .mp4."""
    draw_only: bool = False
    """Run nothing."""


class Snapshots:
    """Copies of a policy's weights and statistics on the device. A copy is one launch."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.taken = copy.deepcopy(policy), []
        self._source, self._target = self._tensors(policy), self._tensors(self.policy)

    @staticmethod
    def _tensors(policy: Any) -> list[Tensor]:
        return [x.detach() for x in (*policy.parameters(), *policy.buffers()) if x.dtype == torch.float32]

    def take(self) -> None:
        """Copy the policy as it is; the host does not wait for the device."""
        self.taken.append(torch.cat([tensor.reshape(-1) for tensor in self._source]))

    def show(self, number: int) -> Any:
        """Return the policy as it was at a copy."""
        parts = self.taken[number].split([tensor.numel() for tensor in self._target])
        for tensor, part in zip(self._target, parts, strict=True):
            tensor.copy_(part.view_as(tensor))
        return self.policy


def clock(device: str) -> tuple[Callable[[], None], Callable[[], list[float]]]:
    """Return a function that notes the time of the device, in order with its work, and one that returns the seconds so far.

    The seconds are those from the first note to each note.
    """
    if device == "cpu":
        noted: list[float] = []
        return lambda: noted.append(time.perf_counter()), lambda: [x - noted[0] for x in noted]
    events: list[torch.cuda.Event] = []

    def note() -> None:
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()

    def seconds() -> list[float]:
        events[-1].synchronize()
        return [events[0].elapsed_time(event) / 1e3 for event in events]

    return note, seconds


def start_anew(trainer: Trainer, weights: list[Tensor]) -> None:
    """Give a trainer the weights it began with, an optimiser without moments, and new episodes, all at their addresses.

    Statistics of observations and rewards stay, because later iterations than the first one begin with statistics.
    """
    (policy,), (algorithm,) = trainer.policies.values(), trainer.parts.algorithms.values()
    with torch.no_grad():
        for parameter, weight in zip(policy.parameters(), weights, strict=True):
            parameter.copy_(weight)
    for moments in algorithm.state_dict()["adam"].values():
        for tensor in moments.values():
            tensor.zero_()
    trainer.parts.collector.reset(trainer.config.seed)


def train(options: Options) -> tuple[Snapshots, list[float], dict[str, Any]]:
    """Train; return the policies from before the first iteration on, the seconds at which they were ready, and the settings."""
    config = TrainConfig(
        "WarpCartPole-v1",
        num_envs=options.num_envs,
        total_steps=options.num_envs * options.ppo.num_steps * (WARM_UP + options.iterations),
        seed=options.seed,
        device=options.device,
        kernels="torch" if options.device == "cpu" else "fused",
        ppo=options.ppo,
    )
    trainer = Trainer(config, quiet=True)
    (policy,) = trainer.policies.values()
    weights = [parameter.detach().clone() for parameter in policy.parameters()]
    snapshots = Snapshots(policy)
    note, seconds = clock(options.device)
    for _ in range(WARM_UP):
        trainer.launch()
        trainer.finish()
    start_anew(trainer, weights)
    for _ in range(options.iterations):
        if not snapshots.taken:
            snapshots.take()
            note()
        if trainer.pipeline.count == trainer.pipeline.most:
            trainer.finish()
        trainer.launch()
        snapshots.take()
        note()
    while trainer.pipeline.count:
        trainer.finish()
    ppo = trainer.config.to_options()["ppo"]
    trainer.close()
    return snapshots, seconds(), {"ppo": ppo, "hidden_sizes": trainer.config.network.hidden_sizes}


def acted(policy: Any, obs: Tensor, generator: torch.Generator) -> Tensor:
    """Draw actions of a policy, int64 (N,)."""
    with torch.no_grad():
        return torch.multinomial(policy.outputs(obs).softmax(-1), 1, generator=generator).squeeze(1)


def mean_return(policy: Any, options: Options) -> float:
    """Return the mean return of the first episode of each of ``episodes`` worlds."""
    env = cartpole.make_vec(max_episode_steps=LARGEST_RETURN, num_envs=options.episodes, device=options.device, copy=False)
    generator = torch.Generator(options.device).manual_seed(options.seed)
    obs, _ = env.reset(seed=options.seed)
    steps = torch.zeros(options.episodes, device=obs.device)
    running = torch.ones_like(steps, dtype=torch.bool)
    while running.any():
        obs, _, terminated, truncated, _ = env.step(acted(policy, obs, generator))
        steps += running
        running &= ~(terminated | truncated)
    env.close()
    return float(steps.mean())


def newest(times: list[float], now: float) -> int:
    """Return the number of the newest policy that is ready at a time."""
    return int(np.searchsorted(times, now, side="right")) - 1


def play(snapshots: Snapshots, times: list[float], options: Options) -> Iterator[list[list[float]]]:
    """Yield state and step of each world, before each step of the picture: position, velocity, angle, angular velocity, step."""
    env = cartpole.make_vec(max_episode_steps=LARGEST_RETURN, num_envs=options.worlds, device=options.device, copy=False)
    generator = torch.Generator(options.device).manual_seed(options.seed)
    obs, _ = env.reset(seed=options.seed)
    for step in range(round((times[-1] * options.slower + options.after_s) * PLAYED_A_SECOND)):
        state = env.get_state()
        poses = zip(state["state"].tolist(), state["t"].tolist(), strict=True)
        yield [[*(round(x, STATE_DIGITS) for x in pose), t] for pose, t in poses]
        policy = snapshots.show(newest(times, step / PLAYED_A_SECOND / options.slower))
        obs, *_ = env.step(acted(policy, obs, generator))
    env.close()


def measure(options: Options) -> None:
    """Train and play; write the results."""
    snapshots, times, settings = train(options)
    returns = [mean_return(snapshots.show(number), options) for number in range(len(times))]
    results = {
        "benchmark": "slow_motion",
        "machine": machine(options.device),
        "num_envs": options.num_envs,
        **settings,
        "largest_return": LARGEST_RETURN,
        "slower": options.slower,
        "played_a_second": PLAYED_A_SECOND,
        "times_s": [round(x, 6) for x in times],
        "returns": [round(x, 1) for x in returns],
        "states": list(play(snapshots, times, options)),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in results.items()]
    options.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def table(results: dict[str, Any]) -> None:
    """Print the learning curve."""
    print("iteration  milliseconds  mean return")
    for number, (seconds, value) in enumerate(zip(results["times_s"], results["returns"], strict=True)):
        print(f"{number:9}  {1e3 * seconds:12.2f}  {value:11.1f}")


if __name__ == "__main__":
    shared.run(tyro.cli(Options, description=__doc__), measure, table, slow_motion_picture.draw)
