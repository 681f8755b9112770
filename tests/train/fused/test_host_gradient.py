"""The gradient of a minibatch by the kernels of the CPU against torch's in float64."""

import dataclasses

import numpy as np
import pytest
import torch
from fused_runs import HostPPO
from gymnasium import spaces
from reference import BOX, CASES, SCALARS, case, exact_gradient, gradient_and_terms, layers_of, relative_error, saturate

from gpu_vecenv.backend.programs import CpuProgram
from gpu_vecenv.backend.trainer_programs import HOST_UPDATE
from gpu_vecenv.train import PPOConfig
from gpu_vecenv.train.algorithms.ppo.loss import TERMS
from gpu_vecenv.train.returns.minibatch_moments import minibatch_moments

CONFIG = PPOConfig(num_epochs=1, num_minibatches=1)

MORE = {
    "wide": {"action": spaces.MultiDiscrete([21, 21, 3]), "features": 735, "hidden": (300, 48)},
    "five layers": {"action": BOX, "features": 3, "hidden": (33, 16, 24, 17, 8), "activation": "elu"},
    "silu": {"action": spaces.MultiDiscrete([5, 3]), "features": 19, "hidden": (48, 33, 20), "activation": "silu"},
}


def kernel_gradient(one, config=CONFIG, threads=None):
    """Return gradients by name and the terms of the loss, means over the rows that count."""
    ppo = HostPPO(one.policy, config, tuple(one.samples.reward.shape[1:]), 0, torch.device("cpu"))
    ppo.config = dataclasses.replace(config, num_minibatches=max(1, one.samples.valid.numel() // len(one.index)))
    kernels = ppo.backend._prepared(one.samples, SCALARS)
    if threads is not None:
        kernels.call._launches = CpuProgram(HOST_UPDATE, threads)
    numbers = torch.stack((one.samples.log_prob, one.value, one.advantage, one.target)).flatten(1).t().contiguous()
    kernels.args.rows, kernels.args.numbers = len(one.index), numbers.data_ptr()
    if config.normalize_advantages == "minibatch":
        choice = None if one.samples.choice is None else one.samples.choice.flatten()
        shuffled = torch.where(one.used, one.index, -1).int().unsqueeze(0)
        kernels.moments.copy_(minibatch_moments(one.advantage.flatten(), shuffled, choice)[0])
    return gradient_and_terms(kernels, one)


def compare(one, config=CONFIG, total=1e-5, each=1e-5):
    exact, terms = exact_gradient(one, config)
    found, found_terms = kernel_gradient(one, config)
    np.testing.assert_allclose(found_terms, terms, rtol=1e-5, atol=1e-6, err_msg=str(TERMS))
    errors = {name: relative_error(layers_of(found)[name], values) for name, values in layers_of(exact).items()}
    whole = relative_error([found[name] for name in exact], list(exact.values()))
    assert max(errors.values()) <= each and whole <= total, (whole, errors)


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_gradients_are_those_of_float64(name):
    compare(case(**{**CASES, **MORE}[name]))


@pytest.mark.parametrize("change", [{"clip_value": False}, {"normalize_advantages": "minibatch"}, {"entropy_coef": 0.5}])
def test_options(change):
    compare(case(**CASES["few choices"]), dataclasses.replace(CONFIG, **change))


@pytest.mark.parametrize(("hidden", "factor"), [((64, 64), 30.0), ((64, 48, 33), 30.0)])
def test_saturated_units_of_a_critic_keep_their_gradient(hidden, factor):
    """Slopes of most units are then far below 1; a unit next to 1 has only the digits of float32 for its slope."""
    one = case(spaces.Discrete(2), hidden=hidden, rows=1024)
    saturate(one.policy, factor)
    with torch.no_grad():
        value = one.policy.value(one.samples.steps(one.samples.obs, slice(0, one.samples.num_steps)))
    one.value = torch.where(one.samples.valid, value.view_as(one.value), 0.0)
    one.target = one.value + one.target
    compare(one, dataclasses.replace(CONFIG, clip_value=False), 1e-4, 2e-4)


@pytest.mark.parametrize("name", ["discrete", "few choices", "numbers"])
def test_the_gradient_has_the_same_bits_for_any_number_of_threads(name):
    one = case(**CASES[name], **({"rows": 3000} if "rows" not in CASES[name] else {}))
    (first, terms), *others = [kernel_gradient(one, threads=threads) for threads in (1, 2, 5)]
    for found, found_terms in others:
        assert torch.equal(found_terms, terms)
        assert all(torch.equal(first[key], found[key]) for key in first)
