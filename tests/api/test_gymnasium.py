"""Gymnasium's own checks and stock wrappers, with warnings turned into errors."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import PassiveEnvChecker
from gymnasium.wrappers import vector as wrappers

from tests.api.envs import ENVS, MODES, SINGLES, VIEWS, make, random_actions
from tests.marks import in_ci

pytestmark = pytest.mark.filterwarnings("error")


def run(env, steps=20, seed=4):
    """Outputs of a reset and of random steps."""
    outputs = [env.reset(seed=seed)]
    for actions in random_actions(env, steps):
        outputs.append(env.step(actions))
    return outputs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ENVS)
def test_results_lie_in_the_spaces(name, view, mode):
    env = make(name, view=view, autoreset_mode=mode)
    inner = env.unwrapped
    assert env.observation_space == batch_space(env.single_observation_space, env.num_envs)
    assert env.action_space == batch_space(env.single_action_space, env.num_envs)
    agents = sum(inner.role_counts.values())
    assert env.num_envs == (3 * agents if view == "agents" else 3)
    (obs, info), *steps = run(env)
    assert obs in env.observation_space
    assert info == {}
    for obs, reward, terminated, truncated, info in steps:
        assert obs in env.observation_space
        assert reward.shape == terminated.shape == truncated.shape == (env.num_envs,)
        assert (reward.dtype, terminated.dtype, truncated.dtype) == (np.float32, np.bool_, np.bool_)
        assert info.keys() == expected_keys(agents, mode)
        if mode == "same_step":
            assert info["_final_obs"].dtype == np.bool_ and info["_final_obs"].shape == (env.num_envs,)
            assert info["final_obs"].shape == obs.shape
            for row in info["final_obs"][info["_final_obs"]]:
                assert row in env.single_observation_space
        if agents > 1:
            lead = (env.num_envs,) if view == "agents" else (3, agents)
            assert info["agent_reward"].shape == info["agent_alive"].shape == lead
            assert (info["agent_reward"].dtype, info["agent_alive"].dtype) == (np.float32, np.bool_)


def expected_keys(agents, mode):
    keys = {"final_obs", "_final_obs"} if mode == "same_step" else set()
    return keys | ({"agent_reward", "agent_alive"} if agents > 1 else set())


@pytest.mark.parametrize("options, num_envs", [
    ({}, 1),
    ({"num_envs": 4}, 4),
    ({"num_worlds": 4}, 4),
    ({"num_envs": 12, "view": "agents"}, 12),
    ({"num_worlds": 2, "view": "agents"}, 12),
    ({"num_envs": 12, "num_worlds": 2, "view": "agents"}, 12),
])  # fmt: skip
def test_num_envs_follows_from_the_options(options, num_envs):
    env = gymnasium.make_vec("WarpTag-v0", device="cpu", array="numpy", **ENVS["tag"][1], **options)
    assert env.num_envs == num_envs
    assert len(env.reset(seed=0)[0]) == num_envs


@pytest.mark.parametrize("spelling", ["same_step", "SameStep", AutoresetMode.SAME_STEP])
def test_every_spelling_of_an_autoreset_mode_becomes_the_enum(spelling):
    env = make("cartpole", autoreset_mode=spelling)
    assert env.metadata["autoreset_mode"] is env.unwrapped.autoreset_mode is AutoresetMode.SAME_STEP


def test_the_default_mode_is_same_step():
    assert make("cartpole").metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


KNOWN = {"WarpCartPole-v1": ".*space (min|max)imum value is -?infinity", "WarpPendulum-v1": ".*symmetric and normalized space"}
"""Warnings of Gymnasium's checker that Gymnasium's own env causes too: velocities without bounds, a torque up to 2."""


@pytest.mark.parametrize("name", SINGLES)
def test_gymnasiums_check_env_passes(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", KNOWN.get(name, "nothing"))
        check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", SINGLES)
def test_gymnasiums_passive_checker_passes(name):
    env = PassiveEnvChecker(gymnasium.make(name, disable_env_checker=True, render_mode="rgb_array").unwrapped)
    env.reset(seed=1)
    env.render()
    for _ in range(30):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()


class SameStart(gymnasium.Wrapper):
    """Starts every episode in a given state, set in the way that the env offers."""

    def __init__(self, env, state):
        super().__init__(env)
        self.start = state
        self.ends = set()

    def reset(self, **options):
        _, info = self.env.reset(**options)
        inner = self.unwrapped
        if hasattr(inner, "vector"):
            inner.vector.set_state({"state": self.start[None]})
            return inner.vector.observe()[0], info
        inner.state = self.start.astype(np.float64)
        return self.start, info

    def step(self, action):
        out = self.env.step(action)
        self.ends |= {name for name, flag in zip(("terminated", "truncated"), out[2:4], strict=True) if flag}
        return out


STARTS = [
    ("WarpCartPole-v1", [0.01, -0.03, 0.02, 0.04], "terminated"),
    ("WarpAcrobot-v1", [2.4, 0.3, 2.0, -1.0], "terminated"),
    ("WarpAcrobot-v1", [0.0, 0.0, 0.0, 0.0], "truncated"),
    ("WarpMountainCar-v0", [0.45, 0.03], "terminated"),
    ("WarpMountainCar-v0", [-0.5, 0.0], "truncated"),
    ("WarpMountainCarContinuous-v0", [0.4, 0.03], "terminated"),
    ("WarpMountainCarContinuous-v0", [-0.5, 0.0], "truncated"),
    ("WarpPendulum-v1", [3.0, -1.0], "truncated"),
]


@pytest.mark.parametrize("name, start, end", STARTS)
def test_spaces_flags_and_constant_rewards_match_gymnasiums(name, start, end):
    start = np.array(start, np.float32)
    ours, theirs = (SameStart(gymnasium.make(env_id), start) for env_id in (name, name.removeprefix("Warp")))
    assert ours.observation_space == theirs.observation_space
    assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps
    assert ours.spec.reward_threshold == theirs.spec.reward_threshold
    continuous = isinstance(ours.action_space, gymnasium.spaces.Box)
    # Observations and rewards of continuous actions differ by rounding; test_against_gymnasium.py compares those.
    check_environments_match(ours, theirs, num_steps=ours.spec.max_episode_steps + 1, skip_obs=True, skip_rew=continuous)
    assert ours.ends == {end}


def test_gymnasium_make_uses_the_time_limit_wrapper_only():
    env = gymnasium.make("WarpCartPole-v1", max_episode_steps=4)
    env.reset(seed=0)
    assert [env.step(i % 2)[3] for i in range(4)] == [False, False, False, True]
    assert env.unwrapped.vector.params["max_episode_steps"] == 0


@pytest.mark.parametrize("duplicate", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("name", SINGLES)
def test_a_copy_of_a_single_env_continues_as_the_original_does(name, duplicate):
    env = gymnasium.make(name, max_episode_steps=30)
    assert duplicate(env).reset(seed=3)[0].tolist() == env.reset(seed=3)[0].tolist()
    actions = [env.action_space.sample() for _ in range(40)]
    for action in actions[:5]:
        env.step(action)
    again = duplicate(env)
    ends = 0
    for action in actions:
        ours, theirs = env.step(action), again.step(action)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:] == theirs[1:]
        if ours[2] or ours[3]:
            ends += 1
            np.testing.assert_array_equal(env.reset()[0], again.reset()[0])
    assert ends


def test_a_step_of_a_shallow_copy_of_a_single_env_leaves_the_original():
    env = gymnasium.make("WarpCartPole-v1").unwrapped
    env.reset(seed=3)
    again = copy.copy(env)
    again.step(1)
    assert [one.vector.get_state("t")["t"].tolist() for one in (env, again)] == [[0], [1]]


def test_sync_vectorization_equals_single_envs():
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=2, vectorization_mode="sync")
    rows = run(env, steps=8, seed=5)
    for i in range(2):
        single = gymnasium.make("WarpCartPole-v1")
        obs, _ = single.reset(seed=5 + i)
        np.testing.assert_array_equal(rows[0][0][i], obs)
        for actions, row in zip(random_actions(env, 8), rows[1:], strict=True):
            np.testing.assert_array_equal(row[0][i], single.step(actions[i])[0])


@pytest.mark.parametrize("options", [
    {"num_envs": 2}, {"num_worlds": 2, "view": "agents"}, {"num_envs": 12, "view": "agents", "autoreset_mode": "NextStep"},
])  # fmt: skip
def test_a_spec_makes_the_same_env_again(options):
    env = gymnasium.make_vec("WarpTag-v0", device="cpu", array="numpy", **ENVS["tag"][1], **options)
    for spec in (env.spec, EnvSpec.from_json(env.spec.to_json())):
        again = gymnasium.make_vec(spec)
        assert again.unwrapped.params == env.unwrapped.params
        assert again.unwrapped.view == env.unwrapped.view
        for left, right in zip(run(env, 8), run(again, 8), strict=True):
            np.testing.assert_array_equal(left[0], right[0])
    env.unwrapped.spec = None
    assert env.spec is None


def test_the_callers_time_limit_replaces_that_of_the_spec():
    assert make("cartpole", max_episode_steps=9).unwrapped.params["max_episode_steps"] == 9
    assert gymnasium.make_vec("WarpCartPole-v1", device="cpu").unwrapped.params["max_episode_steps"] == 500
    assert gymnasium.make_vec("WarpCartPole-v1", device="cpu", max_episode_steps=None).unwrapped.params["max_episode_steps"] == 0
    assert gymnasium.spec("WarpTag-v0").max_episode_steps is None


def test_an_id_with_a_module_name_works_in_a_new_process():
    code = (
        "import json, warnings, gymnasium; warnings.simplefilter('error');"
        "env = gymnasium.make_vec('gpu_vecenv:WarpTag-v0', num_envs=2, device='cpu', array='numpy');"
        "import gpu_vecenv, importlib; importlib.reload(gpu_vecenv);"
        "print(json.dumps([env.num_envs, list(env.reset(seed=1)[0].shape)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, [2, 105, 71]]
    assert done.stderr == ""


# ---- stock wrappers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_normalize_reward_and_record_statistics(name, view, mode):
    env = wrappers.RecordEpisodeStatistics(wrappers.NormalizeReward(make(name, view=view, autoreset_mode=mode)))
    outputs = run(env)
    assert any("episode" in info for *_, info in outputs)
    assert all(np.isfinite(step[1]).all() for step in outputs[1:])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_dict_info_to_list(name, view):
    env = wrappers.DictInfoToList(make(name, view=view))
    ended = 0
    for obs, _, terminated, truncated, infos in run(env)[1:]:
        assert len(infos) == env.num_envs
        for i in range(env.num_envs):
            assert ("final_obs" in infos[i]) == bool(terminated[i] | truncated[i])
            if "final_obs" in infos[i]:
                ended += 1
                assert infos[i]["final_obs"].shape == obs[i].shape
            if name == "tag":
                assert np.shape(infos[i]["agent_alive"]) == (() if view == "agents" else (6,))
    assert ended


def test_normalize_observation_in_next_step_mode():
    env = wrappers.NormalizeObservation(make("cartpole", autoreset_mode="next_step"))
    seen = np.concatenate([step[0] for step in run(env, 60)[20:]])
    assert abs(seen.mean()) < 0.5 and 0.3 < seen.std() < 2


def test_numpy_to_torch():
    import torch

    env = wrappers.NumpyToTorch(make("tag"))
    env.reset(seed=0)
    obs, reward, terminated, _, info = env.step(torch.zeros(3, 6, 2, dtype=torch.int64))
    for value in (obs, reward, terminated, info["final_obs"], info["_final_obs"], info["agent_alive"]):
        assert isinstance(value, torch.Tensor)


def test_array_conversion_of_torch_to_numpy():
    import torch

    env = wrappers.ArrayConversion(make("tag", array="torch"), env_xp=torch, target_xp=np)
    plain = make("tag")
    for left, right in zip(run(env, 8), run(plain, 8), strict=True):
        assert isinstance(left[0], np.ndarray)
        np.testing.assert_array_equal(left[0], right[0])


@pytest.mark.parametrize("name, view", in_ci([("tag", "agents")], [("cartpole", "worlds"), ("tag", "worlds"), ("tag", "agents")]))
def test_record_video(name, view, tmp_path):
    env = make(name, view=view, num_worlds=2, autoreset_mode="next_step", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised inside moviepy
        env = wrappers.RecordVideo(env, str(tmp_path / "videos"), episode_trigger=lambda episode: episode == 0)
        run(env, 14)
        env.close()
    (video,) = tmp_path.glob("videos/*.mp4")
    assert video.stat().st_size > 500


@pytest.mark.parametrize("view", VIEWS)
def test_render_returns_one_frame_an_env(view):
    env = make("tag", view=view, num_worlds=2, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert len(frames) == env.num_envs
    assert all(frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 for frame in frames)
    if view == "agents":  # rows of a world share its frame: 2 + 2 taggers, then 4 + 4 runners
        world = [0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1]
        for row, frame in enumerate(frames):
            np.testing.assert_array_equal(frame, frames[2 * world[row]])
        assert not np.array_equal(frames[0], frames[2])


@pytest.mark.parametrize("name", ["WarpCartPole-v1", "WarpPendulum-v1"])
def test_render_mode_rgb_array_list_collects_frames(name):
    env = gymnasium.make(name, render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step(env.action_space.sample())
    assert len(env.render()) == 2
    env.close()


def test_a_reset_option_may_be_an_array_of_one_number():
    given, plain = gymnasium.make("WarpCartPole-v1"), gymnasium.make("WarpCartPole-v1")
    obs, _ = given.reset(seed=1, options={"low": np.array(-0.2), "high": np.array(0.1)})
    np.testing.assert_array_equal(obs, plain.reset(seed=1, options={"low": -0.2, "high": 0.1})[0])
