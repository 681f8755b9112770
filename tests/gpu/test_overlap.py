"""Steps in a CUDA graph may start before the previous kernel ends. They give the same bits, with any work between them."""

import gymnasium
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.backend import cuda
from gpu_vecenv.backend.overlap import overlapped_launch
from tests.api.envs import ALIKE, length

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
STEPS = 24
WORLDS = {"WarpTag-v0": 600, "WarpGridTag-v0": 20_000}
"""Enough worlds to fill a GPU more than once."""


def make(name, **options):
    worlds = WORLDS.get(name, 300_000)
    env = gymnasium.make_vec(name, num_envs=worlds, device="cuda:0", copy=False, **length(name, 10), **options).unwrapped
    env.reset(seed=3)
    return env


def random_actions(name):
    env = make(name)
    return env.rollout(num_steps=STEPS)[4]["actions"].clone()


def only_steps(env, actions, buffers):
    """Steps with nothing between them."""
    for action in actions:
        env.step(action)


def copies_around_steps(env, actions, buffers):
    """A copy writes the actions just before each step, and another copies its observation just after it."""
    given = buffers["given"]
    for t, action in enumerate(actions):
        given.copy_(action)
        buffers["obs"][t % 4].copy_(env.step(given)[0])


def cleared_actions(env, actions, buffers):
    """The memory of the actions is cleared and written before each step."""
    given = buffers["given"]
    for action in actions:
        given.zero_()
        given.add_(action)
        env.step(given)


def late_reads(env, actions, buffers):
    """A side stream reads each observation late, while the main stream writes the next actions; then the streams join."""
    main, side, given = torch.cuda.current_stream(), buffers["side"], buffers["given"]
    for t, action in enumerate(actions):
        given.copy_(action)
        obs = env.step(given)[0]
        side.wait_stream(main)
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000)
            buffers["obs"][t % 4].copy_(obs)
        given.mul_(2)
        main.wait_stream(side)


def two_predecessors(env, actions, buffers):
    """Each step follows a join of two streams: it has two predecessors, the second a kernel or a copy."""
    main, side = torch.cuda.current_stream(), buffers["side"]
    for t, action in enumerate(actions):
        side.wait_stream(main)
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000)
            if t % 2:
                buffers["given"].copy_(action)
            else:
                torch.add(action, 0, out=buffers["given"])
        buffers["obs"][t % 4].mul_(2)
        main.wait_stream(side)
        env.step(buffers["given"])


def late_actions(env, actions, buffers):
    """Actions come from a kernel that ends long after it began."""
    given = buffers["given"]
    for action in actions:
        torch.cuda._sleep(20_000)
        torch.add(action, 0, out=given)
        env.step(given)


def rollouts_and_steps(env, actions, buffers):
    """Rollouts and steps alternate."""
    for t in range(0, STEPS, 4):
        env.rollout(actions[t : t + 2])
        env.step(actions[t + 2])
        env.step(actions[t + 3])


PLAYS = [
    only_steps, copies_around_steps, cleared_actions, late_reads, two_predecessors, late_actions, rollouts_and_steps,
]  # fmt: skip


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("name", ALIKE)
def test_steps_in_a_graph_equal_steps_outside(name, play):
    actions = random_actions(name)
    states, seen = [], []
    for captured in (False, True):
        env = make(name)
        buffers = {
            "given": torch.zeros_like(actions[0]),
            "obs": torch.zeros(4, *env.observation_space.shape, device="cuda"),
            "side": torch.cuda.Stream(),
        }
        play(env, actions, buffers)  # compiles kernels and allocates memory
        env.reset(seed=4)
        torch.cuda.synchronize()
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                play(env, actions, buffers)
            graph.replay()
            graph.replay()
        else:
            play(env, actions, buffers)
            play(env, actions, buffers)
        torch.cuda.synchronize()
        states.append({key: value.clone() for key, value in env.get_state().items()})
        seen.append(buffers["obs"].clone())
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key]), key
    assert torch.equal(*seen)


def test_two_envs_in_one_graph_equal_steps_outside():
    """Each step reads results of the step before it, of either env: the second env acts on the first one's observations."""
    made = [[make("WarpCartPole-v1"), make("WarpCartPole-v1")] for _ in "ab"]

    def play(one, two):
        given = torch.zeros(one.num_envs, dtype=torch.int32, device="cuda")
        for _ in range(STEPS):
            obs = one.step(given)[0]
            torch.gt(obs[:, 2], 0, out=seen[id(one)])
            given = seen[id(one)].view(torch.uint8).to(torch.int32)
            two.step(given)
            one.step(given)

    seen = {id(one): torch.zeros(one.num_envs, dtype=torch.bool, device="cuda") for one, _ in made}
    for one, two in made:
        play(one, two)
        one.reset(seed=5)
        two.reset(seed=6)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        play(*made[1])
    graph.replay()
    play(*made[0])
    for left, right in zip(*made, strict=True):
        for (key, value), other in zip(left.get_state().items(), right.get_state().values(), strict=True):
            assert torch.equal(value, other), key


def test_steps_on_a_cupy_stream_overlap_too():
    import cupy

    envs = [make("WarpCartPole-v1", array="cupy") for _ in "ab"]
    actions = [cupy.random.default_rng(seed).integers(0, 2, 300_000, dtype=cupy.int32) for seed in range(STEPS)]
    torch.cuda.synchronize()  # the new stream does not wait for the default one, which made the envs and actions
    stream = cupy.cuda.Stream(non_blocking=True)
    for env in envs:
        with stream:
            env.reset(seed=3)
            env.step(actions[0])
            env.reset(seed=4)
        stream.synchronize()
    with stream:
        stream.begin_capture()
        for action in actions:
            envs[0].step(action)
        graph = stream.end_capture()
        graph.launch(stream)
        for action in actions:
            envs[1].step(action)
    stream.synchronize()
    for (key, value), other in zip(envs[0].get_state().items(), envs[1].get_state().values(), strict=True):
        assert bool((value == other).all()), key


def test_captured_steps_use_overlapped_launches(monkeypatch):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("launches overlap on Hopper only")
    calls = []
    launch = cuda.overlapped_launch
    monkeypatch.setattr(cuda, "overlapped_launch", lambda *given: (calls.append(given), launch(*given)))
    env, actions = make("WarpCartPole-v1"), random_actions("WarpCartPole-v1")
    only_steps(env, actions, {})
    with torch.cuda.stream(torch.cuda.Stream()):
        only_steps(env, actions, {})
    torch.cuda.synchronize()
    assert calls == []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        only_steps(env, actions, {})
    assert len(calls) == STEPS


def test_a_failed_launch_raises_an_error():
    torch.zeros(1, device="cuda")  # starts the driver
    with pytest.raises(RuntimeError, match="^cuLaunchKernelEx failed with CUDA error 400"):
        overlapped_launch(0, 1, 32, 0, 0)
