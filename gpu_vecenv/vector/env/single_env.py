"""One world of a single-agent env as a plain Gymnasium env, on the CPU with NumPy arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import HumanRendering

from gpu_vecenv.errors import MissingExtraError, ParameterError, SequenceError, SeveralAgentsError, ShapeError
from gpu_vecenv.render.worlds import warn_without_mode
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.validation import host_array
from gpu_vecenv.vector.env.pickling import Copied
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.inputs.options import refuse_fixed
from gpu_vecenv.vector.inputs.seeding import check_one_seed
from gpu_vecenv.vector.outputs.join_shared import full_mask
from gpu_vecenv.vector.outputs.results import OF_ACTIONS

FIXED: dict[str, Any] = {
    "num_envs": 1,
    "num_worlds": 1,
    "view": "worlds",
    "device": "cpu",
    "array": "numpy",
    "autoreset_mode": AutoresetMode.DISABLED,
    "copy": True,
}
"""Keywords of the vector env inside a single env."""


def entry_point(env_spec: EnvSpec) -> Callable[..., gymnasium.Env[np.ndarray, Any]]:
    """Return the entry point of ``gymnasium.make``. Gymnasium reads render modes from its ``metadata`` before it makes the env.

    Its keywords are those of ``SingleEnv``; ``render_mode="human"`` opens a window, by Gymnasium's ``HumanRendering``.
    """

    def make(render_mode: str | None = None, **params: Any) -> gymnasium.Env[np.ndarray, Any]:
        if render_mode != "human":
            return SingleEnv(env_spec, render_mode, **params)
        if importlib.util.find_spec("pygame") is None:
            raise MissingExtraError('render_mode="human" needs pygame: pip install "gpu-vecenv[human]".')
        return HumanRendering(SingleEnv(env_spec, "rgb_array", **params))

    modes = ["human", *SingleEnv.metadata["render_modes"]]
    setattr(make, "metadata", {**SingleEnv.metadata, "render_modes": modes})  # noqa: B010  (a function has no such attribute)
    return make


def refusing_entry_point(env_spec: EnvSpec) -> Callable[..., gymnasium.Env[np.ndarray, Any]]:
    """Return the entry point of ``gymnasium.make`` for an env with several agents.

    The entry point raises SeveralAgentsError, which names ``gymnasium.make_vec``.
    """

    def make(**_: Any) -> gymnasium.Env[np.ndarray, Any]:
        raise SeveralAgentsError(
            f'{env_spec.name} has several agents and no single env: use gymnasium.make_vec("{env_spec.name}").'
        )

    return make


class SingleEnv(Copied, gymnasium.Env[np.ndarray, Any]):
    """Plain Gymnasium env of one agent, made by ``gymnasium.make``: the same kernel, one world, no autoreset.

    It can be pickled and copied. The copy continues as the original does. If actions have masks, ``info["action_mask"]`` is the
    mask of each observation, bool (M,). ``info["action_effects"]``, bool (G,), are the flags of effect, if the env has them.

    Args:
        env_spec: definition of the env.
        render_mode: None or ``"rgb_array"``.
        params: parameters of the env by their spec names.

    Raises:
        ParameterError: roles of the env have spaces of their own, or a keyword is one of vector envs alone, such as ``device``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, env_spec: EnvSpec, render_mode: str | None = None, **params: Any) -> None:
        env_params = {param.name: params[param.name] for param in env_spec.params if param.name in params}
        if env_spec.has_role_arrays and env_spec.by_role(env_spec.resolve(env_params)):
            raise ParameterError(f"{env_spec.name}: a single env needs the same spaces for all agents, got roles with their own.")
        if params.get("preset") is not None:
            raise ParameterError(
                "a preset is for vector envs: use gymnasium.make_vec, in RLlib with "
                'env_runners(gym_env_vectorize_mode="vector_entry_point"); or leave out preset.'
            )
        refuse_fixed(f"{env_spec.name} as a single env", params, FIXED, ", or use gymnasium.make_vec")
        self.vector = GpuVectorEnv(env_spec, render_mode=render_mode, **FIXED, **params)
        self.render_mode = render_mode
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space
        self._mask: np.ndarray | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Parameters are set when the env is made, so another value of one raises ParameterError."""
        vector = self.__dict__.get("vector")
        if vector is None or name not in vector.params:
            super().__setattr__(name, value)
        else:
            vector.set_attr(name, [value])

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute, as wrappers around this env ask for; a parameter's name never becomes an attribute of a wrapper."""
        return super().set_wrapper_attr(name, value, force=force or name in self.vector.params)

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """Function that returns the choices allowed now, as MaskablePPO of sb3-contrib expects them.

        It returns bool (sum of the choices of all entries,), True for all choices of entries without a mask. It raises
        SequenceError before the first reset.

        Raises:
            AttributeError: the env has no masks. Libraries then find no such attribute.
        """
        if not self.vector.layout.groups[0].masked:
            raise AttributeError(f"{self.vector.env_spec.name} has no masks.")
        return self._full_mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode; options are the env's reset options."""
        seed = None if seed is None else check_one_seed(seed)
        super().reset(seed=seed)
        obs, info = self.vector.reset(seed=seed, options=options)
        return obs[0], self._first(info)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance by one step; the action is an element of the action space."""
        try:
            actions = np.asarray(host_array(action, "the action"))[None]
        except ValueError as error:
            raise ShapeError(f"the action must have shape {self.action_space.shape}, got lists of unequal lengths.") from error
        obs, reward, terminated, truncated, info = self.vector.step(actions)
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), self._first(info)

    def render(self) -> np.ndarray | None:
        """Draw the world, uint8 (H, W, 3). Without ``render_mode``, warn and return None."""
        if self.render_mode is None:
            warn_without_mode("make", self.vector.env_spec.name)
            return None
        frames = self.vector.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the world."""
        self.vector.close()

    def _first(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return the info of the only world, and keep its mask."""
        if "action_mask" in info:
            self._mask = info["action_mask"][0]
        return {name: info[name][0].copy() for name in OF_ACTIONS if name in info}

    def _full_mask(self) -> np.ndarray:
        if self._mask is None:
            raise SequenceError("call reset() before action_masks().")
        mask: np.ndarray = full_mask(self.vector.layout.groups[0], self._mask)
        return mask.flatten()  # a copy
