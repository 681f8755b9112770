"""Ownership of result arrays: copies, arrays reused by every step, the caller's slabs, and arrays made in inference mode."""

import zlib
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.errors import ArrayTypeError, DeviceError, SequenceError, ShapeError, UnknownParameterError
from tests.api.envs import MODES, VIEWS, assert_same, host, host_info, make, random_actions
from tests.devices import DEVICES


def flat(out):
    """All arrays that a step or a reset returns, by name."""
    names = ("obs", "reward", "terminated", "truncated") if len(out) == 5 else ("obs",)
    return {**dict(zip(names, out[:-1], strict=True)), **out[-1]}


@pytest.mark.parametrize("array", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_copies_are_never_written_again(name, array):
    env = make(name, array=array)
    kept = []

    def keep(out):
        kept.extend((value, zlib.crc32(host(value).tobytes())) for value in flat(out).values())

    def change(call, *args):
        """Make a call that replaces the last observation by another one."""
        before = host(env.unwrapped.observe())
        call(*args)
        assert not np.array_equal(host(env.unwrapped.observe()), before)

    keep(env.reset(seed=1))
    start = env.get_state()
    for step, action in enumerate(random_actions(env, 20)):
        keep(env.step(action))
        if step == 10:
            kept.extend((value, zlib.crc32(host(value).tobytes())) for value in env.get_state().values())
            change(env.unwrapped.set_state, start)
        if step == 12:
            change(env.unwrapped.copy_worlds, [0], [1])
        if step == 14:
            keep(env.reset(options={"reset_mask": np.array([True, False, True])}))
            change(env.unwrapped.set_state, start)
    for value, then in kept:
        assert zlib.crc32(host(value).tobytes()) == then


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_without_copies_every_step_writes_the_same_arrays(array):
    env, twin = make("tag", array=array, copy=False), make("tag", array=array)
    obs, _ = env.reset(seed=1)
    twin.reset(seed=1)
    address = obs.ctypes.data if array == "numpy" else obs.data_ptr()
    for action in random_actions(env, 10):
        out, expected = flat(env.step(action)), flat(twin.step(action))
        assert out["obs"] is obs
        assert_same(host_info(out), host_info(expected))
    assert (obs.ctypes.data if array == "numpy" else obs.data_ptr()) == address
    mask = np.array([True, False, True])
    assert_same(env.reset(options={"reset_mask": mask})[:1], twin.reset(options={"reset_mask": mask})[:1])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["tag", "tag, defaults", "cartpole"])
def test_numpy_and_torch_results_are_equal(name, view):
    left, right = make(name, view=view), make(name, view=view, array="torch")
    assert_same(left.reset(seed=3)[:1], right.reset(seed=3)[:1])
    for action in random_actions(left, 14):
        assert_same(host_info(flat(left.step(action))), host_info(flat(right.step(torch.as_tensor(action)))))
    assert_same(left.get_state(), right.get_state())


# ---- bound slabs --------------------------------------------------------------------------------------------------

ALL = {"reward": torch.float32, "terminated": torch.bool, "truncated": torch.bool, "finished": torch.bool,
       "final_obs": torch.float32, "agent_alive": torch.bool, "agent_reward": torch.float32}  # fmt: skip


def slabs(env, steps, names):
    """Slabs filled with values that an env never writes."""
    shapes = env.unwrapped.worlds.outputs.results.shapes
    made = {name: torch.full((steps, *shapes[name]), 7, dtype=torch.float32).to(ALL[name]) for name in names}
    return {"obs": torch.full((steps + 1, *shapes["obs"]), 7.0), **made}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("names", [[], ["reward"], ["agent_alive", "terminated", "finished"], list(ALL)])
@pytest.mark.parametrize("view", VIEWS)
def test_bound_slabs_hold_the_results_of_three_rollouts(view, names, mode):
    options = {"view": view, "array": "torch", "autoreset_mode": mode, "tagging_distance": 0.3}
    env, twin = make("tag", **options), make("tag", **options)
    names = [name for name in names if name in env.unwrapped.worlds.outputs.results.shapes]
    bound = slabs(env, 5, names)
    env.unwrapped.bind(**bound)
    expected = [flat(twin.reset(seed=2))]
    obs, _ = env.reset(seed=2)
    assert obs.data_ptr() == bound["obs"].data_ptr()
    actions = random_actions(env, 15)
    for start in (0, 5, 10):
        for t in range(5):
            out = flat(env.step(actions[start + t]))
            expected.append(flat(twin.step(actions[start + t])))
            assert out["obs"].data_ptr() == bound["obs"][t + 1].data_ptr()
            assert_same(host_info(out), host_info(expected[-1]), f"step {start + t}")
        here = expected[start : start + 6]
        assert_same(bound["obs"], [e["obs"] for e in here])
        for name in set(names) - {"finished", "final_obs"}:
            public = "reward" if name == "agent_reward" and view == "agents" else name
            assert_same(bound[name], [e[public] for e in here[1:]], name)
        if "final_obs" in names:
            for slab, mask, e in zip(bound["final_obs"], bound["finished"], here[1:], strict=True):
                assert torch.equal(mask, e["_final_obs"])
                assert torch.equal(slab[mask], e["final_obs"][mask])
        with pytest.raises(SequenceError, match="hold 5 steps and are full; call rewind"):
            env.step(actions[0])
        env.unwrapped.rewind()
        assert torch.equal(bound["obs"][0], expected[-1]["obs"])
    assert_same(env.get_state(), twin.get_state())


@pytest.mark.parametrize("copy", [True, False])
def test_binding_and_unbinding_in_the_middle_of_episodes_changes_no_results(copy):
    """Some bind follows a step that caught a runner. The last observation still shows this runner, an observe() would not."""
    options = {"tagging_distance": 0.3, "autoreset_mode": "disabled", "array": "torch"}
    env, twin = make("tag", copy=copy, **options), make("tag", **options)
    env.reset(seed=2)
    twin_obs, _ = twin.reset(seed=2)
    actions = random_actions(env, 12)
    for t, action in enumerate(actions):
        if t in (0, 2, 6):
            bound = slabs(env, 7, ["reward"])
            env.unwrapped.bind(**bound)
            assert torch.equal(bound["obs"][0], twin_obs)
        if t == 4:
            env.unwrapped.unbind()
            for slab in bound.values():
                slab.fill_(3)  # unbound slabs belong to the caller
        out, expected = flat(env.step(action)), flat(twin.step(action))
        twin_obs = expected["obs"]
        assert_same(out, expected, f"step {t}")
        if t in (3, 4, 8):
            mask = np.array([t == 4, True, False])
            obs, _ = env.reset(options={"reset_mask": mask})
            twin_obs, _ = twin.reset(options={"reset_mask": mask})
            assert torch.equal(obs, twin_obs)
    env.unwrapped.unbind()


def test_unbound_slabs_are_not_read_again():
    env = make("tag", array="torch")
    bound = slabs(env, 4, [])
    env.unwrapped.bind(**bound)
    env.reset(seed=1)
    last = env.step(random_actions(env, 1)[0])[0].clone()
    env.unwrapped.unbind()
    bound["obs"].fill_(3)
    obs, _ = env.reset(options={"reset_mask": np.array([True, False, False])})
    assert torch.equal(obs[1:], last[1:])


def test_a_reset_of_all_worlds_returns_to_the_first_slot():
    env, twin = make("tag", array="torch"), make("tag", array="torch")
    bound = slabs(env, 4, ["reward"])
    env.unwrapped.bind(**bound)
    env.reset(seed=1)
    env.step(random_actions(env, 1)[0])
    obs, _ = env.reset(seed=5)
    assert obs.data_ptr() == bound["obs"].data_ptr()
    assert torch.equal(obs, twin.reset(seed=5)[0])


@pytest.mark.parametrize("change, error, text", [
    (lambda s: s.pop("obs"), UnknownParameterError, "bind.. needs obs and may take reward"),
    (lambda s: s.update(rewards=s["reward"]), UnknownParameterError, "got obs, reward, rewards"),
    (lambda s: s.update(reward=s["reward"].numpy()), ArrayTypeError, "bound reward must be a torch array, got ndarray"),
    (lambda s: s.update(obs=[1]), ArrayTypeError, "bound obs must be a torch array, got list"),
    (lambda s: s.update(obs=torch.zeros(())), ShapeError, r"bound obs must have shape \(T \+ 1, 3, 6, 36\), got \(\)"),
    (lambda s: s.update(obs=s["obs"][:1]), ShapeError, r"bound obs must have shape \(T \+ 1, 3, 6, 36\)"),
    (lambda s: s.update(obs=s["obs"][:4]), ShapeError, r"bound reward must have shape \(T, 3\), got \(4, 3\)"),
    (lambda s: s.update(reward=s["reward"].double()), ArrayTypeError, "bound reward must be float32, got torch.float64"),
    (lambda s: s.update(reward=torch.zeros(3, 4).T), ShapeError, "bound reward must be C-contiguous"),
    (lambda s: s.update(reward=s["reward"].to("meta")), DeviceError, "bound reward must be on cpu, got meta"),
])  # fmt: skip
def test_invalid_slabs_raise_errors(change, error, text):
    env, twin = make("tag", array="torch"), make("tag", array="torch")
    env.reset(seed=0)
    twin.reset(seed=0)
    bound = slabs(env, 4, ["reward"])
    change(bound)
    with pytest.raises(error, match=text):
        env.unwrapped.bind(**bound)
    action = random_actions(env, 1)[0]
    assert_same(host_info(flat(env.step(action))), host_info(flat(twin.step(action))))


def test_rewind_without_slabs_raises_an_error():
    with pytest.raises(SequenceError, match="call bind.. first"):
        make("tag").unwrapped.rewind()


# ---- torch --------------------------------------------------------------------------------------------------------


def test_arrays_from_inference_mode_can_be_written_outside_it():
    with torch.inference_mode():
        env = make("tag", array="torch")
        kept = [env.reset(seed=0)[0], env.unwrapped.observe(), *env.get_state().values()]
        kept += flat(env.step(torch.as_tensor(random_actions(env, 1)[0]))).values()
    for array in kept:
        array.zero_()
    env.step(random_actions(env, 1)[0])


WANTED = [((3, 2, 4), "float32"), ((5,), "float32"), ((5,), "bool"), ((), "int32")]


@pytest.mark.parametrize("private", [True, False], ids=["torch.compile's allocator", "torch.empty"])
@pytest.mark.parametrize("device", DEVICES)
def test_new_tensors_have_the_properties_of_torch_empty(monkeypatch, device, private):
    def properties(tensor):
        basic = (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad, tensor.is_inference())
        return (*basic, tensor._version, tensor.is_contiguous(), tensor.data_ptr() % 64)

    if not private:
        monkeypatch.delattr(torch._C._dynamo.guards, f"_empty_strided_{device[:4]}")
    allocate = TorchMemory(device).allocator(WANTED)
    with torch.inference_mode():
        made = [allocate()]
    made.append(allocate())
    for tensors in made:
        for tensor, (shape, dtype) in zip(tensors, WANTED, strict=True):
            assert properties(tensor) == properties(torch.empty(shape, dtype=getattr(torch, dtype), device=device))
    assert len({tensor.untyped_storage().data_ptr() for tensors in made for tensor in tensors}) == 2 * len(WANTED)


@pytest.mark.parametrize("mode", MODES)
def test_the_caller_may_move_the_memory_of_a_returned_tensor(mode):
    """Sharing a tensor with another process moves its memory. The env must then read the new address."""
    env, twin = (make("tag", autoreset_mode=mode, array="torch") for _ in range(2))
    mask = {"reset_mask": np.array([True, False, True])}
    for step, action in enumerate(random_actions(env, 20)):
        (obs, *out), (expected, *others) = (e.step(action) if step else e.reset(seed=3) for e in (env, twin))
        assert_same(host_info(flat((obs, *out))), host_info(flat((expected, *others))))
        before = obs.detach()
        obs.data = obs.clone()
        before.fill_(np.nan)
        if step % 4 == 3:
            assert torch.equal(env.reset(options=mask)[0], twin.reset(options=mask)[0])


def test_new_tensors_are_made_on_the_device_of_their_env(monkeypatch):
    current = [0]

    @contextmanager
    def device(index):
        before, current[0] = current[0], index
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[0], raising=False)
    monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cuda", lambda *layout: (current[0], *layout))
    for index in (0, 1):
        made = TorchMemory(f"cuda:{index}").allocator([((3, 4), "float32")])()
        assert made == [(index, (3, 4), (4, 1), torch.float32)]
    assert current == [0]


def test_actions_may_require_a_gradient_or_be_non_contiguous():
    env, twin = (make("tag", continuous_actions=True, array="torch") for _ in range(2))
    env.reset(seed=0)
    twin.reset(seed=0)
    action = torch.linspace(-1, 1, 36).reshape(2, 6, 3).permute(2, 1, 0)
    expected = twin.step(action.contiguous().numpy())
    assert_same(host_info(flat(env.step(action.clone().requires_grad_()))), host_info(flat(expected)))


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_int32_and_int64_actions_give_the_same_results(kind):
    env, twin = make("tag"), make("tag")
    env.reset(seed=0)
    twin.reset(seed=0)
    action = random_actions(env, 1)[0]
    expected = host_info(flat(twin.step(action)))
    wide = np.zeros((3, 6, 4), kind)
    wide[..., ::2] = action
    assert_same(host_info(flat(env.step(wide[..., ::2]))), expected)
