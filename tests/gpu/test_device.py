"""Behaviour on GPUs only: graphs, streams, actions checked on the device."""

import os
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ActionError, DeviceError, SequenceError, ShapeError
from gpu_vecenv.vector.wrappers.stats import EpisodeStatistics

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
SMALL = {"num_taggers": 2, "num_runners": 4, "episode_length": 12, "tagging_distance": 0.1}


def make(name="WarpTag-v0", **options):
    params = SMALL if name == "WarpTag-v0" else {"max_episode_steps": 12}
    env = gymnasium.make_vec(name, num_envs=64, **{"device": "cuda:0", **params, **options}).unwrapped
    env.reset(seed=3)
    return env


def random_actions(env, steps):
    space = env.single_action_space
    high = int(space.nvec.flat[0] if hasattr(space, "nvec") else space.n)
    generator = torch.Generator("cuda").manual_seed(1)
    shape = (steps, env.num_envs, *(space.shape or ()))
    return torch.randint(high, shape, dtype=torch.int32, device="cuda", generator=generator)


def eager(name, actions, **options):
    env = make(name, **options)
    return [tuple(x.clone() for x in env.step(action)[:4]) for action in actions]


@pytest.mark.parametrize("name", ["WarpTag-v0", "WarpCartPole-v1"])
def test_a_captured_rollout_equals_the_eager_one(name):
    steps = 20
    env = make(name)
    actions = random_actions(env, 2 * steps)
    expected = eager(name, actions)
    obs = torch.zeros(steps + 1, *env.observation_space.shape, device="cuda")
    reward = torch.zeros(steps, env.num_envs, device="cuda")
    given = torch.zeros_like(actions[:steps])
    state = env.get_state()
    env.bind(obs=obs, reward=reward)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for t in range(steps):
                env.step(given[t])
            env.rewind()
    torch.cuda.current_stream().wait_stream(side)
    env.set_state(state)
    for half in (0, 1):
        given.copy_(actions[half * steps : (half + 1) * steps])
        graph.replay()
        for t in range(steps):
            here = expected[half * steps + t]
            assert torch.equal(obs[t + 1], here[0]), (half, t)
            assert torch.equal(reward[t], here[1]), (half, t)


def test_steps_run_on_the_callers_stream():
    env = make(copy=False)
    actions = random_actions(env, 1)[0]
    expected = eager("WarpTag-v0", [actions] * 5)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)  # a launch on another stream would run before this ends
        late = actions.clone()
        for _ in range(5):
            obs, *_ = env.step(late)
        seen = obs.clone()
    side.synchronize()
    assert torch.equal(seen, expected[-1][0])


def test_steps_that_allocate_cannot_be_captured():
    env = make(copy=True)
    actions = random_actions(env, 1)[0]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), pytest.raises(SequenceError, match="copy=True allocates in every step"):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            env.step(actions)


def test_returned_arrays_are_never_written_again():
    env = make(copy=True)
    kept = [env.step(action) for action in random_actions(env, 6)]
    sums = [[x.double().sum().item() for x in out[:4]] for out in kept]
    for action in random_actions(env, 3):
        env.step(action)
    assert sums == [[x.double().sum().item() for x in out[:4]] for out in kept]


def test_an_invalid_action_acts_as_zero_and_is_reported_once():
    bad, good = make(), make()
    actions = random_actions(bad, 1)[0]
    zero = actions.clone()
    zero[5, 2] = 0
    actions[5, 2] = torch.tensor([21, -1], device="cuda")
    assert torch.equal(bad.step(actions)[0], good.step(zero)[0])
    with pytest.raises(ActionError, match="^2 actions were out of range or NaN"):
        bad.check()
    bad.check()  # the second check finds nothing
    bad.step(actions)
    with pytest.raises(ActionError, match="2 actions"):
        bad.close()
    assert bad.closed


def test_debug_reports_an_invalid_action_in_its_step():
    env = make(debug=True)
    actions = random_actions(env, 1)[0]
    env.step(actions)
    actions[0, 0, 0] = 99
    with pytest.raises(ActionError, match="1 actions"):
        env.step(actions)


def test_a_nan_action_acts_as_zero_and_is_reported():
    env, still = make(continuous_actions=True), make(continuous_actions=True)
    shape = (64, 6, 2)
    nan = torch.full(shape, float("nan"), device="cuda")
    assert torch.equal(env.step(nan)[0], still.step(torch.zeros(shape, device="cuda"))[0])
    with pytest.raises(ActionError, match=f"^{64 * 6 * 2} actions"):
        env.check()


def test_host_actions_are_uploaded_with_one_warning():
    env = make()
    actions = random_actions(env, 1)[0]
    expected = eager("WarpTag-v0", [actions, actions])
    with pytest.warns(UserWarning, match="Host actions are uploaded to cuda:0"):
        env.step(actions.cpu().numpy())
    obs, *_ = env.step(actions.cpu())
    assert torch.equal(obs, expected[1][0])


def test_an_env_of_numpy_arrays_takes_host_actions_without_a_warning():
    env = make(array="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step(random_actions(env, 1)[0].cpu().numpy())


def test_actions_of_another_device_or_shape_raise_errors():
    env = make()
    with pytest.raises(ShapeError, match=r"\(64, 6, 2\), got \(63, 6, 2\)"):
        env.step(random_actions(env, 1)[0][:63])
    with pytest.raises(DeviceError, match="device='cuda:9' was asked for, but torch sees"):
        make(device="cuda:9")
    cpu = gymnasium.make_vec("WarpTag-v0", num_envs=64, device="cpu", **SMALL)
    cpu.reset(seed=0)
    with pytest.raises(DeviceError, match="must be on cpu, got an array on cuda:0"):
        cpu.step(random_actions(env, 1)[0])


@pytest.mark.parametrize("array", ["numpy", "torch", "cupy"])
def test_every_array_kind_gives_the_results_of_the_cpu(array):
    reference = gymnasium.make_vec("WarpTag-v0", num_envs=8, device="cpu", array="numpy", **SMALL)
    env = gymnasium.make_vec("WarpTag-v0", num_envs=8, device="cuda:0", array=array, **SMALL)
    expected, _ = reference.reset(seed=9)
    obs, _ = env.reset(seed=9)
    actions = np.random.default_rng(0).integers(0, 21, (30, 8, 6, 2), dtype=np.int32)
    for action in actions:
        on_device = action if array == "numpy" else torch.as_tensor(action, device="cuda")
        if array == "cupy":
            import cupy

            on_device = cupy.asarray(action)
        obs, reward, _, _, info = env.step(on_device)
        expected, expected_reward, _, _, expected_info = reference.step(action)
        assert type(obs).__module__.partition(".")[0] == array
        np.testing.assert_array_equal(host(obs), expected)
        np.testing.assert_array_equal(host(reward), expected_reward)
        np.testing.assert_array_equal(host(info["agent_alive"]), expected_info["agent_alive"])
    for name, value in reference.unwrapped.get_state().items():
        np.testing.assert_array_equal(host(env.unwrapped.get_state()[name]), value)


def host(array):
    if isinstance(array, np.ndarray):
        return array
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


def test_per_thread_default_streams_raise_an_error():
    code = (
        "import gymnasium, gpu_vecenv\n"
        "try: gymnasium.make_vec('WarpCartPole-v1', device='cuda:0')\n"
        "except gpu_vecenv.errors.DeviceError as error: print(error)"
    )
    environment = {**os.environ, "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM is set" in done.stdout


def test_an_env_with_a_copied_state_gives_the_same_results():
    env, other = make(), make()
    actions = random_actions(env, 30)
    for action in actions[:15]:
        env.step(action)
    other.set_state(env.get_state())
    for action in actions[15:]:
        for left, right in zip(env.step(action)[:4], other.step(action)[:4], strict=True):
            assert torch.equal(left, right)


def test_a_world_may_have_4096_agents():
    params = {"num_taggers": 96, "num_runners": 4000, "num_other_agents_observed": 5}
    outputs = []
    for device in ("cpu", "cuda:0"):
        env = gymnasium.make_vec("WarpTag-v0", num_envs=2, device=device, array="numpy", **params)
        env.reset(seed=1)
        actions = np.random.default_rng(0).integers(0, 21, (3, 2, 4096, 2), dtype=np.int32)
        outputs.append([env.step(action)[0] for action in actions])
    for left, right in zip(*outputs, strict=True):
        np.testing.assert_array_equal(left, right)


@two_gpus
@pytest.mark.parametrize("name", ["WarpTag-v0", "WarpCartPole-v1"])
@pytest.mark.parametrize("array", ["torch", "cupy"])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.filterwarnings("error")  # CuPy warns when it works on an array of another device than the current one
def test_an_env_works_on_a_device_that_is_not_the_current_one(name, array, copy):
    """Its arrays and kernels are on its own device, and the current device does not change."""
    there = make(name, device="cuda:1", array=array, copy=copy)
    torch.cuda.set_device(1)
    here = make(name, device="cuda:0", array=array, copy=copy)
    assert torch.cuda.current_device() == 1
    torch.cuda.set_device(0)
    for action in random_actions(here, 20):
        ours, theirs = here.step(action), there.step(action.to("cuda:1"))
        assert torch.cuda.current_device() == 0
        ended = torch.as_tensor(ours[4]["_final_obs"])
        ours, theirs = ({**dict(enumerate(out[:4])), **out[4]} for out in (ours, theirs))
        for key in ours:
            mine, other = torch.as_tensor(ours[key]), torch.as_tensor(theirs[key])
            assert other.device == torch.device("cuda:1")
            valid = ended if key == "final_obs" else slice(None)
            assert torch.equal(mine[valid], other.to("cuda:0")[valid])


@two_gpus
@pytest.mark.filterwarnings("error")
def test_a_rewind_on_another_device_waits_for_the_last_step():
    """CuPy copies the results of the last step, although the env's device is still busy when the copy is requested."""
    env = make("WarpCartPole-v1", device="cuda:1", array="cupy")
    slabs = env.worlds.outputs.new_slabs(8)
    env.bind(**slabs)
    for action in random_actions(make("WarpCartPole-v1"), 8).to("cuda:1"):
        with torch.cuda.device("cuda:1"):
            torch.cuda._sleep(50_000_000)
        env.step(action)
    env.rewind()
    assert torch.cuda.current_device() == 0
    obs = torch.as_tensor(slabs["obs"])
    assert torch.equal(obs[0], obs[8])


@two_gpus
def test_an_invalid_action_on_another_device_is_reported_once():
    """The count is cleared on the env's device, although the current device is busy."""
    env = make("WarpCartPole-v1", device="cuda:1", array="cupy")
    env.step(torch.full((64,), 7, dtype=torch.int32, device="cuda:1"))
    torch.cuda._sleep(2_000_000_000)
    with pytest.raises(ActionError, match="^64 actions"):
        env.check()
    env.check()


@two_gpus
@pytest.mark.filterwarnings("error")
def test_cupy_works_on_the_envs_device():
    """Statistics, states and non-contiguous actions, while another device is the current one."""
    cupy = pytest.importorskip("cupy")
    here, there = (EpisodeStatistics(make(device=device, array="cupy")) for device in ("cuda:0", "cuda:1"))
    there.reset(seed=3)
    here.reset(seed=3)
    for t, action in enumerate(random_actions(here.unwrapped, 20).transpose(2, 3).contiguous()):
        mine = here.step(cupy.from_dlpack(action).swapaxes(1, 2))
        other = there.step(cupy.from_dlpack(action.to("cuda:1")).swapaxes(1, 2))
        assert cupy.cuda.Device().id == 0
        for left, right in ((mine[0], other[0]), *((mine[4]["episode"][k], other[4]["episode"][k]) for k in "rl")):
            assert right.device.id == 1
            np.testing.assert_array_equal(left.get(), host(right))
        if t == 10:
            for env in (here, there):
                env.unwrapped.set_state(env.unwrapped.get_state())
                env.reset(options={"reset_mask": np.arange(64) % 2 == 0})
