"""Results of ``Sb3VecEnv``, compared with the vector env stepped directly."""

import runpy
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import ClipAction
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor

import gpu_vecenv  # noqa: F401
from gpu_vecenv.adapters import sb3, sb3_gpu
from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, SequenceError, ShapeError
from tests.devices import DEVICES

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 9, "tagging_distance": 0.5}
ENVS = {
    "cartpole": ("WarpCartPole-v1", {"max_episode_steps": 14}),
    "pendulum": ("WarpPendulum-v1", {"max_episode_steps": 6}),
    "mountain car": ("WarpMountainCarContinuous-v0", {"max_episode_steps": 7}),
    "three pushes": ("WarpMountainCar-v0", {"max_episode_steps": 8}),
    "acrobot": ("WarpAcrobot-v1", {"max_episode_steps": 9}),
    "tag": ("WarpTag-v0", TAG),
    "grid tag": ("WarpGridTag-v0", {"episode_length": 8, "grid_length": 6}),
}


def works(what):
    return pytest.mark.works("Stable-Baselines3", what)


def limit(what):
    return pytest.mark.limit("Stable-Baselines3", what)


def make(name, device="cpu", num_worlds=4, **options):
    env_id, params = ENVS[name]
    return Sb3VecEnv(env_id, num_worlds=num_worlds, device=device, **{**params, **options})


def raw(name, num_worlds=4, **options):
    """The same worlds in the agents view, as NumPy arrays on the CPU."""
    env_id, params = ENVS[name]
    return gymnasium.make_vec(env_id, num_worlds=num_worlds, view="agents", device="cpu", array="numpy", **{**params, **options})


def random_actions(env, steps, seed=0):
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(steps)]


@works("every id; in worlds of several agents, each agent is a row")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ENVS)
def test_rows_equal_those_of_the_vector_env(name, device):
    plain, env = raw(name), make(name, device)
    assert env.num_envs == plain.num_envs
    assert (env.observation_space, env.action_space) == (plain.single_observation_space, plain.single_action_space)
    env.seed(3)
    obs = env.reset()
    np.testing.assert_array_equal(obs, plain.reset(seed=3)[0])
    assert type(obs) is np.ndarray and obs.dtype == np.float32
    returns, lengths, timeouts, falls = np.zeros(env.num_envs), np.zeros(env.num_envs, int), 0, 0
    for actions in random_actions(plain, 40):
        obs, reward, terminated, truncated, expected = plain.step(actions)
        new_obs, rewards, dones, infos = env.step(actions)
        np.testing.assert_array_equal(new_obs, obs)
        np.testing.assert_array_equal(rewards, reward)
        np.testing.assert_array_equal(dones, terminated | truncated)
        assert all(type(array) is np.ndarray for array in (new_obs, rewards, dones)) and dones.dtype == bool
        returns, lengths = returns + reward, lengths + 1
        for row, info in enumerate(infos):
            if not dones[row]:
                assert info == {}
                continue
            np.testing.assert_array_equal(info["terminal_observation"], expected["final_obs"][row])
            assert info["TimeLimit.truncated"] is bool(truncated[row] and not terminated[row])
            assert info["episode"]["r"] == pytest.approx(returns[row], abs=1e-4)
            assert info["episode"]["l"] == lengths[row]
            assert info["episode"]["t"] >= 0
            if "agent_alive" in expected:
                assert info["agent_alive"] is bool(expected["agent_alive"][row])
            falls, timeouts = falls + terminated[row], timeouts + info["TimeLimit.truncated"]
            returns[row], lengths[row] = 0, 0
        if "agent_alive" in expected:
            np.testing.assert_array_equal(env.agent_alive, expected["agent_alive"])
        else:
            assert env.agent_alive is None
    assert timeouts and (falls or name not in ("cartpole", "tag", "grid tag"))  # both kinds of ends occurred


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("given", ["id", "copy=True", "copy=False"])
def test_the_caller_may_keep_and_overwrite_returned_arrays(given, device):
    env_id, params = ENVS["cartpole"]
    env = make("cartpole", device) if given == "id" else Sb3VecEnv(
        gymnasium.make_vec(env_id, num_envs=4, device=device, copy=given == "copy=True", **params))  # fmt: skip
    plain = raw("cartpole")
    env.seed(1)
    plain.reset(seed=1)
    kept = [env.reset()]
    copies = [kept[0].copy()]
    for actions in random_actions(plain, 20):
        obs, reward, *_, expected = plain.step(actions)
        new_obs, rewards, _, infos = env.step(actions)
        np.testing.assert_array_equal(rewards, reward)  # not affected by the write to ``rewards`` below
        np.testing.assert_array_equal(new_obs, obs)
        rewards += 100  # SB3 adds to rewards in place where a time limit ended an episode
        for info in infos:
            info["written by a callback"] = True
            if "terminal_observation" in info:
                kept.append(info["terminal_observation"])
                copies.append(kept[-1].copy())
        kept.append(new_obs)
        copies.append(new_obs.copy())
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert len(kept) > 21


def test_infos_are_not_shared_between_rows_or_steps():
    env = make("cartpole")
    env.reset()
    actions = np.zeros(env.num_envs, int)
    for info in env.step(actions)[-1]:
        info["mine"] = True
    infos = env.step(actions)[-1]
    assert infos == [{}] * env.num_envs and len({id(info) for info in infos}) == env.num_envs


def test_ppo_stores_the_observation_each_action_was_chosen_for():
    env, plain = make("cartpole"), raw("cartpole")
    model = PPO("MlpPolicy", env, n_steps=20, batch_size=80, seed=5, device="cpu")
    _, callback = model._setup_learn(80)
    model.collect_rollouts(env, callback, model.rollout_buffer, 20)
    obs, _ = plain.reset(seed=5)
    for t in range(20):
        np.testing.assert_array_equal(model.rollout_buffer.observations[t], obs)
        obs, *_ = plain.step(model.rollout_buffer.actions[t, :, 0].astype(int))


def test_seeds_and_options_are_used_by_the_next_reset_only():
    env = make("cartpole")
    env.seed(7)
    env.set_options({"low": -0.01, "high": 0.01})
    first, second = env.reset(), env.reset()
    assert np.abs(first).max() <= 0.01 < np.abs(second).max()
    assert not np.array_equal(first, second)
    env.seed(7)
    wide, next_wide = env.reset(), env.reset()  # now without options
    assert np.abs(wide).max() > 0.01 and not np.array_equal(wide, next_wide)
    env.seed(7)
    env.set_options({"low": -0.01, "high": 0.01})
    np.testing.assert_array_equal(env.reset(), first)
    assert env.reset_infos == [{}] * env.num_envs


@limit("different reset options for different rows: all rows are one env")
def test_options_of_rows_must_agree():
    env = make("cartpole")
    with pytest.raises(ParameterError, match="same for all rows"):
        env.set_options([{"low": -0.01, "high": 0.01}, *[{}] * 3])
    env.set_options([{"low": -0.01, "high": 0.01}] * 4)
    assert abs(env.reset()).max() < 0.01


@works("seeds: the same seed gives the same run; rows have different random numbers")
@pytest.mark.parametrize("options", [{}, {"role": "tagger"}], ids=["all", "one role"])
def test_a_seed_fixes_the_run(options):
    def run(seed):
        env = make("tag", **options)
        env.action_space.seed(0)
        env.seed(seed)
        seen = [env.reset()]
        for _ in range(25):
            obs, rewards, dones, _ = env.step(np.array([env.action_space.sample() for _ in range(env.num_envs)]))
            seen += [obs, rewards, dones]
        return seen

    first, again, other = run(11), run(11), run(12)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])
    assert len(np.unique(first[0], axis=0)) == len(first[0])


@works("training one role, while the other roles act by a function on the device or at random")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("role, other", [("tagger", "runner"), ("runner", "tagger")])
def test_one_role_trains_while_a_function_acts_for_the_other(role, other, device):
    seen = []

    def policy(obs):
        seen.append(obs.cpu().numpy())
        return (obs[:, :2].abs() * 1000).long() % 21

    plain, env = raw("tag"), make("tag", device, role=role, others={other: policy})
    mine, others = plain.role_rows[role], plain.role_rows[other]
    assert env.num_envs == mine.stop - mine.start and env.action_space == plain.single_action_space
    env.seed(2)
    obs, _ = plain.reset(seed=2)
    np.testing.assert_array_equal(env.reset(), obs[mine])
    for actions in random_actions(plain, 30):
        actions[others] = policy(torch.tensor(obs[others])).numpy()
        new_obs, rewards, dones, infos = env.step(actions[mine])
        np.testing.assert_array_equal(seen[-1], obs[others])
        obs, reward, terminated, truncated, info = plain.step(actions)
        np.testing.assert_array_equal(new_obs, obs[mine])
        np.testing.assert_array_equal(rewards, reward[mine])
        np.testing.assert_array_equal(dones, (terminated | truncated)[mine])
        np.testing.assert_array_equal(env.agent_alive, info["agent_alive"][mine])
        for row in np.flatnonzero(dones):
            np.testing.assert_array_equal(infos[row]["terminal_observation"], info["final_obs"][mine][row])
            assert infos[row]["agent_alive"] is bool(info["agent_alive"][mine][row])


@pytest.mark.parametrize("params, actions", [
    ({"num_acceleration_levels": 2, "num_turn_levels": 4}, 15),
    ({"num_acceleration_levels": 2, "num_turn_levels": 4, "flatten_actions": True}, 15),
    ({"continuous_actions": True}, None),
], ids=["two heads", "flat", "continuous"])  # fmt: skip
def test_roles_without_a_function_act_uniformly_at_random(params, actions):
    env = make("tag", role="tagger", num_worlds=300, **params)
    env.reset()
    joint = []
    step = env.env.step
    env.env.step = lambda given: joint.append(given) or step(given)
    mine = np.array([env.action_space.sample() for _ in range(env.num_envs)])
    env.step(mine)
    rows = env.get_attr("role_rows")[0]
    np.testing.assert_array_equal(joint[0][rows["tagger"]].numpy(), mine)
    drawn = joint[0][rows["runner"]].numpy()
    if actions is None:
        low, high = env.action_space.low, env.action_space.high
        assert (low <= drawn).all() and (drawn <= high).all()
        np.testing.assert_allclose(drawn.mean(0), (low + high) / 2, atol=0.15 * (high - low).max())
        np.testing.assert_allclose(drawn.std(0), (high - low) / 12**0.5, rtol=0.1)
    else:
        chosen, counts = np.unique(drawn, axis=0, return_counts=True)
        assert len(chosen) == actions
        assert counts.min() > 900 / actions / 2 and counts.max() < 900 / actions * 2


def test_random_is_the_name_of_random_actions():
    by_name, unnamed = make("tag", role="tagger", others={"runner": "random"}), make("tag", role="tagger")
    for env in (by_name, unnamed):
        env.seed(4)
        env.reset()
    for _ in range(3):
        for ours, other in zip(by_name.step(np.zeros((8, 2), int)), unnamed.step(np.zeros((8, 2), int)), strict=True):
            np.testing.assert_array_equal(ours, other)


def test_a_function_of_another_role_may_return_arrays_of_any_kind():
    given = np.full((12, 2), 3)
    envs = [make("tag", role="tagger", others={"runner": lambda _, give=give: give})
            for give in (torch.tensor(given), given, given.tolist())]  # fmt: skip
    results = []
    for env in envs:
        env.seed(4)
        env.reset()
        results.append(env.step(np.zeros((8, 2), int))[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("given, error, message", [
    (None, ArrayTypeError, "must be numbers, got object"),
    (np.zeros(12, int), ShapeError, r"must have shape \(12, 2\), got \(12,\)"),
    (np.zeros((3, 2), int), ShapeError, r"must have 12 rows, got the shape \(3, 2\)"),
    (torch.zeros(12, 2), ArrayTypeError, "must be of the kind of torch.int64, got torch.float32"),
])  # fmt: skip
def test_wrong_actions_of_another_role_raise_errors(given, error, message):
    env = make("tag", role="tagger", others={"runner": lambda _: given})
    env.reset()
    with pytest.raises(error, match=rf"^the actions of others\['runner'\] {message}"):
        env.step(np.zeros((8, 2), int))


def test_invalid_roles_raise_errors():
    for options, message in (
        ({"role": "cop"}, "no role 'cop'; the roles are tagger, runner"),
        ({"role": "tagger", "others": {"robber": len}}, "others must name roles among runner, got 'robber'"),
        ({"role": "tagger", "others": {"tagger": len}}, "got 'tagger', whose rows are those of this env"),
        ({"role": "tagger", "others": {"runner": 3}}, r"others\['runner'\] must be 'random' or a function, got 3"),
        ({"others": {"runner": len}}, "role must name the trained one"),
    ):
        with pytest.raises(ParameterError, match=message):
            make("tag", **options)


@limit("envs with another array kind, autoreset mode, or several agents in the worlds view: SB3 needs same-step rows")
@pytest.mark.parametrize("options, message", [
    ({"array": "numpy"}, "array='torch'"),
    ({"autoreset_mode": "next_step"}, "autoreset_mode='same_step', got 'next_step'"),
    ({"view": "worlds"}, "view='agents'"),
], ids=["array", "mode", "view"])  # fmt: skip
def test_unsuitable_envs_raise_errors(options, message):
    env = gymnasium.make_vec("WarpTag-v0", num_worlds=2, device="cpu", **{"view": "agents", **options, **TAG})
    with pytest.raises(ParameterError, match=message):
        Sb3VecEnv(env)


def test_other_envs_and_options_for_a_made_env_raise_errors():
    with pytest.raises(ParameterError, match="of this package, got SyncVectorEnv"):
        Sb3VecEnv(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu")
    with pytest.raises(ParameterError, match="need an id"):
        Sb3VecEnv(env, num_envs=2)
    with pytest.raises(ParameterError, match="need an id"):
        Sb3VecEnv(env, max_episode_steps=3)


def test_a_step_before_the_first_reset_raises_an_error():
    with pytest.raises(SequenceError):
        make("cartpole").step(np.zeros(4, int))
    with pytest.raises(SequenceError):
        make("tag", role="tagger").step(np.zeros((8, 2), int))


def test_attributes_and_methods_reach_the_env():
    env = make("tag")
    assert env.get_attr("num_worlds") == [4] * 20
    assert env.get_attr("params", indices=[1, 4])[0]["num_taggers"] == 2
    assert env.get_attr("num_agents", indices=3) == [5]
    assert env.has_attr("role_counts") and not env.has_attr("colour")
    env.reset()
    states = env.env_method("get_state")
    assert len(states) == 20 and states[0]["t"].shape == (4,)


@limit("set_attr and env_method for some rows only: all rows are one env")
def test_writing_some_rows_only_raises_an_error():
    env = make("cartpole")
    for call in (lambda: env.set_attr("colour", "red", indices=[0]), lambda: env.env_method("get_state", indices=2)):
        with pytest.raises(ParameterError, match="expected no indices"):
            call()


def test_env_is_wrapped_answers_for_each_requested_row():
    env = make("cartpole")
    assert env.env_is_wrapped(Monitor) == [True] * 4
    assert env.env_is_wrapped(Monitor, indices=2) == [True]
    assert env.env_is_wrapped(ClipAction, indices=[0, 1]) == [False, False]


@works("render(), with one picture for each world")
def test_render_draws_one_picture_a_world():
    env = make("tag", render_mode="rgb_array")
    env.seed(0)
    env.reset()
    frames = env.get_images()
    expected = env.env.unwrapped.render()
    rows = env.get_attr("role_rows")[0]["runner"]
    assert len(frames) == 4
    for world, frame in enumerate(frames):
        np.testing.assert_array_equal(frame, expected[rows.start + 3 * world])
    height, width, _ = frames[0].shape
    assert env.render().shape == (2 * height, 2 * width, 3)
    assert env.metadata["render_fps"] == 30
    silent = make("cartpole")
    silent.reset()
    assert silent.get_images() == [None] * 4
    with pytest.warns(UserWarning, match="no `render_mode`"):
        assert silent.render() is None


def test_a_closed_env_can_be_closed_again_but_not_reset():
    env = make("cartpole")
    env.reset()
    env.close()
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()


@pytest.mark.parametrize("module", [sb3, sb3_gpu])
def test_without_stable_baselines3_the_error_names_the_extra(module, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "stable_baselines3"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtraError, match=r"gpu-vecenv\[sb3\]"):
        runpy.run_path(module.__file__)
