"""Small envs for the tests of the public contract. Their episodes end after a few steps."""

import importlib

import gymnasium
import numpy as np

from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.layout import Layout
from tests.ids import marked

SMALL_TAG = {"num_taggers": 2, "num_runners": 4, "episode_length": 7, "tagging_distance": 0.15}
"""Worlds of six agents. Some of their episodes end because all runners are caught, some by the time limit."""

ENVS = {
    "tag": ("WarpTag-v0", SMALL_TAG),
    "tag, defaults": ("WarpTag-v0", {"episode_length": 6}),
    "cartpole": ("WarpCartPole-v1", {"max_episode_steps": 12}),
}
VIEWS = ("worlds", "agents")
MODES = ("same_step", "next_step", "disabled")
SINGLES = [name for name, arguments in IDS.items() if "max_episode_steps" in arguments]
"""Ids of the envs of classic control, which have one agent and Gymnasium's time limit."""


def layout_of(name):
    """Layout of a registered env with default parameters."""
    spec = importlib.import_module(IDS[name]["vector_entry_point"].partition(":")[0] + ".spec").SPEC
    return Layout(spec, spec.resolve({}))


ALIKE = [name for name in IDS if marked(name) == name and layout_of(name).groups[0].role == ""]
"""Ids of envs whose agents have one array of observations; tests/roles and tests/envs have the tests of other envs.

One particle env stands for all."""
DRAWN = [name for name in ALIKE if name not in ("WarpCatalysis-v0", "WarpRecall-v0")]
"""Ids of ``ALIKE`` whose starts are drawn from so many that worlds start in different states."""


def length(name, steps):
    """Parameters of a registered env whose episodes have at most this many steps."""
    if name == "WarpRecall-v0":
        return {"delay": steps - 1}
    if name == "WarpRware-v2":
        return {"max_steps": steps}
    if name.startswith("WarpSimple"):
        return {"max_cycles": steps}
    return {"max_episode_steps" if name in (*SINGLES, "WarpForaging-v3") else "episode_length": steps}


def make(name, num_worlds=3, **options):
    """Make an env on the CPU with NumPy arrays, unless ``options`` differ."""
    env_id, params = ENVS[name]
    return gymnasium.make_vec(env_id, num_worlds=num_worlds, **{"device": "cpu", "array": "numpy", **params, **options})


def random_actions(env, steps, seed=0):
    """Actions of ``steps`` steps, int64 (steps, *action_space.shape), spread over all choices."""
    inner = env.unwrapped
    inner.action_space.seed(seed)
    return np.stack([inner.action_space.sample() for _ in range(steps)])


def host(array):
    """NumPy array of an array on the CPU."""
    return np.asarray(array)


def host_info(info):
    """Info with NumPy arrays; rows of final_obs without a finished episode are 0."""
    info = {name: host(value) for name, value in info.items()}
    if "final_obs" in info:
        info["final_obs"] = np.where(expand(info["_final_obs"], info["final_obs"]), info["final_obs"], 0)
    return info


def expand(mask, like):
    """Mask over envs, reshaped to as many axes as ``like``."""
    return mask.reshape(mask.shape + (1,) * (like.ndim - mask.ndim))


def as_rows(array, role_counts):
    """Rows of the agents view of an array (W, A, ...): by role, then world, then agent."""
    rows, first = [], 0
    for count in role_counts.values():
        part = array[:, first : first + count]
        rows.append(part.reshape(-1, *array.shape[2:]))
        first += count
    return np.concatenate(rows)


def assert_same(left, right, where=""):
    """Assert that two dicts or sequences of arrays hold the same bits."""
    if isinstance(left, dict):
        assert left.keys() == right.keys(), where
        left, right = list(left.items()), list(right.items())
        for (name, a), (_, b) in zip(left, right, strict=True):
            np.testing.assert_array_equal(host(a), host(b), err_msg=f"{where} {name}")
        return
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        np.testing.assert_array_equal(host(a), host(b), err_msg=f"{where} {i}")
