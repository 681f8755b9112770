"""The gradient of a minibatch by the kernels against torch's in float64."""

import dataclasses

import numpy as np
import pytest
import torch
from fused_runs import FusedPPO
from gymnasium import spaces
from reference import (
    CASES,
    SCALARS,
    case,
    exact_gradient,
    gradient_and_terms,
    keep_from_bounds,
    layers_of,
    relative_error,
    saturate,
    scales,
    slow,
)  # fmt: skip

from gpu_vecenv.train import PPOConfig
from gpu_vecenv.train.algorithms.ppo.loss import TERMS
from gpu_vecenv.train.fused import guard, split
from gpu_vecenv.train.fused.guard import kernel_gradient as kernel_gradient_of
from gpu_vecenv.train.returns.minibatch_moments import minibatch_moments

CONFIG = PPOConfig(num_epochs=1, num_minibatches=1)


def prepared(one, config, **sizes):
    """Return the kernels for a case, with one minibatch of its rows and some sizes changed, and the numbers of all samples."""
    ppo = FusedPPO(one.policy, config, tuple(one.samples.reward.shape[1:]), 0, torch.device("cpu"))
    ppo.backend.sizes = dataclasses.replace(ppo.backend.sizes, **sizes)
    ppo.config = dataclasses.replace(config, num_minibatches=max(1, one.samples.valid.numel() // len(one.index)))
    kernels = ppo.backend._prepared(one.samples, SCALARS)
    columns = torch.stack((one.samples.log_prob, one.value, one.advantage, one.target)).flatten(1)
    numbers = columns.t().contiguous()
    kernels.args.rows, kernels.args.numbers = len(one.index), numbers.data_ptr()
    choice = None if one.samples.choice is None else one.samples.choice.flatten()
    kernels.scales.copy_(scales(columns, one.samples.valid.flatten(), config, one.policy, choice))
    if config.normalize_advantages == "minibatch":
        shuffled = torch.where(one.used, one.index, -1).int().unsqueeze(0)
        kernels.moments.copy_(minibatch_moments(one.advantage.flatten(), shuffled, choice)[0])
    return kernels, numbers


def kernel_gradient(one, config=CONFIG, **sizes):
    """Return gradients by name and the terms of the loss, means over the rows that count."""
    kernels, _numbers = prepared(one, config, **sizes)
    return gradient_and_terms(kernels, one)


def compare(one, config=CONFIG, total=1e-3, each=5e-2, **sizes):
    exact, terms = exact_gradient(one, config)
    found, found_terms = kernel_gradient(one, config, **sizes)
    np.testing.assert_allclose(found_terms, terms, rtol=2e-3, atol=1e-4, err_msg=str(TERMS))
    errors = {name: relative_error(layers_of(found)[name], values) for name, values in layers_of(exact).items()}
    whole = relative_error([found[name] for name in exact], list(exact.values()))
    assert max(errors.values()) <= each, errors
    assert whole <= total, (whole, errors)
    return whole, errors


COSTLY = ("one masked choice", "elu, three layers", "multi-discrete, 71 features", "few choices", "relu, one layer",
          "split, masked, elu, odd sizes", "wide, one layer, masked, elu", "wide, three layers",
          "wide, raw observations")  # fmt: skip
"""Cases that the tests leave out when they have little time: each compiles kernels of its own."""

TOTALS = {"wide, raw observations": 2e-3}
TRAINED = TOTALS | {
    "one masked choice": 1e-2, "elu, three layers": 3e-3, "raw observations": 4e-3, "split, masked, elu, odd sizes": 2e-3,
}  # fmt: skip
"""Bounds of errors that docs/training-speed.md names, of new weights and of trained ones."""


@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_gradients_are_those_of_float64(name):
    compare(case(**CASES[name]), total=TOTALS.get(name, 1e-3))


@pytest.mark.parametrize(("name", "rows"), [("split", 300), ("split", 257), ("split, masked, elu, odd sizes", 300),
                                            ("wide", 300), ("wide", 257)])
def test_a_minibatch_of_a_split_network_may_be_computed_in_parts(name, rows, monkeypatch):
    """Sums of the parts are added; the last part has fewer rows."""
    one = case(**CASES[name], rows=rows)
    whole, whole_terms = kernel_gradient(one)
    monkeypatch.setitem(split.ROOM, "cpu", 128)
    parts, terms = kernel_gradient(one)
    torch.testing.assert_close(terms, whole_terms, rtol=1e-5, atol=1e-6)
    assert relative_error([parts[name] for name in whole], list(whole.values())) < 1e-6


@pytest.mark.parametrize("counts", [(1, 3), (3, 1)])
def test_sums_of_a_wide_layer_have_slices_of_their_own(counts, monkeypatch):
    """Counts are those of the upper layers and of the first one. On a GPU each kernel has as many slices as fill it."""
    one = case(**CASES["wide"], rows=300)
    (whole, _), slices = kernel_gradient(one), iter(counts)
    monkeypatch.setattr(split.SplitKernels, "slices", lambda kernels, tiles: next(slices))
    sliced, _ = kernel_gradient(one)
    errors = {name: relative_error([sliced[name]], [values]) for name, values in whole.items()}
    assert max(errors.values()) < 1e-5, errors


@pytest.mark.parametrize("name", slow(CASES, *(name for name in CASES if name != "numbers")))
def test_gradients_of_fresh_and_of_trained_weights(name):
    """The trained weights meet new advantages and targets: those that they fit have hardly a gradient."""
    given = CASES[name] | {"rows": 1024}
    one = case(**given)
    with torch.no_grad():
        one.policy.network.actor_layers[-1].weight.mul_(1.0 / 50.0)  # as a new policy has them
    config = dataclasses.replace(CONFIG, clip_value=False)
    keep_from_bounds(one)
    compare(one, config, TRAINED.get(name, 1e-3))
    train(one, config)
    new = case(**(given | {"seed": 1 + given.get("seed", 0), "policy": one.policy}))
    keep_from_bounds(new)
    compare(new, config, TRAINED.get(name, 1e-3))


def train(one, config, steps=40):
    """Take steps of torch's Adam on the minibatch."""
    adam = torch.optim.Adam(one.policy.parameters(), lr=3e-3)
    for _ in range(steps):
        adam.zero_grad()
        exact, _ = exact_gradient(one, config)
        for parameter_name, parameter in one.policy.named_parameters():
            parameter.grad = exact[parameter_name].float()
        adam.step()


@pytest.mark.parametrize(
    ("hidden", "factor", "least", "total", "each"),
    [
        ((64, 64), 8.0, 0.5, 1e-3, 5e-2),
        ((64, 64), 30.0, 0.85, 1e-3, 5e-2),
        ((64, 48, 33), 30.0, 0.85, 0.1, 0.13),  # docs/training-speed.md names this limit
        pytest.param((128,), 50.0, 0.7, 1e-3, 5e-2, marks=pytest.mark.slow),
        pytest.param((256, 256), 30.0, 0.85, 3e-3, 5e-2, marks=pytest.mark.slow),
        pytest.param((200, 48, 33), 30.0, 0.85, 0.1, 0.13, marks=pytest.mark.slow),
    ],
)
def test_saturated_units_of_a_critic_keep_their_gradient(hidden, factor, least, total, each):
    """Derivatives of most units are then far below 1, some below 1e-20."""
    one = case(spaces.Discrete(2), hidden=hidden, rows=1024)
    saturate(one.policy, factor)
    critic = one.policy.network.critic_layers
    obs = one.samples.obs[:-1].flatten(0, 1)
    with torch.no_grad():
        units = critic[:-1](one.policy.obs_norm(obs[~obs.isnan().any(-1)]))
        value = one.policy.value(one.samples.steps(one.samples.obs, slice(0, 4)))
    assert (units.abs() > 0.999).float().mean() > least
    one.value = torch.where(one.samples.valid, value.view_as(one.value), 0.0)
    one.target = one.value + one.target
    compare(one, dataclasses.replace(CONFIG, clip_value=False), total, each)


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_targets_of_any_scale(scale):
    one = case(spaces.Discrete(2))
    one.target, one.advantage = scale * one.target, scale * one.advantage
    compare(one, dataclasses.replace(CONFIG, clip_value=False), total=2e-3)


@pytest.mark.parametrize("change", [{"clip_value": False}, {"normalize_advantages": "minibatch"}, {"value_coef": 0.0}])
def test_options(change):
    one = case(spaces.Discrete(2))
    if change.get("value_coef") == 0.0:
        found, _ = kernel_gradient(one, dataclasses.replace(CONFIG, **change))
        assert all(value.abs().max() == 0.0 for name, value in found.items() if "critic" in name)
    else:
        compare(one, dataclasses.replace(CONFIG, **change))


def test_the_gradient_does_not_depend_on_threads_and_repeats():
    one = case(spaces.Discrete(2), rows=3000)
    first, again = kernel_gradient(one)[0], kernel_gradient(one)[0]
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_the_guard_finds_the_same_errors():
    one = case(spaces.Discrete(2))
    _, errors = compare(one)
    kernels, numbers = prepared(one, CONFIG)
    found = kernel_gradient_of(kernels, one.index, one.used)
    exact = guard.exact_gradient(one.policy, CONFIG, one.samples, SCALARS, numbers, one.index, one.used)
    errors |= {"total": relative_error([found[name] for name in exact], list(exact.values()))}
    assert guard.relative_errors(found, exact) == pytest.approx(errors, rel=1e-3)
