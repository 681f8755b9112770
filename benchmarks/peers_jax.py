"""Speed of a script of JAX on gymnax's CartPole: ``python benchmarks/peers_jax.py purejaxrl --source FOLDER``.

``purejaxrl`` is PureJaxRL's recurrent PPO, ``ppo_rnn.py``, whose GRU has 128 units between layers of 128; with ``--narrow`` its
GRU and its layers have 64. Its minibatches are whole sequences. ``purejaxql`` is ``pqn_gymnax.py`` with the options of its
``pqn_cartpole.yaml``, without tests. Options given here replace its own. A whole training is one jitted call; compiling is not
timed. Prints a row for ``peer_process.py``.
"""

from __future__ import annotations

import importlib
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from unittest.mock import MagicMock

import tyro

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from peer_process import say  # noqa: E402

from gpu_vecenv.bench.machine import installed  # noqa: E402
from gpu_vecenv.bench.peers import purejaxrl  # noqa: E402

PUREJAXRL_CHANGES = {
    r"nn\.GRUCell\(\)": "nn.GRUCell(features=ins.shape[1])",
    r"nn\.GRUCell\.initialize_carry\([^()]*\([^()]*\), \([^()]*\), hidden_size\s*\)": "jnp.zeros((batch_size, hidden_size))",
}
"""Changes of the script for later releases of flax, as patterns and their replacements."""

UPDATES = 10
"""Iterations of a call."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    peer: tyro.conf.Positional[Literal["purejaxrl", "purejaxql"]]
    """The library."""
    source: Path
    """The folder of its scripts."""
    num_envs: int = 2_048
    """Worlds."""
    num_steps: int = 128
    """Steps of a rollout."""
    epochs: int = 4
    """Epochs."""
    minibatches: int = 4
    """Minibatches of an epoch."""
    narrow: bool = False
    """PureJaxRL: layers and GRU of 64 units."""
    updates: int = UPDATES
    """Iterations of a call."""
    rounds: int = 5
    """Calls, of which the median counts."""


def stand_in(*names: str) -> None:
    """Put modules that answer to any name in the place of those that a script imports and never uses."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = MagicMock()


def make_purejaxrl(options: Options, shape: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the training of PureJaxRL."""
    purejaxrl.stand_in_for_wrappers()
    path = options.source / "ppo_rnn.py"
    text = path.read_text()
    for old, new in PUREJAXRL_CHANGES.items():
        text = re.sub(old, new, text)
    if options.narrow:
        text = text.replace("128", "64")  # the widths; its rollouts of 128 steps are replaced below
    sys.path.insert(0, str(options.source))
    module = ModuleType("ppo_rnn")
    module.__dict__["__file__"] = str(path)
    sys.modules["ppo_rnn"] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module.make_train({**purejaxrl.shipped(module), **shape, "DEBUG": False})  # type: ignore[no-any-return]


def make_purejaxql(options: Options, shape: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the training of purejaxql, whose tests and logs are off."""
    import yaml

    stand_in("hydra", "omegaconf", "wandb", "safetensors", "safetensors.flax")
    folder = options.source
    config = yaml.safe_load((folder / "config" / "alg" / "pqn_cartpole.yaml").read_text())
    config |= {**shape, "TOTAL_TIMESTEPS_DECAY": shape["TOTAL_TIMESTEPS"]}
    config |= {"TEST_DURING_TRAINING": False, "WANDB_MODE": "disabled"}
    sys.path.insert(0, str(folder))
    return importlib.import_module("pqn_gymnax").make_train(config)  # type: ignore[no-any-return]


def main(options: Options) -> None:
    """Measure and print the row."""
    stand_in("matplotlib", "matplotlib.animation", "matplotlib.pyplot", "seaborn", "pygame")
    import jax

    steps = options.num_envs * options.num_steps * options.updates
    shape = {
        "NUM_ENVS": options.num_envs, "NUM_STEPS": options.num_steps, "NUM_MINIBATCHES": options.minibatches,
        "TOTAL_TIMESTEPS": steps, ("UPDATE_EPOCHS" if options.peer == "purejaxrl" else "NUM_EPOCHS"): options.epochs,
    }  # fmt: skip
    train = {"purejaxrl": make_purejaxrl, "purejaxql": make_purejaxql}[options.peer](options, shape)
    start = time.perf_counter()
    compiled = jax.jit(train).lower(jax.random.PRNGKey(0)).compile()
    compile_s = time.perf_counter() - start
    jax.block_until_ready(compiled(jax.random.PRNGKey(0)))
    seconds = []
    for seed in range(options.rounds):
        key = jax.block_until_ready(jax.random.PRNGKey(seed + 1))
        start = time.perf_counter()
        jax.block_until_ready(compiled(key))
        seconds.append(time.perf_counter() - start)
    iteration = statistics.median(seconds) / options.updates
    say({
        "ms": 1e3 * iteration, "steps_per_second": options.num_envs * options.num_steps / iteration, "seconds": seconds,
        "compile_s": compile_s, "jax": installed("jax"), "gymnax": installed("gymnax"), "devices": str(jax.devices()),
    })  # fmt: skip


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
