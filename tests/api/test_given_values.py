"""Numbers and arrays of every kind that a caller may pass: they are read exactly or raise a typed error."""

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv.errors import ActionError, ArrayTypeError, DeviceError, GpuVecenvError, ParameterError, ShapeError
from gpu_vecenv.spec.validation import abbreviated, list_array, real_number, whole_number
from tests.api.envs import assert_same, make

HUGE = 10**400


def pendulum(array="torch"):
    env = gymnasium.make_vec("WarpPendulum-v1", num_envs=2, device="cpu", array=array).unwrapped
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(("given", "read"), [
    (3, 3), (2.5, 2.5), (np.int64(4), 4), (np.float32(0.5), 0.5), (np.array(7), 7), (torch.tensor(1.5), 1.5), (HUGE, HUGE),
    (True, None), (np.bool_(True), None), (1j, None), (np.complex64(1), None), (np.timedelta64(5, "s"), None), ("1", None),
    (None, None), ([1], None), (np.array([1]), None), (torch.zeros((), device="meta"), None), (torch.tensor(1j), None),
])  # fmt: skip
def test_real_and_whole_numbers_are_recognised(given, read):
    assert real_number(given) == read
    assert whole_number(given) == (read if isinstance(read, int) else None)


@pytest.mark.parametrize(("given", "dtype"), [
    ([1.5], "int32"), ([True], "int32"), (["1"], "float32"), ([1j], "float32"), ([np.complex64(1 + 2j)], "float32"),
    ([[1], [1, 2]], "float32"), ([300], "uint8"), ([-1], "uint64"), ([2**64], "uint64"), ([1e39], "float32"), ([HUGE], "float32"),
    ([None], "int32"), ("here", "float32"), ([np.zeros((2, 2)), np.zeros((2, 3))], "float32"), ([np.int64(-1)], "uint64"),
    ([np.array(2**32 + 3)] * 4, "int32"), ([np.array(256)], "uint8"), ([np.array([2**32 + 3, 1])], "int32"),
    ([np.ma.masked_array([1, 2], [0, 1])], "int32"),
])  # fmt: skip
def test_lists_that_a_dtype_cannot_hold_raise_an_error(given, dtype):
    with pytest.raises(ArrayTypeError, match=f"field must be {dtype}.*, got "):
        list_array(given, dtype, "field")


def test_lists_keep_every_bit():
    assert list_array([1, 2**64 - 1], "uint64", "field").tolist() == [1, 2**64 - 1]
    assert list_array([[float("inf"), 1]], "float32", "field").tolist() == [[float("inf"), 1.0]]


def test_long_numbers_are_abbreviated_in_messages():
    assert abbreviated(10**5000) == "an integer of 16,610 bits"
    assert abbreviated([10**5000]) == "a list with an integer too long to print"
    assert len(abbreviated(10**400)) == 100


@pytest.mark.parametrize("value", [1j, np.complex64(1 + 2j), np.timedelta64(5, "s"), HUGE, 1e39, "9.8", [[1.0, 2.0]], [1.0, "2"]])
def test_parameters_that_are_no_float32_raise_an_error(value):
    with pytest.raises(ParameterError, match="gravity must be "):
        make("cartpole", num_worlds=2, gravity=value)


@pytest.mark.parametrize("value", [np.array([5, 6]), np.array([5]), "5"])
def test_step_limits_that_are_no_number_raise_an_error(value):
    with pytest.raises(ParameterError, match="max_episode_steps must be a number, got "):
        make("cartpole", num_worlds=2, max_episode_steps=value)


@pytest.mark.parametrize("value", [
    [3.9999999999] * 5, np.full(5, 1 + 5j), ["a"] * 5, [None] * 5, [101] * 5, [-1] * 5, [HUGE] * 5, torch.zeros(5, device="meta"),
    np.ma.masked_array([1] * 5, [0, 0, 1, 0, 0]),
])  # fmt: skip
def test_invalid_starting_cells_raise_an_error(value):
    with pytest.raises(ParameterError, match="starting_location_x must be "):
        gymnasium.make_vec("WarpGridTag-v0", device="cpu", starting_location_x=value, starting_location_y=[1] * 5)


@pytest.mark.parametrize("size", [2**31, 2**33, HUGE, 0, -1, True, 2.0, "3"])
@pytest.mark.parametrize("name", ["num_envs", "num_worlds"])
def test_invalid_numbers_of_worlds_raise_an_error(name, size):
    with pytest.raises(ParameterError, match=f"{name} must be an integer from 1 to 2147483647, got "):
        gymnasium.make_vec("WarpCartPole-v1", device="cpu", **{name: size})


@pytest.mark.parametrize("seed", [2**64, -1, 1.0, True, "1", 1j, HUGE, {"a": 1}, torch.tensor(1.5), iter([1, 2])])
def test_invalid_seeds_raise_an_error(seed):
    env = pendulum()
    with pytest.raises(GpuVecenvError, match="seed"):
        env.reset(seed=seed)


@pytest.mark.parametrize("seed", [np.array(3), torch.tensor(3), np.uint64(3)])
def test_a_seed_without_axes_is_an_int(seed):
    twin = pendulum("numpy")
    assert_same([pendulum("numpy").reset(seed=seed)[0]], [twin.reset(seed=3)[0]])


@pytest.mark.parametrize("options", [{"high": 1e39}, {"low": -3e38, "high": 3e38}, {"high": np.complex64(1)}, {"low": HUGE}])
def test_reset_options_that_are_no_float32_raise_an_error(options):
    env = make("cartpole")
    with pytest.raises(ParameterError, match="reset option"):
        env.reset(seed=0, options=options)


@pytest.mark.parametrize("call", ["reset", "set_state", "set_reset_pool"])
@pytest.mark.parametrize("given", [5, [], "options", {1: 2}])
def test_arguments_that_are_no_mapping_raise_an_error(call, given):
    env = pendulum()
    with pytest.raises(ArrayTypeError, match="must be a mapping with names as keys, got"):
        env.reset(options=given) if call == "reset" else getattr(env, call)(given)


NEGATED = torch._neg_view(torch.full((2, 1), 1.5))
FROM_A_CONJUGATE = torch.complex(torch.zeros(2, 1), torch.full((2, 1), 1.5)).conj().imag


@pytest.mark.parametrize("given", [NEGATED, FROM_A_CONJUGATE, FROM_A_CONJUGATE.double()])
def test_lazily_negated_actions_are_read_with_their_sign(given):
    env, twin = pendulum(), pendulum()
    assert_same(env.step(given)[:2], twin.step(torch.full((2, 1), -1.5))[:2])
    assert_same(env.get_state(), twin.get_state())


def test_lazily_negated_indices_are_read_with_their_sign():
    env, twin = (gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cpu").unwrapped for _ in range(2))
    env.reset(seed=0)
    twin.reset(seed=0)
    with pytest.raises(ActionError, match=r"actions must lie in 0..1, got -1"):
        env.step(torch._neg_view(torch.tensor([0, 1, 0, 1])))
    assert_same(env.step(torch._neg_view(torch.tensor([0, -1, 0, -1])))[:2], twin.step(torch.tensor([0, 1, 0, 1]))[:2])


def without_memory():
    tensor = torch.zeros(4, dtype=torch.int64)
    tensor.untyped_storage().resize_(0)
    return tensor


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize("given", [
    without_memory(), torch._efficientzerotensor((4,), dtype=torch.int64),
    torch.nested.nested_tensor([torch.zeros(2), torch.zeros(2)]),
    torch.zeros(4, dtype=torch.int64, device="meta").as_subclass(Own), torch.zeros(4, dtype=torch.bfloat16).as_subclass(Own),
])  # fmt: skip
def test_tensors_without_memory_or_a_dense_layout_raise_errors(given):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cpu").unwrapped
    env.reset(seed=0)
    for call in (env.step, lambda a: env.rollout(a, num_steps=2), lambda a: env.reset(options={"reset_mask": a}),
                 lambda a: env.set_state({"t": a})):  # fmt: skip
        with pytest.raises(GpuVecenvError):
            call(given)
    with pytest.raises(GpuVecenvError):
        torch.vmap(lambda a: env.step(a)[1])(torch.zeros(2, 4, dtype=torch.int64))
    assert (env.get_state()["t"] == 0).all()


def test_a_tensor_of_a_subclass_is_read_as_a_tensor():
    env, twin = pendulum(), pendulum()
    assert_same(env.step(NEGATED.as_subclass(Own))[:2], twin.step(torch.full((2, 1), -1.5))[:2])


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("bound", [True, False])
def test_results_that_the_caller_moved_to_shared_memory_are_correct(copy, bound):
    env, twin = (gymnasium.make_vec("WarpPendulum-v1", num_envs=50_000, device="cpu", copy=copy).unwrapped for _ in range(2))
    for one in (env, twin):
        one.reset(seed=0)
    if bound:
        slabs = env.worlds.outputs.new_slabs(3)
        env.bind(**slabs)
        for slab in slabs.values():
            slab.share_memory_()
    for _ in range(3):
        out, expected = (one.step(torch.ones(50_000, 1)) for one in (env, twin))
        assert_same(out[:4], expected[:4])
        for array in out[:4]:
            array.share_memory_()


def test_lazily_negated_states_are_read_with_their_sign():
    env = pendulum()
    env.set_state({"state": torch._neg_view(torch.ones(2, 2))})
    assert (env.get_state()["state"] == -1).all()
    env.set_reset_pool({"state": torch._neg_view(torch.ones(1, 2))})
    env.reset(seed=0)
    assert (env.get_state()["state"] == -1).all()


@pytest.mark.parametrize(("given", "error"), [
    (torch.zeros(2, 2).to_sparse(), ArrayTypeError), (torch.zeros(2, 1).to_sparse_csr(), ArrayTypeError),
    (torch.zeros(2, 2, dtype=torch.bfloat16), ArrayTypeError),
    (torch.zeros(2, 2, device="meta"), DeviceError), (torch.zeros(2, 2, dtype=torch.complex64), ArrayTypeError),
    (np.ma.masked_array(np.zeros((2, 2), np.float32), True), ArrayTypeError),
])  # fmt: skip
def test_sparse_masked_and_complex_arrays_raise_errors(given, error):
    env = pendulum()
    before = env.get_state()
    for call in (lambda: env.set_state({"state": given}), lambda: env.set_reset_pool({"state": given})):
        with pytest.raises((error, ShapeError)):
            call()
    column = given if getattr(given, "is_sparse", False) or getattr(given, "is_sparse_csr", False) else given[:, :1]
    with pytest.raises((error, ShapeError) if column is given else error):
        env.step(column)
    assert_same(env.get_state(), before)
    for wrong in (given, torch.zeros(2, dtype=torch.bfloat16)):
        with pytest.raises(GpuVecenvError):
            env.reset(options={"reset_mask": wrong})
        with pytest.raises(GpuVecenvError):
            env.copy_worlds(wrong, [0, 1])


def test_lazily_negated_or_overlapping_slabs_raise_errors():
    env = pendulum()
    slab = torch.zeros(3, 2, 3)
    with pytest.raises(ArrayTypeError, match="bound obs must hold its values, got a tensor that torch negates"):
        env.bind(obs=torch._neg_view(slab))
    with pytest.raises(ParameterError, match="bound final_obs and obs share memory|bound obs and final_obs share memory"):
        env.bind(obs=slab, final_obs=slab[:2])
    with pytest.raises(ArrayTypeError, match="bound obs must be writable in place"):
        env.bind(obs=torch.zeros(3, 2, 3, requires_grad=True))
    env.bind(obs=slab, final_obs=torch.zeros(2, 2, 3))


@pytest.mark.parametrize(("name", "value"), [("copy", 1), ("debug", 0), ("view", np.array(["worlds", "agents"])), ("array", 0)])
def test_options_of_another_type_raise_an_error(name, value):
    with pytest.raises(ParameterError, match=f"{name} must be one of "):
        make("cartpole", **{name: value})
