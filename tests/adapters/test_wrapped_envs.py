"""Adapters around envs in wrappers: spaces, observations and statistics are those of the wrappers."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import VectorActionWrapper as ActionWrapper
from gymnasium.vector import VectorWrapper

from gpu_vecenv import ClipAction, EpisodeStatistics, NormalizeObservation, NormalizeReward, TransformObservation, TransformReward
from gpu_vecenv.adapters.checks import row_spaces
from gpu_vecenv.errors import ParameterError

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 6}


def pendulum(**options):
    return gymnasium.make_vec("WarpPendulum-v1", num_envs=4, device="cpu", max_episode_steps=5, **options)


def first_two(env, shape=(2,)):
    """The first two numbers of each observation."""
    return TransformObservation(env, lambda obs: obs[..., :2], Box(-1, 1, shape))


def sb3(env):
    return pytest.importorskip("gpu_vecenv.adapters.sb3").Sb3VecEnv(env)


def skrl(env):
    pytest.importorskip("skrl")
    return pytest.importorskip("gpu_vecenv.adapters.skrl").SkrlEnv(env)


def rl_games(env):
    pytest.importorskip("rl_games")
    return pytest.importorskip("gpu_vecenv.adapters.rl_games").RlGamesEnv(env)


def rsl_rl(env, **options):
    pytest.importorskip("rsl_rl")
    return pytest.importorskip("gpu_vecenv.adapters.rsl_rl").RslRlEnv(env, **options)


@pytest.mark.parametrize("adapter", [sb3, skrl, rl_games])
def test_spaces_are_those_of_the_outermost_wrapper(adapter):
    env = adapter(first_two(pendulum()))
    assert env.observation_space == Box(-1, 1, (2,)) and env.action_space == Box(-2, 2, (1,))
    obs = env.reset()
    assert (obs[0] if isinstance(obs, tuple) else obs).shape == (4, 2)
    normal = adapter(NormalizeObservation(pendulum()))
    assert normal.observation_space == Box(-np.inf, np.inf, (3,)) and normal.action_space == Box(-2, 2, (1,))


class Same(ActionWrapper):
    """Takes the env's actions."""

    def actions(self, actions):
        return actions


class Halved(ActionWrapper):
    """Takes actions from -1 to 1."""

    def __init__(self, env):
        super().__init__(env)
        self.single_action_space = Box(-1, 1, (1,))

    def actions(self, actions):
        return 2 * actions


@pytest.mark.parametrize("adapter", [sb3, skrl, rl_games])
@pytest.mark.parametrize("wrap, bound", [(Halved, 1), (ClipAction, 2), (lambda env: Halved(ClipAction(env)), 1)])
def test_action_spaces_are_those_of_wrappers_and_have_bounds(adapter, wrap, bound):
    env = adapter(wrap(pendulum()))
    assert env.action_space == Box(-bound, bound, (1,)) and env.observation_space == pendulum().single_observation_space


def test_sb3_trains_on_the_observations_and_actions_of_wrappers():
    from stable_baselines3 import PPO

    env = sb3(first_two(ClipAction(pendulum())))
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=32, n_epochs=1, device="cpu", seed=0).learn(64)
    assert model.policy.observation_space.shape == (2,)
    env.seed(1)
    obs, plain = env.reset(), pendulum()
    np.testing.assert_array_equal(obs, plain.reset(seed=1)[0][:, :2])
    np.testing.assert_array_equal(
        env.step(np.full((4, 1), 9.0, np.float32))[0], plain.step(torch.full((4, 1), 2.0))[0][:, :2]
    )


def test_roles_that_act_at_random_do_so_within_the_bounds_of_the_env():
    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    inner = gymnasium.make_vec("WarpTag-v0", num_worlds=2, view="agents", device="cpu", continuous_actions=True, **TAG)
    env = Sb3VecEnv(ClipAction(inner), role="tagger")
    seen, step = [], env.env.step
    env.env.step = lambda actions: seen.append(actions) or step(actions)
    env.reset()
    env.step(np.full((4, 2), 100, np.float32))
    runners, space = seen[0][inner.role_rows["runner"]].numpy(), inner.single_action_space
    assert env.action_space == space and (seen[0][:4] == 100).all()
    assert (space.low <= runners).all() and (runners <= space.high).all()
    assert len(np.unique(runners)) > 6


@pytest.mark.parametrize("wrap, scale", [
    (lambda env: TransformReward(EpisodeStatistics(env), lambda reward: 10 * reward), 1),
    (lambda env: EpisodeStatistics(TransformReward(env, lambda reward: 10 * reward)), 10),
    (lambda env: TransformReward(env, lambda reward: 10 * reward), 10),
    (lambda env: NormalizeReward(EpisodeStatistics(env)), 1),
], ids=["inside", "outside", "none", "normalised"])  # fmt: skip
def test_episode_returns_are_those_of_the_statistics_given(wrap, scale):
    env, plain = sb3(wrap(pendulum())), pendulum()
    env.seed(2)
    env.reset()
    plain.reset(seed=2)
    total = np.zeros(4)
    for action in np.random.default_rng(0).uniform(-2, 2, (5, 4, 1)).astype(np.float32):
        total += plain.step(action)[1].numpy()
        infos = env.step(action)[3]
    assert [info["episode"]["r"] for info in infos] == pytest.approx(total * scale, rel=1e-5)


def test_rows_of_worlds_get_the_spaces_of_an_agent():
    env = gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", **TAG)
    flat = gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", flatten_actions=True, **TAG)
    rows = gymnasium.make_vec("WarpTag-v0", num_worlds=2, view="agents", device="cpu", **TAG)
    assert row_spaces(env) == row_spaces(rows) and isinstance(row_spaces(env)[1], MultiDiscrete)
    assert row_spaces(flat)[1] == Discrete(row_spaces(env)[1].nvec.prod())
    assert row_spaces(first_two(env, (5, 2))) == (Box(-1, 1, (2,)), row_spaces(env)[1])
    for shape in ((10,), (4, 2)):
        with pytest.raises(ParameterError, match="must have 5 equal agents along its first axis, got Box"):
            row_spaces(first_two(env, shape))
    uneven = TransformObservation(env, lambda obs: obs[..., :1], Box(-1, np.arange(5, dtype=np.float32)[:, None]))
    with pytest.raises(ParameterError, match="5 equal agents"):
        row_spaces(uneven)


def test_worlds_of_rl_games_have_the_observations_of_wrappers():
    env = rl_games(first_two(gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", **TAG), (5, 2)))
    obs = env.reset()
    assert obs["obs"].shape == (10, 2) and obs["states"].shape == (2, 10)
    assert env.get_env_info()["state_space"] == Box(-1, 1, (10,))


def test_worlds_of_skrl_have_the_observations_of_wrappers():
    pytest.importorskip("skrl")
    from gpu_vecenv.adapters.skrl import SkrlMultiAgentEnv

    env = SkrlMultiAgentEnv(first_two(gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", **TAG), (5, 2)))
    obs, _ = env.reset()
    assert env.observation_spaces["tagger_0"] == Box(-1, 1, (2,)) and obs["runner_2"].shape == (2, 2)
    assert env.state_spaces["tagger_0"] == Box(-1, 1, (10,)) and env.state()["tagger_0"].shape == (2, 10)


def test_a_view_of_observations_of_copy_false_is_refused():
    env = skrl(first_two(pendulum(copy=False)))
    env.reset()
    with pytest.raises(ParameterError, match="expected an env with copy=True"):
        env.step(torch.zeros(4, 1))


def test_setting_the_time_gives_rsl_rl_the_observations_of_wrappers():
    tag = {**TAG, "continuous_actions": True}
    inner = gymnasium.make_vec("WarpTag-v0", num_worlds=2, view="agents", device="cpu", **tag)
    scaled = TransformObservation(Same(NormalizeObservation(TransformReward(inner, abs))), lambda obs: 2 * obs)
    env = rsl_rl(scaled, seed=0)
    assert env.num_actions == 2  # the chain also has a wrapper of Gymnasium
    before, moments = env.get_observations()["policy"].clone(), scaled.env.env.obs_rms
    env.episode_length_buf = torch.tensor([3, 3, 4, 4, 3, 3, 3, 4, 4, 4])
    after = env.get_observations()["policy"]
    expected = 2 * ((inner.observe() - moments.mean) / (moments.var + 1e-8) ** 0.5).float()
    assert torch.equal(after, expected) and not torch.equal(after, before)


def test_setting_the_time_refuses_wrappers_that_may_change_observations():
    class Mine(VectorWrapper):
        pass

    env = rsl_rl(Mine(pendulum()), seed=0)
    with pytest.raises(ParameterError, match="Mine may change observations"):
        env.episode_length_buf = torch.ones(4, dtype=torch.int64)
    assert env.episode_length_buf.tolist() == [0] * 4


@pytest.mark.parametrize("adapter, instead", [
    ("torchrl.TorchRLEnv", "transforms of TorchRL"),
    ("pettingzoo.PettingZooEnv", "wrappers of PettingZoo or SuperSuit"),
])  # fmt: skip
def test_adapters_that_step_the_env_itself_refuse_ids_with_wrappers(adapter, instead, monkeypatch):
    module, name = adapter.split(".")
    pytest.importorskip(module)
    made = getattr(pytest.importorskip(f"gpu_vecenv.adapters.{module}"), name)
    envs = []

    def make(**options):
        envs.append(ClipAction(gymnasium.make_vec("WarpPendulum-v1", **options)))
        return TransformReward(envs[0], abs)

    registered = gymnasium.envs.registration.EnvSpec("InWrappers-v0", vector_entry_point=make)
    monkeypatch.setitem(gymnasium.registry, "InWrappers-v0", registered)
    text = f"{name} takes an env without wrappers, and 'InWrappers-v0' makes one in TransformReward; use {instead}"
    with pytest.raises(ParameterError, match=text):
        made("InWrappers-v0", device="cpu")
    assert envs[0].unwrapped.closed
