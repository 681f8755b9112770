"""Arrays shared by DLPack with NumPy, torch and JAX on the CPU. See test_arrays_gpu.py for CuPy and CUDA streams."""

import gc
import zlib

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ArrayTypeError

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 7, "tagging_distance": 0.3}


def make(array="torch", **options):
    env = gymnasium.make_vec("WarpTag-v0", num_worlds=32, view="agents", device="cpu", array=array, **TAG, **options)
    env.reset(seed=1)
    return env


def random_actions(env, steps):
    env.action_space.seed(0)
    return np.stack([env.action_space.sample() for _ in range(steps)])


def arrays(out):
    """All arrays of a step."""
    return [*out[:4], *out[4].values()]


def pointer(array):
    if isinstance(array, torch.Tensor):
        return array.data_ptr()
    return array.ctypes.data if isinstance(array, np.ndarray) else array.unsafe_buffer_pointer()


def checksum(array):
    return zlib.crc32(np.asarray(array).tobytes())


# ---- NumPy and torch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array, take", [("torch", np.from_dlpack), ("numpy", torch.from_dlpack)])
def test_every_array_of_a_step_is_shared_without_a_copy(array, take):
    env = make(array)
    for array in arrays(env.step(random_actions(env, 1)[0])):
        taken = take(array)
        assert pointer(taken) == pointer(array) and tuple(taken.shape) == tuple(array.shape)
        assert str(taken.dtype).endswith(str(array.dtype).removeprefix("torch."))


@pytest.mark.parametrize("array, take", [("torch", np.from_dlpack), ("numpy", torch.from_dlpack)])
def test_shared_arrays_are_never_written_again(array, take):
    env = make(array)
    actions = random_actions(env, 9)
    for start in range(6):
        taken = [take(array) for array in arrays(env.step(actions[start]))]
        sums = [checksum(array) for array in taken]
        for action in actions[start + 1 : start + 4]:
            env.step(action)
        assert [checksum(array) for array in taken] == sums


# ---- JAX ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def jnp():
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):  # even if JAX has a GPU
        yield pytest.importorskip("jax.numpy")


@pytest.mark.works("JAX", "every array of a step, without a copy, through jnp.from_dlpack")
def test_jax_takes_every_array_without_a_copy(jnp):
    env = make()
    for array in arrays(env.step(random_actions(env, 1)[0])):
        taken = jnp.from_dlpack(array, copy=False)
        assert pointer(taken) == pointer(array)
        assert taken.shape == tuple(array.shape) and str(taken.dtype) == str(array.dtype).removeprefix("torch.")


@pytest.mark.works("JAX", "arrays do not change in later steps")
def test_arrays_shared_with_jax_are_never_written_again(jnp):
    env = make()
    actions = random_actions(env, 9)
    for start in range(6):
        taken = [jnp.from_dlpack(array) for array in arrays(env.step(actions[start]))]
        sums = [checksum(array) for array in taken]
        for action in actions[start + 1 : start + 4]:
            env.step(action)
        assert [checksum(array) for array in taken] == sums


@pytest.mark.limit("JAX", "copy=False: the next step changes an array that JAX treats as immutable")
def test_with_copy_false_a_step_changes_arrays_shared_with_jax(jnp):
    env = make(copy=False)
    first, second = random_actions(env, 2)
    taken = jnp.from_dlpack(env.step(first)[0], copy=False)
    before = checksum(taken)
    env.step(second)
    assert checksum(taken) != before


@pytest.mark.works("JAX", "arrays stay valid after the env is closed")
def test_arrays_shared_with_jax_outlive_the_env(jnp):
    env = make()
    obs, *_ = env.step(random_actions(env, 1)[0])
    taken, expected, address, shape = jnp.from_dlpack(obs, copy=False), checksum(obs), pointer(obs), obs.shape
    env.close()
    del obs, env
    gc.collect()
    others = [torch.full(shape, 9.0) for _ in range(50)]
    assert address not in [pointer(other) for other in others]
    assert checksum(taken) == expected


@pytest.mark.works("JAX", "donated observations: JAX does not write to torch's memory")
def test_jax_does_not_overwrite_donated_observations(jnp):
    import jax

    env = make()
    obs, *_ = env.step(random_actions(env, 1)[0])
    before = obs.clone()
    jax.jit(lambda x: x + 1, donate_argnums=0)(jnp.from_dlpack(obs)).block_until_ready()
    assert torch.equal(obs, before)


@pytest.mark.parametrize("hand_over", [
    pytest.param(lambda actions: actions, marks=pytest.mark.works("JAX", "actions as JAX arrays, copied through the host")),
    pytest.param(torch.from_dlpack, marks=pytest.mark.works("JAX", "actions without a copy, through torch.from_dlpack")),
])  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"flatten_actions": True}, {"continuous_actions": True}], ids=str)
def test_jax_actions_give_the_same_results(jnp, options, hand_over):
    env, twin = make(**options), make(**options)
    for action in random_actions(env, 8):
        given = jnp.asarray(action)  # int32 and float32 by default
        for left, right in zip(env.step(hand_over(given))[:4], twin.step(action)[:4], strict=True):
            assert torch.equal(left, right)
        assert np.array_equal(given, action)


def test_torch_sees_the_memory_of_jax_actions(jnp):
    actions = jnp.arange(64, dtype=jnp.int32)
    assert pointer(torch.from_dlpack(actions)) == pointer(actions)


def test_integers_from_jax_that_no_action_has_raise_an_error(jnp):
    env = make()
    with pytest.raises(ArrayTypeError, match="actions must be uint8, int8, int16, int32 or int64, got uint16"):
        env.step(jnp.zeros((160, 2), jnp.uint16))


@pytest.mark.works("JAX", "a compiled policy between steps, with the same bits as in torch")
def test_a_compiled_policy_in_the_loop(jnp):
    import jax

    env, twin = (gymnasium.make_vec("WarpCartPole-v1", num_envs=64, device="cpu") for _ in range(2))
    policy = jax.jit(lambda obs: (obs[:, 2] + obs[:, 3] > 0).astype(jnp.int32))
    obs, expected = env.reset(seed=3)[0], twin.reset(seed=3)[0]
    for _ in range(100):
        obs, _, terminated, _, _ = env.step(torch.from_dlpack(policy(jnp.from_dlpack(obs))))
        expected, *_ = twin.step((expected[:, 2] + expected[:, 3] > 0).int())
        assert torch.equal(obs, expected)
    assert terminated.float().mean() < 0.1  # the policy balances the poles


@pytest.mark.works("JAX", "inside torch.inference_mode")
def test_jax_inside_inference_mode(jnp):
    env = make()
    with torch.inference_mode():
        obs, *_ = env.step(torch.from_dlpack(jnp.zeros((160, 2), jnp.int32)))
        taken = jnp.from_dlpack(obs, copy=False)
    assert np.array_equal(taken, obs)
    obs.zero_()  # an array made in inference mode can be written outside it


@pytest.mark.limit("JAX", "rows of one role without a copy: JAX on the CPU needs memory aligned to 64 bytes")
def test_rows_of_a_role_are_copied(jnp):
    env = make()
    obs, *_ = env.step(random_actions(env, 1)[0])
    runners = obs[env.unwrapped.role_rows["runner"]][1:]
    with pytest.raises(ValueError, match="not aligned to 64 bytes"):
        jnp.from_dlpack(runners, copy=False)
    assert np.array_equal(jnp.from_dlpack(runners), runners)


@pytest.mark.limit("JAX", "array='numpy' without a copy: NumPy aligns memory to 16 bytes, JAX on the CPU needs 64")
def test_numpy_arrays_are_copied(jnp):
    env = make("numpy")
    kept = [env.step(action)[0] for action in random_actions(env, 30)]
    taken = [jnp.from_dlpack(obs) for obs in kept]
    assert not all(pointer(obs) == pointer(array) for obs, array in zip(kept, taken, strict=True))
    assert all(np.array_equal(obs, array) for obs, array in zip(kept, taken, strict=True))
