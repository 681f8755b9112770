"""Whole iterations: who takes part, statistics of observations, host reads, starts of worlds, settings of a policy."""

import dataclasses

import pytest
import role_envs  # noqa: F401  (registers Pairs-v0)
import torch
from dispatched import HostReads

from gpu_vecenv.train import ConfigError, NetworkConfig, PolicyConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.algorithms.shuffle import choose, shuffle
from gpu_vecenv.train.config import small_tag
from gpu_vecenv.train.run_folder.metrics import read_metrics

TAG = TrainConfig(
    "WarpTag-v0", num_envs=8, total_steps=8 * 10 * 6, device="cpu",
    env_kwargs={"num_taggers": 2, "num_runners": 4, "tagging_distance": 0.1, "episode_length": 24},
    ppo=PPOConfig(num_steps=10, num_epochs=2, num_minibatches=2), network=NetworkConfig((8,)),
)  # fmt: skip
CARTPOLE = TrainConfig(
    "WarpCartPole-v1", num_envs=8, total_steps=8 * 10 * 6, device="cpu", env_kwargs={"max_episode_steps": 24},
    ppo=PPOConfig(num_steps=10, num_epochs=2, num_minibatches=2), network=NetworkConfig((8,)),
)  # fmt: skip
PAIRS = dataclasses.replace(CARTPOLE, env_id="Pairs-v0", num_envs=4, env_kwargs={"max_episode_steps": 7})


def alive_field(env):
    return torch.as_tensor(env.worlds.state.fields["alive"]).bool().clone()


def test_who_takes_part_is_who_was_alive_before_each_step():
    """Over several rollouts, in which agents leave in one and are still out of the game in the next."""
    trainer = Trainer(TAG, quiet=True)
    env, alive, step = trainer.env, [], trainer.env.step

    def noted(actions):
        alive.append(alive_field(env))
        step(actions)

    env.step = noted
    started_dead = 0
    for _ in range(6):
        alive.clear()
        trainer.parts.collector.collect()
        for name, agents in (("tagger", slice(0, 2)), ("runner", slice(2, 6))):
            valid = trainer.parts.rows[name].samples().valid
            want = torch.stack(alive)[:, :, agents].flatten(1)
            assert torch.equal(valid, want)
            started_dead += int((~want[0]).sum())
    assert started_dead > 3


@pytest.mark.parametrize(("run", "stay"), [(CARTPOLE, True), (TAG, False)], ids=["cartpole", "tag"])
def test_samples_know_that_all_count_only_if_no_agent_can_leave(run, stay):
    trainer = Trainer(run, quiet=True)
    trainer.train(iterations=3)
    for rows in trainer.parts.iteration.rows.values():
        samples = rows.samples()
        assert samples.all_valid == stay
        assert samples.valid.all() or not stay


def test_an_agent_that_is_absent_from_an_episode_has_no_transition():
    """Start states of a pool in which a runner is out of the game from the start."""
    trainer = Trainer(TAG, quiet=True)
    env = trainer.env
    pool = {name: x.clone() for name, x in env.draw_start_states(6, seed=3).items()}
    pool["alive"][:, 3] = 0
    env.set_reset_pool(pool)
    trainer.parts.collector.reset(5)
    ended = 0
    for _ in range(6):
        trainer.parts.collector.collect()
        samples = trainer.parts.rows["runner"].samples()
        valid = samples.valid.unflatten(1, (8, 4))
        assert not valid[:, :, 1].any()
        assert valid[:, :, 0].any()
        ended += int(samples.ended.sum())
    assert ended > 8
    trainer.train(iterations=2)
    stats = trainer.parts.episodes["runner"]
    assert not stats.totals[0].view(8, 4)[:, 1].any()


@pytest.mark.parametrize("config", [TAG, PAIRS], ids=["rows", "worlds"])
def test_statistics_hold_every_observation_of_agents_that_take_part(config):
    trainer = Trainer(config, quiet=True)
    collect, seen = trainer.parts.collector.collect, {name: [] for name in trainer.policies}

    def noted():
        collect()
        for name, rows in trainer.parts.rows.items():
            samples = rows.samples()
            own = samples.obs["own"] if isinstance(samples.obs, dict) else samples.obs
            seen[name].append(own[:-1][samples.valid].clone())

    trainer.parts.collector.collect = noted
    for _ in range(3):
        trainer.train(iterations=1)
        for name, policy in trainer.policies.items():
            norm, whole = policy.obs_norm.parts["own"], torch.cat(seen[name]).double()
            assert norm.count == len(whole)
            torch.testing.assert_close(norm.mean, whole.mean(0))
            torch.testing.assert_close(norm.var, whole.var(0, correction=0))
    if config is TAG:
        assert len(torch.cat(seen["runner"])) < 3 * 10 * 8 * 4  # some were out of the game


def test_statistics_change_after_an_update_but_for_the_first():
    """So old and new log-probabilities are of the same inputs: without a step of weights the divergence is 0."""
    ppo = dataclasses.replace(CARTPOLE.ppo, num_epochs=1, num_minibatches=1, learning_rate=0.05)
    trainer = Trainer(dataclasses.replace(CARTPOLE, ppo=ppo), quiet=True)
    policy = trainer.policies["agent"]
    assert policy.obs_norm is not None
    with torch.no_grad():
        policy.network.actor_layers[-1].weight.mul_(100.0)
    for iteration in range(4):
        metrics = trainer.train(iterations=1)
        assert abs(metrics["kl/agent"]) < 1e-6, iteration
        assert metrics["clip_fraction/agent"] == 0


@pytest.mark.parametrize("config", [TAG, CARTPOLE, PAIRS], ids=["tag", "cartpole", "pairs"])
def test_an_iteration_reads_nothing_on_the_host(config):
    ppo = dataclasses.replace(config.ppo, target_kl=0.01, bootstrap_at_time_limit=True)
    trainer = Trainer(dataclasses.replace(config, ppo=ppo), quiet=True)
    trainer.train(iterations=1)  # the optimiser makes its moments
    with HostReads():
        for number in range(3):
            trainer.pipeline.launch(number)
            trainer.pipeline.finish()


def test_metrics_are_read_once_an_iteration(monkeypatch):
    trainer = Trainer(CARTPOLE, quiet=True)
    reads, tolist = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda x: reads.append(x.shape) or tolist(x))
    trainer.train(iterations=3)
    assert reads == [(len(trainer.parts.iteration.metric_names),)] * 3


def test_recent_returns_are_those_of_the_last_100_episodes():
    """Episodes of two steps."""
    config = dataclasses.replace(CARTPOLE, env_id="WarpPendulum-v1", env_kwargs={"max_episode_steps": 2})
    trainer, returns = Trainer(config, quiet=True), []
    for _ in range(6):
        metrics = trainer.train(iterations=1)
        returns += trainer.parts.rows["agent"].samples().reward.unflatten(0, (-1, 2)).sum(1).flatten().tolist()
        assert metrics["recent_return/agent"] == pytest.approx(sum(returns[-100:]) / len(returns[-100:]))
    assert len(returns) > 200


def test_policies_and_seeds_have_orders_of_minibatches_of_their_own():
    transitions, orders = choose(torch.ones(80, dtype=torch.bool)), set()
    for seed in (0, 1):
        for algorithm in Trainer(dataclasses.replace(TAG, seed=seed), quiet=True).parts.algorithms.values():
            orders.add(tuple(shuffle(transitions, 2, algorithm.shuffles)[0].flatten().tolist()))
    assert len(orders) == 4


def test_torchs_generator_has_no_effect_and_stays():
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        trainer = Trainer(CARTPOLE, quiet=True)
        trainer.train(iterations=2)
        assert torch.equal(before, torch.get_rng_state())
        runs.append([x.clone() for x in trainer.policies["agent"].parameters()])
    assert all(torch.equal(x, y) for x, y in zip(*runs, strict=True))


def test_weights_do_not_depend_on_other_policies():
    """The run's seed and the name of a policy determine them."""
    runs = [
        Trainer(dataclasses.replace(TAG, policy_map=policy_map), quiet=True)
        for policy_map in (None, {"tagger": "random", "runner": "runner"}, {"tagger": "runner", "runner": "x"})
    ]
    first, *others = ([x.clone() for x in run.policies["runner"].parameters()] for run in runs)
    for other in others:
        assert all(torch.equal(x, y) for x, y in zip(first, other, strict=True))


@pytest.mark.parametrize("config", [TAG, CARTPOLE], ids=["tag", "cartpole"])
def test_worlds_start_at_different_steps_if_asked(config, tmp_path):
    together = Trainer(config, quiet=True)
    assert not together.env.get_state()["t"].any()
    config = dataclasses.replace(config, stagger_starts=True)
    trainer = Trainer(config, quiet=True)
    env, rollout = trainer.env, trainer.parts.rollout
    t = env.get_state()["t"]
    assert t.max() >= 12 and t.min() == 0
    assert len(set(t.tolist())) >= 4
    # Slot 0 and who is alive are those of the env's state.
    torch.testing.assert_close(rollout.groups[0].obs.own[0], env.observe())
    if config is TAG:
        assert torch.equal(rollout.alive_start, alive_field(env))
    trainer.train(iterations=3)
    resumed = Trainer.resume(trainer.save(tmp_path / "half.pt"), quiet=True)
    trainer.train(), resumed.train()
    for name, policy in trainer.policies.items():
        for key, x in policy.state_dict().items():
            assert torch.equal(x, resumed.policies[name].state_dict()[key]), key


def test_policies_have_settings_of_their_own():
    own = {"runner": PolicyConfig(ppo={"num_epochs": 3, "learning_rate": 0.123, "gamma": 0.5}, network={"hidden_sizes": (5, 4)})}
    trainer = Trainer(dataclasses.replace(TAG, policies=own), quiet=True)
    metrics = trainer.train(iterations=1)
    assert (metrics["updates/tagger"], metrics["updates/runner"]) == (4, 6)
    assert metrics["learning_rate/runner"] == pytest.approx(0.123)
    assert metrics["learning_rate/tagger"] == pytest.approx(TAG.ppo.learning_rate)
    assert trainer.parts.algorithms["runner"].reward_norm.gamma == 0.5
    widths = {name: [x.out_features for x in policy.network.actor_layers if hasattr(x, "out_features")][:-1]
              for name, policy in trainer.policies.items()}  # fmt: skip
    assert widths == {"tagger": [8], "runner": [5, 4]}
    with pytest.raises(ConfigError, match=r"policies: expected policies out of \['tagger', 'runner'\], got 'nobody'"):
        Trainer(dataclasses.replace(TAG, policies={"nobody": PolicyConfig()}), quiet=True)


def test_settings_of_one_policy_do_not_change_another():
    plain = Trainer(TAG, quiet=True)
    other = Trainer(dataclasses.replace(TAG, policies={"runner": PolicyConfig(ppo={"num_epochs": 5})}), quiet=True)
    for trainer in (plain, other):
        trainer.train(iterations=1)
    first, second = ([x.clone() for x in run.policies["tagger"].parameters()] for run in (plain, other))
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def test_the_spec_says_which_limits_are_bootstrapped():
    """The limit of CartPole is none of its rules; that of Tag is one, although both have a time limit."""
    for config, expected in ((CARTPOLE, True), (TAG, False)):
        trainer = Trainer(config, quiet=True)
        assert {ppo.config.bootstrap_at_time_limit for ppo in trainer.parts.algorithms.values()} == {expected}
        assert (trainer.parts.rollout.groups[0].final_obs is not None) == expected


def test_more_minibatches_than_transitions_are_refused():
    ppo = dataclasses.replace(CARTPOLE.ppo, num_minibatches=81)
    with pytest.raises(ConfigError, match="num_minibatches: expected at most 80 for the policy 'agent'"):
        Trainer(dataclasses.replace(CARTPOLE, ppo=ppo), quiet=True)


def test_a_longer_run_does_not_make_the_rate_jump(tmp_path):
    config = dataclasses.replace(CARTPOLE, out=str(tmp_path), ppo=dataclasses.replace(CARTPOLE.ppo, learning_rate=0.6))
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=3)
    trainer.close()
    resumed = Trainer.resume(tmp_path, quiet=True, total_steps=2 * config.total_steps)
    resumed.train()
    resumed.close()
    rates = [line["learning_rate/agent"] for line in read_metrics(tmp_path)]
    assert rates == pytest.approx([0.6, 0.5, 0.4, 0.3, 0.2, 0.1] + [0.0] * 6, abs=1e-6)


def test_the_preset_of_small_tag_trains():
    config = dataclasses.replace(small_tag.SMALL_TAG, num_envs=4, total_steps=400, device="cpu")
    assert Trainer(config, quiet=True).train(iterations=1)["iteration"] == 1
