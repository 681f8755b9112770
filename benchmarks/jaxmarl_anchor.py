"""IPPO and MAPPO of JaxMARL beside ours: ``python benchmarks/jaxmarl_anchor.py --source .peers/jaxmarl --cases spread-ippo``.

Runs JaxMARL's own scripts ``baselines/IPPO/ippo_ff_mpe.py`` and ``baselines/MAPPO/mappo_rnn_mpe.py`` with their own options, as
``baselines/run_minimal_baseline_set.yaml`` does, on the scenarios that exist here: all seeds at once by ``jax.vmap``, as its IPPO
does. ``--source`` is a checkout of github.com/FLAIROx/JaxMARL. The scripts need jax, flax, optax and distrax. Weights & Biases,
Hydra, pictures and gymnax, which they import and this does not use, are stand-ins, and so is the call to the host after each
update.

A return is the sum of an agent's own rewards over an episode of 25 steps, with actions drawn from the policy, here as there. The
scripts log something else: sums over 26 steps, because JaxMARL compares its limit of 25 before it counts a step, times the number
of agents. So the trained weights are evaluated anew, with the limit 24, which makes 25 steps. Training keeps the 26 steps. In tag
one network acts for all four agents; its two kinds of observations, of 16 and 14 numbers, do not stack in the scripts (``pad()``
is called without its length), so two zeros are added to the shorter ones.

Writes ``benchmarks/results/jaxmarl_anchor.json``, in which cases that are not run again keep their results.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tyro
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import shared  # noqa: E402

from gpu_vecenv.bench.machine import machine  # noqa: E402

SCENARIOS = {
    "spread": ("MPE_simple_spread_v3", {"agent": 3}),
    "reference": ("MPE_simple_reference_v3", {"agent": 2}),
    "tag": ("MPE_simple_tag_v3", {"adversary": 3, "agent": 1}),
}
"""Name of JaxMARL, and its agents by role in their order."""

SCRIPTS = {"ippo": ("IPPO", "ippo_ff_mpe", "ippo_ff_mpe"), "mappo": ("MAPPO", "mappo_rnn_mpe", "mappo_homogenous_rnn_mpe")}
"""Folder in ``baselines``, script and file of its options. MAPPO of JaxMARL is recurrent."""

CASES = tuple(f"{scenario}-{script}" for scenario in SCENARIOS for script in SCRIPTS)
STEPS = 25
"""Steps of an episode of an evaluation."""

STAND_INS = ("wandb", "hydra", "omegaconf", "matplotlib", "seaborn", "gymnax", "PIL", "imageio")
"""Packages that JaxMARL imports and this script does not use."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    source: Path = ROOT / ".peers" / "jaxmarl"
    """Checkout of JaxMARL."""
    cases: tuple[str, ...] = CASES
    """Scenario and script, such as ``tag-mappo``."""
    seeds: int = 10
    """Runs of a case, trained at once."""
    total_steps: int | None = None
    """Steps of a run; None: those of the script, 10 million, or as many as ``limit_s`` allows."""
    limit_s: float = 400.0
    """Seconds of training that a case may take; a short training before it tells how long an update takes."""
    episodes: int = 1024
    """Episodes of the evaluation of a run."""
    out: Path = ROOT / "benchmarks" / "results" / "jaxmarl_anchor.json"
    """File of the results."""


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the packages of ``STAND_INS`` as mocks, which take every call."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a package of ``STAND_INS`` or of a module below it, and None for others."""
        if fullname.partition(".")[0] not in STAND_INS:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """Return the stand-in."""
        return mock.MagicMock(__path__=[], __name__=spec.name)

    def exec_module(self, module: Any) -> None:
        """Define what scripts use at import: ``hydra.main()`` as a decorator that does nothing."""
        module.main = lambda **options: lambda function: function


def script_of(name: str, source: Path) -> Any:
    """Return the imported script of JaxMARL, whose envs have observations of one length."""
    folder, module, _ = SCRIPTS[name]
    for path in (source, source / "baselines" / folder):
        sys.path.insert(0, str(path))
    if not any(isinstance(finder, StandIns) for finder in sys.meta_path):
        sys.meta_path.insert(0, StandIns())
    import jax
    import jax.experimental

    jax.experimental.io_callback = lambda *arguments, **options: None  # the log of each update
    script = importlib.import_module(module)
    make = importlib.import_module("jaxmarl").make
    script.jaxmarl = mock.Mock(make=lambda env_id, **options: padded(make(env_id, **options)))
    return script


def padded(env: Any) -> Any:
    """Let all observations of an env have the length of the longest, with zeros at the end, and return it."""
    import jax.numpy as jnp

    length = max(space.shape[0] for space in env.observation_spaces.values())
    space = next(space for space in env.observation_spaces.values() if space.shape[0] == length)
    get_obs = env.get_obs
    env.observation_spaces = dict.fromkeys(env.observation_spaces, space)
    env.get_obs = lambda state: {name: jnp.pad(row, (0, length - row.shape[0])) for name, row in get_obs(state).items()}
    return env


def options_of(case: str, options: Options) -> dict[str, Any]:
    """Return the options of the script."""
    scenario, _, name = case.partition("-")
    folder, _, file = SCRIPTS[name]
    content = yaml.safe_load((options.source / "baselines" / folder / "config" / f"{file}.yaml").read_text())
    config = {key: float(value) if key in ("LR", "TOTAL_TIMESTEPS") else value for key, value in content.items()}
    return {**config, "ENV_NAME": SCENARIOS[scenario][0], "NUM_SEEDS": options.seeds}


def trained(script: Any, config: dict[str, Any], steps: int) -> tuple[Any, float, float]:
    """Train all seeds at once.

    Returns:
        Weights of the actor, with a leading axis of seeds; seconds of compilation; and seconds of training.
    """
    import jax

    train = script.make_train({**config, "TOTAL_TIMESTEPS": steps})

    def weights(key: Any) -> Any:
        runner = train(key)["runner_state"]
        state = runner[0] if script.__name__.startswith("ippo") else runner[0][0][0]
        return state.params

    keys = jax.random.split(jax.random.PRNGKey(0), config["NUM_SEEDS"])
    start = time.perf_counter()
    compiled = jax.jit(jax.vmap(weights)).lower(keys).compile()
    compiled_at = time.perf_counter()
    params = jax.block_until_ready(compiled(keys))
    return params, compiled_at - start, time.perf_counter() - compiled_at


def acting(script: Any, config: dict[str, Any], env: Any) -> tuple[Callable[..., Any], Any]:
    """Return a function of weights, a state (agents, units) and observations (agents, features), and the state at the start.

    The function returns the new state and the distribution of the agents' actions. IPPO keeps the state as it is.
    """
    import jax.numpy as jnp

    choices = env.action_space(env.agents[0]).n
    if script.__name__.startswith("ippo"):
        network = script.ActorCritic(choices, activation=config["ACTIVATION"])
        return lambda params, state, rows: (state, network.apply(params, rows)[0]), jnp.zeros((env.num_agents, 1))
    network = script.ActorRNN(choices, config=config)
    dones = jnp.zeros((1, env.num_agents), bool)

    def act(params: Any, state: Any, rows: Any) -> Any:
        state, drawn = network.apply(params, state, (rows[None], dones))
        return state, drawn[0]

    return act, script.ScannedRNN.initialize_carry(env.num_agents, config["GRU_HIDDEN_DIM"])


def returns_of(script: Any, config: dict[str, Any], params: Any, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean returns of agents by their own rewards: of trained play (seeds, agents), and of random play (agents,)."""
    import jax
    import jax.numpy as jnp

    env = script.jaxmarl.make(config["ENV_NAME"], max_steps=STEPS - 1)
    act, start = acting(script, config, env)
    choices = env.action_space(env.agents[0]).n

    def episode(key: Any, params: Any) -> Any:
        key, of_reset = jax.random.split(key)
        obs, state = env.reset(of_reset)

        def step(carry: Any, _: Any) -> Any:
            key, obs, state, memory = carry
            key, of_action, of_step = jax.random.split(key, 3)
            if params is None:
                actions = jax.random.randint(of_action, (env.num_agents,), 0, choices)
            else:
                memory, drawn = act(params, memory, jnp.stack([obs[name] for name in env.agents]))
                actions = drawn.sample(seed=of_action)
            by_name = dict(zip(env.agents, actions, strict=True))
            obs, state, reward, _, _ = env.step_env(of_step, state, by_name)
            return (key, obs, state, memory), jnp.stack([reward[name] for name in env.agents])

        return jax.lax.scan(step, (key, obs, state, start), None, STEPS)[1].sum(0)

    keys = jax.random.split(jax.random.PRNGKey(1_000_000), episodes)
    played = jax.jit(lambda params: jax.vmap(lambda key: episode(key, params))(keys).mean(0))
    return np.asarray(jax.lax.map(played, params)), np.asarray(played(None))


def by_role(returns: np.ndarray, roles: dict[str, int]) -> dict[str, Any]:
    """Return the means over the agents of each role, and ``sum`` over all agents; the last axis is that of the agents."""
    ends = np.cumsum(list(roles.values()))
    means = {role: returns[..., end - count : end].mean(-1) for (role, count), end in zip(roles.items(), ends, strict=True)}
    return {name: np.round(x, 4).tolist() for name, x in {**means, "sum": returns.sum(-1)}.items()}


def measure(case: str, options: Options) -> dict[str, Any]:
    """Train and evaluate a case, and return its row."""
    scenario, _, name = case.partition("-")
    script, config = script_of(name, options.source), options_of(case, options)
    rollout = config["NUM_ENVS"] * config["NUM_STEPS"]
    steps = options.total_steps
    if steps is None:
        updates = 20
        _, _, seconds = trained(script, config, updates * rollout)
        steps = min(int(config["TOTAL_TIMESTEPS"]), int(options.limit_s / seconds * updates) * rollout)
        print(f"{case}: {seconds / updates * 1e3:.1f} ms an update of {options.seeds} seeds, so {steps:,} steps", flush=True)
    params, compilation, seconds = trained(script, config, steps)
    played, random = returns_of(script, config, params, options.episodes)
    roles = SCENARIOS[scenario][1]
    return {
        "steps": steps // rollout * rollout, "seeds": options.seeds, "seconds": round(seconds, 1),
        "compilation_seconds": round(compilation, 1), "episodes": options.episodes, "random": by_role(random, roles),
        "options": config, "runs": [by_role(agents, roles) for agents in played],
    }  # fmt: skip


def main(options: Options) -> None:
    """Run the chosen cases."""
    if unknown := [case for case in options.cases if case not in CASES]:
        raise SystemExit(f"--cases: expected some of {', '.join(CASES)}, got {', '.join(unknown)}")
    import jax

    facts = {**machine("cpu" if jax.default_backend() == "cpu" else "cuda:0"), "jax": jax.__version__}
    for case in options.cases:
        row = {"machine": facts, **measure(case, options)}
        results = json.loads(options.out.read_text()) if options.out.exists() else {"benchmark": "jaxmarl_anchor", "cases": {}}
        results["cases"][case] = row  # read again, because another process may have added cases
        shared.write(options.out, results, "cases")
        means = {name: round(float(np.mean([run[name] for run in row["runs"]])), 2) for name in row["random"]}
        print(f"{case}: {means} after {row['steps']:,} steps, {row['seconds']} s; random play {row['random']}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
