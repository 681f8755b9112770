"""The three autoreset modes against worlds that Python runs one at a time, each in an env of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.envs import MODES, SMALL_TAG, assert_same, host_info, make

WORLDS = 3


class World:
    """One world under a mode, played by the reset and step of an env of one world in disabled mode."""

    def __init__(self, env, mode, number, seed):
        self.env, self.mode = env, mode
        obs, _ = env.reset(seed=seed)
        # The env's only world plays the part of world `number`.
        env.unwrapped.set_state({"world_id": [number], "episode": [-1]})
        self.finished = False
        self.obs = self.restart()

    def restart(self):
        self.finished = False
        self.obs = self.env.reset()[0][0]
        return self.obs

    def quiet(self, obs, ended=(False, False)):
        """A step in which nothing is played."""
        alive = np.ones(6, bool)
        return {"obs": obs, "reward": 0.0, "terminated": ended[0], "truncated": ended[1], "finished": False,
                "agent_alive": self.alive if ended != (False, False) else alive, "agent_reward": np.zeros(6)}

    def step(self, action):
        if self.finished and self.mode == "next_step":
            return self.quiet(self.restart())
        if self.finished:
            return self.quiet(self.obs, self.ended)
        obs, reward, terminated, truncated, info = self.env.step(action[None])
        self.obs = obs[0]
        self.ended = (bool(terminated[0]), bool(truncated[0]))
        self.finished = any(self.ended)
        self.alive = info["agent_alive"][0] if "agent_alive" in info else np.ones(6, bool)
        out = {"obs": self.obs, "reward": reward[0], "terminated": self.ended[0], "truncated": self.ended[1],
               "finished": self.finished, "agent_alive": self.alive,
               "agent_reward": info["agent_reward"][0] if "agent_reward" in info else np.zeros(6)}
        if self.finished and self.mode == "same_step":
            out["final_obs"] = self.obs
            out["obs"] = self.restart()
        return out


@pytest.fixture(scope="module")
def envs():
    """The env under test and one env a world, for each mode and game; made once, as every example reseeds them."""
    made = {}

    def get(name, mode):
        if (name, mode) not in made:
            options = {"max_episode_steps": 5} if name == "cartpole" else {**SMALL_TAG, "tagging_distance": 0.25}
            singles = [make(name, num_worlds=1, autoreset_mode="disabled", **options) for _ in range(WORLDS)]
            made[name, mode] = make(name, num_worlds=WORLDS, autoreset_mode=mode, **options), singles
        return made[name, mode]

    return get


events = st.lists(
    st.one_of(st.just("step"), st.just("step"), st.lists(st.booleans(), min_size=WORLDS, max_size=WORLDS).filter(any)),
    min_size=5, max_size=25,
)  # fmt: skip


@pytest.mark.parametrize("name", ["tag", "cartpole"])
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=25, deadline=None)
@given(events=events, seed=st.integers(0, 2**63), topple=st.booleans())
def test_against_worlds_run_one_at_a_time(envs, mode, name, events, seed, topple):
    env, singles = envs(name, mode)
    actions = np.random.default_rng(seed % 1000)
    options = {"low": -0.19, "high": 0.19} if topple and name == "cartpole" else {}
    env.reset(seed=seed, options=options)
    worlds = [World(single, mode, number, seed) for number, single in enumerate(singles)]
    if options:  # CartPole near its limits, so that some episodes fall over at once and others run into the time limit
        for world in worlds:
            world.env.unwrapped.set_state({"episode": [-1]})
            world.restart = lambda world=world: restart_wide(world, options)
            world.restart()
    for event in events:
        if event == "step":
            shape = (WORLDS, 6, 2) if name == "tag" else (WORLDS,)
            action = actions.integers(0, 21 if name == "tag" else 2, shape)
            check(env, env.step(action), [world.step(a) for world, a in zip(worlds, action, strict=True)], mode, name)
        else:
            mask = np.array(event)
            obs, info = env.reset(options={"reset_mask": mask, **options})
            expected = [world.restart() if m else world.obs for world, m in zip(worlds, mask, strict=True)]
            np.testing.assert_array_equal(obs, np.stack(expected))
            assert info == {}


def restart_wide(world, options):
    world.finished = False
    world.obs = world.env.reset(options=options)[0][0]
    return world.obs


def check(env, out, expected, mode, name):
    obs, reward, terminated, truncated, info = out
    info = host_info(info)
    for w, world in enumerate(expected):
        np.testing.assert_array_equal(obs[w], world["obs"])
        assert reward[w] == np.float32(world["reward"])
        assert (terminated[w], truncated[w]) == (world["terminated"], world["truncated"])
        if mode == "same_step":
            assert info["_final_obs"][w] == world["finished"]
            np.testing.assert_array_equal(info["final_obs"][w], world.get("final_obs", 0.0))
        if name == "tag":
            np.testing.assert_array_equal(info["agent_alive"][w], world["agent_alive"])
            np.testing.assert_array_equal(info["agent_reward"][w], np.float32(world["agent_reward"]))


@pytest.mark.parametrize("mode", MODES)
def test_both_ways_to_end_are_met(mode):
    """The games above end by tags, by the clock and by both: otherwise they would prove little."""
    env = make("tag", num_worlds=200, tagging_distance=0.25, autoreset_mode=mode)
    env.reset(seed=0)
    kinds = set()
    for t in range(7):
        _, reward, terminated, truncated, info = env.step(np.full((200, 6, 2), t % 5))
        kinds |= set(zip(terminated.tolist(), truncated.tolist(), strict=True))
        if mode != "next_step":  # all runners caught: nobody of them is alive in that very step, and rewards are the step's
            over = terminated & (info["_final_obs"] if mode == "same_step" else True)
            assert not info["agent_alive"][over][:, 2:].any()
            assert info["agent_alive"][:, :2].all()
        np.testing.assert_allclose(reward, info["agent_reward"].mean(axis=1), atol=1e-5)
    assert {(True, False), (False, True), (False, False)} <= kinds


def test_in_disabled_mode_a_finished_world_stands_still_until_it_is_reset():
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
