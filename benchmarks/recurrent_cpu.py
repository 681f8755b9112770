"""Speed of PPO with a memory on a CPU core beside sb3-contrib's RecurrentPPO: ``python benchmarks/recurrent_cpu.py``.

CartPole and Pendulum with the settings of ``against_sb3.py``: 8 worlds of this package, rollouts of 128 steps, 10 epochs of 4
or 8 minibatches. A memory of 64 units reads the observation, and actor and critic are linear functions of its units. All take
turns in one process with one thread. Rates are medians of the rounds, by the clock and by the time of the process on a core.

Three differences remain:

- Here actor and critic share a memory, which both train. In sb3-contrib each has its own by default, or they share one that the
  actor alone trains. Both are measured.
- sb3-contrib has no GRU.
- Minibatches have as many transitions. Those of sb3-contrib are adjacent steps, cut where episodes begin and filled up with zeros
  to the longest piece. It computes them step by step, unless no episode begins in the minibatch: then one call of ``nn.LSTM``
  computes all steps. So its speed depends on the env and on how well the policy plays. In Pendulum with endless episodes no
  minibatch has a beginning, which is the best case for sb3-contrib.

Writes ``benchmarks/results/recurrent_cpu.json``, in which envs that are not run again keep their rows; the table is that of
``python tools/docs/learner_speed_table.py``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

os.environ["GPU_VECENV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read at the imports below

import torch  # noqa: E402
import tyro  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from against_sb3 import CASES, SHARED, WORLDS, model_of, trainer_of  # noqa: E402
from off_policy_cpu import rates_in_turn  # noqa: E402

from gpu_vecenv.bench.machine import installed, machine  # noqa: E402
from gpu_vecenv.train import NetworkConfig  # noqa: E402

ROLLOUT, UNITS, SEGMENT = WORLDS * SHARED["num_steps"], 64, 16
ENVS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("cartpole", {}),
    "pendulum": ("pendulum", {}),
    "pendulum, endless episodes": ("pendulum", {"max_episode_steps": 1_000_000}),
}
"""Case of ``against_sb3.py`` and options of its env, by name."""

THEIRS = {
    "sb3-contrib, two LSTMs": {"shared_lstm": False, "enable_critic_lstm": True},
    "sb3-contrib, shared LSTM": {"shared_lstm": True, "enable_critic_lstm": False},
}


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    envs: tuple[str, ...] = tuple(ENVS)
    """Names of ``ENVS``."""
    rounds: int = 7
    """Rounds, after one that does not count."""
    iterations: int = 2
    """Iterations of a round of each library, each of 1,024 steps."""
    out: Path = ROOT / "benchmarks" / "results" / "recurrent_cpu.json"
    """File of the results."""


def ours(name: str, memory: Literal["gru", "lstm"], length: int | None, options: Options) -> Callable[[], object]:
    """Return a round of this package, with sequences of a length; None: whole rollouts."""
    case, env_kwargs = ENVS[name]
    network = NetworkConfig((), memory=memory, memory_size=UNITS)
    steps = ROLLOUT * options.iterations * (options.rounds + 1)
    trainer = trainer_of(CASES[case], steps, 0, network=network, sequence_length=length, env_kwargs=env_kwargs)
    return lambda: trainer.train(options.iterations)


def theirs(name: str, lstm: Mapping[str, Any], options: Options) -> Callable[[], object]:
    """Return a round of sb3-contrib, with options of its LSTM."""
    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    case, env_kwargs = ENVS[name]
    env = Sb3VecEnv(CASES[case].env_id, num_envs=WORLDS, device="cpu", **env_kwargs)
    model = model_of(CASES[case], env, seed=0, lstm={"net_arch": [], "lstm_hidden_size": UNITS, **lstm})
    return lambda: model.learn(ROLLOUT * options.iterations, reset_num_timesteps=False)


def main(options: Options) -> None:
    """Measure, print and write all rows."""
    torch.set_num_threads(1)
    rows: dict[str, Any] = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    facts = machine("cpu")  # before the file of the results changes
    memories: tuple[Literal["lstm", "gru"], ...] = ("lstm", "gru")
    for name in options.envs:
        libraries = {
            f"{memory.upper()}, {text}": ours(name, memory, length, options)
            for memory in memories
            for text, length in (("whole sequences", None), (f"segments of {SEGMENT}", SEGMENT))
        }
        mine = list(libraries)
        libraries |= {library: theirs(name, lstm, options) for library, lstm in THEIRS.items()}
        measured = rates_in_turn(libraries, options.rounds, ROLLOUT * options.iterations)
        for library, row in measured.items():
            if library in mine:
                row["times_faster"] = {
                    other: {key: row[key] / measured[other][key] for key in ("steps_per_second", "steps_per_core_second")}
                    for other in THEIRS
                }
            rows.setdefault(name, {})[library] = {"machine": facts, **row}
            print(name, library, f"{row['steps_per_core_second']:.0f} a core second", row.get("times_faster", ""), flush=True)
        results = {"benchmark": "recurrent_cpu", "sb3_contrib": installed("sb3_contrib"), "rows": rows}
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
