"""Actions of every integer dtype: the same trajectories, the same errors, and small arrays where the package makes them."""

import gymnasium
import numpy as np
import pytest

from gpu_vecenv import RoleRows
from gpu_vecenv.errors import ActionError, ArrayTypeError
from gpu_vecenv.spec.roles import INDEX_DTYPES, smallest_dtype
from gpu_vecenv.vector.env.graph import capture_steps
from gpu_vecenv.vector.inputs.actions import ENTRY_TYPES
from gpu_vecenv.vector.wrappers.wrapper import DeviceWrapper
from tests.api import envs
from tests.devices import DEVICES, JAX
from tests.marks import slow_but
from tests.roles import cases
from tests.trees import assert_trees_equal, leaves, map_tree, to_host

torch = pytest.importorskip("torch")

RICE = {"rice": {}, "rice, negotiation": {"negotiation_on": True}}
"""Parameters. Their kernels read whole actions, and those of one byte in words."""

CASES = ["tag", "tag, agents view", "cartpole", *RICE, *cases.CASES]
LEVELS = {"num_acceleration_levels": 199, "num_turn_levels": 299}
"""200 choices, more than an int8 has, and 300, more than a uint8 has."""


def make(case, **options):
    """An env of six or 40 worlds that was reset; 40 worlds of one agent are a pack and eight more."""
    if case in cases.CASES:
        return cases.started(case, **options)
    if case in RICE:
        env = gymnasium.make_vec("WarpRice-v0", 5, **RICE[case], **options).unwrapped
        env.reset(seed=3)
        return env
    name, _, agents_view = case.partition(", ")
    view = {"view": "agents"} if agents_view else {}
    env = envs.make(name, num_worlds=40, **view, **options).unwrapped
    env.reset(seed=3)
    return env


def as_dtype(actions, dtype):
    """The actions with indices of a dtype; numbers of a Box as they are."""
    return map_tree(lambda array: array if array.dtype.kind == "f" else array.astype(dtype), actions)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("array", ["numpy", "torch"])
@pytest.mark.parametrize("case", slow_but(["tag", "cartpole", *list(RICE)[:1], *list(cases.CASES)[:2]], CASES))
def test_every_dtype_gives_the_same_trajectory(case, array, device):
    """Steps and a rollout with given actions. With ``array="numpy"`` actions are on the host."""
    expected = None
    for dtype in ("int32", *INDEX_DTYPES):
        env = make(case, device=device, array=array)
        actions = as_dtype(cases.random_actions(env, 14), dtype)
        if array == "torch":
            actions = map_tree(lambda values, to=device: torch.as_tensor(values, device=to), actions)
        found = [cases.results(env.step(cases.at(actions, t))) for t in range(3)]
        found.append(cases.results(env.rollout(cases.at(actions, slice(3, None)))))
        found.append(cases.state(env))
        env.check()
        expected = expected or found
        for one, other in zip(found, expected, strict=True):
            assert_trees_equal(one, other, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "offsets"), [("uint8", (1, 2, 3)), ("int8", (1, 2, 3)), ("int16", (1,))])
@pytest.mark.parametrize("case", ["tag", "cartpole"])
def test_actions_may_begin_inside_a_word(case, dtype, offsets, device):
    """A kernel on a GPU reads the words around small indices."""
    env, moved = make(case, device=device, array="torch"), make(case, device=device, array="torch")
    actions = torch.as_tensor(as_dtype(cases.random_actions(env, 2 * len(offsets)), dtype), device=device)
    for number, offset in enumerate(offsets):
        room = torch.full((actions[0].numel() + offset + 3,), -1 if dtype != "uint8" else 255, dtype=actions.dtype, device=device)
        for t, call in ((2 * number, lambda e, a: e.step(a)), (2 * number + 1, lambda e, a: e.rollout(a[None]))):
            inside = room[offset:][: actions[t].numel()].view(actions[t].shape)
            inside.copy_(actions[t])
            assert inside.data_ptr() % 4
            assert_trees_equal(cases.results(call(moved, inside)), cases.results(call(env, actions[t])))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_drawn_actions_have_the_smallest_dtype_and_give_the_same_steps(case, device):
    rolled, single = make(case, device=device), make(case, device=device)
    out = cases.results(rolled.rollout(num_steps=9))
    assert {array.dtype.name for array in leaves(out["actions"])} <= {"uint8", "float32"}
    assert_trees_equal({**cases.stepped(single, out["actions"]), "actions": out["actions"]}, out)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("levels", "flat", "dtype"), [(255, False, "uint8"), (256, False, "int16"), (4096, True, "int16")])
def test_drawn_actions_of_many_choices(levels, flat, dtype, device):
    options = {"num_acceleration_levels": levels, "num_turn_levels": 1, "flatten_actions": flat, "device": device}
    env, single = make("tag", **options), make("tag", **options)
    out = cases.results(env.rollout(num_steps=5))
    assert out["actions"].dtype == dtype and 0.95 * levels < out["actions"].max()
    assert_trees_equal({**cases.stepped(single, out["actions"]), "actions": out["actions"]}, out)


def test_the_smallest_dtype_holds_the_last_choice():
    found = [smallest_dtype(choices) for choices in (1, 256, 257, 2**15, 2**15 + 1, 2**31 - 1)]
    assert found == ["uint8", "uint8", "int16", "int16", "int32", "int32"]


@pytest.mark.parametrize("array", ["numpy", "torch", JAX])
@pytest.mark.parametrize(
    ("dtype", "entry", "bad"),
    [("int8", 0, -1), ("int8", 0, -100), ("int8", 1, -128), ("uint8", 0, 200), ("uint8", 0, 255), ("int16", 0, 200),
     ("int16", 0, -1), ("int16", 1, 300), ("int16", 1, -(2**15)), ("int32", 1, 300), ("int64", 0, -1)],
)  # fmt: skip
def test_an_index_out_of_range_is_refused_before_a_step(dtype, entry, bad, array):
    """Read as unsigned, an int8 of -100 is 156, which is a valid choice among 200."""
    env = envs.make("tag", array=array, **LEVELS).unwrapped
    env.reset(seed=0)
    before = to_host(env.get_state())
    actions = np.full(env.action_space.shape, 5, dtype)
    actions[1, 2, entry] = bad
    given = torch.as_tensor(actions) if array == "torch" else actions
    if array == "jax":
        given = pytest.importorskip("jax").numpy.asarray(actions)
    with pytest.raises(ActionError, match=rf"actions must lie in 0..199 and 0..299, got {bad} at \[1, 2, {entry}\]"):
        env.step(given)
    assert_trees_equal(to_host(env.get_state()), before)
    actions[1, 2, entry] = min(np.iinfo(dtype).max, 199)
    env.step(actions)


def test_an_error_names_the_entry_of_a_long_action():
    env = make("rice")
    actions = np.zeros(env.action_space["region"].shape, int)
    actions[2, 5, 44] = 10
    with pytest.raises(ActionError, match=r"actions of region must lie in 0..9 in entry 44, got 10 at \[2, 5, 44\]"):
        env.step({"region": actions})


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_kernels_read_signs(dtype):
    """Launches the kernel directly, as the env would refuse the actions."""
    env = make("tag", **LEVELS)
    actions = np.zeros(env.action_space.shape, dtype)
    actions[..., 0] = -100
    env.worlds.step((actions, actions.ctypes.data, ENTRY_TYPES[dtype]))
    assert env.worlds.arguments.invalid[0] == actions[..., 0].size
    env.worlds.arguments.invalid[...] = 0


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", INDEX_DTYPES)
@pytest.mark.parametrize("case", ["tag", "cartpole", "town", *RICE])
def test_an_index_out_of_range_is_counted_on_a_gpu(case, dtype):
    """The first entry of an action of Tag has 200 choices, so that an int8 of -128 is valid if it is read as unsigned."""
    options = {"device": "cuda:0", "array": "torch", **(LEVELS if case == "tag" else {})}
    env, still = make(case, **options), make(case, **options)
    limits = np.iinfo(dtype)
    for bad in (index for index in (limits.min, limits.max) if index < 0 or index >= 200 or case != "tag" and index > 0):
        actions = as_dtype(map_tree(np.zeros_like, cases.at(cases.random_actions(env, 1), 0)), dtype)
        zeros = map_tree(lambda values: torch.as_tensor(values, device="cuda:0"), actions)
        for array in leaves(actions):
            if array.dtype.kind != "f":
                (array[..., 0] if case == "tag" else array)[...] = bad
        found = cases.results(env.step(map_tree(lambda values: torch.as_tensor(values, device="cuda:0"), actions)))
        assert_trees_equal(found, cases.results(still.step(zeros)))
        with pytest.raises(ActionError, match="actions"):
            env.check()
        still.check()


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", "bool", "float32"])
def test_other_dtypes_are_refused(dtype):
    env = make("cartpole")
    with pytest.raises(ArrayTypeError, match=f"actions must be uint8, int8, int16, int32 or int64, got {dtype}"):
        env.step(np.zeros(40, dtype))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_slabs_role_rows_and_wrappers_take_every_dtype(dtype, device):
    def stepped(kind):
        bound, rows = make("tag", device=device, array="torch"), RoleRows(make("town", device=device, array="torch"), "citizen")
        wrapped = DeviceWrapper(make("harvest", device=device, array="torch"))
        slab = torch.zeros(4, *bound.observation_space.shape, device=device)
        bound.bind(obs=slab)
        rows.reset(seed=1)
        generator, outs = np.random.default_rng(0), []
        for _ in range(3):
            for env in (bound, rows, wrapped):
                actions = generator.integers(0, 2, env.action_space.shape).astype(kind)
                outs.append(to_host(dict(enumerate(env.step(torch.as_tensor(actions, device=device))[:4]))))
        return [*outs, {"slab": to_host(slab)}]

    for one, other in zip(stepped(dtype), stepped("int64"), strict=True):
        assert_trees_equal(one, other)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
def test_a_graph_reads_the_smallest_dtype(case):
    """No kernel but those of the env runs in a replay: the bytes are not converted."""
    env, single = make(case, device="cuda:0", array="torch"), make(case, device="cuda:0", array="torch")
    captured = capture_steps(env, 5)
    assert {str(array.dtype) for array in leaves(captured.actions)} <= {"torch.uint8", "torch.float32"}
    actions = as_dtype(cases.random_actions(env, 5), "uint8")
    map_tree(lambda to, values: to.copy_(torch.as_tensor(values)), captured.actions, actions)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        captured.replay()
        torch.cuda.synchronize()
    kernels = {event.name for event in profile.events() if "emcpy" not in event.name and "gv_" not in event.name}
    assert not [name for name in kernels if "at::native" in name or "elementwise" in name], kernels
    cases.stepped(single, actions)
    assert_trees_equal(cases.state(env), cases.state(single))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_a_graph_keeps_the_dtype_of_its_policy(dtype):
    """A smaller dtype would make a valid index of one that is out of range, by wrapping."""
    env = make("cartpole", device="cuda:0", array="torch")
    captured = capture_steps(env, 5, lambda obs: (obs[:, 2] > 0).to(getattr(torch, dtype)))
    captured.replay()
    assert captured.actions.dtype == getattr(torch, dtype)
    env.check()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_host_arrays_are_uploaded_as_they_are(dtype):
    env, single = (gymnasium.make_vec("WarpCartPole-v1", num_envs=40, device="cuda:0", array="numpy") for _ in range(2))
    for one in (env, single):
        one.reset(seed=0)
    actions = np.arange(40) % 2
    for left, right in zip(env.step(actions.astype(dtype))[:4], single.step(actions)[:4], strict=True):
        np.testing.assert_array_equal(left, right)
