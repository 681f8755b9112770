"""The kernel of RICE-N against its reference in NumPy, with random parameters."""

import gymnasium
import numpy as np
import pytest

from gpu_vecenv import sample_mask, whole_obs
from gpu_vecenv.envs.rice.reference import RiceReference
from gpu_vecenv.errors import ParameterError, ShapeError

N = 27


def make(num_worlds=1, **options):
    defaults = {"autoreset_mode": "disabled", "device": "cpu", "array": "numpy"}
    return gymnasium.make_vec("WarpRice-v0", num_worlds=num_worlds, **{**defaults, **options}).unwrapped


def random_params(generator):
    return {
        "num_discrete_action_levels": int(generator.choice([2, 3, 7, 10, 100, 255])),
        "full_rates": bool(generator.integers(2)),
        "old_debt_rule": bool(generator.integers(2)),
    }


def random_actions(generator, choices, negotiates):
    """Uniform in one half of the episodes; otherwise low rates, under which goods and debts are not cut."""
    most = np.full(138 if negotiates else 57, choices)
    most[111:] = 2
    if generator.integers(2):
        most[:57] = np.maximum(2, choices // np.where(np.arange(57) < 3, 2, 20))
    return generator.integers(0, most, (N, len(most)))


@pytest.mark.parametrize("negotiates", [False, True])
@pytest.mark.parametrize("observe", ["parts", "whole"])
def test_every_step_is_that_of_the_reference(observe, negotiates):
    generator = np.random.default_rng(negotiates)
    for _ in range(6):
        env = make(observe=observe, negotiation_on=negotiates, **random_params(generator))
        reference = RiceReference(env.params)
        choices = env.params["num_discrete_action_levels"] + env.params["full_rates"]
        obs, info = env.reset(seed=0)
        np.testing.assert_allclose(in_order(obs), reference.rows(), atol=1e-6)
        for step in range(60 if negotiates else 20):
            actions = random_actions(generator, choices, negotiates)
            given = actions[None].astype(np.int32)
            obs, reward, terminated, truncated, info = env.step({"region": given} if observe == "parts" else given)
            _, rewards, ended, _ = reference.step({"region": actions} if observe == "parts" else actions)
            np.testing.assert_allclose(in_order(obs), reference.rows(), atol=3e-4, err_msg=f"{env.params} {step}")
            np.testing.assert_allclose(info["agent_reward"][0], rewards, atol=3e-4)
            np.testing.assert_allclose(reward[0], rewards.mean(), atol=3e-4)
            assert terminated[0] == ended and not truncated[0]
            if negotiates:
                mask = info["action_mask"]["region"] if observe == "parts" else info["action_mask"]
                np.testing.assert_array_equal(mask[0], reference.mask())
                flags = info["action_effects"]["region"] if observe == "parts" else info["action_effects"]
                np.testing.assert_array_equal(flags[0], reference.effects())
        assert ended


def test_entries_without_effect_may_hold_any_choice():
    """Twins play alike in entries with an effect, and one of them 0 in the others, as the trainer does."""
    env, twin = (make(2, negotiation_on=True, autoreset_mode="same_step", debug=True) for _ in range(2))
    (_, info), _ = env.reset(seed=0), twin.reset(seed=0)
    groups, generator = env.layout.groups[0].effects, np.random.default_rng(0)
    assert [name for name, _ in groups] == ["period", "proposals", "decisions"] and sum(len(x) for _, x in groups) == 138
    for _ in range(65):
        live = np.zeros((2, N, 138), bool)
        for number, (_, entries) in enumerate(groups):
            live[..., list(entries)] = info["action_effects"]["region"][..., number, None]
        assert (live.sum(-1) == np.where(live[..., 0], 57, np.where(live[..., 57], 54, 27))).all()
        actions = np.stack([random_actions(generator, 10, True) for _ in range(2)]).astype(np.int32)
        obs, reward, *_, info = env.step({"region": actions})
        same_obs, same_reward, *_ = twin.step({"region": np.where(live, actions, 0)})
        for part in ("shared", "own"):
            np.testing.assert_array_equal(obs["region"][part], same_obs["region"][part])
        np.testing.assert_array_equal(reward, same_reward)
    for name, values in env.get_state().items():
        np.testing.assert_array_equal(values, twin.get_state(name)[name])


def in_order(obs):
    """The observations of world 0 as whole rows in the order of the contract."""
    if not isinstance(obs, dict):
        return obs[0]
    own, shared = obs["region"]["own"][0], obs["region"]["shared"][0]
    return np.concatenate([own[:, :N], np.tile(shared, (N, 1)), own[:, N:]], 1)


def test_both_forms_hold_the_same_numbers():
    parts, whole = make(3, negotiation_on=True), make(3, negotiation_on=True, observe="whole")
    for env in (parts, whole):
        env.reset(seed=0)
    generator = np.random.default_rng(0)
    for _ in range(5):
        actions = np.stack([random_actions(generator, 10, True) for _ in range(3)]).astype(np.int32)
        obs, reward, *_, info = parts.step({"region": actions})
        rows, same_reward, *_, same_info = whole.step(actions)
        joined = whole_obs(obs["region"])  # the shared part comes first here
        order = [*range(1008, 1035), *range(1008), *range(1035, 1207)]
        np.testing.assert_array_equal(joined[..., order], rows)
        np.testing.assert_array_equal(reward, same_reward)
        np.testing.assert_array_equal(info["action_mask"]["region"], same_info["action_mask"])
        for name, values in parts.get_state().items():
            np.testing.assert_array_equal(values, whole.get_state(name)[name])


def test_rows_of_agents_are_those_of_worlds():
    given = {"negotiation_on": True, "observe": "whole", "autoreset_mode": "same_step"}
    worlds, rows = (make(2, view=view, **given) for view in ("worlds", "agents"))
    for env in (worlds, rows):
        env.reset(seed=0)
    obs, reward, *flags, info = worlds.rollout(num_steps=62)
    actions = info["actions"]
    seen, rewards, *row_flags, row_info = rows.rollout(actions.reshape(62, 54, 138))
    np.testing.assert_array_equal(seen, obs.reshape(62, 54, -1))
    np.testing.assert_array_equal(rewards, info["agent_reward"].reshape(62, 54))
    for flag, row_flag in zip(flags, row_flags, strict=True):
        np.testing.assert_array_equal(row_flag, np.repeat(flag, N, axis=1))
    assert flags[0].sum() == 2 and flags[0][59].all()
    for name, values in info["episode"].items():
        np.testing.assert_array_equal(row_info["episode"][name][59], np.repeat(values[59], N))


def test_random_actions_of_a_rollout_honour_the_mask():
    env = make(5, negotiation_on=True, autoreset_mode="same_step")
    _, info = env.reset(seed=1)
    before = info["action_mask"]["region"]
    *_, info = env.rollout(num_steps=60)
    masks, chosen = info["action_mask"]["region"], info["actions"]["region"][..., 1]
    masks = np.concatenate([before[None], masks[:-1]])
    assert np.take_along_axis(masks, chosen[..., None], -1).all() and not masks.all()
    drawn = env.single_action_space.sample(mask=sample_mask(env, {"region": masks[2]}, 0))["region"]
    assert np.take_along_axis(masks[2, 0], drawn[:, 1:2], -1).all()


def test_an_accepted_promise_of_the_highest_rate_leaves_no_lower_one():
    env = make(negotiation_on=True, full_rates=True)
    env.reset(seed=0)
    actions = np.zeros((1, N, 138), np.int32)
    actions[0, 4, 57 + 2 * 9] = 10  # region 4 promises 1 to region 9
    env.step({"region": actions})
    actions[0, 9, 111 + 4] = 1  # region 9 accepts
    mask = env.step({"region": actions})[4]["action_mask"]["region"][0]
    assert mask[4].tolist() == [False] * 10 + [True] and mask[np.arange(N) != 4].all()


def test_without_negotiation_there_is_no_mask_and_no_memory_of_pairs():
    env = make(3)
    obs, info = env.reset(seed=0)
    assert "action_mask" not in info and "action_effects" not in info
    state = env.get_state("promises", "requests", "decisions")
    assert {values.shape for values in state.values()} == {(3, 0, N, N)}
    talking = make(3, negotiation_on=True)
    talking.reset(seed=0)
    assert talking.get_state("promises")["promises"].shape == (3, 1, N, N)
    assert obs["region"]["shared"].shape == (3, 1007) and obs["region"]["own"].shape == (3, N, 36)


def test_wrong_parameters_are_refused():
    with pytest.raises(ParameterError, match="observe must be one of parts, whole, got 'rows'"):
        make(observe="rows")
    with pytest.raises(ParameterError, match="num_discrete_action_levels must be"):
        make(num_discrete_action_levels=1)
    env = make()
    env.reset(seed=0)
    with pytest.raises(ShapeError):
        env.step({"region": np.zeros((1, N, 138), np.int32)})


def test_a_state_at_the_end_stays_at_the_end():
    """A caller may set the last period; tables have no entry for a period after it."""
    env = make()
    env.reset(seed=0)
    env.set_state({"period": np.array([20], np.int32)})
    *_, terminated, _, _ = env.step({"region": np.zeros((1, N, 57), np.int32)})
    assert terminated[0] and env.get_state("period")["period"][0] == 20


@pytest.mark.parametrize("negotiates", [False, True])
def test_invalid_levels_count_once_in_the_steps_that_read_them(negotiates):
    """Checked actions are refused on the CPU, so unchecked ones are launched."""
    env = make(2, negotiation_on=negotiates)
    env.reset(seed=0)
    actions = np.zeros((2, N, 138 if negotiates else 57), np.int32)
    actions[0, 3, 1], actions[1, 26, 56], actions[1, 0, 2] = -1, 10, 300  # of a period
    if negotiates:
        actions[0, 5, 57], actions[1, 5, 110], actions[0, 1, 111] = 10, -4, 2  # two of proposals, one of decisions
    counts = []
    for _ in range(3 if negotiates else 1):
        env.worlds.step([(actions, actions.ctypes.data, 4)])
        counts.append(int(env.worlds.arguments.invalid[0]))
        env.worlds.arguments.invalid[...] = 0
    assert counts == ([2, 1, 3] if negotiates else [3])
    assert not env.get_state("mitigation")["mitigation"].any()
