"""No step of a task's env makes the host wait."""

import pytest
import torch
from torchrl.envs import TransformedEnv

try:
    import benchmarl.experiment  # noqa: F401
except ImportError as error:
    pytest.skip(f"BenchMARL: {error}", allow_module_level=True)

from gpu_vecenv.adapters.benchmarl import BenchMARLTask

works = lambda what: pytest.mark.works("BenchMARL", what)  # noqa: E731
TAG = {"num_taggers": 2, "num_runners": 3, "tagging_distance": 0.2}


class HostReads(torch.utils._python_dispatch.TorchDispatchMode):
    """Refuses operations that make the host wait for a GPU, on the CPU too."""

    NAMES = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        assert name not in self.NAMES, f"{name} waits for the GPU"
        return function(*args, **(kwargs or {}))


def steps(device, state):
    """Steps of a task's env with the transforms of a training, which reset nothing; the host must not wait in them."""
    task = BenchMARLTask("WarpTag-v0", state=state, **{**TAG, "episode_length": 100})
    base = task.get_env_fun(16, False, 0, device)()
    env = TransformedEnv(base, task.get_reward_sum_transform(base))
    start = env.rand_action(env.reset())
    yield env, start
    for _ in range(12):
        data = env.step(start)
        after = env.step_mdp(data)
        for role in env.group_map:
            after[role, "action"] = start[role, "action"]
        start = after
        yield data


@pytest.mark.parametrize("state", [True, False])
def test_no_step_reads_results_on_the_host(state):
    run = steps("cpu", state)
    next(run)
    with HostReads():
        assert len(list(run)) == 12


@pytest.mark.gpu
@works("on the GPU: no step waits for the GPU or copies to the host")
@pytest.mark.parametrize("state", [True, False])
def test_no_step_waits_for_the_gpu(state):
    run = steps("cuda:0", state)
    env, start = next(run)
    env.step(start.clone())  # the first step makes views and TorchRL's caches
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        data = list(run)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(data) == 12 and all(leaf.is_cuda for leaf in data[-1].values(True, True))
