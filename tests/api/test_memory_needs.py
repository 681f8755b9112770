"""Memory of an env: the estimate by ``memory_needs``, compared with measured memory."""

import tracemalloc

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode

import gpu_vecenv  # noqa: F401
from gpu_vecenv.cli.main import main
from gpu_vecenv.vector.outputs.memory_needs import memory_needs
from gpu_vecenv.vector.outputs.views import View
from tests.api.envs import ALIKE
from tests.marks import slow_but
from tests.trees import leaves

SIZES = {"WarpTag-v0": 100, "WarpGridTag-v0": 5_000, "WarpSimpleSpread-v3": 5_000, "WarpRice-v0": 40}
PARAMS = {"WarpRice-v0": {"observe": "whole", "negotiation_on": True}}
MODES = {"same_step": AutoresetMode.SAME_STEP, "next_step": AutoresetMode.NEXT_STEP}


def estimate(env, mode, copy):
    parts = memory_needs(View(env.layout, env.num_worlds, env.view == "agents"), MODES[mode], copy)
    return sum(parts.values())


def memory_of_steps(name, worlds, options, actions, copy):
    """Return the bytes that an env holds after three steps, with its results."""
    tracemalloc.start()
    env = gymnasium.make_vec(name, num_worlds=worlds, **options).unwrapped
    results = env.reset(seed=0)
    for _ in range(3):
        results = env.step(actions)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak >= held
    # With copies, the results of one step are held twice: by the caller until it drops them, and by the step that makes new ones.
    return (held if not copy else held + sum(a.nbytes for a in leaves(dict(enumerate(results))))) + actions.nbytes


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", ["worlds", "agents"])
@pytest.mark.parametrize("name", slow_but(["WarpTag-v0", "WarpCartPole-v1"], [*ALIKE, "WarpRice-v0"]))
def test_memory_on_the_host_matches_the_estimate(name, view, mode, copy):
    worlds = SIZES.get(name, 40_000)
    options = {"device": "cpu", "array": "numpy", "view": view, "autoreset_mode": mode, "copy": copy, **PARAMS.get(name, {})}
    probe = gymnasium.make_vec(name, num_worlds=worlds, **options)
    actions = probe.action_space.sample()
    probe.reset(seed=0)  # memory of modules that are loaded once is not counted below
    del probe
    expected = pytest.approx(estimate(gymnasium.make_vec(name, num_worlds=worlds, **options).unwrapped, mode, copy), rel=0.1)
    # Threads of other tests may allocate during a measurement, so the smallest of three counts. The first that fits ends them.
    taken = memory_of_steps(name, worlds, options, actions, copy)
    for _ in range(2):
        if taken != expected:
            taken = min(taken, memory_of_steps(name, worlds, options, actions, copy))
    assert taken == expected


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "worlds"), [("WarpCartPole-v1", 1_000_000), ("WarpGridTag-v0", 100_000), ("WarpTag-v0", 2_000)])
@pytest.mark.parametrize("copy", [True, False])
def test_memory_on_a_gpu_matches_the_estimate(name, worlds, copy):
    torch = pytest.importorskip("torch")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    env = gymnasium.make_vec(name, num_worlds=worlds, device="cuda:0", copy=copy).unwrapped
    shape = (worlds, *(env.single_action_space.shape or ()))
    actions = torch.zeros(shape, dtype=torch.int64, device="cuda")
    env.reset(seed=0)
    torch.cuda.reset_peak_memory_stats()
    results = None
    for _ in range(3):
        results = env.step(actions)
    assert results is not None
    assert torch.cuda.max_memory_allocated() - before == pytest.approx(estimate(env, "same_step", copy), rel=0.1)


def test_the_memory_command_prints_the_total(capsys):
    assert main(["memory", "WarpCartPole-v1", "--num-envs", "1000", "--device", "cpu", "--no-copy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "WarpCartPole-v1: 1,000 worlds of one agent"
    # state 16; random keys and marks 26; masks 5; obs and final_obs 32, reward 4, three flags; actions 8
    assert lines[-1].split() == ["in", "all", "0.094", "MB", "94.0", "B", "a", "world"]


def test_the_memory_command_refuses_rows_that_fill_no_world(capsys):
    assert main(["memory", "WarpTag-v0", "--num-envs", "100", "--view", "agents", "--device", "cpu"]) == 2
    assert "num_envs must be a multiple" in capsys.readouterr().err
