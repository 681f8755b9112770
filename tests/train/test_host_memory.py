"""Sequences of memories by the kernels of the CPU, against the loop over steps by torch in float64."""

import copy
import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from policy_cases import policy_of

from gpu_vecenv.backend.programs import CpuProgram
from gpu_vecenv.backend.trainer_programs import HOST_MEMORY
from gpu_vecenv.train import NetworkConfig
from gpu_vecenv.train.policies import host_memory
from gpu_vecenv.train.policies.memory import MEMORIES
from tests.marks import slow_but

FEATURES = 6
SIZES = [(5, 3, 7), (16, 1, 3), (48, 30, 9), (64, 2, 128), (100, 25, 4)]
"""Units, rows and steps."""


def memory_of(kind, units):
    """Return a memory without zeros among its biases."""
    spec = SimpleNamespace(parts=(FEATURES,), observation=Box(-1.0, 1.0, (FEATURES,)))
    memory = MEMORIES[kind](spec, units, torch.Generator().manual_seed(units))
    with torch.no_grad():
        memory.bias_hh.normal_(), memory.bias_ih.add_(0.3 * torch.randn_like(memory.bias_ih))
    return memory


def inputs_of(memory, rows, steps):
    """Return observations, a state, and ends."""
    torch.manual_seed(rows)
    state = torch.randn(rows, *memory.state_shape)
    return 2.0 * torch.randn(steps, rows, FEATURES), state, torch.rand(steps, rows) < 0.2


def results_of(memory, obs, state, ends):
    """Return states, and derivatives by observations, the first state and the weights."""
    inputs = [obs.clone().requires_grad_(), state.clone().requires_grad_()]
    states = memory.sequence(*inputs, ends)
    factors = torch.cos(torch.arange(states.numel(), dtype=states.dtype)).view(states.shape)
    return [states.detach(), *torch.autograd.grad((states * factors).sum(), [*inputs, *memory.parameters()])]


@pytest.mark.parametrize("sizes", slow_but(SIZES[:4], SIZES), ids=str)
@pytest.mark.parametrize("kind", MEMORIES)
def test_states_and_derivatives_are_those_of_a_loop_in_float64(kind, sizes, monkeypatch):
    units, rows, steps = sizes
    memory = memory_of(kind, units)
    obs, state, ends = inputs_of(memory, rows, steps)
    by_kernels = results_of(memory, obs, state, ends)
    monkeypatch.setattr(host_memory, "HOST_MEMORY", None)  # float64 takes no kernels
    exact = results_of(copy.deepcopy(memory).double(), obs.double(), state.double(), ends)
    for ours, wanted in zip(by_kernels, exact, strict=True):
        assert (ours - wanted).norm() <= 2e-6 * wanted.norm()


@pytest.mark.parametrize("kind", MEMORIES)
def test_rows_have_the_same_bits_alone_with_others_and_without_derivatives(kind):
    memory = memory_of(kind, 20)
    obs, state, ends = inputs_of(memory, 60, 11)
    read = memory.read(obs).detach().requires_grad_()
    weights = memory.weight_hh, memory.bias_hh
    states = host_memory.remember(read, state, ends, *weights)
    (of_read,) = torch.autograd.grad(states.square().sum(), read)
    with torch.no_grad():
        assert torch.equal(host_memory.remember(read, state, ends, *weights), states)
    some = slice(17, 43)
    few_read = read.detach()[:, some].requires_grad_()
    few = host_memory.remember(few_read, state[some], ends[:, some], *weights)
    assert torch.equal(few, states[:, some])
    assert torch.equal(torch.autograd.grad(few.square().sum(), few_read)[0], of_read[:, some])


@pytest.mark.parametrize("kind", MEMORIES)
def test_results_have_the_same_bits_for_any_number_of_threads(kind, monkeypatch):
    memory = memory_of(kind, 32)
    inputs = inputs_of(memory, 150, 5)
    first, *others = [], [], []
    for threads, results in ((1, first), (2, others[0]), (5, others[1])):
        program = CpuProgram(HOST_MEMORY, threads)
        monkeypatch.setattr("gpu_vecenv.backend.programs.launches", lambda *_, program=program: program)
        results += results_of(memory, *inputs)
    assert all(all(map(torch.equal, first, other)) for other in others)


@pytest.mark.parametrize("kind", MEMORIES)
def test_an_end_cuts_states_and_derivatives_whatever_came_before(kind):
    """Rows of agents that have left may hold NaN."""
    memory = memory_of(kind, 16)
    obs, state, _ = inputs_of(memory, 3, 5)
    ends = torch.tensor([[False] * 3, [True] * 3, [False] * 3, [False] * 3, [True] * 3])
    after_end = results_of(memory, obs[2:], torch.zeros_like(state), ends[2:])
    obs[:2], state[:] = torch.nan, torch.nan
    states = memory.sequence(obs, state, ends)
    torch.testing.assert_close(states[2:].detach(), after_end[0], rtol=1e-5, atol=1e-6)
    read = memory.read(obs).detach().requires_grad_()
    whole = host_memory.remember(read, state, ends, memory.weight_hh, memory.bias_hh)
    (of_read,) = torch.autograd.grad(whole[2:].sum(), read)
    assert of_read[2:].isfinite().all()


def test_a_second_derivative_is_refused():
    memory = memory_of("gru", 16)
    obs, state, ends = inputs_of(memory, 2, 3)
    obs.requires_grad_()
    (first,) = torch.autograd.grad(memory.sequence(obs, state, ends).square().sum(), obs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_results_are_freed_without_a_search_for_cycles():
    memory = memory_of("lstm", 16)
    gc.disable()
    try:
        read, ends = torch.randn(3, 2, 64, requires_grad=True), torch.zeros(3, 2, dtype=torch.bool)
        states = host_memory.remember(read, torch.randn(2, 2, 16), ends, memory.weight_hh, memory.bias_hh)
        gone = weakref.ref(read)
        del read, states
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_numbers_and_devices_take_no_kernels(dtype):
    x = torch.zeros(3)
    assert host_memory.are_by_kernels(x, x) and not host_memory.are_by_kernels(x, x.to(dtype))
    assert not host_memory.are_by_kernels(x, x.to("meta"))


@pytest.mark.parametrize("kind", MEMORIES)
def test_a_policy_is_checked_without_a_compiler(kind, monkeypatch):
    monkeypatch.setattr(host_memory, "HOST_MEMORY", None)
    policy = policy_of(Discrete(4), network=NetworkConfig((), memory=kind))
    with pytest.raises(AttributeError):
        policy.network.memory.sequence(torch.zeros(3, 2, FEATURES), torch.zeros(2, *policy.state_shape), torch.zeros(3, 2) > 0)
