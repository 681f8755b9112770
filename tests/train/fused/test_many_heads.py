"""Actors with more entries or outputs than the memory of a block holds at a time: chunks of heads."""

from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import test_fused_act as acting
import torch
from fused_runs import fused
from gymnasium import spaces
from policy_cases import policy_of
from reference import case, relative_error, slow
from test_fused_gradient import CONFIG, compare, kernel_gradient, prepared

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Role
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.fused import split
from gpu_vecenv.train.fused.act import FusedPolicy
from gpu_vecenv.train.fused.eligibility import fused_sizes, require_fused
from gpu_vecenv.train.fused.tile_plan import Sizes
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

CPU = torch.device("cpu")
MIXED = spaces.MultiDiscrete([10, 2, 7, 1, 33, 10, 10, 2] * 5)
SECOND = tuple(range(0, 40, 2))

CASES = {
    "mixed": {"action": MIXED, "features": 9},
    "masked": {"action": MIXED, "features": 9, "masked": SECOND},
    "few choices, elu": {
        "action": MIXED, "features": 9, "masked": tuple(range(40)), "forced": 0.3, "hidden": (200, 48, 33), "activation": "elu",
    },
    "one chunk": {"action": spaces.MultiDiscrete([3] * 17), "seed": 3},
    "equal choices": {"action": spaces.MultiDiscrete([10] * 19), "features": 9, "hidden": (24, 40)},
    "large entries": {"action": spaces.MultiDiscrete([128, 100, 9]), "hidden": (24, 128), "masked": (1,)},
}  # fmt: skip
COSTLY = "few choices, elu", "one chunk"
"""Cases that the tests leave out when they have little time: each compiles kernels of its own."""


@pytest.fixture(autouse=True)
def _cases(monkeypatch):
    monkeypatch.setattr(acting, "CASES", CASES)


@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_gradients_are_those_of_float64(name):
    compare(case(**CASES[name], rows=257))


@pytest.mark.parametrize("name", ["equal choices", "masked"])
def test_logits_may_be_large(name):
    """Powers of the logits themselves would be infinite."""
    one = case(**CASES[name], rows=257)
    with torch.no_grad():
        one.policy.network.actor_layers[-1].bias.add_(300.0)
    compare(one)


def without_some_chunks(rows):
    """Return a case whose masks forbid all choices of two chunks, in the first 128 samples of a third one, too."""
    one = case(action=MIXED, features=9, masked=tuple(range(40)), rows=rows)
    mask, samples = one.samples.mask, one.samples
    mask[..., 63:150] = False
    mask[:-1].flatten(0, 1)[one.index[:128].sort().values, :63] = False
    with torch.no_grad():
        for t, action in enumerate(samples.action):
            samples.log_prob[t] = one.policy.evaluate(Inputs(samples.obs[t], mask[t]), action).log_prob
        samples.log_prob.add_(0.01 * torch.sin(torch.arange(samples.log_prob.numel())).view_as(samples.log_prob))
    return one


def test_chunks_without_a_choice_are_left_out(monkeypatch):
    """Their derivatives are 0, whatever the memory held before."""
    monkeypatch.setattr(split, "empty_halves", lambda *shape, device: torch.full(shape, torch.nan))
    compare(without_some_chunks(257))


def test_a_gradient_repeats_and_may_be_computed_in_parts(monkeypatch):
    one = case(**CASES["masked"], rows=257)
    whole, whole_terms = kernel_gradient(one)
    again, _ = kernel_gradient(one)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    monkeypatch.setitem(split.ROOM, "cpu", 128)
    parts, terms = kernel_gradient(one)
    torch.testing.assert_close(terms, whole_terms, rtol=1e-5, atol=1e-6)
    assert relative_error([parts[name] for name in whole], list(whole.values())) < 1e-6


@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_log_probabilities_are_those_of_float64(name):
    acting.test_log_probabilities_and_values_are_those_of_float64(name, 129)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_actions_have_the_bits_of_draws_from_the_same_outputs(name, deterministic):
    acting.test_actions_have_the_bits_of_draws_from_the_same_outputs(name, deterministic)


def test_outputs_have_more_digits_than_16_bits():
    """With units of 0 in the first layer, those of the last one are tanh of its biases, without rounding."""
    fused_policy, inputs, draw, outputs = acting.made("mixed")
    with torch.no_grad():
        first, _, second, _, last = fused_policy.policy.network.actor_layers
        first.weight.zero_()
        first.bias.zero_()
        fused_policy.act(inputs, draw, outputs=outputs)
        exact = last.weight.double() @ second.bias.double().tanh() + last.bias.double()
    assert (outputs.double() - exact).abs().max() < 2e-6 * exact.abs().max()


def test_actions_do_not_depend_on_whether_outputs_are_wanted():
    """Outputs that nobody wants are left out where no choice is allowed."""
    fused_policy, inputs, draw, outputs = acting.made("masked")
    inputs.mask[:150] = False  # but for entries without a mask
    inputs.mask[150:] = True
    first = [x.clone() for x in fused_policy.act(inputs, draw, outputs=outputs)]
    assert all(torch.equal(x, y) for x, y in zip(first, fused_policy.act(inputs, draw), strict=True))
    assert not first[0][:150, list(SECOND)].any() and first[0][150:, list(SECOND)].any()


def test_logits_of_nan_give_allowed_choices():
    fused_policy, inputs, draw, _ = acting.made("masked")
    inputs.obs[:] = np.nan
    action, log_prob = fused_policy.act(inputs, draw)
    allowed = dict(zip(SECOND, inputs.mask.split([MIXED.nvec[entry] for entry in SECOND], -1), strict=True))
    assert log_prob.isnan().all()
    for entry, mask in allowed.items():
        chosen = action[:, entry : entry + 1].long()
        assert (mask.gather(1, chosen)[:, 0] | ~mask.any(1)).all()


STALLS = EnvSpec(
    name="Stalls-v0",
    kernel=Path(__file__).with_name("stalls.cu"),
    roles=(Role("seller", 2, masked=(0,), effects={"fruit": range(15), "tools": range(15, 30), "answers": range(30, 40)}),),
    observation=lambda params: spaces.Box(-np.inf, np.inf, (3,), np.float32),
    action=lambda params: spaces.MultiDiscrete([10] * 25 + [2, 17, 3] * 5),
    params=(TIME_LIMIT,),
    state=(Field("wanted", "int32", (), "the right price"),),
    rewards={"right": "number of right prices"},
)
gymnasium.register("Stalls-v0", vector_entry_point=partial(GpuVectorEnv, STALLS))
WORLDS, STEPS = 80, 9


def trainer_of(algorithm):
    config = TrainConfig(
        "Stalls-v0", num_envs=WORLDS, total_steps=2 * STEPS * WORLDS, device="cpu", network=NetworkConfig((32, 24)),
        env_kwargs={"max_episode_steps": 7}, kernels="torch",
        ppo=PPOConfig(num_steps=STEPS, num_minibatches=2, num_epochs=2, learning_rate=1e-3, entropy_coef=0.01),
    )  # fmt: skip
    return Trainer(fused(config) if algorithm == "fused" else config, quiet=True)


def test_a_run_with_entries_without_effect_is_that_of_torch():
    """Whole tiles of an update, and all rows of a step, have one kind of entries with an effect."""
    metrics = {algorithm: trainer_of(algorithm).train() for algorithm in ("ppo", "fused")}
    assert metrics["fused"].keys() == metrics["ppo"].keys()
    for name in ("policy_loss", "value_loss", "entropy", "kl", "grad_norm", "choice_fraction"):
        assert metrics["fused"][f"{name}/seller"] == pytest.approx(metrics["ppo"][f"{name}/seller"], rel=0.02, abs=1e-4), name


def test_entries_without_effect_are_0():
    trainer = trainer_of("fused")
    trainer.parts.collector.collect()
    samples = trainer.parts.rows["seller"].samples()
    steps = torch.tensor([t % 7 % 3 for t in range(STEPS)])
    for kind, entries in enumerate((slice(0, 15), slice(15, 30), slice(30, 40))):
        assert not samples.action[steps != kind][..., entries].any() and samples.action[steps == kind][..., entries].any()
    assert not (samples.action[..., 0] == 3).any() and (samples.action[steps == 0][..., 1] == 3).any()


def test_minibatches_keep_their_samples_in_another_order():
    trainer = trainer_of("fused")
    trainer.parts.collector.collect()
    samples, algorithm = trainer.parts.rows["seller"].samples(), trainer.parts.algorithms["seller"]
    kernels = algorithm.backend.prepared(samples)
    count = STEPS * WORLDS * 2
    shuffled = torch.stack([torch.randperm(count, generator=torch.Generator().manual_seed(0)).view(2, -1)]).int()
    shuffled[..., 5] = -1  # fills the minibatch up
    arranged = kernels.arranged(shuffled)
    assert torch.equal(arranged.sort(-1).values, shuffled.sort(-1).values) and (arranged[..., -1] == -1).all()
    step = arranged[..., :-1] // (WORLDS * 2)
    kinds = (step % 7 % 3)[0]
    assert (kinds.diff(dim=-1) >= 0).all() and len(kinds.unique()) == 3


def test_policies_that_do_not_fit_have_a_reason():
    hidden = NetworkConfig((16, 16))
    for action, network, reason in (
        (spaces.MultiDiscrete([129, 2]), hidden, "an entry of its actions has 129 choices, not at most 128"),
        (MIXED, NetworkConfig((64,)), "two or three with a last one of at most 128, as its 375 outputs need"),
        (MIXED, NetworkConfig((64, 144)), "hidden sizes are [64, 144]"),
        (spaces.Box(-1.0, 1.0, (17,), np.float32), hidden, "17 entries and 17 outputs, not at most 16 and 128"),
        (MIXED, NetworkConfig((), memory="gru"), "40 entries and 375 outputs"),
    ):
        assert reason in fused_sizes(policy_of(action, network=network), CPU)
    sizes = fused_sizes(policy_of(spaces.MultiDiscrete([2] * 16), network=hidden), CPU)
    assert isinstance(sizes, Sizes) and sizes.head_columns == 0  # 16 entries are not many


def test_chunks_have_whole_entries_and_as_many_as_fit():
    sizes = require_fused(policy_of(MIXED, network=NetworkConfig((16, 16))), CPU)
    outputs = [sum(MIXED.nvec[entry] for entry in chunk) for chunk in sizes.chunks]
    assert [entry for chunk in sizes.chunks for entry in chunk] == list(range(40))
    assert max(outputs) <= sizes.head_columns == 64
    for chunk, count in zip(sizes.chunks[1:], outputs, strict=False):
        assert count + MIXED.nvec[chunk.start] > 64


def test_every_ratio_of_the_first_minibatch_is_one():
    """Log-probabilities of the rollout are those of the kernel that evaluates actions."""
    one = case(**CASES["masked"], rows=257, filling=0)
    fused_policy = FusedPolicy(one.policy, require_fused(one.policy, CPU), CPU)
    one.samples.log_prob = fused_policy.log_prob(Inputs(one.samples.obs[:-1], one.samples.mask[:-1]), one.samples.action)
    kernels, _ = prepared(one, CONFIG)
    clip = torch.tensor(1e-6)
    kernels.args.clip_coef = clip.data_ptr()
    kernels.gradient(one.index.int())
    kernels.reduce()
    _, _, kl, outside, count = kernels.sums[kernels.sizes.actor_columns - 5 : kernels.sizes.actor_columns]
    assert count == 257 and outside == 0.0 and abs(kl / count) < 1e-7
