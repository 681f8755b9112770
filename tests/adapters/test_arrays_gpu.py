"""Arrays shared by DLPack with CuPy and JAX on a GPU: without a copy, in the order of streams, and in CUDA graphs."""

import os
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv import EpisodeStatistics

pytestmark = pytest.mark.gpu
TAG = {"num_taggers": 2, "num_runners": 4, "episode_length": 12, "tagging_distance": 0.1}


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture
def jnp():
    jax = pytest.importorskip("jax")
    if not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("this JAX has no GPU")
    torch.cuda.set_device(0)  # JAX has just made the last GPU current
    import jax.numpy

    return jax.numpy


def make(array="torch", **options):
    env = gymnasium.make_vec("WarpTag-v0", num_envs=64, device="cuda:0", array=array, **TAG, **options).unwrapped
    env.reset(seed=3)
    return env


def random_actions(steps):
    generator = torch.Generator("cuda").manual_seed(1)
    return torch.randint(21, (steps, 64, 6, 2), dtype=torch.int32, device="cuda", generator=generator)


def arrays(out):
    """All arrays of a step."""
    return [*out[:4], *out[4].values()]


def address(array):
    if isinstance(array, torch.Tensor):
        return array.data_ptr()
    return array.unsafe_buffer_pointer() if hasattr(array, "unsafe_buffer_pointer") else array.data.ptr


def host(array):
    if isinstance(array, torch.Tensor):
        return array.cpu().numpy()
    return array.get() if hasattr(array, "get") else np.asarray(array)


def eager_obs(actions):
    """Observations of steps on the default stream, on the host."""
    env = make()
    return [host(env.step(action)[0]) for action in actions]


# ---- CuPy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [
    pytest.param("torch", marks=pytest.mark.works("CuPy", "every array of a step, without a copy, through cupy.from_dlpack")),
    pytest.param("cupy", marks=pytest.mark.works("CuPy", 'array="cupy", without a copy to torch through torch.from_dlpack')),
])  # fmt: skip
def test_cupy_and_torch_share_every_array_of_a_step(cupy, kind):
    env = make(kind)
    take = cupy.from_dlpack if kind == "torch" else torch.from_dlpack
    actions = random_actions(4)
    kept = []
    for action in actions:
        for array in arrays(env.step(cupy.from_dlpack(action) if kind == "cupy" else action)):
            taken = take(array)
            assert address(taken) == address(array) and tuple(taken.shape) == tuple(array.shape)
            kept.append((taken, host(array).tobytes()))
    assert all(host(taken).tobytes() == then for taken, then in kept)


@pytest.mark.works("CuPy", "streams: CuPy's reads of an array are ordered after the step that wrote it")
def test_cupy_reads_an_array_after_the_step_that_writes_it(cupy):
    env, actions = make(), random_actions(1)
    (expected,) = eager_obs(actions)
    side, reader = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)  # without an order of streams, the read would come first
        obs, *_ = env.step(actions[0])
        with reader:
            seen = cupy.from_dlpack(obs).copy()
    reader.synchronize()
    np.testing.assert_array_equal(seen.get(), expected)


@pytest.mark.works("CuPy", "streams: an env with array='cupy' works on CuPy's current stream")
def test_a_cupy_env_steps_on_cupys_current_stream(cupy):
    env, actions = make("cupy"), random_actions(6)
    expected = eager_obs(actions)[-1]
    torch.cuda.synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            torch.cuda._sleep(50_000_000)  # a launch on another stream would run before the end of this
        late = cupy.from_dlpack(actions).copy()
        for t in range(6):
            obs, *_ = env.step(late[t])
        seen = obs.copy()
        stream.synchronize()
    np.testing.assert_array_equal(seen.get(), expected)


def test_steps_on_a_side_stream_overwrite_no_array_in_use():
    """Later steps reuse the memory of dropped arrays while earlier work on the stream is still queued."""
    env, actions = make(), random_actions(20)
    expected = eager_obs(actions)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        sums = [env.step(action)[0].sum(dtype=torch.float64) for action in actions]
        state = env.get_state()
    side.synchronize()
    assert [s.item() for s in sums] == pytest.approx([obs.sum(dtype=np.float64) for obs in expected], abs=1e-8)
    eager = make()
    for action in actions:
        eager.step(action)
    for name, values in eager.get_state().items():
        assert torch.equal(state[name], values), name


@pytest.mark.works("CuPy", "CUDA graphs: with copy=False, a view made before the capture shows the results of each replay")
def test_a_cupy_view_shows_the_results_of_each_replay(cupy):
    actions = random_actions(10)
    expected = eager_obs(actions)
    env = make(copy=False)
    given = actions[0].clone()
    obs, *_ = env.step(given)
    view, state = cupy.from_dlpack(obs), env.get_state()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side), torch.cuda.graph(graph, stream=side):
        env.step(given)
    torch.cuda.current_stream().wait_stream(side)
    env.set_state(state)
    for t in range(1, 10):
        given.copy_(actions[t])
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_array_equal(view.get(), expected[t], err_msg=str(t))


@pytest.mark.works("CuPy", "inside torch.inference_mode")
def test_cupy_inside_inference_mode(cupy):
    env, actions = make(), random_actions(1)
    with torch.inference_mode():
        obs, *_ = env.step(actions[0])
        view = cupy.from_dlpack(obs)
    view.fill(7)
    assert bool((obs == 7).all())
    obs.zero_()  # an array made in inference mode can be written outside it


# ---- JAX ----------------------------------------------------------------------------------------------------------


@pytest.mark.works("JAX", "on the GPU: every array of a step, and actions, without a copy")
def test_jax_shares_every_array_of_a_step(jnp):
    env, actions = make(), random_actions(6)
    expected, kept = eager_obs(actions), []
    for t, action in enumerate(actions):
        given = jnp.from_dlpack(action) + 0
        handed = torch.from_dlpack(given)
        assert address(handed) == address(given)
        out = env.step(handed)
        for array in arrays(out):
            taken = jnp.from_dlpack(array, copy=False)
            assert address(taken) == address(array)
            kept.append((taken, host(array).tobytes()))
        np.testing.assert_array_equal(host(out[0]), expected[t])
    assert all(host(taken).tobytes() == then for taken, then in kept)


@pytest.mark.works("JAX", "on the GPU: reads are ordered after the step that wrote an array, steps after their actions")
def test_jax_and_the_env_read_arrays_after_they_are_written(jnp):
    import jax

    env, actions = make(), random_actions(4)
    expected = eager_obs(actions)
    slow = jax.jit(lambda x: x + (jnp.ones((2048, 2048)) @ jnp.ones((2048, 2048))).sum().astype(jnp.int32) * 0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for t, action in enumerate(actions):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            # Kept until the step has run: JAX reuses memory as soon as its last reference is gone.
            held = slow(jnp.from_dlpack(action))
            obs, *_ = env.step(torch.from_dlpack(held))
            seen = jnp.from_dlpack(obs) * 1
        np.testing.assert_array_equal(np.asarray(seen), expected[t])
        del held


@pytest.mark.limit("JAX", "on the GPU: actions as JAX arrays go through the host, with a warning, unless array='jax'")
def test_jax_actions_without_dlpack_are_uploaded_from_the_host(jnp):
    env, actions = make(), random_actions(1)
    (expected,) = eager_obs(actions)
    with pytest.warns(UserWarning, match="Host actions are uploaded to cuda:0"):
        obs, *_ = env.step(jnp.from_dlpack(actions[0]))
    np.testing.assert_array_equal(host(obs), expected)


# ---- array="jax" --------------------------------------------------------------------------------------------------


@pytest.mark.works("JAX", 'array="jax" on the GPU: arrays and actions stay on the device, without a copy')
def test_a_jax_env_copies_nothing_to_the_host(jnp):
    import jax

    env, actions = make("jax"), random_actions(8)
    expected = eager_obs(actions)
    given = [jnp.from_dlpack(action) for action in actions]
    kept = [env.step(given[0])[0]]
    with jax.transfer_guard("disallow"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for action in given[1:]:
            out = env.step(action)
            assert all(isinstance(array, jax.Array) and array.devices() == given[0].devices() for array in arrays(out))
            assert address(out[0]) == env.worlds.outputs.last_carried()[0].data_ptr()
            kept.append(out[0])
    for obs, then in zip(kept, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(obs), then)


@pytest.mark.works("JAX", 'array="jax" on the GPU: in the order of both streams, also for arrays that were dropped')
@pytest.mark.parametrize("side_stream", [False, True])
def test_a_jax_env_keeps_the_order_of_both_streams(jnp, side_stream):
    """Work of JAX and of torch is queued far ahead. Without the order of streams, memory would be reused before it is read."""
    import jax

    actions = random_actions(12)
    expected = eager_obs(actions)
    heavy = jnp.ones((4096, 4096)) / 4096
    slow = jax.jit(lambda x, y: x + ((y @ y @ y @ y).sum() * 0).astype(x.dtype))
    for late in ("jax", "torch"):
        env = make("jax")
        stream = torch.cuda.Stream() if side_stream else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        slow(jnp.from_dlpack(actions[0]), heavy).block_until_ready()  # compiled
        seen, junk = [], []
        with torch.cuda.stream(stream):
            for action in actions:
                if late == "torch":
                    torch.cuda._sleep(20_000_000)
                chosen = slow(jnp.from_dlpack(action), heavy) if late == "jax" else jnp.from_dlpack(action) + 0
                obs, *_ = env.step(chosen)
                del chosen
                junk = [jnp.full(action.shape, 7 + n, jnp.int32) for n in range(4)]  # JAX may reuse the memory of the actions
                seen.append(slow(obs, heavy) if late == "jax" else obs * 1)
                del obs  # torch may reuse the memory of the observations
        for t, array in enumerate(seen):
            np.testing.assert_array_equal(np.asarray(array), expected[t], err_msg=f"{late}, step {t}")
        assert len(junk) == 4
        env.close()


@pytest.mark.works("JAX", 'array="jax" on the GPU: observations donated to a compiled function')
def test_donated_observations_do_not_change_a_jax_env(jnp):
    """In a process of its own, which XLA would end if it could not donate memory of torch."""
    script = """
import jax, numpy as np, torch
from tests.adapters.test_arrays_gpu import eager_obs, make, random_actions
actions = random_actions(6)
expected = eager_obs(actions)
env = make("jax")
donate = jax.jit(lambda x: x * 0 + 9, donate_argnums=0)
for action, then in zip(actions, expected):
    obs = env.step(jax.dlpack.from_dlpack(action))[0]
    np.testing.assert_array_equal(np.asarray(obs), then)
    donate(obs).block_until_ready()
"""
    variables = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    ended = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.works("JAX", 'array="jax" on the GPU: wrappers and rows of a role')
def test_wrappers_of_a_jax_env_equal_those_of_a_torch_env(jnp):
    envs = [EpisodeStatistics(make(kind)) for kind in ("jax", "torch")]
    actions = random_actions(15)
    for env in envs:
        env.reset(seed=3)
    for action in actions:
        left, right = (env.step(action)[4] for env in envs)
        for name in ("r", "l"):
            np.testing.assert_array_equal(np.asarray(left["episode"][name]), host(right["episode"][name]))
