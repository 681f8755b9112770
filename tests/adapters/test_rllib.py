"""RLlib's PPO on our vector envs, through the vector entry point."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ParameterError
from tests.adapters.rllib_runs import ppo, registered, seen_samples, session

pytest.importorskip("ray.rllib")

works, limit = (lambda what, mark=mark: mark("RLlib", what) for mark in (pytest.mark.works, pytest.mark.limit))
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*already in registry:UserWarning")
ray_session = pytest.fixture(scope="module", autouse=True)(session)

CARTPOLE = "gpu_vecenv:WarpCartPole-v1"
TAG = {"num_taggers": 1, "num_runners": 3, "episode_length": 12}
LIMIT = 15
"""A time limit that some random episodes of CartPole reach and others do not."""


def vector_ppo(env, num_envs, steps=256, **options):
    """PPO on a vector env of ``num_envs`` on the CPU, with ``steps`` in an iteration."""
    config = ppo(steps).environment(env, env_config={"device": "cpu", **options})
    return config.env_runners(num_envs_per_env_runner=num_envs, gym_env_vectorize_mode="vector_entry_point")


def weights(algo):
    return {name: value.detach().clone() for name, value in algo.get_module().state_dict().items()}


# ---- what works -----------------------------------------------------------------------------------------------------


@works("PPO by id through the vector entry point, with `preset=\"rllib\"`; discrete and continuous actions")
@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0"])
def test_ppo_trains(name):
    algo = vector_ppo(f"gpu_vecenv:Warp{name}", 8, preset="rllib").build_algo()
    before, result = weights(algo), [algo.train() for _ in range(2)][-1]
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] >= 512
    after = weights(algo)
    assert all(value.isfinite().all() for value in after.values())
    assert any(not value.equal(before[name]) for name, value in after.items())
    algo.stop()


@works('Tag as rows of agents, with `view="agents"` and one policy for all roles')
@pytest.mark.parametrize("name, options", [("WarpTag-v0", TAG), ("WarpGridTag-v0", {"num_taggers": 3, "episode_length": 12})])
def test_ppo_trains_on_rows_of_agents(name, options):
    algo = vector_ppo(f"gpu_vecenv:{name}", 16, preset="rllib", view="agents", **options).build_algo()
    with seen_samples() as episodes:
        result = algo.train()["env_runners"]
    ends = [episode for episode in episodes if episode.truncated or episode.terminated]
    assert result["num_episodes"] == len(ends) >= 16 and result["episode_len_max"] <= 12
    algo.stop()


@works("env runners in processes of their own")
@pytest.mark.timeout(120)
def test_an_env_runner_in_its_own_process():
    algo = vector_ppo(CARTPOLE, 8, preset="rllib").env_runners(num_env_runners=1).build_algo()
    assert algo.train()["env_runners"]["episode_return_mean"] >= 8
    algo.stop()


@works("PPO, which solves CartPole")
@pytest.mark.timeout(180)
def test_ppo_solves_cartpole():
    config = vector_ppo(CARTPOLE, 16, 2048, preset="rllib")
    training = {"num_epochs": 6, "minibatch_size": 256, "lr": 1e-3, "vf_loss_coeff": 0.5, "vf_clip_param": float("inf")}
    algo = config.training(**training).debugging(seed=0).build_algo()
    returns = [algo.train()["env_runners"]["episode_return_mean"] for _ in range(18)]
    algo.stop()
    print("mean returns:", *np.round(returns, 1))
    assert returns[0] < 40  # random play has a mean of 22
    assert max(returns) > 400


# ---- observations that RLlib stores ---------------------------------------------------------------------------------


def true_step(obs, action):
    """The observation after an action, and if it ends the episode, by Gymnasium's own CartPole."""
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    env.state = np.array(obs, np.float64)
    after, _, terminated, _, _ = env.step(int(action))
    return after, terminated


def wrong_transitions(episode):
    """Steps of an episode whose observation afterwards is not the true one."""
    pairs = zip(episode.obs[:-1], episode.actions, episode.obs[1:], strict=True)
    return [t for t, (obs, action, after) in enumerate(pairs) if not np.allclose(true_step(obs, action)[0], after, atol=1e-4)]


def is_start(obs):
    return bool((np.abs(obs) <= 0.05).all())


@works("the true last observation of each episode, its true first one, terminations and truncations")
def test_episodes_are_those_of_the_env():
    algo = vector_ppo(CARTPOLE, 4, preset="rllib", max_episode_steps=LIMIT).build_algo()
    with seen_samples() as episodes:
        result = algo.train()["env_runners"]
    algo.stop()
    ends = [episode for episode in episodes if episode.terminated or episode.truncated]
    assert sum(len(episode.actions) for episode in episodes) == result["num_env_steps_sampled"]
    assert any(episode.truncated for episode in ends) and any(episode.terminated for episode in ends)
    for episode in episodes:
        assert wrong_transitions(episode) == []
        assert is_start(episode.obs[0]) == (episode.start == 0)
        assert (episode.rewards == 1).all()
    for episode in ends:
        _, terminated = true_step(episode.obs[-2], episode.actions[-1])
        length = episode.start + len(episode.actions)
        assert (episode.terminated, episode.truncated) == (terminated, length == LIMIT)


@limit('the default autoreset mode with `array="numpy"`: RLlib stores the next episode\'s first observation as the last one')
def test_the_default_autoreset_mode_stores_wrong_observations():
    """A function that makes the env gets a warning. RLlib itself is refused; see below."""
    algo_config = vector_ppo(registered("cartpole", CARTPOLE), 4, array="numpy")
    with pytest.warns(UserWarning, match='WarpCartPole-v1: RLlib needs an env made with preset="rllib".* autoreset_mode'):
        algo = algo_config.build_algo()
    with seen_samples() as episodes:
        algo.train()
    algo.stop()
    ends = [episode for episode in episodes if episode.terminated]
    assert len(ends) >= 4
    for episode in ends:
        assert wrong_transitions(episode) == [len(episode.actions) - 1]
        assert is_start(episode.obs[-1])
    firsts = [episode.obs[0] for episode in episodes if episode.start == 0]
    assert len(firsts) > 4 == sum(map(is_start, firsts))  # RLlib takes the first step of each later episode for its reset


@limit("copy=False: the next step changes observations that RLlib has stored")
def test_persistent_arrays_store_wrong_observations():
    config = vector_ppo(registered("cartpole", CARTPOLE), 4, array="numpy", autoreset_mode="next_step", copy=False)
    with pytest.warns(UserWarning, match="copy"):
        algo = config.build_algo()
    with seen_samples() as episodes:
        algo.train()
    algo.stop()
    assert all(len(np.unique(episode.obs, axis=0)) == 1 for episode in episodes)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, wrong",
    [
        ({}, "array and autoreset_mode"),
        ({"array": "numpy"}, "autoreset_mode"),
        ({"array": "numpy", "autoreset_mode": "disabled"}, "autoreset_mode"),
        ({"autoreset_mode": "next_step"}, "array"),
        ({"array": "numpy", "autoreset_mode": "next_step", "copy": False}, "copy"),
    ],
)
def test_rllib_is_refused_an_env_that_it_reads_wrongly(options, wrong):
    with pytest.raises(ParameterError, match=f'preset="rllib".* another value of {wrong}\\.'):
        vector_ppo(CARTPOLE, 4, **options).build_algo()


def test_the_preset_in_the_sync_mode_names_the_vector_entry_point():
    with pytest.raises(ParameterError, match='gym_env_vectorize_mode="vector_entry_point"'):
        ppo(64).environment(CARTPOLE, env_config={"preset": "rllib"}).build_algo()


@pytest.mark.filterwarnings("error:.*RLlib needs:UserWarning")
@works("single envs by id in RLlib's default vectorize mode; functions that make the vector env, through `register_env`")
def test_right_envs_give_no_warning():
    single = ppo(64).environment(CARTPOLE)
    made = vector_ppo(registered("cartpole", CARTPOLE), 4, preset="rllib")
    for config in (single, made):
        algo = config.build_algo()
        assert algo.train()["env_runners"]["num_env_steps_sampled"] >= 64
        algo.stop()
    gymnasium.make_vec(CARTPOLE, num_envs=2, array="numpy", device="cpu")  # nothing of RLlib's: same-step is right for others
