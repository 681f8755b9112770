"""Work of the host in a step: it never waits for the device, and it allocates nothing unless outputs are fresh arrays."""

from contextlib import contextmanager

import gymnasium
import pytest

import gpu_vecenv  # noqa: F401
from tests.api.envs import ALIKE, length

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
STEPS = 60  # episodes end after 50


def make(name, **options):
    env = gymnasium.make_vec(name, num_worlds=40, device="cuda:0", **length(name, 50), **options).unwrapped
    env.reset(seed=3)
    return env


@contextmanager
def raise_on_wait():
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


@pytest.fixture(params=["fresh", "persistent", "bound", "partly bound"])
def outputs(request):
    return request.param


@pytest.mark.parametrize("view", ["worlds", "agents"])
@pytest.mark.parametrize("name", ALIKE)
def test_a_step_never_waits_and_allocates_fresh_outputs_only(name, view, outputs):
    actions = make(name, view=view).rollout(num_steps=STEPS)[4]["actions"]
    env = make(name, view=view, copy=outputs == "fresh")
    if "bound" in outputs:
        slabs = env.worlds.outputs.new_slabs(STEPS)
        env.bind(**(slabs if outputs == "bound" else {name: slabs[name] for name in ("obs", "reward")}))
        env.step(actions[0])
        env.rewind()
    env.step(actions[0])
    before = allocations()
    with raise_on_wait():
        for action in actions[1:]:
            env.step(action)
        if "bound" in outputs:
            env.rewind()
            for action in actions:
                env.step(action)
    if outputs != "fresh":
        assert allocations() == before


def test_the_check_finds_a_wait_for_the_gpu():
    with raise_on_wait(), pytest.raises(RuntimeError, match="synchroniz"):
        torch.zeros(1, device="cuda").item()


def test_the_check_finds_an_allocation():
    before = allocations()
    torch.zeros(1, device="cuda")
    assert allocations() > before
