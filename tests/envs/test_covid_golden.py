"""COVID-19, compared with recorded trajectories: one day from recorded states, whole episodes, and the published scenarios."""

import os
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.envs.covid import scripted
from gpu_vecenv.envs.covid.reference import CovidReference
from gpu_vecenv.envs.covid.spec import SPEC
from gpu_vecenv.train import PPOConfig
from tests.devices import DEVICES
from tests.envs.covid_cases import POPULATION, RECORDED, REWARD, Recording, assert_close, make
from tests.envs.golden_tag import GOLDEN

FILES = ("covid_masked_540.npz", "covid_uniform_405.npz")
WHOLE = os.environ.get("COVID_RECORDINGS")
"""Folder with the whole recordings, which hold the state of every day; tests/golden has some days of them."""


@pytest.fixture(scope="module", params=FILES)
def recording(request):
    return Recording(GOLDEN / request.param)


def check_observations(recording, day, obs, masks, number=slice(None)):
    """Assert that what agents observe on a stored day is what the recording says: timers, levels and masks to the bit."""
    data, state = recording.data, recording.state(day)
    governor, planner = obs["governor"][number], obs["planner"][number][..., 0, :]
    assert governor.ndim == 3
    time, to_subsidy, subsidy, to_vaccines = data["obs_scalars"][day].astype(np.float32)
    known = [subsidy, to_subsidy, to_vaccines, time]
    np.testing.assert_allclose(governor[..., 1:5], np.broadcast_to(known, (*governor.shape[:2], 4)), rtol=0, atol=6e-8)
    np.testing.assert_allclose(governor[..., 0] * 10, np.tile(data["state_stringency"][day], (len(governor), 1)), rtol=2e-7)
    np.testing.assert_allclose(governor[..., 63] * 10, np.tile(data["obs_lagged_stringency"][day], (len(governor), 1)), rtol=2e-7)
    np.testing.assert_array_equal(governor[..., 5:56], np.broadcast_to(np.eye(51), (len(governor), 51, 51)))
    for feature, name in enumerate(list(RECORDED)[:6], 57):
        assert_close(name, governor[..., feature] * POPULATION, state[name])
    np.testing.assert_array_equal(planner[:, :51], governor[..., 0])
    np.testing.assert_array_equal(planner[:, 51:55], governor[:, 0, 1:5])
    np.testing.assert_array_equal(planner[:, 55:106], governor[..., 56])
    np.testing.assert_array_equal(planner[:, 106:412].reshape(-1, 51, 6), governor[..., 57:63])
    np.testing.assert_array_equal(planner[:, 412:], governor[..., 63])
    may_govern, may_plan = masks["governor"][number], masks["planner"][number][..., 0, :]
    assert may_govern[..., 0].all() and may_plan[..., 0].all()
    assert (may_govern[..., 1:] == (data["mask_states_open"][day] == 1)[:, None]).all()
    assert (may_plan[..., 1:] == (data["mask_planner_open"][day] == 1)).all()


def check_days(recording, device):
    days = [day for day in recording.days if day + 1 in recording.days]
    env = make(len(days), device, **recording.params)
    env.reset(seed=0)
    env.unwrapped.set_state(recording.start(days))
    data = recording.data
    levels, subsidies = data["actions_states"][days].astype(np.int32), data["actions_planner"][days, None].astype(np.int32)
    obs, reward, terminated, truncated, info = env.step({"governor": levels, "planner": subsidies})
    after = env.unwrapped.get_state()
    for world, day in enumerate(days):
        for name, expected in recording.state(day + 1).items():
            assert_close((day, name), after[name][world], expected)
        check_observations(recording, day + 1, obs, info["action_mask"], slice(world, world + 1))
    np.testing.assert_array_equal(after["closed_until"], recording.closed_until[[day + 1 for day in days]])
    np.testing.assert_allclose(info["agent_reward"][:, :51], data["rewards_states"][days], rtol=0, atol=REWARD)
    np.testing.assert_allclose(reward, data["rewards_planner"][days], rtol=0, atol=REWARD)
    np.testing.assert_array_equal(info["agent_reward"][:, 51], reward)
    np.testing.assert_array_equal(truncated, [day + 1 == recording.steps for day in days])
    assert not terminated.any()


@pytest.mark.parametrize("device", DEVICES)
def test_a_day_from_every_recorded_state_matches_the_recording(recording, device):
    check_days(recording, device)


def check_episode(recording, device, worlds=2):
    env, data = make(worlds, device, **recording.params), recording.data
    obs, info = env.reset(seed=0)
    for t in range(recording.steps + 1):
        if t in recording.days:
            state = env.unwrapped.get_state(*RECORDED)
            for name, expected in recording.state(t).items():
                assert_close((t, name), state[name], expected)
            check_observations(recording, t, obs, info["action_mask"])
        if t == recording.steps:
            break
        obs, reward, terminated, truncated, info = env.step(recording.action(t, worlds))
        expected = np.append(data["rewards_states"][t], data["rewards_planner"][t])
        np.testing.assert_allclose(info["agent_reward"], np.tile(expected, (worlds, 1)), rtol=0, atol=REWARD)
        np.testing.assert_array_equal(reward, info["agent_reward"][:, 51])
        assert not terminated.any() and (truncated == (t + 1 == recording.steps)).all()
    after = env.unwrapped.get_state("closed_until", "health_index", "economic_index")
    np.testing.assert_array_equal(after["closed_until"], np.tile(data["cooldown_until_final"], (worlds, 1)))
    for index in ("health", "economic"):  # sums of hundreds of days
        expected = np.append(data[f"{index}_index_states"], data[f"{index}_index_planner"])
        np.testing.assert_allclose(after[f"{index}_index"], np.tile(expected, (worlds, 1)), rtol=1e-4, atol=REWARD)


@pytest.mark.parametrize("device", DEVICES)
def test_an_episode_of_recorded_actions_matches_the_recording(recording, device):
    check_episode(recording, device)


@pytest.mark.slow
@pytest.mark.skipif(not WHOLE, reason="COVID_RECORDINGS names no folder with the whole recordings")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["covid_default540_masked_s301.npz", "covid_tutorial405_uniform_s302.npz"])
def test_whole_recordings(name, device):
    whole = Recording(Path(WHOLE) / name)
    whole.data["obs_lagged_stringency"] = np.round(10 * whole.data["obs_lagged_stringency"])
    assert len(whole.days) == whole.steps + 1
    check_days(whole, device)
    check_episode(whole, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scenario", list(scripted.PUBLISHED)[:4])
def test_published_welfare_is_reproduced(scenario, device):
    """The authors publish one decimal; the recordings have all of them, and the sums over the states of every fifth day."""
    env = make(1, device, **scripted.PARAMS)
    env.reset(seed=0)
    levels, subsidies = scripted.actions(scenario)
    rewards, nation = [], []
    for t in range(len(levels) + 1):
        state = env.unwrapped.get_state(*RECORDED)
        nation.append([np.sum(state[name], dtype=np.float64) for name in RECORDED])
        if t == len(levels):
            break
        if scenario == "recorded policies":
            env.unwrapped.set_state({"subsidy_level": subsidies[t : t + 1].astype(np.int32)})
        _, reward, *_ = env.step({"governor": levels[t][None], "planner": subsidies[t].reshape(1, 1)})
        rewards.append(reward[0])
    with np.load(GOLDEN / "covid_scripted.npz") as archive:
        expected = {name.split("/")[1]: archive[name] for name in archive.files if name.startswith(f"{scenario}/")}
    np.testing.assert_allclose(rewards, expected["rewards_planner"], rtol=0, atol=REWARD)
    welfare = np.sum(rewards, dtype=np.float64)
    assert round(welfare, 1) == scripted.PUBLISHED[scenario]
    assert welfare == pytest.approx(expected["rewards_planner"].sum(), abs=1e-3)
    np.testing.assert_allclose(nation[::5], expected["usa"], rtol=1e-4, atol=1e-5 * POPULATION.sum())
    np.testing.assert_allclose(state["deaths"][0], expected["final_deaths"], rtol=1e-4)
    np.testing.assert_allclose(state["unemployed"][0], expected["final_unemployed"], rtol=1e-4)


def test_published_welfare_of_the_recorded_days_is_reproduced():
    """The kernel has no mode for recorded persons, so the reference counts the rewards."""
    assert round(scripted.welfare_of_recorded_days(), 1) == scripted.PUBLISHED["recorded days"]


def test_the_reference_matches_the_recording(recording):
    """The reference lives through whole episodes by itself."""
    world, data = CovidReference(SPEC.resolve(recording.params)), recording.data
    for t in range(recording.steps + 1):
        if t in recording.days:
            for name, expected in recording.state(t).items():
                assert_close((t, name), getattr(world, name), expected)
        may_govern, may_plan = world.masks()
        np.testing.assert_array_equal(may_govern, data["mask_states_open"][t])
        assert may_plan == data["mask_planner_open"][t]
        if t == recording.steps:
            break
        actions = {"governor": data["actions_states"][t].astype(int), "planner": [int(data["actions_planner"][t])]}
        _, rewards, _, truncated = world.step(actions)
        np.testing.assert_allclose(rewards[:51], data["rewards_states"][t], rtol=0, atol=REWARD)
        assert rewards[51] == pytest.approx(data["rewards_planner"][t], abs=REWARD)
        assert truncated == (t + 1 == recording.steps)
    np.testing.assert_array_equal(world.closed_until, data["cooldown_until_final"])


def test_the_example_compares_trained_random_and_scripted_play(monkeypatch, tmp_path, capsys):
    from examples import train_covid

    monkeypatch.setattr(train_covid, "OUT", str(tmp_path / "run"))
    train_covid.main(num_envs=1, total_steps=20, ppo=PPOConfig(num_steps=20), env_kwargs={"episode_length": 15}, device="cpu")
    words = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert words[-5:] == ["trained", "random", *scripted.SCRIPTS]
