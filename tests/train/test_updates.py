"""PPO's updates: masks of weights and moments, the divergence, the learning rate, and what must not count."""

import copy
import dataclasses
import math

import pytest
import torch
from dispatched import HostReads, idle_kernels
from policy_cases import ACTIONS
from ppo_cases import PLAIN, WORLDS, T, case, learn, ppo_of, scalars, weights

from gpu_vecenv.train.algorithms import masked_adam
from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.ppo.loss import Minibatch, PPOLoss, masked_mean, masked_variance
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.policies.contract import Inputs, apply

EPOCHS = dataclasses.replace(PLAIN, num_epochs=3, num_minibatches=4, learning_rate=0.01, normalize_advantages="rollout")


def state_of(one, ppo):
    """Everything that an update may change, as bits."""
    tree = {"policy": one.policy.state_dict(), "algorithm": ppo.state_dict()}

    def leaves(x):
        return [leaf for part in x.values() for leaf in leaves(part)] if isinstance(x, dict) else [x]

    return [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves(tree)]


def assert_equal(left, right):
    for x, y in zip(left, right, strict=True):
        assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


def steps_of(one, config, **given):
    """Return the divergence at each optimiser step of an update, taken or not, and whether it was taken."""
    ppo = ppo_of(one, config)
    seen, step = [], ppo.adam.step

    def noted(mask):
        result = step(mask)
        seen.append(bool(result[1]))
        return result

    ppo.adam.step = noted
    _, metrics = learn(one, config, ppo=ppo, **given)
    return seen, metrics, ppo


@pytest.mark.parametrize(
    ("ratio", "advantage", "pushes"),
    [(1.3, 1.0, False), (1.1, 1.0, True), (0.7, 1.0, True), (0.7, -1.0, False), (0.9, -1.0, True), (1.3, -1.0, True)],
)
def test_the_clip_stops_only_gradients_that_increase_the_distance(ratio, advantage, pushes):
    policy = case().policy
    inputs, action = Inputs(torch.randn(1, 6)), torch.tensor([[1, 0]])
    log_prob = policy.evaluate(inputs, action).log_prob.detach()
    one = torch.ones(1)
    batch = Minibatch(inputs, action, log_prob - math.log(ratio), one, one * advantage, one, one.bool())
    PPOLoss(dataclasses.replace(PLAIN, value_coef=0.0), torch.tensor(0.0), torch.tensor(0.2)).backward(
        policy.evaluate(inputs, action), batch, "agent"
    )
    assert (policy.network.actor_layers[-1].bias.grad.abs().sum().item() > 0) == pushes


def test_values_that_are_not_clipped_have_a_gradient():
    """Old values may be large beside the change: the change, added to an old value again, would often be rounded."""
    policy, generator = case().policy, torch.Generator().manual_seed(0)
    obs = torch.randn(512, 6, generator=generator)
    with torch.no_grad():
        action, value = torch.zeros(512, 2, dtype=torch.int32), policy.value(Inputs(obs))
    old = value + 0.19 * (2 * torch.rand(512, generator=generator) - 1)
    ones, target = torch.ones(512), torch.randn(512, generator=generator)
    batch = Minibatch(Inputs(obs), action, ones, old, ones, target, ones.bool())
    clipped, free = (dataclasses.replace(PLAIN, clip_value=clip, value_coef=1.0) for clip in (True, False))
    weight = policy.network.critic_layers[-1].weight
    gradients = []
    for config in (clipped, free):
        policy.zero_grad()
        PPOLoss(config, torch.zeros(()), torch.tensor(0.2)).backward(policy.evaluate(Inputs(obs), action), batch, "agent")
        gradients.append(weight.grad.clone())
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_an_epoch_whose_mean_divergence_exceeds_the_target_is_the_last(schedule):
    """The target lies between the mean over the minibatches of an epoch and their sum, or above the mean."""
    means = []
    for epochs in (1, 2, 3):
        _, metrics = learn(case(off=0.0), dataclasses.replace(EPOCHS, num_epochs=epochs))
        means.append(metrics["kl"] * epochs - sum(means))
    assert 0 < 2 * means[0] < means[1] < means[2]
    for target, epochs in ((0.9 * means[0], 1), (1.1 * means[0], 2), (0.9 * means[1], 2), (1.1 * means[2], 3)):
        config = dataclasses.replace(EPOCHS, target_kl=target, learning_rate_schedule=schedule)
        one = case(off=0.0)
        taken, metrics, ppo = steps_of(one, config)
        epochs = 3 if schedule == "adaptive" else epochs
        assert taken == [True] * 4 * epochs + [False] * 4 * (3 - epochs)
        assert metrics["updates"] == 4 * epochs
        assert metrics["skipped"] == 0
        # An update that stops leaves the weights and moments of one with so many epochs.
        other = case(off=0.0)
        shorter, want = learn(other, dataclasses.replace(config, num_epochs=epochs))
        assert torch.equal(weights(one.policy), weights(other.policy))
        assert_equal(ppo.adam.state_dict()[0].values(), shorter.adam.state_dict()[0].values())
        assert metrics == want


def test_the_next_update_starts_with_a_true_mask():
    one, config = case(off=0.0), dataclasses.replace(EPOCHS, target_kl=1e-9)
    ppo, metrics = learn(one, config)
    assert metrics["updates"] == 4
    before = weights(one.policy)
    _, metrics = learn(one, config, ppo=ppo)
    assert metrics["updates"] == 4
    assert not torch.equal(before, weights(one.policy))


@pytest.mark.slow
def test_the_adaptive_rate_follows_the_divergence():
    config = dataclasses.replace(EPOCHS, learning_rate_schedule="adaptive", target_kl=1.0, learning_rate=1e-4)
    one = case(off=0.0)
    ppo, metrics = learn(one, config, updates=2)  # the divergence is far below its target
    assert metrics["learning_rate"] == pytest.approx(1.5e-4)
    assert learn(one, config, ppo=ppo)[1]["learning_rate"] == pytest.approx(2.25e-4)
    assert learn(one, config, updates=30)[1]["learning_rate"] == pytest.approx(1e-2)  # the upper bound
    near = learn(case(off=0.0), config)[1]["kl"]
    small = dataclasses.replace(config, target_kl=near / 10)
    for target, factor in ((0.1, 1 / 1.5), (0.49, 1 / 1.5), (0.51, 1), (1, 1), (1.9, 1), (2.1, 1.5)):
        at = dataclasses.replace(config, target_kl=target * near)
        assert learn(case(off=0.0), at, updates=2)[1]["learning_rate"] == pytest.approx(factor * 1e-4)
    one = case(off=3.0)  # the divergence stays above its target
    assert learn(one, dataclasses.replace(small, target_kl=1e-4), updates=30)[1]["learning_rate"] == pytest.approx(1e-6)


@pytest.mark.parametrize(("rate", "target", "ends_at"), [(5e-2, 1e9, 5e-2), (1e-7, 1e-9, 1e-7)])
def test_the_bounds_of_the_adaptive_rate_contain_the_rate_of_the_start(rate, target, ends_at):
    """The divergence asks for a rate beyond the start, which is itself beyond the usual bounds."""
    config = dataclasses.replace(EPOCHS, learning_rate_schedule="adaptive", target_kl=target, learning_rate=rate)
    assert learn(case(), config)[1]["learning_rate"] == pytest.approx(rate)
    assert learn(case(), config, updates=3)[1]["learning_rate"] == pytest.approx(ends_at)


def nothing_valid(one):
    one.samples.valid = torch.zeros_like(one.samples.valid)
    one.samples.timed_out = torch.zeros_like(one.samples.valid)
    one.samples.episode_end = torch.ones_like(one.samples.valid)
    return one


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_an_update_without_valid_transitions_moves_neither_weights_nor_moments(shared):
    one = case(shared=shared)
    ppo, _ = learn(one, EPOCHS, updates=2)  # Adam has moments that would move the weights
    before, moments = weights(one.policy), copy.deepcopy(ppo.adam.state_dict())
    _, metrics = learn(nothing_valid(one), EPOCHS, ppo=ppo)
    assert torch.equal(before, weights(one.policy))
    for parameter, state in moments.items():
        assert_equal(state.values(), ppo.adam.state_dict()[parameter].values())
    assert metrics["updates"] == metrics["skipped"] == metrics["valid_fraction"] == 0
    assert math.isnan(metrics["policy_loss"]) and math.isnan(metrics["explained_variance"])


def test_minibatches_without_valid_transitions_take_no_step():
    one = case()
    keep = one.samples.valid.flatten().nonzero()[:3]
    valid = torch.zeros(T * WORLDS, dtype=torch.bool)
    valid[keep] = True
    one.samples.valid = valid.view(T, WORLDS)
    config = dataclasses.replace(EPOCHS, num_minibatches=5, num_epochs=2)
    taken, metrics, _ = steps_of(one, config)
    assert taken == [True, True, True, False, False] * 2
    assert metrics["updates"] == 6


def test_statistics_without_valid_samples_are_zero():
    nothing = torch.zeros(5, dtype=torch.bool)
    assert masked_mean(torch.full((5,), torch.nan), nothing) == 0
    assert masked_variance(torch.full((5,), torch.nan), nothing) == 0


def disturb(one, value):
    """Write a number to all that belongs to transitions which do not count."""
    samples, ignored = one.samples, ~one.samples.valid
    samples.reward[ignored] = value
    samples.log_prob[ignored] = value
    if samples.action.is_floating_point():
        samples.action[ignored] = value
    elif samples.mask is not None:
        samples.mask[:-1][ignored] = False
    own = samples.obs["own"] if isinstance(samples.obs, dict) else samples.obs
    own[:-1][ignored] = value
    last = own[-1]  # read after an episode's end only if the agent is alive, so leave living ones
    last[samples.episode_end[-1]] = value
    final = samples.final_obs["own"] if isinstance(samples.final_obs, dict) else samples.final_obs
    final[~samples.timed_out] = value
    if isinstance(samples.obs, dict):
        samples.obs["shared"][:-1][ignored.all(-1)] = value
        samples.final_obs["shared"][~samples.timed_out.any(-1)] = value
    return one


@pytest.mark.parametrize("value", [math.nan, pytest.param(math.inf, marks=pytest.mark.slow), 7.0])
@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
@pytest.mark.parametrize("head", [(ACTIONS[1], ()), (ACTIONS[1], (1,)), (ACTIONS[2], ())], ids=["choices", "masked", "numbers"])
def test_numbers_of_transitions_that_do_not_count_change_no_bit(head, shared, value):
    config = dataclasses.replace(EPOCHS, normalize_rewards=True)
    for over in ("rollout", "minibatch"):
        results = []
        for change in (False, True):
            one = case(head[0], shared, head[1], normalize=True)
            assert (~one.samples.valid).sum() > 5
            if change:
                disturb(one, value)
            one.policy.observe(apply(one.samples.obs, lambda x: x[:-1]), one.samples.valid)
            ppo, metrics = learn(one, dataclasses.replace(config, normalize_advantages=over), updates=2)
            results.append((state_of(one, ppo), metrics))
        assert_equal(results[0][0], results[1][0])
        assert results[0][1] == results[1][1]
        assert all(map(math.isfinite, results[0][1].values()))


def test_a_number_of_a_transition_that_counts_changes_the_update():
    """Checks the test above."""
    one, other = case(), case()
    t, world = one.samples.valid.nonzero()[5].tolist()
    other.samples.reward[t, world] += 1.0
    learn(one), learn(other)
    assert not torch.equal(weights(one.policy), weights(other.policy))


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_after_begin_the_first_ratios_are_one(shared):
    """Statistics of observations changed since the actions were drawn."""
    one = case(shared=shared, normalize=True, off=0.0, masked=(1,))
    one.policy.observe(apply(one.samples.obs, lambda x: 9.0 * x[:-1] + 20.0), one.samples.valid)
    config = dataclasses.replace(EPOCHS, num_epochs=1, num_minibatches=1)
    assert learn(copy.deepcopy(one), config, rate=0.0)[1]["kl"] > 0.01
    ppo = ppo_of(one, config)
    ppo.begin(one.samples)
    metrics = learn(one, config, rate=0.0, ppo=ppo)[1]
    assert abs(metrics["kl"]) < 1e-6
    assert metrics["clip_fraction"] == 0


def test_rollouts_are_evaluated_in_chunks_in_order(monkeypatch):
    one, seen = case(), []
    want, _ = learn(one, rate=0.0)[0].backend.values(one.samples, False)
    monkeypatch.setattr("gpu_vecenv.train.algorithms.ppo.backend.MAX_CHUNK_ROWS", 3 * WORLDS + 1)
    value = one.policy.value
    one.policy.value = lambda inputs: seen.append(len(inputs.obs)) or value(inputs)
    torch.testing.assert_close(ppo_of(one).backend.values(one.samples, False)[0], want)
    assert seen == [3 * WORLDS] * 3
    log_prob = one.samples.log_prob.clone()
    ppo_of(one).begin(one.samples)
    again = [one.policy.evaluate(one.samples.steps(one.samples.obs, slice(t, t + 1)), one.samples.action[t]).log_prob
             for t in range(T)]  # fmt: skip
    torch.testing.assert_close(one.samples.log_prob, torch.stack(again))
    assert not torch.equal(log_prob, one.samples.log_prob)


def test_a_gradient_that_is_not_finite_is_counted_and_leaves_the_policy():
    one = case()
    t, world = one.samples.valid.nonzero()[5].tolist()
    one.samples.obs[t, world] = math.nan
    ppo = ppo_of(one, EPOCHS)
    before = weights(one.policy)
    _, metrics = learn(one, EPOCHS, ppo=ppo)
    assert metrics["skipped"] >= 1
    assert torch.equal(before, weights(one.policy))


def test_host_reads_are_noticed():
    """Checks the mode that the next tests rely on."""
    x = torch.ones(3)
    reads = [lambda: x[0].item(), lambda: bool(x[0] > 0), lambda: x[x > 0], lambda: x.nonzero(), lambda: float(x.sum())]
    for read in reads:
        with pytest.raises(AssertionError), HostReads():
            read()


@pytest.mark.parametrize("over", ["rollout", "minibatch"])
@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_an_update_reads_nothing_on_the_host(shared, over, schedule):
    one = case(shared=shared, masked=(1,), normalize=True)
    config = dataclasses.replace(
        EPOCHS, normalize_rewards=True, target_kl=0.01, normalize_advantages=over, learning_rate_schedule=schedule
    )
    ppo, now = ppo_of(one, config), scalars(config)
    ppo.update(one.samples, now)  # the optimiser makes its moments
    with HostReads():
        one.policy.observe(apply(one.samples.obs, lambda x: x[:-1]), one.samples.valid)
        ppo.begin(one.samples)
        ppo.update(one.samples, now)


def test_adam_equals_torchs_when_its_mask_is_true():
    torch.manual_seed(0)
    masked, plain = (torch.nn.Linear(4, 3) for _ in range(2))
    plain.load_state_dict(masked.state_dict())
    adam, want = MaskedAdam(masked.parameters(), 0.5), torch.optim.Adam(plain.parameters(), lr=0.02, eps=1e-5)
    adam.rate.fill_(0.02)
    for number, opened in enumerate([True, True, False, True]):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(number))
        for layer in (masked, plain):
            layer.zero_grad()
            layer(x).square().sum().backward()
        norm, taken = adam.step(torch.tensor(opened))
        assert bool(taken) == opened
        expected = torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        assert norm == pytest.approx(expected.item(), rel=1e-4)
        if opened:
            want.step()
        torch.testing.assert_close(masked.weight, plain.weight)
    assert adam.state_dict()[0]["step"] == 3


def test_adam_equals_torchs_for_parameters_of_two_types_that_do_not_always_have_a_gradient():
    numbers = [torch.ones(3), torch.ones(2, dtype=torch.float64), torch.ones(4)]
    masked, plain = ([torch.nn.Parameter(x.clone()) for x in numbers] for _ in range(2))
    adam, want = MaskedAdam(masked, 1e9), torch.optim.Adam(plain, lr=0.02, eps=1e-5)
    adam.rate.fill_(0.02)
    for step, with_gradient in enumerate([(0, 1), (0, 1, 2), (1, 2), (0, 1, 2)]):
        if step == 2:
            restored = MaskedAdam(masked, 1e9)
            restored.rate.fill_(0.02)
            restored.load_state_dict(copy.deepcopy(adam.state_dict()), "state")
            adam = restored
        for parameters in (masked, plain):
            for i, parameter in enumerate(parameters):
                parameter.grad = torch.full_like(parameter, i + step + 1.0) if i in with_gradient else None
        adam.step(torch.tensor(True))
        want.step()
        torch.testing.assert_close(masked, plain)
    assert [state["step"].item() for _, state in sorted(adam.state_dict().items())] == [3, 4, 3]


def two_adams(monkeypatch, sizes, max_norm):
    """Parameters with a MaskedAdam that has the kernels of a GPU, and copies with one that has the operations of torch."""
    numbers = [torch.randn(size, generator=torch.Generator().manual_seed(i)) for i, size in enumerate(sizes)]
    found = []
    for by_kernels in (True, False):
        parameters = [torch.nn.Parameter(x.clone()) for x in numbers]
        adam = MaskedAdam(parameters, max_norm)
        monkeypatch.setattr(adam, "by_kernels", by_kernels)
        adam.rate.fill_(0.02)
        found.append((parameters, adam))
    return found


@pytest.mark.parametrize("max_norm", [0.5, math.inf])
def test_kernels_of_adam_equal_torchs(monkeypatch, max_norm):
    """Parts of one tile, of several and of one number; a step that is not wanted, and one whose gradient is not finite."""
    (masked, adam), (plain, want) = two_adams(monkeypatch, [(3, 5), (1, 1), (2, 40, 70), (1024,)], max_norm)
    g = torch.Generator().manual_seed(9)
    for number, opened in enumerate([True, False, True, True, True]):
        for i, pair in enumerate(zip(masked, plain, strict=True)):
            gradient = torch.randn(pair[0].shape, generator=g)
            if number == 3 and i == 2:
                gradient[-1, -1, -1] = math.nan if max_norm == 0.5 else math.inf
            for parameter in pair:
                parameter.grad = gradient.clone()
        found, expected = (each.step(torch.tensor(opened)) for each in (adam, want))
        torch.testing.assert_close(found[0], expected[0], equal_nan=True)
        assert bool(found[1]) == bool(expected[1]) == (opened and number != 3)
        torch.testing.assert_close(masked, plain)
    torch.testing.assert_close(adam.state_dict(), want.state_dict())
    assert adam.state_dict()[2]["step"] == 3


def test_kernels_of_adam_count_the_steps_of_each_parameter(monkeypatch):
    (masked, adam), (plain, want) = two_adams(monkeypatch, [(3,), (4,)], math.inf)
    for with_gradient in [(0,), (0, 1), (1,), (0, 1)]:
        for parameters in (masked, plain):
            for i, parameter in enumerate(parameters):
                parameter.grad = torch.full_like(parameter, i + 1.0) if i in with_gradient else None
        for each in (adam, want):
            each.step(torch.tensor(True))
        torch.testing.assert_close(masked, plain)
    assert [state["step"].item() for _, state in sorted(adam.state_dict().items())] == [3, 3]


@pytest.mark.gpu
def test_kernels_of_adam_equal_those_of_torch_on_a_gpu():
    parameters = [torch.nn.Parameter(torch.randn(300, 400, device="cuda")) for _ in range(2)]
    adams = [MaskedAdam([x], 0.5) for x in parameters]
    adams[1].by_kernels = False
    with torch.no_grad():
        parameters[1].copy_(parameters[0])
    for _ in range(5):
        gradient = torch.randn(300, 400, device="cuda")
        for parameter, adam in zip(parameters, adams, strict=True):
            adam.rate.fill_(0.02)
            parameter.grad = gradient.clone()
            adam.step(torch.tensor(True, device="cuda"))
    torch.testing.assert_close(*parameters)


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_an_update_needs_shapes_alone(monkeypatch, shared):
    """On the device "meta" tensors have shapes and no values."""
    monkeypatch.setattr(masked_adam, "FUSED_ADAM", lambda *arguments, **settings: None)  # it needs memory
    idle_kernels(monkeypatch)
    one = case(shared=shared, masked=(1,), normalize=True)
    one.policy.to("meta")
    arrays = {name: x for name, x in vars(one.samples).items() if isinstance(x, torch.Tensor)}
    for name, x in arrays.items():
        setattr(one.samples, name, x.to("meta"))
    for name in ("obs", "final_obs"):
        setattr(one.samples, name, apply(getattr(one.samples, name), lambda x: x.to("meta")))
    with torch.device("meta"):
        ppo = PPO(one.policy, dataclasses.replace(EPOCHS, target_kl=0.1, normalize_rewards=True),
                  tuple(one.samples.reward.shape[1:]), 0, torch.device("meta"))  # fmt: skip
        ppo.begin(one.samples)
        metrics = ppo.update(one.samples, DeviceScalars(*torch.zeros(3)))
    assert metrics.shape == (len(ppo.metric_names),)
