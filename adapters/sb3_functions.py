"""One vector env for functions that make an env each, as ``make_vec_env`` of Stable-Baselines3 passes them to a ``VecEnv``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from stable_baselines3.common.monitor import Monitor, ResultsWriter

from gpu_vecenv import GpuVectorEnv, SingleEnv
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.vector.inputs.options import refuse_fixed

EnvFunction = Callable[[], gymnasium.Env]
"""Makes one env of this package, as ``gymnasium.make`` does."""


def one_vector_env(functions: Sequence[EnvFunction], options: dict[str, Any]) -> tuple[GpuVectorEnv, ResultsWriter | None]:
    """Return a vector env with a world for each function, and the log of episodes that SB3's ``Monitor`` opened, if any.

    Only the first function is called. Its env gives the id, the parameters, the time limit and the render mode of all worlds.

    Args:
        functions: make equal envs of one agent each.
        options: further keywords of ``GpuVectorEnv``, which go before those of the env.

    Raises:
        ParameterError: there is no function, its env is of another kind or has wrappers that a vector env does not have, or an
            option is ``num_worlds``, ``view`` or ``array``.
    """
    if not isinstance(functions, Sequence) or not functions or not callable(functions[0]):
        got = abbreviated(functions)
        raise ParameterError(f"Sb3VecEnv takes an id, a vector env or a list of functions that make envs, got {got}.")
    single = functions[0]()
    layer, log, limits = single, None, []
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, Monitor):
            log = layer.results_writer
        elif isinstance(layer, TimeLimit):
            limits.append(layer._max_episode_steps)
        elif not isinstance(layer, OrderEnforcing | PassiveEnvChecker):
            raise ParameterError(f"Sb3VecEnv steps all worlds at once, without the wrappers of single envs, got {single}.")
        layer = layer.env
    if not isinstance(layer, SingleEnv) or layer.vector.num_agents > 1:
        raise ParameterError(f"Sb3VecEnv takes functions that make an env of this package with one agent, got {single}.")
    params = dict(layer.vector.params)
    limits += [params["max_episode_steps"]] if params.get("max_episode_steps") else []
    if limits:
        params["max_episode_steps"] = min(limits)
    fixed = {"num_worlds": len(functions), "view": "agents", "array": "torch"}
    refuse_fixed("Sb3VecEnv", options, fixed)
    env = GpuVectorEnv(layer.vector.env_spec, **{"render_mode": layer.render_mode, **params, **options, **fixed})
    env.spec = single.spec
    layer.close()
    return env, log
