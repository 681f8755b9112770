"""The kernel of COVID-19 against its NumPy reference with other parameters; resets, metrics and refused parameters."""

import subprocess
import sys

import numpy as np
import pytest

from gpu_vecenv.envs.covid.reference import CovidReference
from gpu_vecenv.envs.covid.spec import SPEC, calibrated
from gpu_vecenv.errors import ParameterError
from tests.devices import DEVICES
from tests.envs.covid_cases import POPULATION, RECORDED, REWARD, assert_close, make
from tests.marks import in_ci

CASES = {
    "deliveries that do not divide the first day with vaccines": {
        "episode_length": 80, "vaccine_interval": 7, "vaccine_start": "2020-04-20", "eta": 3.5, "action_cooldown": 5,
        "subsidy_interval": 11, "num_subsidy_levels": 7},
    "vaccines before the start, the first possible start": {
        "episode_length": 45, "start_date": "2020-02-21", "vaccine_interval": 5, "vaccine_start": "2020-02-01", "eta": 0.5,
        "working_age_share": 0.65, "sick_rate": 0.3, "risk_free_rate": 0.1},
    "vaccines from the first day": {"episode_length": 20, "vaccine_start": "2020-03-23", "action_cooldown": 1},
    "the last possible start": {
        "episode_length": 40, "start_date": "2021-04-30", "vaccine_interval": 3, "vaccine_start": "2021-04-30",
        "max_annual_subsidy_per_person": 9000.0, "subsidy_interval": 1, "reward_normalization_factor": 4.0},
    "incomes beyond both limits": {
        "episode_length": 30, "max_annual_subsidy_per_person": 400_000.0, "subsidy_interval": 3, "risk_free_rate": 3.0,
        "eta": 1.5},
    "the longest episode": {
        "episode_length": 600, "vaccine_start": "2020-12-22", "daily_vaccines_per_million": 4500.0, "subsidy_interval": 70,
        "health_priority_governor": 1.0, "health_priority_planner": 1.0},
}  # fmt: skip


def random_params(generator):
    start = np.datetime64("2020-02-21") + int(generator.integers(0, 434))
    return {
        "episode_length": int(generator.integers(1, 60)),
        "start_date": str(start),
        "action_cooldown": int(generator.integers(1, 40)),
        "subsidy_interval": int(generator.integers(1, 40)),
        "num_subsidy_levels": int(generator.integers(1, 30)),
        "max_annual_subsidy_per_person": generator.uniform(0, 40_000),
        "daily_vaccines_per_million": generator.uniform(0, 30_000),
        "vaccine_interval": int(generator.integers(1, 20)),
        "vaccine_start": str(start + int(generator.integers(-10, 30))),
        "health_priority_governor": generator.uniform(0, 3),
        "health_priority_planner": generator.uniform(0, 3),
        "eta": float(generator.choice([0.0, 0.98, 1.02, 2.0, 3.0])),
        "sick_rate": generator.uniform(0, 1),
        "working_age_share": generator.uniform(0.3, 1),
        "risk_free_rate": generator.uniform(0, 0.2),
        "reward_normalization_factor": generator.uniform(0.5, 5),
    }


def compare(params, device, actions):
    """Step two worlds and the reference through an episode; ``actions(t)`` gives choices (51,) and the level of the subsidy."""
    env, world = make(2, device, **params), CovidReference(SPEC.resolve(params))
    obs, info = env.reset(seed=0)
    t, truncated = 0, False
    while True:
        state = env.unwrapped.get_state(*RECORDED, "closed_until", "subsidy_level")
        for name in RECORDED:
            assert_close((t, name), state[name], getattr(world, name))
        np.testing.assert_array_equal(state["closed_until"], np.tile(world.closed_until, (2, 1)))
        assert (state["subsidy_level"] == world.subsidy_level).all()
        check_observations(world, obs, info["action_mask"])
        if truncated:
            break
        choices, subsidy = actions(t)
        _, expected, _, truncated = world.step({"governor": choices, "planner": [subsidy]})
        t += 1
        actual = {"governor": np.tile(choices, (2, 1)), "planner": np.full((2, 1), subsidy)}
        obs, reward, terminated, over, info = env.step(actual)
        np.testing.assert_allclose(info["agent_reward"], np.tile(expected, (2, 1)), rtol=0, atol=REWARD)
        np.testing.assert_array_equal(reward, info["agent_reward"][:, 51])
        assert not terminated.any() and (over == truncated).all()
    after = env.unwrapped.get_state("health_index", "economic_index")
    for index, sum_ in zip(("health_index", "economic_index"), world.index_sums, strict=True):
        np.testing.assert_allclose(after[index], np.tile(sum_, (2, 1)), rtol=1e-4, atol=10 * REWARD)
    env.close()


def check_observations(world, obs, masks):
    """Assert the observations of both worlds and their masks; shares of the population have the tolerance of persons."""
    seen = world.observe()
    governors, planner = seen["governor"], seen["planner"][0]
    for number in range(2):
        np.testing.assert_allclose(obs["governor"][number][:, :56], governors[:, :56], rtol=0, atol=1e-6)
        np.testing.assert_allclose(obs["governor"][number][:, 56:], governors[:, 56:], rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(obs["planner"][number, 0], planner, rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(obs["planner"][number, 0, :55], planner[:55], rtol=0, atol=1e-6)
    may_govern, may_plan = world.masks()
    assert masks["governor"][..., 0].all() and masks["planner"][..., 0].all()
    assert (masks["governor"][..., 1:] == may_govern[:, None]).all() and (masks["planner"][..., 1:] == may_plan).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", in_ci(["the longest episode"], CASES))
def test_an_episode_matches_the_reference(case, device):
    generator, levels = np.random.default_rng(0), CASES[case].get("num_subsidy_levels", 20)
    compare(CASES[case], device, lambda t: (generator.integers(0, 11, 51), int(generator.integers(0, levels + 1))))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(10))
def test_an_episode_with_random_parameters_matches_the_reference(seed, device):
    generator = np.random.default_rng(seed)
    params = random_params(generator)

    def actions(t):
        choices = generator.integers(0, 11, 51) * (generator.random(51) < 0.3)
        return choices, int(generator.integers(0, params["num_subsidy_levels"] + 1))

    compare(params, device, actions)


@pytest.mark.parametrize("device", DEVICES)
def test_every_episode_starts_alike_and_its_metrics_are_those_of_the_nation(device):
    params = {"episode_length": 12, "subsidy_interval": 4, "vaccine_start": "2020-03-25"}
    env = make(2, device, **params)
    first, _ = env.reset(seed=0)
    generator, days = np.random.default_rng(3), []
    for _ in range(12):
        action = {"governor": generator.integers(0, 11, (2, 51)), "planner": generator.integers(0, 21, (2, 1))}
        obs, reward, _, truncated, info = env.step(action)
        state = env.unwrapped.get_state()
        weight = CovidReference(SPEC.resolve(params)).health_weights[51]
        days.append({name: state[name].astype(np.float64).sum(axis=1) for name in RECORDED})
        days[-1]["level"] = 10 * obs["governor"][..., 0].mean(axis=1)
        days[-1]["reward"] = reward
    assert truncated.all()
    mean = {name: np.mean([day[name] for day in days], axis=0) for name in days[0]}
    expected = {
        "deaths": days[-1]["deaths"] / 1e3,
        "vaccinated": 100 * days[-1]["vaccinated"] / POPULATION.sum(),
        "unemployed": 100 * mean["unemployed"] / POPULATION.sum(),
        "stringency": mean["level"],
        "subsidies": 12 * mean["subsidy"] / 1e12,
        "production": 12 * mean["production"] / 1e12,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(info["episode"][name], value, rtol=1e-5, err_msg=name)
    welfare = weight * info["episode"]["health"] + (1 - weight) * info["episode"]["economy"]
    np.testing.assert_allclose(welfare, 12 * mean["reward"], rtol=1e-5)
    again, _ = env.reset(seed=9)
    for role, rows in first.items():
        np.testing.assert_array_equal(again[role], rows)


def test_days_after_the_longest_episode_can_be_set_and_lived_through():
    """Such days have no entry in the table of changes that leave the window, so none leaves it."""
    env = make(2)
    env.reset(seed=0)
    state = env.unwrapped.get_state()
    env.unwrapped.set_state({**state, "t": np.array([599, 100_000], np.int32), "closed_until": np.zeros((2, 51), np.int32)})
    keep = {"governor": np.zeros((2, 51), np.int64), "planner": np.zeros((2, 1), np.int64)}
    _, _, _, truncated, _ = env.step(keep)
    after = env.unwrapped.get_state("filters")["filters"]
    decay = np.exp(-1 / calibrated("unemployment_lambda"))[:, None]
    np.testing.assert_allclose(after[1], state["filters"][1] * decay, rtol=1e-6)
    assert truncated.all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"start_date": "2020-02-20"}, "start_date must lie from 2020-02-21 to 2021-04-30, .* got 2020-02-20"),
        ({"start_date": "2021-05-01"}, "start_date must lie from"),
        ({"start_date": "soon"}, "start_date must be a date such as '2020-03-22', got 'soon'"),
        ({"start_date": None}, "start_date must be a date"),
        ({"vaccine_start": 20200322}, "vaccine_start must be a date such as '2020-03-22', got 20200322"),
        ({"eta": 1.0}, "eta must not lie within 0.01 of 1"),
        ({"episode_length": 601}, "episode_length must be .*600"),
    ],
)
def test_parameters_without_a_meaning_are_refused(params, message):
    with pytest.raises(ParameterError, match=message):
        make(1, **params)


def test_importing_the_spec_reads_no_data():
    code = "from gpu_vecenv.envs.covid.spec import calibration, history; print(calibration.cache_info(), history.cache_info())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.count("currsize=0"), done.stderr) == (2, "")
