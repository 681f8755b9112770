"""PPO's update of samples, compared with an independent PPO in NumPy: advantages, losses and gradients."""

import dataclasses

import numpy as np
import numpy_ppo
import pytest
import torch
from fused_runs import FusedPPO
from policy_cases import ACTIONS
from ppo_cases import DECAY, GAMMA, PLAIN, T, case, learn, ppo_of, weights

from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.ppo import backend as module
from gpu_vecenv.train.policies.contract import apply

HEADS = {
    "choice": (ACTIONS[0], ()),
    "choices": (ACTIONS[1], ()),
    "masked choice": (ACTIONS[0], (0,)),
    "masked entry": (ACTIONS[1], (1,)),
    "masked choices": (ACTIONS[1], (0, 1)),
    "numbers": (ACTIONS[2], ()),
}


def double(x):
    return x.detach().double().numpy()


def layers(network):
    return [(double(layer.weight), double(layer.bias)) for layer in network if hasattr(layer, "weight")]


def rows_of(obs):
    """Return observations (S, n, F) in float64, n agents of all worlds."""
    if isinstance(obs, dict):
        shared = obs["shared"].unsqueeze(2).expand(*obs["own"].shape[:3], -1)
        obs = torch.cat((shared, obs["own"]), dim=-1).flatten(1, 2)
    return double(obs)


def by_row(x):
    return x.numpy().reshape(len(x), -1)


def expected_advantages(one, bootstrap=True, scale_rewards=False):
    """Return advantages, targets and values of a case, each (T, n)."""
    samples, critic = one.samples, layers(one.policy.network.critic_layers)
    value, final = (numpy_ppo.forward(critic, rows_of(obs))[1][..., 0] for obs in (samples.obs, samples.final_obs))
    valid, alive, terminated, truncated = (by_row(x) for x in (samples.valid, one.alive, one.terminated, one.truncated))
    reward = double(samples.reward).reshape(T, -1)
    if scale_rewards:
        reward = numpy_ppo.scaled(reward, valid, terminated | truncated | ~alive, GAMMA)
    found = []
    for row in range(value.shape[1]):
        of_row = (x[:, row] for x in (valid, alive, terminated, truncated))
        final_row = final[:, row] if bootstrap else None
        found.append(numpy_ppo.advantages(reward[:, row], value[:, row], final_row, *of_row, GAMMA, DECAY))
    advantage, target = (np.stack(x, axis=1) for x in zip(*found, strict=True))
    return advantage, target, value[:-1]


def head_of(policy, actions, mask):
    """Return the head of some rows, for ``loss_and_gradients()``."""
    if policy.box is not None:
        low, high = double(policy.box.centre - policy.box.half_width), double(policy.box.centre + policy.box.half_width)
        normalized = (2 * actions - low - high) / (high - low)
        return lambda mean: numpy_ppo.gaussian(mean, normalized, double(policy.log_std))
    whole = None
    if mask is not None:
        parts, first = [], 0
        for entry, size in enumerate(policy.choices):
            covered = entry in policy.masked
            parts.append(mask[:, first : first + size] if covered else np.ones((len(mask), size), bool))
            first += size * covered
        whole = np.concatenate(parts, axis=1)
    return lambda logits: numpy_ppo.choices(logits, actions.astype(int), policy.choices, whole)


def expected(one, config, chosen, advantage, target, value):
    """Return terms and gradients of the rows with ``chosen``, bool (T, n)."""
    samples, policy = one.samples, one.policy
    flat = lambda x: double(x).reshape(T, chosen.shape[1], -1)[chosen]  # noqa: E731
    advantage, choice = advantage[chosen], np.ones(chosen.sum(), bool)
    if samples.choice is not None:
        choice = samples.choice.numpy().reshape(chosen.shape)[chosen]
    if config.normalize_advantages == "minibatch":
        advantage = (advantage - advantage[choice].mean()) / advantage[choice].std()
    batch = {
        "obs": rows_of(samples.obs)[:-1][chosen],
        "log_prob": flat(samples.log_prob)[:, 0],
        "advantage": advantage,
        "target": target[chosen],
        "value": value[chosen],
        "choice": choice,
    }
    mask = None if samples.mask is None else flat(samples.mask[:-1]).astype(bool)
    networks = (layers(x) for x in (policy.network.actor_layers, policy.network.critic_layers))
    head = head_of(policy, flat(samples.action), mask)
    return numpy_ppo.loss_and_gradients(*networks, batch, head, config.clip_coef, config.value_coef, 0.03, config.clip_value)


def assert_gradients(policy, gradients, to_log_std):
    linear = [x for part in (policy.network.actor_layers, policy.network.critic_layers) for x in part if hasattr(x, "weight")]
    for layer, (weight, bias) in zip(linear, gradients, strict=True):
        np.testing.assert_allclose(layer.weight.grad, weight, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(layer.bias.grad, bias, rtol=1e-5, atol=1e-5)
    if to_log_std is not None:
        np.testing.assert_allclose(policy.log_std.grad, to_log_std, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_advantages_equal_those_of_the_definition(shared, bootstrap):
    one = case(shared=shared)
    config = dataclasses.replace(PLAIN, bootstrap_at_time_limit=bootstrap)
    got = ppo_of(one, config)._advantages(one.samples)
    counts = one.samples.valid.numpy().reshape(T, -1)
    assert one.samples.timed_out.any() and (~counts).any()
    for x, want in zip(got, expected_advantages(one, bootstrap), strict=True):
        np.testing.assert_allclose(x.numpy().reshape(T, -1), np.where(counts, want, 0.0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("clip_value", [True, False], ids=["clip", "no-clip"])
@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
@pytest.mark.parametrize("head", HEADS)
def test_losses_and_gradients_equal_those_of_numpy(head, shared, clip_value):
    action, masked = HEADS[head]
    one = case(action, shared, masked)
    config = dataclasses.replace(PLAIN, clip_value=clip_value)
    chosen = one.samples.valid.numpy().reshape(T, -1)
    terms, *gradients = expected(one, config, chosen, *expected_advantages(one))
    assert 0.1 < terms[-1] < 0.9  # of the ratios, some are clipped and others not
    _, metrics = learn(one, config, rate=0.0)
    assert [metrics[name] for name in NAMES] == pytest.approx(terms, rel=1e-5, abs=1e-5)
    assert_gradients(one.policy, *gradients)
    norm = np.sqrt(sum((x.grad**2).sum().item() for x in one.policy.parameters()))
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-5)


NAMES = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")


@pytest.mark.parametrize("normalize", ["none", "minibatch", "rollout"])
@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_rows_without_a_choice_have_no_weight_but_for_values(shared, normalize):
    """One minibatch is the rollout. Of four rows, three have no choice."""
    one = case(ACTIONS[1], shared, (0, 1), forced=0.75)
    valid, choice = one.samples.valid.numpy().reshape(T, -1), one.samples.choice.numpy().reshape(T, -1)
    config = dataclasses.replace(PLAIN, normalize_advantages=normalize)
    same = dataclasses.replace(PLAIN, normalize_advantages="none" if normalize == "none" else "minibatch")
    advantage, target, value = expected_advantages(one)
    assert 0 < choice.sum() < 0.4 * valid.sum()
    terms, *gradients = expected(one, same, valid, advantage, target, value)
    _, metrics = learn(one, config, rate=0.0)
    assert [metrics[name] for name in NAMES] == pytest.approx(terms, rel=1e-5, abs=1e-5)
    assert metrics["choice_fraction"] == pytest.approx(choice.sum() / valid.sum())
    assert metrics["explained_variance"] == pytest.approx(1 - advantage[valid].var() / target[valid].var(), rel=1e-4)
    assert_gradients(one.policy, *gradients)


@pytest.mark.parametrize("normalize", ["none", "minibatch", "rollout"])
@pytest.mark.parametrize("kind", [PPO, FusedPPO])
def test_without_a_choice_values_alone_learn(kind, normalize):
    """Advantages of rows without a choice may be too large to be normalised by a deviation of 0."""
    one = case(ACTIONS[1], masked=(0, 1), forced=1.0, scale=1e32)
    config = dataclasses.replace(PLAIN, normalize_advantages=normalize, num_minibatches=2, max_grad_norm=0.5, target_kl=0.01)
    config = dataclasses.replace(config, learning_rate_schedule="adaptive", normalize_rewards=True)
    if kind is PPO:
        config = dataclasses.replace(config, normalize_rewards=False, value_coef=1e-30)
    before, ppo = weights(one.policy), kind(one.policy, config, tuple(one.samples.reward.shape[1:]), 3, torch.device("cpu"))
    _, metrics = learn(one, config, ppo=ppo)
    named, after = dict(one.policy.named_parameters()), weights(one.policy)
    critic = torch.cat([torch.full((x.numel(),), "critic" in name) for name, x in named.items()])
    assert torch.equal(after[~critic], before[~critic]) and (after != before)[critic].all() and after.isfinite().all()
    assert metrics["choice_fraction"] == 0.0 and metrics["updates"] == 2 and metrics["skipped"] == 0 and ppo.factor == 1.0
    assert [name for name, x in metrics.items() if np.isnan(x)] == ["policy_loss", "entropy", "kl", "clip_fraction"]


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_a_value_that_moved_is_clipped_like_in_numpy(shared):
    """In the second epoch values differ from those before the update, so the clip of values takes effect."""
    config = dataclasses.replace(PLAIN, num_epochs=2, learning_rate=0.1, clip_coef=0.05)
    one = case(shared=shared)
    facts = expected_advantages(one)
    learn(one, dataclasses.replace(config, num_epochs=1))
    chosen = one.samples.valid.numpy().reshape(T, -1)
    terms, *gradients = expected(one, config, chosen, *facts)
    one = case(shared=shared)
    ppo, _ = learn(one, config)
    assert_gradients(one.policy, *gradients)
    free, *_ = expected(one, dataclasses.replace(config, clip_value=False), chosen, *facts)
    assert terms[1] > free[1] + 0.01


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
@pytest.mark.parametrize("over", ["none", "rollout", "minibatch"])
def test_minibatches_and_their_advantages_equal_those_of_numpy(monkeypatch, over, shared):
    one = case(shared=shared)
    config = dataclasses.replace(PLAIN, num_minibatches=3, normalize_advantages=over)
    shuffled, gradients, shuffle = [], [], module.shuffle_by_shard

    def recorded(*arguments):
        shuffled.append(shuffle(*arguments))
        return shuffled[-1]

    monkeypatch.setattr(module, "shuffle_by_shard", recorded)
    ppo = ppo_of(one, config)
    step = ppo.adam.step

    def kept(mask):
        gradients.append(torch.cat([x.grad.flatten() for x in one.policy.parameters()]).clone())
        return step(mask)

    ppo.adam.step = kept
    learn(one, config, rate=0.0, ppo=ppo)
    advantage, target, value = expected_advantages(one)
    valid = one.samples.valid.numpy().reshape(T, -1)
    if over == "rollout":
        advantage = (advantage - advantage[valid].mean()) / advantage[valid].std()
    ((index, used),) = shuffled
    for number, got in enumerate(gradients):
        mine = np.zeros(T * one.samples.reward.shape[1], bool)
        mine[index[number][used[number]].numpy()] = True
        chosen = np.repeat(mine.reshape(T, -1), valid.shape[1] // one.samples.reward.shape[1], axis=1) & valid
        assert 0 < chosen.sum() < valid.sum()
        _, want, _ = expected(one, config, chosen, advantage, target, value)
        flat = np.concatenate([x.flatten() for pair in want for x in pair])
        np.testing.assert_allclose(got.numpy(), flat, rtol=1e-5, atol=1e-5)
    assert len(gradients) == 3


def test_rewards_are_scaled_and_clipped_like_in_numpy():
    one = case(scale=50.0)
    one.samples.reward[2, 1], one.samples.valid[2, 1] = 4e4, True
    one.samples.reward[5, 3], one.samples.valid[5, 3] = -4e4, True
    config = dataclasses.replace(PLAIN, normalize_rewards=True)
    valid = one.samples.valid.numpy()
    got = ppo_of(one, config)._advantages(one.samples).advantage.numpy()
    want = expected_advantages(one, scale_rewards=True)[0]
    np.testing.assert_allclose(got[valid], want[valid], rtol=1e-5, atol=1e-5)


def test_observations_are_normalised_before_the_networks():
    """The update of a policy that normalises equals that of one that reads normalised observations."""
    one, other = case(normalize=True, off=0.0), case(off=0.0)
    one.policy.observe(apply(one.samples.obs, lambda x: 3.0 * x[:-1] + 5.0), one.samples.valid)
    norm = one.policy.obs_norm.parts["own"]
    other.samples.obs, other.samples.final_obs = norm(other.samples.obs), norm(other.samples.final_obs)
    learn(one), learn(other)
    torch.testing.assert_close(weights(one.policy), weights(other.policy))


def test_the_gradient_is_scaled_down_to_its_largest_norm():
    one = case(scale=10.0)
    ppo, metrics = learn(one, dataclasses.replace(PLAIN, max_grad_norm=1e-3))
    assert metrics["grad_norm"] > 1.0
    # Adam's first moment is a tenth of the first gradient.
    total = sum((10.0 * moments["exp_avg"]).square().sum() for moments in ppo.adam.state_dict().values()).sqrt()
    assert total.item() == pytest.approx(1e-3, rel=1e-3)


def test_metrics_say_what_was_learned_from():
    one = case()
    config = dataclasses.replace(PLAIN, num_epochs=3, num_minibatches=4)
    _, metrics = learn(one, config)
    advantage, target, _ = expected_advantages(case())
    valid = one.samples.valid.numpy()
    assert metrics["explained_variance"] == pytest.approx(1 - advantage[valid].var() / target[valid].var(), rel=1e-4)
    assert metrics["valid_fraction"] == pytest.approx(valid.mean())
    assert metrics["learning_rate"] == pytest.approx(config.learning_rate)
    assert metrics["updates"] == 12
    assert metrics["skipped"] == 0
