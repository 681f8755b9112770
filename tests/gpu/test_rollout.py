"""Many steps in one launch: rollouts never wait for the device, and a CUDA graph may hold 128 steps of any env."""

import gc
import weakref

import gymnasium
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ParameterError, SequenceError
from gpu_vecenv.vector.env.graph import capture_steps
from tests.api.envs import ALIKE, length

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
STEPS = 128


def make(name, **options):
    env = gymnasium.make_vec(name, num_envs=40, **{"device": "cuda:0", **length(name, 50), **options}).unwrapped
    env.reset(seed=3)
    return env


def random_actions(env, steps):
    """Actions that a rollout of another env drew."""
    name = env.env_spec.name
    twin = gymnasium.make_vec(name, num_envs=40, device="cuda:0", **length(name, 50)).unwrapped
    twin.reset(seed=9)
    return twin.rollout(num_steps=steps)[4]["actions"]


def policy_of(env):
    """Return a policy whose actions depend on the observations."""
    shape, continuous = env.action_space.shape, env.layout.groups[0].continuous

    def policy(obs):
        seen = obs.sum(-1)
        seen = seen.reshape(seen.shape + (1,) * (len(shape) - seen.ndim)).expand(shape)
        return torch.sin(seen).contiguous() if continuous else (seen.abs() * 100).long().remainder(2).contiguous()

    return policy


def host_state(env):
    return {name: value.cpu().numpy() for name, value in env.get_state().items()}


def assert_slabs_hold(outputs, steps, first):
    """Assert that the slabs of a graph hold the results of single steps."""
    assert torch.equal(outputs["obs"][0], first)
    for t, (obs, reward, terminated, truncated, info) in enumerate(steps):
        assert torch.equal(outputs["obs"][t + 1], obs), t
        for name, value in (("reward", reward), ("terminated", terminated), ("truncated", truncated)):
            assert torch.equal(outputs[name][t], value), (name, t)
        finished = info["_final_obs"]
        assert torch.equal(outputs["finished"][t], finished)
        assert torch.equal(outputs["final_obs"][t][finished], info["final_obs"][finished])
        if "agent_alive" in outputs:
            assert torch.equal(outputs["agent_alive"][t], info["agent_alive"])


@pytest.mark.parametrize("name", ALIKE)
def test_a_graph_with_given_actions_equals_single_steps(name):
    env, single = make(name), make(name)
    obs = single.observe()
    captured = capture_steps(env, STEPS)
    assert captured.actions.shape == (STEPS, *env.action_space.shape)
    actions = random_actions(env, 2 * STEPS)
    for part in (0, 1):
        captured.actions.copy_(actions[part * STEPS : (part + 1) * STEPS])
        captured.replay()
        steps = [single.step(action) for action in captured.actions]
        assert_slabs_hold(captured.outputs, steps, obs)
        obs = steps[-1][0]


@pytest.mark.parametrize("name", ALIKE)
def test_a_graph_with_a_policy_equals_single_steps(name):
    env, single = make(name), make(name)
    obs, policy = single.observe(), policy_of(env)
    captured = capture_steps(env, STEPS, policy)
    for between in ("nothing", "nothing", "a step", "a reset"):
        if between == "a step":
            env.rewind()
            env.step(policy(obs))
            obs = single.step(policy(obs))[0]
        elif between == "a reset":
            env.reset(seed=7)
            obs, _ = single.reset(seed=7)
        captured.replay()
        first, steps = obs, []
        for _ in range(STEPS):
            steps.append(single.step(policy(obs)))
            obs = steps[-1][0]
        assert_slabs_hold(captured.outputs, steps, first)
        del steps


def test_a_graph_cannot_be_replayed_after_unbind():
    env = make("WarpCartPole-v1")
    captured = capture_steps(env, 4)
    env.unbind()
    with pytest.raises(SequenceError, match="not bound any more"):
        captured.replay()
    with pytest.raises(ParameterError, match="debug=True waits for the device"):
        capture_steps(make("WarpCartPole-v1", debug=True), 4)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("name", ALIKE)
def test_a_rollout_never_waits_for_the_device(name, copy):
    env = make(name, copy=copy)
    actions = env.rollout(num_steps=10)[4]["actions"].clone()
    torch.cuda.set_sync_debug_mode("error")
    try:
        env.rollout(actions)
        env.rollout(actions[0], num_steps=10)
        env.rollout(num_steps=10)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ALIKE)
def test_each_replay_of_a_captured_rollout_continues_the_last(name):
    """Each replay draws other actions, because a draw depends on the step of its world."""
    env, single = make(name, copy=False), make(name)
    env.rollout(num_steps=STEPS)
    single.rollout(num_steps=STEPS)
    before = host_state(env)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        out = env.rollout(num_steps=STEPS)
    torch.cuda.current_stream().wait_stream(side)
    assert all((value == before[name]).all() for name, value in host_state(env).items())
    for _ in range(2):
        graph.replay()
        expected = single.rollout(num_steps=STEPS)
        for left, right in zip(out[:4], expected[:4], strict=True):
            assert torch.equal(left, right)
        assert torch.equal(out[4]["actions"], expected[4]["actions"])


def test_the_first_rollout_cannot_be_captured():
    env = make("WarpCartPole-v1", copy=False)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), pytest.raises(SequenceError, match="compiled with the first one"):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            env.rollout(num_steps=3)


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("unaligned", ["obs", "final_obs", "both"])
@pytest.mark.parametrize("way", ["rollout", "step"])
def test_slabs_need_no_alignment(name, way, unaligned):
    env, single = make(name), make(name)
    shape, steps = env.observation_space.shape, 60  # episodes end after 50
    slabs = {}
    for key, rows in (("obs", steps + 1), ("final_obs", steps)):
        memory = torch.zeros(1 + rows * torch.Size(shape).numel(), device="cuda")
        slabs[key] = (memory[1:] if unaligned in (key, "both") else memory[:-1]).view(rows, *shape)  # memory is aligned
    env.bind(**slabs)
    actions = random_actions(env, steps)
    if way == "rollout":
        env.rollout(actions)
    else:
        for action in actions:
            env.step(action)
    for t, action in enumerate(actions):
        obs, _, _, _, info = single.step(action)
        finished = info["_final_obs"]
        assert torch.equal(slabs["obs"][t + 1], obs)
        assert torch.equal(slabs["final_obs"][t][finished], info["final_obs"][finished])


def test_a_replay_skips_worlds_that_were_set_as_finished_after_the_capture():
    """In same-step mode, a step reads the marks of finished worlds only if ``may_be_finished`` is 1. Each replay reads it."""
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=64, device="cuda:0").unwrapped
    env.reset(seed=0)
    captured = capture_steps(env, 3)
    assert int(env.worlds.state.may_be_finished[0]) == 0  # capture_steps() sets a state without finished worlds
    captured.actions.zero_()
    captured.replay()
    marks = (torch.arange(64, device="cuda:0") % 2).to(torch.uint8)
    env.set_state({"terminated": marks, "t": torch.full((64,), 7, dtype=torch.int32, device="cuda:0")})
    captured.replay()
    assert torch.equal(env.get_state("t")["t"][marks == 1], torch.full((32,), 7, dtype=torch.int32, device="cuda:0"))
    assert torch.equal(env.get_state("terminated")["terminated"], marks)
    assert (env.get_state("t")["t"][marks == 0] != 7).all()


@pytest.mark.parametrize("worlds", [1, 31, 33, 5_000, 20_001, 101_376, 101_377, 150_000, 210_007])
@pytest.mark.parametrize("keep", [True, False])
def test_rollouts_of_any_number_of_worlds_equal_single_steps(worlds, keep):
    """The block size depends on the number of worlds. An H100 holds 101,376 worlds at once."""
    env, single = (
        gymnasium.make_vec("WarpCartPole-v1", num_envs=worlds, device="cuda:0", max_episode_steps=9).unwrapped for _ in "ab"
    )
    for each in (env, single):
        each.reset(seed=2)
    drawn = env.rollout(num_steps=13)[4]["actions"]
    single.rollout(drawn)
    twin = gymnasium.make_vec("WarpCartPole-v1", num_envs=worlds, device="cuda:0", max_episode_steps=9).unwrapped
    twin.reset(seed=2)
    twin.set_state(env.get_state())
    actions = twin.rollout(num_steps=6)[4]["actions"]
    kept = env.rollout(num_steps=6, keep_actions=keep)[4].get("actions")
    assert not keep or torch.equal(kept, actions)
    for action in actions:
        single.step(action)
    for (name, left), right in zip(env.get_state().items(), single.get_state().values(), strict=True):
        assert torch.equal(left, right), name
    assert int(env.get_state("t")["t"].max()) <= 9


def test_an_env_may_be_garbage_collected_during_a_capture():
    """Its actions are not checked, as a check waits for the device; an explicit check raises an error."""
    env, other = make("WarpCartPole-v1", copy=False), make("WarpCartPole-v1")
    actions = random_actions(env, 1)[0]
    env.step(actions)
    other.step(actions.clone().fill_(7))
    torch.cuda.synchronize()
    gone = weakref.ref(other)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        env.step(actions)
        del other
        gc.collect()
        assert gone() is None
        with pytest.raises(SequenceError, match=r"check\(\) waits for the device"):
            env.check()
        env.step(actions)
    before = env.get_state("t")["t"].clone()
    graph.replay()
    assert not torch.equal(env.get_state("t")["t"], before)


def test_an_env_with_debug_cannot_be_captured():
    env = make("WarpCartPole-v1", copy=False, debug=True)
    actions = random_actions(env, 1)[0]
    env.step(actions)
    torch.cuda.synchronize()
    before = host_state(env)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(SequenceError, match="a step with debug=True waits for the device"):
        env.step(actions)
    graph.replay()
    assert all((value == before[name]).all() for name, value in host_state(env).items())
