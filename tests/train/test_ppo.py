"""PPO's update: ratio and clip take effect, dead rows do not count, and A2C is a special case."""

import copy
import dataclasses

import pytest
import torch
from gymnasium import spaces

from gpu_vecenv.train import NetworkConfig, PPOConfig
from gpu_vecenv.train.algorithms.ppo import PPO, Minibatch, masked_mean, masked_variance, ppo_loss
from gpu_vecenv.train.policies.policy import ActorCritic
from gpu_vecenv.train.returns.gae import TransitionMasks
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.slabs import GroupSlabs, Observations

T, R, F = 8, 10, 5
ROWS = [slice(2, 5), slice(7, 9)]
OWN = [2, 3, 4, 7, 8]


def make_policy(normalize=True):
    space = spaces.MultiDiscrete([3, 2])
    return ActorCritic(F, space, NetworkConfig((16,)), torch.Generator().manual_seed(0), normalize)


def make_rollout(policy, seed=0):
    """Rollout of random numbers whose actions were drawn from the policy."""
    g = torch.Generator().manual_seed(seed)
    slabs = GroupSlabs(
        obs=Observations(torch.randn(T + 1, R, F, generator=g)),
        action=torch.zeros(T, R, 2, dtype=torch.int32),
        log_prob=torch.zeros(T, R),
    )
    rollout = Rollout(
        groups=(slabs,),
        reward=torch.randn(T, R, generator=g),
        terminated=torch.zeros(T, R, dtype=torch.bool),
        truncated=torch.rand(T, R, generator=g) < 0.1,
        agent_alive=torch.rand(T, R, generator=g) < 0.8,
        alive_start=torch.rand(R, generator=g) < 0.8,
    )
    slabs.final_obs = Observations(torch.randn(T, R, F, generator=g))
    # An agent that is not alive stays so until its world's episode ends, also if it starts the rollout that way.
    alive = rollout.alive_start.clone()
    for t in range(T):
        rollout.agent_alive[t] &= alive
        alive = rollout.agent_alive[t] | rollout.truncated[t]
    with torch.no_grad():
        for t in range(T):
            action, slabs.log_prob[t] = policy.act(slabs.obs.own[t], g)
            slabs.action[t] = action.int()
    return rollout


def learn(policy, rollout, config, progress=0.0):
    learner = PPO(policy, ROWS, rollout, config, torch.Generator().manual_seed(5))
    return learner, learner.update(rollout.masks()[0], progress)


def test_the_ratio_changes_after_the_first_minibatch_and_the_clip_takes_effect():
    config = PPOConfig(num_epochs=6, num_minibatches=1, learning_rate=0.02, clip_coef=0.1)
    policy = make_policy()
    rollout = make_rollout(policy)
    learner = PPO(policy, ROWS, rollout, config, torch.Generator())
    history, step = [], learner._step
    learner._step = lambda batch, coef: history.append(step(batch, coef)) or history[-1]
    learner.update(rollout.masks()[0], 0.0)
    assert history[0]["kl"].item() == pytest.approx(0.0, abs=1e-6)
    assert history[0]["clip_fraction"].item() == 0.0
    assert history[1]["kl"].item() > 1e-4
    assert max(parts["clip_fraction"].item() for parts in history) > 0.1


def loss_gradient(ratio, advantage, clip_coef=0.2):
    """Size of the gradient of the policy loss for one action with the given ratio and advantage."""
    policy = make_policy()
    obs, action = torch.randn(1, F), torch.tensor([[1, 0]])
    log_prob = policy.evaluate_actions(obs, action)[0].detach()
    one = torch.ones(1)
    batch = Minibatch(
        obs, action, log_prob - torch.log(torch.tensor([ratio])), one, one * advantage, one, one.bool()
    )
    config = PPOConfig(value_coef=0.0, clip_coef=clip_coef)
    loss, _ = ppo_loss(policy, batch, config, entropy_coef=0.0)
    (gradient,) = torch.autograd.grad(loss, policy.actor[-1].bias)
    return gradient.abs().sum().item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "pushes"),
    [
        (1.3, 1.0, False),
        (1.1, 1.0, True),
        (0.7, 1.0, True),
        (0.7, -1.0, False),
        (0.9, -1.0, True),
        (1.3, -1.0, True),
    ],
)
def test_the_clip_stops_only_gradients_that_increase_the_distance(ratio, advantage, pushes):
    assert (loss_gradient(ratio, advantage) > 0) == pushes


def test_value_clip_takes_the_larger_error():
    policy = make_policy()
    obs = torch.randn(4, F)
    value = policy.value(obs).detach()
    zeros, valid = torch.zeros(4), torch.ones(4, dtype=torch.bool)
    action = torch.zeros(4, 2)
    # The old value is 1 below the new one, and the target 1 below the old: unclipped error 2, clipped error 1.2.
    batch = Minibatch(obs, action, zeros, value - 1.0, zeros, value - 2.0, valid)
    _, parts = ppo_loss(policy, batch, PPOConfig(), 0.0)
    assert parts["value_loss"].item() == pytest.approx(0.5 * 4.0, rel=1e-4)
    # The target is now 2 above the old value: unclipped error 1, clipped error 1.8.
    batch = Minibatch(obs, action, zeros, value - 1.0, zeros, value + 1.0, valid)
    _, parts = ppo_loss(policy, batch, PPOConfig(), 0.0)
    assert parts["value_loss"].item() == pytest.approx(0.5 * 1.8**2, rel=1e-4)
    _, parts = ppo_loss(policy, batch, PPOConfig(clip_value=False), 0.0)
    assert parts["value_loss"].item() == pytest.approx(0.5, rel=1e-4)


def test_dead_rows_and_rows_of_other_policies_change_nothing():
    results = []
    for disturb in (False, True):
        policy = make_policy()
        rollout = make_rollout(policy)
        foreign = torch.ones(R, dtype=torch.bool)
        foreign[OWN] = False
        ignored = ~rollout.masks()[0].valid | foreign
        assert ignored[:, OWN].any()
        if disturb:
            rollout.reward[ignored] = 1e3
            (slabs,) = rollout.groups
            slabs.log_prob[ignored] = -7.0
            slabs.action[ignored] = 0
            slabs.obs.own[:-1][ignored] = 50.0
        learner, metrics = learn(policy, rollout, PPOConfig(num_epochs=2, num_minibatches=2))
        results.append((policy.state_dict(), learner.reward_norm.state_dict(), metrics))
    for before, after in zip(*results, strict=True):
        for name in before:
            assert torch.equal(before[name], after[name]), name


def split(rollout, row):
    """The same rollout in two groups, of the rows before ``row`` and from it on."""
    (slabs,) = rollout.groups
    halves = []
    for rows in (slice(0, row), slice(row, R)):
        obs, final_obs = (Observations(x.own[:, rows].clone()) for x in (slabs.obs, slabs.final_obs))
        action, log_prob = (x[:, rows].clone() for x in (slabs.action, slabs.log_prob))
        halves.append(GroupSlabs(obs, action, log_prob, final_obs=final_obs))
    return dataclasses.replace(rollout, groups=tuple(halves))


@pytest.mark.parametrize("row", [1, 4, 6, 8])
def test_rows_of_several_groups_learn_like_rows_of_one(row):
    """At 4 and 8 the policy has rows of both groups."""
    results = []
    for divide in (False, True):
        policy = make_policy()
        rollout = make_rollout(policy)
        config = PPOConfig(num_epochs=2, num_minibatches=2, bootstrap_at_time_limit=True)
        learn(policy, split(rollout, row) if divide else rollout, config)
        results.append(policy.state_dict())
    for name, x in results[0].items():
        assert torch.equal(x, results[1][name]), name


def test_a_row_of_a_living_agent_changes_the_update():
    """Checks the test above: other values in rows of living agents must change the weights."""
    policy = make_policy()
    rollout = make_rollout(policy)
    twin = copy.deepcopy(policy)
    other = copy.deepcopy(rollout)
    row = next(row for row in OWN if rollout.alive_start[row])
    other.reward[0, row] += 1.0
    learn(policy, rollout, PPOConfig())
    learn(twin, other, PPOConfig())
    assert not torch.equal(policy.actor[0].weight, twin.actor[0].weight)


def test_one_epoch_of_one_minibatch_equals_a2c():
    """The step follows the gradient of the plain actor-critic loss, which is computed here independently."""
    config = PPOConfig(
        num_epochs=1, num_minibatches=1, normalize_advantages="none", normalize_rewards=False,
        normalize_observations=False, clip_value=False, max_grad_norm=1e9, entropy_coef=0.03,
        bootstrap_at_time_limit=True, gae_lambda=1.0,
    )  # fmt: skip
    policy = make_policy(normalize=False)
    rollout = make_rollout(policy)
    twin = copy.deepcopy(policy)

    log_probs, entropies, errors = [], [], []
    (slabs,) = rollout.groups
    obs, final_obs = slabs.obs.own, slabs.final_obs.own
    with torch.no_grad():
        value, final_value = twin.value(obs), twin.value(final_obs)
    for row in OWN:
        living = bool(rollout.alive_start[row])
        for t in range(T):
            if living:
                # Return up to the end of the agent's episode or of the rollout.
                target, weight = 0.0, 1.0
                for k in range(t, T):
                    target += weight * rollout.reward[k, row]
                    weight *= config.gamma
                    if not rollout.agent_alive[k, row]:
                        break
                    if rollout.truncated[k, row]:
                        target += weight * final_value[k, row]
                        break
                    if k == T - 1:
                        target += weight * value[T, row]
                logits = twin.actor(obs[t, row]).split([3, 2])
                heads = [torch.distributions.Categorical(logits=x) for x in logits]
                taken = slabs.action[t, row]
                log_prob = sum(head.log_prob(a) for head, a in zip(heads, taken, strict=True))
                log_probs.append(log_prob * (target - value[t, row]))
                entropies.append(sum(head.entropy() for head in heads))
                errors.append((twin.critic(obs[t, row]) - target) ** 2)
            living = bool(rollout.agent_alive[t, row]) and living or bool(rollout.truncated[t, row])
    mean = lambda xs: torch.stack(xs).mean()  # noqa: E731
    loss = -mean(log_probs) + config.value_coef * 0.5 * mean(errors) - config.entropy_coef * mean(entropies)
    wanted = torch.autograd.grad(loss, list(twin.parameters()))

    learner = PPO(policy, ROWS, rollout, config, torch.Generator())
    learner.optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    before = [p.detach().clone() for p in policy.parameters()]
    config_constant = dataclasses.replace(config, learning_rate=1.0, learning_rate_schedule="constant")
    learner.config = config_constant
    learner.update(rollout.masks()[0], 0.0)
    for old, new, gradient in zip(before, policy.parameters(), wanted, strict=True):
        torch.testing.assert_close(old - new, gradient, rtol=1e-3, atol=1e-5)


def test_gradient_norm_is_limited():
    policy = make_policy()
    rollout = make_rollout(policy)
    config = PPOConfig(num_epochs=1, num_minibatches=1, max_grad_norm=1e-3, value_coef=100.0)
    _, metrics = learn(policy, rollout, config)
    assert metrics["grad_norm"] > 1.0
    total = sum(p.grad.square().sum() for p in policy.parameters()).sqrt()
    assert total.item() == pytest.approx(1e-3, rel=1e-3)


def divergences(target_kl):
    """KL divergence in each minibatch of an update of at most three epochs of four minibatches."""
    policy = make_policy()
    config = PPOConfig(num_epochs=3, num_minibatches=4, learning_rate=0.01, target_kl=target_kl)
    learner = PPO(policy, ROWS, make_rollout(policy), config, torch.Generator().manual_seed(5))
    step, seen = learner._step, []
    learner._step = lambda batch, coef: seen.append(step(batch, coef)) or seen[-1]
    learner.update(learner.rollout.masks()[0], 0.0)
    return [parts["kl"].item() for parts in seen]


def test_an_epoch_whose_mean_kl_exceeds_the_target_is_the_last():
    full = divergences(None)
    assert len(full) == 12
    means = [sum(full[epoch : epoch + 4]) / 4 for epoch in (0, 4, 8)]
    assert 0 < 2 * means[0] < means[1] < means[2]
    assert divergences(0.9 * means[0]) == full[:4]
    assert divergences(1.1 * means[0]) == full[:8]
    assert divergences(0.9 * means[1]) == full[:8]
    assert divergences(1.1 * means[2]) == full


def test_statistics_without_valid_samples_are_zero():
    nothing = torch.zeros(5, dtype=torch.bool)
    assert masked_mean(torch.full((5,), torch.nan), nothing) == 0
    assert masked_variance(torch.ones(5), nothing) == 0


def test_an_update_without_living_rows_does_not_change_the_policy():
    policy = make_policy()
    rollout = make_rollout(policy)
    before = copy.deepcopy(policy.state_dict())
    masks = rollout.masks()[0]
    learner = PPO(policy, ROWS, rollout, PPOConfig(), torch.Generator())
    learner.update(TransitionMasks(torch.zeros_like(masks.valid), masks.cut, masks.timed_out), 0.0)
    for name, x in policy.state_dict().items():
        assert torch.equal(x, before[name]), name


def test_chunks_are_joined_in_order(monkeypatch):
    monkeypatch.setattr("gpu_vecenv.train.algorithms.ppo.MAX_CHUNK_ROWS", 17)  # three steps of five rows
    policy = make_policy()
    rollout = make_rollout(policy)
    seen, value = [], policy.value
    policy.value = lambda obs: seen.append(len(obs)) or value(obs)
    obs = rollout.groups[0].obs
    got = PPO(policy, ROWS, rollout, PPOConfig(), torch.Generator())._values(obs)
    assert seen == [3, 3, 3]
    torch.testing.assert_close(got, value(obs.own[:, OWN]))
