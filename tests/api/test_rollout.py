"""Rollouts, compared with as many single steps: the same bits, the same errors, the same memory written."""

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_vecenv.errors import ActionError, ArrayTypeError, ParameterError, SequenceError, ShapeError
from tests.api.envs import ALIKE, MODES, VIEWS, assert_same, expand, host, make, random_actions
from tests.devices import DEVICES
from tests.marks import slow_but
from tests.parity import trajectory

CASES = {case: given for case, given in trajectory.CASES.items() if given[0] in ALIKE}
"""Envs with one array of observations; ``tests/roles`` has the same tests of envs with roles and masks."""

WORLDS = 40
"""Largest number of worlds of an env. A pack has 32 worlds, so 8 of 40 single-agent worlds are stepped without a pack."""


def env_of(case, device="cpu", **options):
    name, params = CASES[case]
    params = {**params, **options}
    params["num_worlds"] = min(params.pop("num_envs"), WORLDS)
    params = {k: v[: params["num_worlds"]] if isinstance(v, np.ndarray) else v for k, v in params.items()}
    env = gymnasium.make_vec(name, device=device, **{"array": "numpy", **params}).unwrapped
    env.reset(seed=3)
    return env


def flat(out):
    """All arrays of a step or a rollout, on the host; rows of final_obs and metrics without a finished episode are 0."""
    arrays = {**dict(zip(("obs", "reward", "terminated", "truncated"), out[:4], strict=True)), **out[4]}
    metrics = arrays.pop("episode", {})
    arrays = {name: to_host(value) for name, value in {**arrays, **metrics}.items()}
    for mask, names in (("_final_obs", ["final_obs"]), ("_episode", metrics)):
        arrays.update({name: np.where(expand(arrays[mask], arrays[name]), arrays[name], 0) for name in names if mask in arrays})
    return arrays


def to_host(array):
    return array.cpu().numpy() if isinstance(array, torch.Tensor) else array.get() if hasattr(array, "get") else array


def stepped(env, actions):
    """Results of single steps, stacked as a rollout returns them."""
    outs = [{name: value.copy() for name, value in flat(env.step(action)).items()} for action in actions]
    return {name: np.stack([out[name] for out in outs]) for name in outs[0]}


def assert_rollout(rolled, single, out, actions):
    expected = stepped(single, actions)
    found = flat(out)
    found.pop("actions", None)
    assert_same(found, expected)
    assert_same({k: to_host(v) for k, v in rolled.get_state().items()}, {k: to_host(v) for k, v in single.get_state().items()})


def assert_spread(actions, space):
    """Assert that every choice of every entry was drawn, or that numbers reach both ends of their range."""
    entries = actions.reshape(-1, int(np.prod(space.shape))).T
    if isinstance(space, gymnasium.spaces.Box):
        tenth = (space.high - space.low) / 10
        assert (entries.min(1) < space.low + tenth).all() and (entries.max(1) > space.high - tenth).all()
    else:
        choices = np.broadcast_to(space.nvec if space.shape else space.n, len(entries))
        assert [np.unique(entry).tolist() for entry in entries] == [list(range(n)) for n in choices]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", slow_but(MODES[:1], MODES))
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("case", CASES)
def test_a_rollout_with_random_actions_equals_steps_with_them(case, view, mode, device):
    """The actions lie in the space. Episodes end within rollouts and between them."""
    options = {"view": view, "autoreset_mode": mode}
    rolled, single = env_of(case, device, **options), env_of(case, **options)
    seen = []
    for steps in (50, 1, 45):
        out = rolled.rollout(num_steps=steps)
        actions = to_host(out[4]["actions"])
        assert actions.shape == (steps, *rolled.action_space.shape)
        assert all(rolled.action_space.contains(a.astype(rolled.action_space.dtype)) for a in actions)
        assert_rollout(rolled, single, out, actions)
        seen.append(actions)
    assert_spread(np.concatenate(seen), rolled.env_spec.action(rolled.params))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("copy", slow_but([False], [True, False]))
@pytest.mark.parametrize("case", CASES)
def test_a_rollout_that_does_not_store_its_actions_gives_the_same_results(case, copy, device):
    storing, discarding = env_of(case, device), env_of(case, device, copy=copy)
    for steps in (50, 1, 45):
        expected, found = flat(storing.rollout(num_steps=steps)), flat(discarding.rollout(num_steps=steps, keep_actions=False))
        del expected["actions"]
        assert_same(found, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_a_rollout_with_given_actions_equals_steps_with_them(case, device):
    rolled, single = env_of(case, device), env_of(case)
    dtypes = ("float32", "float64") if rolled.layout.groups[0].continuous else ("int32", "int64", "uint8")
    for seed, dtype in enumerate(dtypes):
        actions = (random_actions(rolled, 40, seed) * (3 if dtype == "float64" else 1)).astype(dtype)  # 3: beyond bounds
        assert_rollout(rolled, single, rolled.rollout(torch.as_tensor(actions, device=device)), actions)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_a_rollout_with_constant_actions_equals_steps_with_them(case, device):
    rolled, single = env_of(case, device), env_of(case)
    actions = random_actions(rolled, 1)[0]
    out = rolled.rollout(torch.as_tensor(actions, device=device), num_steps=60)
    assert "actions" not in out[4]
    assert_rollout(rolled, single, out, [actions] * 60)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", ["cartpole", "tag, small worlds", "pendulum"])
def test_random_actions_depend_on_world_id_and_not_on_the_index_in_the_env(case, device):
    """Random actions do not depend on the device either. A second rollout draws other actions."""
    many, few, cpu = env_of(case, device, num_envs=12), env_of(case, device, num_envs=5, first_world=4), env_of(case, num_envs=12)
    first, part, other = (to_host(env.rollout(num_steps=30)[4]["actions"]) for env in (many, few, cpu))
    np.testing.assert_array_equal(first[:, 4:9], part)
    np.testing.assert_array_equal(first, other)
    second = to_host(many.rollout(num_steps=30)[4]["actions"])
    assert (first != second).mean() > 0.3
    assert all((first[0] != later).any() for later in first[1:])


def test_random_actions_are_uniform():
    env = make("tag", num_worlds=200)
    env.reset(seed=0)
    actions = env.unwrapped.rollout(num_steps=50)[4]["actions"]
    counts = np.stack([np.bincount(actions[..., head].ravel(), minlength=21) for head in (0, 1)])
    expected = actions[..., 0].size / 21
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()
    together = np.corrcoef(actions[..., 0].ravel(), actions[..., 1].ravel())[0, 1]
    in_time = np.corrcoef(actions[:-1, ..., 0].ravel(), actions[1:, ..., 0].ravel())[0, 1]
    assert max(abs(together), abs(in_time)) < 5 / np.sqrt(actions[..., 0].size)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["step", "rollout", "random", "constant", "reset", "set", "seed"]), st.integers(1, 9)),
                max_size=12), st.sampled_from(MODES), st.booleans())  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_rollouts_and_steps_agree_in_any_order_of_calls(calls, mode, copy):
    options = {"autoreset_mode": mode, "tagging_distance": 0.3}
    rolled = make("tag", copy=copy, **options).unwrapped
    single = make("tag", **options).unwrapped
    for env in (rolled, single):
        env.reset(seed=1)
    for call, number in calls:
        actions = random_actions(rolled, number, seed=number)
        if call == "step":
            assert_same(flat(rolled.step(actions[0])), flat(single.step(actions[0])))
        elif call == "rollout":
            assert_rollout(rolled, single, rolled.rollout(actions), actions)
        elif call == "random":
            out = rolled.rollout(num_steps=number)
            assert_rollout(rolled, single, out, out[4]["actions"].copy())
        elif call == "constant":
            assert_rollout(rolled, single, rolled.rollout(actions[0], number), [actions[0]] * number)
        elif call == "reset":
            mask = np.array([number % 2 == 0, number > 4, number == 3 or number == 1])
            assert_same(*(env.reset(options={"reset_mask": mask})[:1] for env in (rolled, single)))
        elif call == "set":
            for env in (rolled, single):
                env.set_state({"t": np.full(3, number % 5, np.int32)})
        else:
            assert_same(*(env.reset(seed=number)[:1] for env in (rolled, single)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", ["cartpole", "pendulum", "grid tag"])
def test_rollouts_start_episodes_from_the_pool(case, device):
    limit = {} if case == "grid tag" else {"max_episode_steps": 5}
    rolled, single = env_of(case, device, **limit), env_of(case, **limit)
    pool = single.draw_start_states(7, seed=5)
    for env in (rolled, single):
        env.set_reset_pool(pool)
    out = rolled.rollout(num_steps=48)
    assert_rollout(rolled, single, out, to_host(out[4]["actions"]))
    assert (to_host(rolled.get_state("pool_entry")["pool_entry"]) >= 0).any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["masspole", "gravity", "force_mag"])
def test_rollouts_use_the_parameters_of_each_world(name, device):
    values = np.linspace(5, 12, WORLDS)
    rolled, single = env_of("cartpole", device, **{name: values}), env_of("cartpole", **{name: values})
    out = rolled.rollout(num_steps=40)
    assert_rollout(rolled, single, out, to_host(out[4]["actions"]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
def test_setting_an_unchanged_state_marks_no_world_as_finished(mode, device):
    """If ``may_be_finished`` is 1, every later step reads the marks of finished worlds, which takes time."""
    env = env_of("cartpole", device, autoreset_mode=mode)
    env.set_state(env.get_state())
    assert int(env.worlds.state.may_be_finished[0]) == 0
    env.set_state({"truncated": (np.arange(WORLDS) == 3).astype(np.uint8), "terminated": np.zeros(WORLDS, np.uint8)})
    assert int(env.worlds.state.may_be_finished[0]) == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
def test_worlds_set_as_finished_wait_for_their_reset(mode, device):
    """In next-step mode they start an episode, in other modes nothing changes. Same-step mode has them after set_state() only."""
    rolled, single = env_of("cartpole", device, autoreset_mode=mode), env_of("cartpole", autoreset_mode=mode)
    marked = np.arange(WORLDS) % 2 == 1
    for env, where in ((rolled, device), (single, "cpu")):
        env.step(torch.zeros(WORLDS, dtype=torch.int32, device=where))
        env.set_state({"terminated": marked.astype(np.uint8), "truncated": np.zeros(WORLDS, np.uint8)})
    before = single.get_state()
    actions = random_actions(rolled, 1)
    out = stepped(single, actions)
    assert_same(stepped(rolled, torch.as_tensor(actions, device=device)), out)
    after = single.get_state()
    assert not out["reward"][0, marked].any() and (out["reward"][0, ~marked] == 1).all()
    assert (after["state"][~marked] != before["state"][~marked]).any(axis=1).all()
    if mode == "next_step":
        assert not after["t"][marked].any() and (after["episode"][marked] == before["episode"][marked] + 1).all()
        assert not out["terminated"][0, marked].any()
    else:
        assert out["terminated"][0, marked].all()
        assert_same({name: values[marked] for name, values in after.items()},
                    {name: values[marked] for name, values in before.items()})  # fmt: skip
    out = rolled.rollout(num_steps=30)
    assert_rollout(rolled, single, out, to_host(out[4]["actions"]))
    if mode != "next_step":
        np.testing.assert_array_equal(single.get_state("state")["state"][marked], before["state"][marked])


# ---- memory -------------------------------------------------------------------------------------------------------

def test_actions_that_are_not_stored_overwrite_no_array_of_the_caller():
    """Neither the actions of an earlier rollout of one step nor bound slabs are overwritten."""
    env = env_of("cartpole", copy=False)
    one = env.rollout(num_steps=1)[4]["actions"]
    before = one.copy()
    env.rollout(num_steps=40, keep_actions=False)
    np.testing.assert_array_equal(one, before)
    bound, single = (make("cartpole", array="torch").unwrapped for _ in range(2))
    for each in (bound, single):
        each.reset(seed=1)
    obs = torch.zeros(11, *bound.observation_space.shape)
    bound.bind(obs=obs)
    bound.rollout(num_steps=10, keep_actions=False)
    assert torch.equal(obs[1:], single.rollout(num_steps=10)[0])


@pytest.mark.parametrize("names", [["reward"], ["terminated", "finished", "final_obs", "agent_alive", "agent_reward"]])
@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_steps_and_rollouts_fill_bound_slabs_as_steps_alone_do(name, names):
    rolled, single = (make(name, array="torch").unwrapped for _ in range(2))
    actions = torch.as_tensor(random_actions(rolled, 12))
    slabs = []
    for env in (rolled, single):
        shapes = {key: shape for key, shape in env.worlds.outputs.results.shapes.items() if key in (*names, "obs")}
        bools = ("terminated", "finished", "agent_alive")
        slabs.append({key: torch.zeros(13 if key == "obs" else 12, *shape, dtype=torch.bool if key in bools else torch.float32)
                      for key, shape in shapes.items()})  # fmt: skip
        env.bind(**slabs[-1])
        env.reset(seed=2)
    for turn in range(2):
        for action in actions:
            single.step(action)
        out = rolled.rollout(actions[:5])
        assert out[0].data_ptr() == slabs[0]["obs"][1].data_ptr()
        rolled.step(actions[5])
        with pytest.raises(SequenceError, match="have room for 6 of 12 steps and the rollout has 7; call rewind"):
            rolled.rollout(actions[:7])
        rolled.rollout(actions[6:])
        assert_same(slabs[0], slabs[1], f"turn {turn}")
        for env in (rolled, single):
            env.rewind()
    assert_same(rolled.get_state(), single.get_state())


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_rollout_copies_are_never_written_again_and_without_copies_arrays_are_reused(array):
    fresh, kept = make("tag", array=array), make("tag", array=array, copy=False)
    outs = []
    for env in (fresh, kept):
        env.reset(seed=1)
        outs.append([env.unwrapped.rollout(num_steps=4) for _ in range(2)])
    assert outs[1][0][0] is outs[1][1][0]
    before = host(outs[0][0][0]).copy()
    fresh.unwrapped.rollout(num_steps=4)
    np.testing.assert_array_equal(host(outs[0][0][0]), before)
    np.testing.assert_array_equal(host(outs[1][1][0]), host(outs[0][1][0]))


# ---- errors -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(
    ("actions", "num_steps", "error", "message"),
    [
        (None, None, ParameterError, "num_steps must be an integer from 1 to 2147483647, got None"),
        (None, 0, ParameterError, "num_steps must be an integer from 1 to 2147483647, got 0"),
        (None, 2.0, ParameterError, "num_steps must be an integer from 1 to 2147483647, got 2.0"),
        (np.zeros((4, 3), int), True, ParameterError, "num_steps must be an integer from 1 to 2147483647, got True"),
        (np.zeros(3, int), None, ShapeError, r"must have shape \(T, 3\), or be those of one step with num_steps=T, got \(3,\)"),
        (np.zeros((0, 3), int), None, ShapeError, r"must have shape \(T, 3\).* got \(0, 3\)"),
        (np.zeros((4, 2), int), None, ShapeError, r"must have shape \(4, 3\), got \(4, 2\)"),
        (np.zeros((4, 3), int), 5, ShapeError, r"must have shape \(5, 3\), or \(3,\) for .*, got \(4, 3\)"),
        ([[0, 1], [0]], None, ShapeError, r"must have shape \(T, 3\)"),
        (np.zeros((4, 3)), None, ArrayTypeError, "must be uint8, int8, int16, int32 or int64, got float64"),
        (np.eye(4, 3, dtype=int) * 2, None, ActionError, r"must lie in 0..1, got 2 at \[0, 0\]"),
    ],
)
def test_invalid_arguments_raise_errors_before_a_step(actions, num_steps, error, message):
    env = make("cartpole").unwrapped
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(error, match=message):
        env.rollout(actions, num_steps)
    assert_same(env.get_state(), before)


def test_a_rollout_before_the_first_reset_raises_an_error():
    with pytest.raises(SequenceError, match=r"call reset\(\) before rollout\(\)"):
        make("cartpole").unwrapped.rollout(num_steps=3)
