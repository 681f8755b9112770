"""Recall: single steps and whole episodes against the reference, and the returns of policies with and without memory."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.recall.reference import RecallReference
from gpu_vecenv.envs.recall.spec import SPEC
from gpu_vecenv.errors import ParameterError
from tests.devices import DEVICES
from tests.kernels.test_rng import philox

CASES = [{}, {"num_cues": 2, "delay": 1}, {"num_cues": 7, "delay": 5}, {"num_cues": 3, "delay": 0}, {"num_cues": 256, "delay": 3}]


def make(num_envs, device="cpu", **options):
    return gymnasium.make_vec("WarpRecall-v0", num_envs=num_envs, device=device, array="numpy", **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("params", CASES, ids=str)
def test_a_step_from_every_time_matches_the_reference(params, device):
    """70 worlds fill packs and leave some over; a state may be later than the question."""
    resolved, generator = SPEC.resolve(params), np.random.default_rng(0)
    cues, delay = resolved["num_cues"], resolved["delay"]
    times = np.repeat(np.arange(delay + 3, dtype=np.int32), 70)
    cue, action = generator.integers(0, cues, (2, len(times)), dtype=np.int32)
    action[::3] = cue[::3]
    env = make(len(times), device, autoreset_mode="disabled", **params).unwrapped
    env.reset(seed=0)
    env.set_state({"cue": cue, "t": times})
    before = env.observe()
    obs, reward, terminated, truncated, _ = env.step(action)
    after = env.get_state()
    for i, t in enumerate(times.tolist()):
        reference = RecallReference(resolved)
        reference.reset(int(cue[i]))
        reference.t = t
        np.testing.assert_array_equal(before[i], reference.observe())
        expected, *outcome = reference.step(int(action[i]))
        np.testing.assert_array_equal(obs[i], expected)
        assert [reward[i], terminated[i], truncated[i]] == outcome
        assert (after["cue"][i], after["choice"][i], after["t"][i]) == (reference.cue, reference.choice, reference.t)
    assert 0.2 < reward.sum() / terminated.sum() < 0.95  # right and wrong answers


@pytest.mark.parametrize("device", DEVICES)
def test_episodes_match_the_reference(device):
    params, worlds = {"num_cues": 3, "delay": 4}, 40
    env = make(worlds, device, **params).unwrapped
    obs, _ = env.reset(seed=1)
    references = [RecallReference(SPEC.resolve(params)) for _ in range(worlds)]
    generator, ended = np.random.default_rng(2), 0
    for t in range(15):
        if t % 5 == 0:
            starts = env.get_state("cue", "choice")
            assert (starts["choice"] == -1).all()
            expected = [one.reset(int(cue)) for one, cue in zip(references, starts["cue"], strict=True)]
            np.testing.assert_array_equal(obs, expected)
        actions = generator.integers(0, 3, worlds, dtype=np.int32)
        obs, reward, terminated, truncated, info = env.step(actions)
        steps = [one.step(int(action)) for one, action in zip(references, actions, strict=True)]
        seen, pay, over, limit = (np.array(part) for part in zip(*steps, strict=True))
        np.testing.assert_array_equal(info["final_obs"] if over.any() else obs, seen)
        np.testing.assert_array_equal([reward, terminated, truncated], [pay, over, limit])
        ended += over.sum()
    assert ended == 3 * worlds


def returns(choose, worlds=8000, **params):
    """Mean return of an episode, if ``choose`` maps the observation and the first one to actions (worlds,)."""
    env = make(worlds, **params)
    first, _ = env.reset(seed=3)
    obs, total, over = first, np.zeros(worlds), np.zeros(worlds, bool)
    while not over.all():
        obs, reward, over, _, _ = env.step(choose(obs, first).astype(np.int32))
        total += reward
    return total.mean()


@pytest.mark.parametrize("cues", [2, 4, 5])
def test_only_a_policy_with_memory_beats_chance(cues):
    """Policies without memory are any of the functions of the observation; at the question they observe the same."""
    generator = np.random.default_rng(4)
    assert returns(lambda obs, first: first[:, :cues].argmax(1), num_cues=cues) == 1
    slack = 4 * np.sqrt((cues - 1) / cues**2 / 8000)  # four standard errors
    without = [lambda obs, first, action=action: np.full(len(obs), action) for action in range(cues)]
    without += [lambda obs, first: generator.integers(0, cues, len(obs)), lambda obs, first: obs[:, :cues].argmax(1)]
    for choose in without:
        assert returns(choose, num_cues=cues) == pytest.approx(1 / cues, abs=slack)


def test_without_a_delay_no_memory_is_needed():
    assert returns(lambda obs, first: obs[:, :4].argmax(1), delay=0) == 1


def test_observations_between_cue_and_question_are_the_same_in_all_episodes():
    env = make(50, delay=6)
    env.reset(seed=5)
    for t in range(1, 7):
        obs, reward, *_ = env.step(env.action_space.sample())
        np.testing.assert_array_equal(obs, np.tile([0, 0, 0, 0, float(t == 6)], (50, 1)))
        assert not reward.any()


@pytest.mark.parametrize("device", DEVICES)
def test_cues_are_drawn_from_seed_world_and_episode(device):
    env = make(70, device, num_cues=5, first_world=9).unwrapped
    for episode in range(3):
        env.reset(seed=2**40 + 3 if episode == 0 else None)
        words = [philox(2**40 + 3, (9 + world, episode, 0, 0))[0] for world in range(70)]
        np.testing.assert_array_equal(env.get_state("cue")["cue"], [word * 5 >> 32 for word in words])


def test_all_cues_are_equally_likely():
    env = make(20_000, num_cues=10)
    obs, _ = env.reset(seed=3)
    # chi-square with 9 degrees of freedom: one seed in a thousand exceeds 27.9
    assert obs[:, 10].sum() == 0 and ((obs[:, :10].sum(0) - 2000) ** 2 / 2000).sum() < 27.9


def test_a_single_env_has_no_time_limit_but_its_question():
    env = gymnasium.make("WarpRecall-v0", delay=600)
    obs, _ = env.reset(seed=1)
    cue = int(np.asarray(obs)[:4].argmax())
    steps = [env.step(cue)[1:4] for _ in range(601)]
    assert steps == [(0, False, False)] * 600 + [(1, True, False)]


@pytest.mark.parametrize(("name", "value"), [("cue", -1), ("cue", 5), ("choice", -2), ("choice", 5)])
def test_states_out_of_range_raise_errors(name, value):
    env = make(2, num_cues=5).unwrapped
    env.reset(seed=0)
    with pytest.raises(ParameterError, match=f"state field {name} must be at least .* and at most 4, got {value}"):
        env.set_state({name: np.array([0, value], np.int32)})


@pytest.mark.parametrize(
    ("name", "value"), [("num_cues", 1), ("num_cues", 257), ("delay", -1), ("delay", 1.5), ("delay", 10**6 + 1)]
)
def test_parameters_out_of_range_raise_errors(name, value):
    with pytest.raises(ParameterError, match=f"WarpRecall-v0: {name} must be .*, got {value}"):
        make(1, **{name: value})
