"""Town, whose roles have spaces of their own, against its reference; spaces, and errors of wrong arguments."""

import re
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from gpu_vecenv import EnvSpec, Metric, Role
from gpu_vecenv.errors import ActionError, ArrayTypeError, ParameterError, ShapeError, UnknownParameterError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.devices import DEVICES
from tests.kernels.test_rng import philox
from tests.roles.town import SPEC, Town

MODES = ("same_step", "next_step", "disabled")


def make(num_worlds=3, **options):
    return gymnasium.make_vec("Town-v0", num_envs=num_worlds, **{"device": "cpu", "array": "numpy", **options}).unwrapped


def random_actions(env, generator):
    citizens = env.role_counts["citizen"]
    return {
        "citizen": generator.integers(0, 3, (env.num_worlds, citizens)),
        "mayor": generator.uniform(-0.5, 1.5, (env.num_worlds, 1, 2)).astype(np.float32),
    }


def assert_observed(town, obs, mask, w):
    citizens, mayor, allowed = town.observe()
    np.testing.assert_array_equal(obs["citizen"][w], citizens)
    np.testing.assert_array_equal(obs["mayor"][w], mayor)
    assert list(mask) == ["citizen"]
    np.testing.assert_array_equal(mask["citizen"][w], allowed)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("num_citizens", "rich"), [(1, 1.6), (5, 11.0), (40, 55.0)])
def test_every_step_is_that_of_the_reference(num_citizens, rich, mode, device):
    env = make(4, num_citizens=num_citizens, rich=rich, max_episode_steps=12, autoreset_mode=mode, device=device)
    obs, info = env.reset(seed=5)
    towns = [Town(wealth, rich, 12) for wealth in env.get_state("wealth")["wealth"]]
    generator = np.random.default_rng(num_citizens)
    done, ends = np.zeros((4, 2), bool), np.zeros((0, 2), bool)
    for step in range(80):
        for w, town in enumerate(towns):
            assert_observed(town, obs, info["action_mask"], w)
        actions = random_actions(env, generator)
        obs, reward, terminated, truncated, info = env.step(actions)
        wealth = env.get_state("wealth")["wealth"]
        for w, town in enumerate(towns):
            if done[w].any():  # the world waits for its reset, or starts an episode
                pay, mean, ended = np.zeros(num_citizens + 1), 0, done[w] & (mode == "disabled")
            else:
                pay, mean, *ended = town.step(actions["citizen"][w], actions["mayor"][w, 0])
            np.testing.assert_array_equal(info["agent_reward"][w], pay)
            assert (reward[w], terminated[w], truncated[w]) == (mean, *ended)
            assert info["_episode"][w] == (any(ended) and not done[w].any())
            if info["_episode"][w]:
                assert {name: values[w] for name, values in info["episode"].items()} == town.metrics()
            if mode == "same_step" and any(ended):
                assert info["_final_obs"][w]
                assert_observed(town, info["final_obs"], info["final_action_mask"], w)
                town.reset(wealth[w])
            elif mode == "next_step" and done[w].any():
                town.reset(wealth[w])
            done[w] = ended if mode != "same_step" else False
            ends = np.append(ends, [ended], axis=0)
        assert info["agent_alive"].all() and info["agent_alive"].shape == (4, num_citizens + 1)
        mask = done.any(1)
        if mode == "disabled" and step % 9 == 8 and mask.any():
            obs, info = env.reset(options={"reset_mask": mask})
            for w in np.flatnonzero(mask):
                towns[w].reset(env.get_state("wealth")["wealth"][w])
            done[mask] = False
    assert ends.any(0).all()  # some episodes ended by the rules and some at the time limit


@pytest.mark.parametrize("device", DEVICES)
def test_agents_of_a_role_draw_by_their_number_in_it(device):
    env = make(3, device=device)
    env.reset(seed=7)
    starts = [[(philox(7, (w, 0, 0, i))[0] >> 8) / 2**24 for i in range(5)] for w in range(3)]
    np.testing.assert_array_equal(env.get_state("wealth")["wealth"], np.float32(starts))


def test_the_role_that_the_spec_names_gives_the_reward():
    for role, rows in ((None, slice(0, 6)), ("citizen", slice(0, 5)), ("mayor", slice(5, 6))):
        env = GpuVectorEnv(replace(SPEC, reward_role=role), 4, device="cpu", array="numpy")
        env.reset(seed=1)
        _, reward, _, _, info = env.step(random_actions(env, np.random.default_rng(0)))
        np.testing.assert_allclose(reward, info["agent_reward"][:, rows].mean(1), rtol=1e-6)


def test_spaces_are_dicts_by_role():
    env = make(3, num_citizens=2)
    inf = np.inf
    assert env.single_observation_space == Dict(citizen=Box(-inf, inf, (2, 4)), mayor=Box(-inf, inf, (1, 3)))
    assert env.single_action_space == Dict(citizen=MultiDiscrete([3, 3]), mayor=Box(0, 1, (1, 2)))
    assert env.observation_space == Dict(citizen=Box(-inf, inf, (3, 2, 4)), mayor=Box(-inf, inf, (3, 1, 3)))
    assert env.action_space == Dict(citizen=Box(0, 2, (3, 2), np.int64), mayor=Box(0, 1, (3, 1, 2)))
    obs, info = env.reset(seed=0)
    assert env.observation_space.contains(obs) and env.single_observation_space.contains({k: v[0] for k, v in obs.items()})
    assert info["action_mask"]["citizen"].shape == (3, 2, 3) and info["action_mask"]["citizen"].dtype == bool
    env.action_space.seed(0)
    env.step(env.action_space.sample())


def test_parameters_do_not_decide_the_form_of_arrays():
    assert [list(make(2, num_citizens=n).reset(seed=0)[0]) for n in (1, 5)] == [["citizen", "mayor"]] * 2


def test_a_role_may_take_a_space_of_the_env():
    citizen, mayor = SPEC.roles
    spec = replace(SPEC, roles=(replace(citizen, action=None), mayor), action=citizen.action)
    assert Layout(spec, spec.resolve({})).dtype == Layout(SPEC, SPEC.resolve({})).dtype
    assert GpuVectorEnv(spec, 2, device="cpu").single_action_space == make().single_action_space


# ---- errors -------------------------------------------------------------------------------------------------------


def given(**changes):
    """Valid actions of one step of three worlds, with changes; None takes a role away."""
    actions = {"citizen": np.zeros((3, 5), int), "mayor": np.zeros((3, 1, 2), np.float32), **changes}
    return {role: value for role, value in actions.items() if value is not None}


WRONG = [
    (np.zeros((3, 6), int), ParameterError, "actions must be a dict with the keys citizen, mayor, got ndarray"),
    (given(mayor=None), ParameterError, "with the keys citizen, mayor, got ['citizen']"),
    (given(baker=0), ParameterError, "with the keys citizen, mayor, got ['citizen', 'mayor', 'baker']"),
    (given(citizen=np.zeros((3, 4), int)), ShapeError, "actions of citizen must have shape (3, 5), got (3, 4)"),
    (given(mayor=np.zeros((3, 2), np.float32)), ShapeError, "actions of mayor must have shape (3, 1, 2), got (3, 2)"),
    (given(citizen=np.zeros((3, 5))), ArrayTypeError, "citizen must be uint8, int8, int16, int32 or int64, got float64"),
    (given(mayor=np.zeros((3, 1, 2), int)), ArrayTypeError, "actions of mayor must be float32 or float64, got int64"),
    (given(citizen=np.full((3, 5), 3)), ActionError, "actions of citizen must lie in 0..2, got 3 at [0, 0]"),
    (given(mayor=np.full((3, 1, 2), np.nan, np.float32)), ActionError, "actions of mayor must be numbers, got 6 times NaN"),
]


@pytest.mark.parametrize(("actions", "error", "message"), WRONG)
def test_wrong_actions_raise_an_error_that_names_the_role(actions, error, message):
    env = make()
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(error, match=re.escape(message)):
        env.step(actions)
    if error is not ShapeError:  # the message for T steps has T in its shape
        with pytest.raises(error, match=re.escape(message.replace("[0, 0]", "[0, 0, 0]").replace("6 times", "24 times"))):
            env.rollout({k: np.stack([v] * 4) for k, v in actions.items()} if isinstance(actions, dict) else actions)
    for name, values in env.get_state().items():
        np.testing.assert_array_equal(values, before[name])


def test_rollouts_need_the_same_steps_of_all_roles():
    env = make()
    env.reset(seed=0)
    with pytest.raises(ShapeError, match="same number of steps, got citizen 4, mayor 5"):
        env.rollout({"citizen": np.zeros((4, 3, 5), int), "mayor": np.zeros((5, 3, 1, 2), np.float32)})
    with pytest.raises(ShapeError, match="actions of mayor must have shape"):
        env.rollout({"citizen": np.zeros((4, 3, 5), int), "mayor": np.zeros((4, 3, 2), np.float32)})
    with pytest.raises(ParameterError, match="num_steps must be an integer"):
        env.rollout()


def test_rows_of_agents_are_refused():
    with pytest.raises(ParameterError, match=r'citizen and mayor have spaces of their own.* expected view="worlds".*RoleRows'):
        make(3, view="agents")


def test_wrong_slabs_raise_an_error_that_names_the_role():
    env = make(array="torch")
    env.reset(seed=0)
    obs, longer = (env.worlds.outputs.new_slabs(steps)["obs"] for steps in (4, 5))
    wrong = [
        ({"obs": obs["citizen"]}, ParameterError, "bound obs must be a dict with the keys citizen, mayor"),
        ({"obs": {"mayor": obs["mayor"]}}, ParameterError, "bound obs must be a dict .* got .'mayor'."),
        ({"obs": obs, "action_mask": obs}, ParameterError, "action_mask must be a dict with the keys citizen"),
        ({"obs": {**obs, "mayor": longer["mayor"]}}, ShapeError, r"mayor.* must have shape .*got \(6, 3, 1, 6\)"),
        ({"obs": obs, "final": 0}, UnknownParameterError, "may take .*action_mask"),
    ]
    for slabs, error, message in wrong:
        with pytest.raises(error, match=message):
            env.bind(**slabs)
    env.step(given())  # into its own arrays


def spec_with(**changes):
    return replace(SPEC, **changes)


def role_with(**changes):
    return (replace(SPEC.roles[0], **changes), SPEC.roles[1])


def uniform(*masks):
    """A spec whose roles share spaces and have masks of their own."""
    roles = tuple(Role(f"role{i}", 2, masked=masked) for i, masked in enumerate(masks))
    return EnvSpec("Alike-v0", SPEC.kernel, roles, (), (), observation=lambda p: Box(0, 1, (1,)), action=lambda p: Discrete(3))


WRONG_SPECS = [
    (lambda: spec_with(reward_role="baker"), "reward_role must be one of the roles \\(citizen, mayor\\), got 'baker'"),
    (lambda: spec_with(roles=role_with(observation=None)), "citizen needs an observation and an action space"),
    (lambda: spec_with(roles=role_with(action=None)), "citizen needs an observation and an action space"),
    (lambda: uniform((0,), ()), "roles without spaces of their own must have the same masked entries"),
    (lambda: replace(uniform((0,)), action=None), "the env needs an observation and an action space"),
    (lambda: spec_with(metrics=(Metric("tax", "median", "tax"),)), "metric 'tax': reduction must be one of sum, .* got 'median'"),
    (lambda: spec_with(metrics=SPEC.metrics * 2), "state names must be different identifiers .* got 'episode_strikes'"),
    (lambda: spec_with(metrics=(Metric("mean tax", "sum", "tax"),)), "name of a metric must be .* got 'mean tax'"),
]


@pytest.mark.parametrize(("spec", "message"), WRONG_SPECS)
def test_a_wrong_spec_raises_an_error(spec, message):
    with pytest.raises(ParameterError, match=message):
        spec()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (spec_with(roles=role_with(masked=(1,))), r"masked entries of citizen must lie in 0\.\.0 .* got 1 for Discrete\(3\)"),
        (spec_with(roles=(SPEC.roles[0], replace(SPEC.roles[1], masked=(0,)))), "masked entries of mayor must .* got 0 for Box"),
        (spec_with(roles=role_with(masked=(-1,))), "masked entries of citizen must .* got -1"),
        (uniform((4,)), r"masked entries of an action must lie in 0\.\.0 and have choices, got 4"),
    ],
)
def test_a_mask_of_an_entry_without_choices_raises_an_error(spec, message):
    with pytest.raises(ParameterError, match=message):
        GpuVectorEnv(spec, 2, device="cpu")
