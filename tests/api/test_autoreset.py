"""The three autoreset modes, compared with worlds that Python steps one at a time, each in an env of its own."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.envs import MODES, SMALL_TAG, assert_same, host_info, make

WORLDS = 3

TIME = {"max_episode_steps": 5}
CASES = {
    "WarpTag-v0": ({**SMALL_TAG, "tagging_distance": 0.25}, {}),
    "WarpGridTag-v0": ({"num_taggers": 2, "grid_length": 3, "episode_length": 5}, {}),
    "WarpCartPole-v1": (TIME, {"low": -0.19, "high": 0.19}),
    "WarpAcrobot-v1": (TIME, {"low": -3.0, "high": 3.0}),
    "WarpMountainCar-v0": (TIME, {"low": 0.4, "high": 0.55}),
    "WarpMountainCarContinuous-v0": (TIME, {"low": 0.4, "high": 0.55}),
    "WarpPendulum-v1": (TIME, {"x_init": 9.0}),
}
"""Parameters and reset options of every id. Some episodes end by their rules and some by the time limit; Pendulum's end by
the time limit only."""


class World:
    """One world in an autoreset mode, built from the reset and step of an env of one world in disabled mode."""

    def __init__(self, env, mode, number, seed, options):
        self.env, self.mode, self.options = env, mode, options
        self.agents = env.unwrapped.num_agents
        env.reset(seed=seed)
        # The only world of this env gets the ``world_id`` of the world that it is compared with.
        env.unwrapped.set_state({"world_id": [number], "episode": [-1]})
        self.restart()

    def restart(self):
        self.finished = False
        self.obs = self.env.reset(options=self.options)[0][0]
        return self.obs

    def unstepped(self, ended, alive):
        """Results of a step in which the world is not stepped."""
        return self.results(0.0, ended, False, {"agent_alive": alive, "agent_reward": np.zeros(self.agents)})

    def results(self, reward, ended, finished, agents):
        return {"obs": self.obs, "reward": reward, "terminated": ended[0], "truncated": ended[1], "finished": finished, **agents}

    def step(self, action):
        if self.finished and self.mode == "next_step":
            self.restart()
            return self.unstepped((False, False), np.ones(self.agents, bool))
        if self.finished:
            return self.unstepped(self.ended, self.alive)
        obs, reward, terminated, truncated, info = self.env.step(action[None])
        self.obs = obs[0]
        self.ended = (bool(terminated[0]), bool(truncated[0]))
        self.finished = any(self.ended)
        agents = {name: value[0] for name, value in info.items()}
        self.alive = agents.get("agent_alive")
        out = self.results(reward[0], self.ended, self.finished, agents)
        if self.finished and self.mode == "same_step":
            out["final_obs"] = self.obs
            out["obs"] = self.restart()
        return out


@pytest.fixture(scope="module")
def envs():
    """Return the env under test and one env for each world, by name and mode. Examples share them, as each one seeds them."""
    made = {}

    def get(name, mode):
        if (name, mode) not in made:
            options = {"device": "cpu", "array": "numpy", **CASES[name][0]}
            singles = [gymnasium.make_vec(name, autoreset_mode="disabled", **options) for _ in range(WORLDS)]
            made[name, mode] = gymnasium.make_vec(name, num_worlds=WORLDS, autoreset_mode=mode, **options), singles
        return made[name, mode]

    return get


events = st.lists(
    st.one_of(st.just("step"), st.just("step"), st.lists(st.booleans(), min_size=WORLDS, max_size=WORLDS).filter(any)),
    min_size=5, max_size=25,
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=20, deadline=None)
@given(events=events, seed=st.integers(0, 2**63), with_options=st.booleans())
def test_worlds_step_as_if_run_one_at_a_time(envs, mode, name, events, seed, with_options):
    env, singles = envs(name, mode)
    options = CASES[name][1] if with_options else {}
    env.reset(seed=seed)
    env.unwrapped.set_state({"episode": [-1] * WORLDS})
    obs, _ = env.reset(options=options)
    worlds = [World(single, mode, number, seed, options) for number, single in enumerate(singles)]
    np.testing.assert_array_equal(obs, np.stack([world.obs for world in worlds]))
    env.action_space.seed(seed % 1000)
    for event in events:
        if event == "step":
            action = env.action_space.sample()
            check(env.step(action), [world.step(a) for world, a in zip(worlds, action, strict=True)], mode)
        else:
            mask = np.array(event)
            obs, info = env.reset(options={"reset_mask": mask, **options})
            expected = [world.restart() if m else world.obs for world, m in zip(worlds, mask, strict=True)]
            np.testing.assert_array_equal(obs, np.stack(expected))
            assert info == {}


def check(out, expected, mode):
    obs, reward, terminated, truncated, info = out
    info = host_info(info)
    for w, world in enumerate(expected):
        np.testing.assert_array_equal(obs[w], world["obs"])
        assert reward[w] == np.float32(world["reward"])
        assert (terminated[w], truncated[w]) == (world["terminated"], world["truncated"])
        if mode == "same_step":
            assert info["_final_obs"][w] == world["finished"]
            np.testing.assert_array_equal(info["final_obs"][w], world.get("final_obs", 0.0))
        for key in info.keys() & {"agent_alive", "agent_reward"}:
            np.testing.assert_array_equal(info[key][w], np.float32(world[key]))


@pytest.mark.parametrize("name", CASES)
def test_the_cases_have_ends_by_rules_and_by_time_limits(name):
    """Checks the test above: it covers both kinds of ends only if the cases have both."""
    params, options = CASES[name]
    env = gymnasium.make_vec(name, num_worlds=200, device="cpu", array="numpy", **params)
    env.reset(seed=0, options=options)
    env.action_space.seed(0)
    kinds = set()
    for _ in range(8):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        kinds |= set(zip(terminated.tolist(), truncated.tolist(), strict=True))
    assert kinds >= {(False, False), (False, True)}
    assert ((True, False) in kinds) == (name != "WarpPendulum-v1")


@pytest.mark.parametrize("mode", MODES)
def test_the_last_step_of_tag_returns_the_rewards_and_live_agents_of_that_step(mode):
    env = make("tag", num_worlds=200, tagging_distance=0.25, autoreset_mode=mode)
    env.reset(seed=0)
    kinds = set()
    for t in range(7):
        _, reward, terminated, truncated, info = env.step(np.full((200, 6, 2), t % 5))
        kinds |= set(zip(terminated.tolist(), truncated.tolist(), strict=True))
        if mode != "next_step":  # a terminated world has no live runner after its last step
            over = terminated & (info["_final_obs"] if mode == "same_step" else True)
            assert not info["agent_alive"][over][:, 2:].any()
            assert info["agent_alive"][:, :2].all()
        np.testing.assert_allclose(reward, info["agent_reward"].mean(axis=1), atol=1e-5)
    assert {(True, False), (False, True), (False, False)} <= kinds


def test_in_disabled_mode_a_finished_world_does_not_change_until_its_reset():
    env = make("cartpole", autoreset_mode="disabled", max_episode_steps=3)
    env.reset(seed=1)
    for _ in range(3):
        last = env.step(np.zeros(3, int))
    assert last[3].all()
    state = env.get_state()
    again = env.step(np.ones(3, int))
    np.testing.assert_array_equal(again[0], last[0])
    np.testing.assert_array_equal(again[1], [0, 0, 0])
    np.testing.assert_array_equal(again[3], [True] * 3)
    assert_same(env.get_state(), state)
    env.reset(options={"reset_mask": np.array([False, True, False])})
    after = env.step(np.ones(3, int))
    np.testing.assert_array_equal(after[3], [True, False, True])
    np.testing.assert_array_equal(after[1], [0, 1, 0])
