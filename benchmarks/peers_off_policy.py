"""Speed of SAC and TD3 of another library on Gymnasium's Pendulum: ``python benchmarks/peers_off_policy.py sbx sac``.

One world, two layers of 256 units, and a gradient step of a batch of 256 for each step, after 1,000 random steps. Scripts of
LeanRL and TorchRL, whose checkout is ``--source``, run as they are but for the changes in ``LEANRL_CHANGES``, and for stand-ins
of hydra and wandb. Prints rows for ``peer_process.py``: steps a second, env steps included.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import tyro

sys.path.insert(0, str(Path(__file__).resolve().parent))

from peer_process import say

ENV, EPISODE, BATCH, RANDOM_STEPS, WIDTHS = "Pendulum-v1", 200, 256, 1_000, [256, 256]

LEANRL_CHANGES = {
    "run_name)])": "run_name)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)",
    'for info in infos["final_info"]:': 'for info in [infos["final_info"]]:',
    'float(info["episode"]["r"])': 'float(info["episode"]["r"].item())',
    "final_observation": "final_obs",
    'TensorDictModule(actor_detach.get_action, in_keys=["observation"], out_keys=["action"])': (
        "lambda obs: actor_detach.get_action(obs)[0]"
    ),
    "actions.cpu()": "actions.detach().cpu()",
    "action_high).cpu()": "action_high).detach().cpu()",
}
"""Changes of the scripts for Gymnasium 1 and for later releases of tensordict."""

LEANRL_WAYS = {"graphs": ["--cudagraphs"], "compile": ["--compile"], "compile graphs": ["--compile", "--cudagraphs"], "eager": []}

WANDB = """
import json

def init(**options):
    pass

def log(values, step):
    row = {"steps_per_second": values["speed"], "steps": step, "mean_return": float(values["episode_return"])}
    print(json.dumps(row), flush=True)
"""
"""A module in the place of wandb that prints rows."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    peer: tyro.conf.Positional[Literal["leanrl", "torchrl", "sb3", "sbx"]]
    """The library."""
    algorithm: tyro.conf.Positional[Literal["sac", "td3"]]
    """The algorithm."""
    way: str = ""
    """``graphs``, ``compile``, ``compile graphs`` or ``eager`` for LeanRL and TorchRL."""
    source: Path | None = None
    """A checkout of LeanRL or TorchRL."""
    device: str = "cuda:0"
    """``cpu`` or ``cuda:0``."""
    steps: int = 6_000
    """Steps that are measured."""
    burn_in: int = 1_000
    """Steps with gradient steps before, in which libraries compile."""


def leanrl(options: Options) -> None:
    """Run a script of LeanRL, which says its mean speed after the burn-in."""
    assert options.source is not None
    script = options.source / "leanrl" / f"{options.algorithm}_continuous_action_torchcompile.py"
    text = script.read_text()
    for old, new in LEANRL_CHANGES.items():
        text = text.replace(old, new)
    text = re.sub(r"\.to_module\((\w+)\)", r".to_module(\1, preserve_module_state=False)", text)
    arguments = ["--env-id", ENV, "--learning-starts", str(RANDOM_STEPS), "--batch-size", str(BATCH), *LEANRL_WAYS[options.way]]
    arguments += ["--measure-burnin", str(options.burn_in), *(["--no-cuda"] if options.device == "cpu" else [])]
    arguments += ["--total-timesteps", str(RANDOM_STEPS + options.burn_in + options.steps)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "wandb.py").write_text(WANDB)
        changed = Path(folder, script.name)
        changed.write_text(text)
        sys.exit(subprocess.run([sys.executable, str(changed), *arguments], check=False).returncode)


class Progress:
    """In the place of tqdm in TorchRL's scripts: says the mean speed after the burn-in."""

    format_dict: dict[str, float] = {}

    def __init__(self, first: int) -> None:
        self._first, self._steps, self._begin = first, 0, (0, 0.0)

    def update(self, steps: int) -> None:
        """Count steps, before the gradient steps for them."""
        self._steps += steps
        if self._begin[0]:
            rate = (self._steps - self._begin[0]) / (time.perf_counter() - self._begin[1])
            say({"steps_per_second": rate, "steps": self._steps})
        elif self._steps >= self._first:
            self._begin = self._steps, time.perf_counter()


def namespace(value: Any) -> Any:
    """Return a YAML value with its mappings as namespaces, and numbers such as ``1e-4`` as numbers."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: namespace(each) for key, each in value.items()})
    if isinstance(value, str) and re.fullmatch(r"[\d.]+e-?\d+", value):
        return float(value)
    return value


def torchrl(options: Options) -> None:
    """Run TorchRL's script with its own options, but one world, no evaluation and no logger."""
    import yaml

    assert options.source is not None
    folder = options.source / "sota-implementations" / options.algorithm
    hydra: Any = ModuleType("hydra")
    hydra.main = lambda **_: lambda function: function
    sys.modules["hydra"] = hydra
    sys.path.insert(0, str(folder))
    script = __import__(options.algorithm)
    script.tqdm = SimpleNamespace(tqdm=lambda total: Progress(RANDOM_STEPS + options.burn_in))
    config = namespace(yaml.safe_load((folder / "config.yaml").read_text()))
    config.env.name, config.env.max_episode_steps = ENV, EPISODE
    config.collector.total_frames = RANDOM_STEPS + options.burn_in + options.steps
    config.collector.init_random_frames, config.collector.env_per_collector = RANDOM_STEPS, 1
    config.collector.frames_per_batch = min(config.collector.frames_per_batch, options.burn_in)
    config.collector.device = config.network.device = options.device
    config.network.hidden_sizes, config.optim.batch_size = WIDTHS, BATCH
    config.logger.backend, config.logger.eval_iter = "", 10**12
    config.compile.compile, config.compile.cudagraphs = "compile" in options.way, "graphs" in options.way
    script.main(config)


def sb3_or_sbx(options: Options) -> None:
    """Run SB3 or SBX, whose callback measures."""
    import gymnasium
    from stable_baselines3.common.callbacks import BaseCallback

    if options.peer == "sb3":
        import stable_baselines3 as package

        device = {"device": options.device}
    else:
        import jax
        import sbx as package

        device = {}
        if options.device == "cpu":
            jax.config.update("jax_platforms", "cpu")

    class Speed(BaseCallback):
        """Says the mean speed after the burn-in."""

        start = 0.0

        def _on_step(self) -> bool:
            done = self.num_timesteps - RANDOM_STEPS - options.burn_in
            if done == 0:
                self.start = time.perf_counter()
            elif done > 0 and done % 200 == 0:
                say({"steps_per_second": done / (time.perf_counter() - self.start), "steps": self.num_timesteps})
            return True

    make = getattr(package, options.algorithm.upper())
    model = make(
        "MlpPolicy", gymnasium.make(ENV), batch_size=BATCH, learning_starts=RANDOM_STEPS, train_freq=1, gradient_steps=1,
        policy_kwargs={"net_arch": WIDTHS}, **device,
    )  # fmt: skip
    model.learn(RANDOM_STEPS + options.burn_in + options.steps, callback=Speed())


def main(options: Options) -> None:
    """Run the library."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    {"leanrl": leanrl, "torchrl": torchrl, "sb3": sb3_or_sbx, "sbx": sb3_or_sbx}[options.peer](options)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
