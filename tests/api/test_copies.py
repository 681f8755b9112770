"""Pickles and copies of envs: the original and its copy give the same results for the same actions."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import cloudpickle
import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv

from gpu_vecenv import EpisodeStatistics, GpuVectorEnv, RoleRows
from gpu_vecenv.errors import ClosedError, CopyError, SequenceError
from gpu_vecenv.spec import reference
from tests.api.envs import MODES, make
from tests.devices import DEVICES, JAX
from tests.roles import harvest, shared, town
from tests.trees import assert_trees_equal, map_tree, to_host

COPIERS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
}
ROLES = {"town": town.SPEC, "harvest": harvest.SPEC, "pot": shared.SPEC}


def pickled(env):
    return pickle.loads(pickle.dumps(env))


def sample(env):
    return map_tree(np.asarray, dict(space) if isinstance(space := env.action_space.sample(), dict) else space)


def run(env, steps, seed=0):
    """Results of some steps with random actions, on the host."""
    env.action_space.seed(seed)
    return [to_host(dict(enumerate(env.step(sample(env))))) for _ in range(steps)]


def valid(result):
    """A step's results without the values that mean nothing: final observations where no episode ended."""
    info = dict(result[4])
    ended = info.get("_final_obs", np.zeros(1, bool))
    for name in ("final_obs", "final_action_mask", "final_action_effects"):
        if name in info:
            info[name] = map_tree(lambda array: array[ended], info[name])
    if "episode" in info:
        info["episode"] = map_tree(lambda array: array[info["_episode"]], info["episode"])
    return {**result, 4: info}


def assert_continue_alike(env, other, steps=15):
    for mine, theirs in zip(run(env, steps), run(other, steps), strict=True):
        assert_trees_equal(valid(mine), valid(theirs))


@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["cartpole", "tag"])
def test_a_copy_continues_as_the_original_does(name, mode, copier):
    env = make(name, 5, autoreset_mode=mode).unwrapped
    env.reset(seed=4)
    run(env, 9)
    again = COPIERS[copier](env)
    assert again.worlds is not env.worlds and repr(again) == repr(env)
    assert_trees_equal(again.get_state(), env.get_state())
    assert_continue_alike(env, again)
    for one in (env, again):
        one.reset(options={"reset_mask": np.arange(5) < 2})
    assert_trees_equal(to_host(again.observe()), to_host(env.observe()))
    assert_continue_alike(env, again)
    ours, theirs = env.get_state("seed", "episode"), again.get_state("seed", "episode")
    assert_trees_equal(ours, theirs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", ["worlds", "agents"])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_copy_has_memory_of_its_own_on_the_same_device(device, view, fresh):
    env = make("tag", device=device, array="torch", view=view, copy=fresh).unwrapped
    obs, _ = env.reset(seed=1)
    before = to_host(obs)
    again = pickled(env)
    assert again.device == device
    run(again, 4)
    actions = torch.as_tensor(sample(again), device=device)
    assert (again.step(actions)[0] is again.step(actions)[0]) != fresh
    np.testing.assert_array_equal(to_host(env.observe()), before)
    np.testing.assert_array_equal(to_host(obs), before)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ROLES)
def test_a_copy_of_an_env_with_roles_continues_as_the_original_does(name, device):
    env = GpuVectorEnv(ROLES[name], num_worlds=4, device=device, max_episode_steps=6)
    env.reset(seed=2)
    run(env, 4)
    assert_continue_alike(env, pickled(env))


def zero_taxes(obs):
    return np.zeros((len(obs), 1, 2), np.float32)


@pytest.mark.parametrize("copier", ["copy", "deepcopy", "pickle"])
@pytest.mark.parametrize("others", [None, {"mayor": zero_taxes}])
def test_a_copy_of_role_rows_continues_as_the_original_does(others, copier):
    env = GpuVectorEnv(town.SPEC, num_worlds=4, device="cpu", array="numpy", max_episode_steps=6)
    rows = RoleRows(env, "citizen", others)
    rows.reset(seed=2)
    run(rows, 4)
    again = COPIERS[copier](rows)
    assert again.env is not env and again.observation_space == rows.observation_space
    assert_continue_alike(rows, again)


@pytest.mark.parametrize("array", ["numpy", "torch", JAX])
def test_a_copy_keeps_the_statistics_of_episodes_in_progress(array):
    env = EpisodeStatistics(make("cartpole", 5, array=array))
    env.reset(seed=4)
    run(env, 6)
    again = pickled(env)
    assert again.unwrapped.spec == env.unwrapped.spec
    results = run(again, 12)
    assert_trees_equal(results[-1][4]["episode"], run(env, 12)[-1][4]["episode"])
    assert any(result[4]["_episode"].any() for result in results)


def test_a_copy_keeps_all_keywords():
    lengths = np.array([0.3, 0.5, 0.7])
    options = {"debug": True, "first_world": 40, "render_mode": "rgb_array", "render_theme": "light", "render_scale": 0.5}
    env = make("cartpole", length=lengths, **options).unwrapped
    env.metadata["render_fps"] = 7
    env.reset(seed=1)
    again = pickled(env)
    assert again.metadata == env.metadata
    assert {name: getattr(again, name) for name in ("debug", "first_world", "render_mode")} == {
        name: options[name] for name in ("debug", "first_world", "render_mode")
    }
    np.testing.assert_array_equal(again.params["length"], lengths.astype(np.float32))
    np.testing.assert_array_equal(again.render()[2], env.render()[2])
    np.testing.assert_array_equal(again.get_state("world_id")["world_id"], [40, 41, 42])


def test_a_copy_of_an_env_that_was_not_reset_draws_the_same_seed():
    env = make("cartpole").unwrapped
    env.np_random = np.random.default_rng(8)
    again = copy.deepcopy(env)
    with pytest.raises(SequenceError, match="reset"):
        again.step(np.zeros(3, int))
    np.testing.assert_array_equal(again.reset()[0], env.reset()[0])


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_has_the_last_observation_of_the_original(mode):
    """In a step that tags an agent, its observation differs from that of the state."""
    env, differ = make("tag", 5, autoreset_mode=mode).unwrapped, 0
    env.reset(seed=4)
    for seed in range(12):
        last = run(env, 1, seed)[0][0]
        differ += (last != env.observe()).any()
        again = pickled(env)
        again.bind(obs=(slab := np.zeros((2, *last.shape), np.float32)))
        np.testing.assert_array_equal(slab[0], last)
    assert differ


def test_a_copys_spaces_draw_the_same_samples():
    env = make("cartpole").unwrapped
    again = pickled(env)
    assert "action_space" not in vars(again)  # built at its first use, as in the original
    env.action_space.seed(3)
    env.single_action_space.seed(4)
    again = pickled(env)
    for space in ("action_space", "single_action_space"):
        mine, theirs = ([getattr(one, space).sample() for _ in range(20)] for one in (env, again))
        np.testing.assert_array_equal(mine, theirs)


def test_worlds_of_a_copy_diverge_as_those_of_the_original_do():
    env = make("cartpole").unwrapped
    env.reset(seed=3)
    again = copy.deepcopy(env)
    for one in (env, again):
        one.copy_worlds([0], [2], diverge=True)
    assert_continue_alike(env, again, 30)


def test_a_copy_has_the_reset_pool_and_no_bound_slabs():
    env = make("cartpole", 4).unwrapped
    env.set_reset_pool(env.draw_start_states(3, seed=9))
    slab = np.zeros((3, 4, 4), np.float32)
    env.bind(obs=slab)
    env.reset(seed=5)
    env.step(np.zeros(4, int))
    again, before = pickled(env), slab.copy()
    assert_trees_equal(again.get_reset_pool(), env.get_reset_pool())
    run(again, 4)
    np.testing.assert_array_equal(slab, before)
    env.unbind()
    assert_continue_alike(pickled(env), env, 30)
    assert (env.get_state("pool_entry")["pool_entry"] >= 0).all()


def test_a_single_env_keeps_its_reset_pool():
    env = gymnasium.make("WarpCartPole-v1").unwrapped
    env.vector.set_reset_pool(env.vector.draw_start_states(2, seed=9))
    again = copy.deepcopy(env)
    np.testing.assert_array_equal(again.reset(seed=0)[0], env.reset(seed=0)[0])
    assert again.vector.get_state("pool_entry")["pool_entry"][0] >= 0


@pytest.mark.parametrize("copier", COPIERS)
def test_a_closed_env_raises_an_error(copier):
    env = make("cartpole").unwrapped
    env.close()
    with pytest.raises(ClosedError, match="WarpCartPole-v1 was closed"):
        COPIERS[copier](env)


def test_a_spec_is_pickled_by_the_module_that_defines_it(monkeypatch):
    assert pickled(town.SPEC) is town.SPEC
    monkeypatch.setattr(sys, "imported_spec", harvest.SPEC, raising=False)
    assert reference._find(harvest.SPEC) == ("tests.roles.harvest", "SPEC")


@pytest.mark.parametrize("module, reason", [("no_such_module", "lacks"), ("tests.roles.town", "lacks")])
def test_a_spec_that_is_not_found_raises_an_error(module, reason):
    with pytest.raises(CopyError, match=f"Town-v0.*{module}.GONE.*{reason}"):
        reference._import_spec(module, "GONE", "Town-v0")


def test_a_spec_of_another_name_raises_an_error():
    with pytest.raises(CopyError, match="Pot-v0.*tests.roles.town.SPEC.*another object"):
        reference._import_spec("tests.roles.town", "SPEC", "Pot-v0")


def test_a_spec_in_no_module_is_pickled_with_its_functions():
    env = GpuVectorEnv(type(town.SPEC)(**vars(town.SPEC)), num_worlds=2, device="cpu", max_episode_steps=5)
    env.reset(seed=1)
    assert_continue_alike(env, pickled(env))


def test_a_spec_with_a_function_that_cannot_be_pickled_raises_an_error():
    lock = threading.Lock()
    spec = type(town.SPEC)(**{**vars(town.SPEC), "check": lambda params: lock and None})
    env = GpuVectorEnv(spec, device="cpu")
    with pytest.raises(CopyError, match="Town-v0: the spec is no global variable of a module"):
        pickle.dumps(env)


def test_an_env_of_a_script_is_rebuilt_in_another_process(tmp_path):
    """The spec of a script is a global variable of ``__main__``, which the other process does not have."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import pickle, sys
        from gpu_vecenv import GpuVectorEnv
        from tests.roles.town import SPEC as TOWN
        SPEC = type(TOWN)(**vars(TOWN))
        env = GpuVectorEnv(SPEC, num_worlds=2, device="cpu", array="numpy")
        env.reset(seed=1)
        pickle.dump((env, env.observe()["citizen"]), open(sys.argv[1], "wb"))
        """)
    )
    target, root = tmp_path / "env.pickle", str(Path(__file__).parents[2])
    search = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, script, target], check=True, env={**os.environ, "PYTHONPATH": search}, cwd=root)
    env, obs = pickle.loads(target.read_bytes())
    np.testing.assert_array_equal(env.observe()["citizen"], obs)


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_gymnasiums_async_vector_env_takes_an_env_into_its_processes(context):
    env = gymnasium.make("WarpCartPole-v1")
    start, _ = env.reset(seed=6)
    workers = AsyncVectorEnv([partial(copy.deepcopy, env)] * 2, context=context)
    try:
        obs, _ = workers.reset(seed=[6, 7])
        np.testing.assert_array_equal(obs[0], start)
        assert workers.step(np.zeros(2, int))[0].shape == (2, 4)
    finally:
        workers.close()


def test_a_copy_while_a_graph_is_captured_raises_an_error(monkeypatch):
    env = make("cartpole").unwrapped
    monkeypatch.setattr(env.worlds.backend, "may_wait", lambda: False)
    with pytest.raises(SequenceError, match="a copy of an env waits"):
        copy.copy(env)
    monkeypatch.undo()
