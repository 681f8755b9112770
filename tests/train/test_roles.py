"""Training of envs whose roles have spaces of their own: masks, shared observations, policies, runs."""

import copy
import dataclasses

import gymnasium
import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Town-v0, Pairs-v0 and Masked-v0)
import torch

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train import NetworkConfig, PolicyMapError, PPOConfig, TrainConfig, Trainer, evaluate, play
from gpu_vecenv.train.policies.random import RandomPolicy
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint
from gpu_vecenv.train.runner import evaluation

TOWN = TrainConfig(
    "Town-v0",
    num_envs=16,
    total_steps=16 * 20 * 20,
    device="cpu",
    env_kwargs={"max_episode_steps": 20, "rich": 1e6},
    ppo=PPOConfig(num_steps=20, learning_rate=3e-3),
    network=NetworkConfig((32,)),
)
PAIRS = TrainConfig(
    "Pairs-v0",
    num_envs=4,
    total_steps=4 * 10 * 6,
    device="cpu",
    env_kwargs={"max_episode_steps": 7},
    ppo=PPOConfig(num_steps=10, num_epochs=2, bootstrap_at_time_limit=True),
    network=NetworkConfig((16,)),
)
MASKED = dataclasses.replace(PAIRS, env_id="Masked-v0", ppo=PPOConfig(num_steps=10))
ALL_RANDOM = {"citizen": "random", "mayor": "random"}


def count_forbidden(rollout, entries):
    """Return the actions that masks forbade, and the choices that they forbade, in the slabs of a rollout.

    Args:
        rollout: the slabs, read in NumPy.
        entries: for each group, the entry with a mask; None without one.
    """
    taken = forbidden = 0
    for slabs, entry in zip(rollout.groups, entries, strict=True):
        if entry is None:
            assert slabs.mask is None
            continue
        mask, action = slabs.mask[:-1].numpy(), slabs.action.numpy()
        choice = action if action.ndim == 2 else action[..., entry]
        taken += int((~np.take_along_axis(mask, choice[..., None].astype(int), -1)).sum())
        forbidden += int((~mask).sum())
    return taken, forbidden


def train_counting(config, entries):
    trainer = Trainer(config, quiet=True)
    taken, forbidden, collect = [], [], trainer.parts.collector.collect

    def counted():
        collect()
        found = count_forbidden(trainer.parts.rollout, entries)
        taken.append(found[0])
        forbidden.append(found[1])

    trainer.parts.collector.collect = counted
    trainer.train()
    assert len(taken) == trainer.num_iterations
    assert sum(taken) == 0 < forbidden[0]
    return trainer


def test_both_roles_of_the_town_learn_and_take_no_forbidden_action(tmp_path):
    trainer = train_counting(TOWN, (0, None))
    checkpoint = trainer.save(tmp_path / "town.pt")
    assert list(trainer.parts.algorithms) == ["citizen", "mayor"]
    trained = evaluate(checkpoint, 64, seed=1000)
    random = evaluate(checkpoint, 64, ALL_RANDOM, seed=1000)
    # With no tax, full dole and work in every step, a citizen earns (0.625 + 0.125) * 20 = 15; at random about 2.3.
    assert trained.mean_return["citizen"] > 4 * random.mean_return["citizen"]
    other_mayor = evaluate(checkpoint, 64, {"mayor": "random"}, seed=1000)
    assert trained.mean_return["mayor"] > 1.3 * other_mayor.mean_return["mayor"]
    assert trained.mean_length == 20


@pytest.mark.parametrize("policy", ["one", "random"])
def test_no_policy_takes_a_forbidden_action_where_one_entry_of_two_is_masked(policy):
    config = dataclasses.replace(PAIRS, policy_map={"left": "one", "right": policy}, frozen=())
    train_counting(config, (1, 1))


@pytest.mark.parametrize("policy_map", [None, {"left": "random", "right": "one"}], ids=["separate", "random"])
def test_no_forbidden_action_is_taken_in_the_agents_view(policy_map):
    trainer = train_counting(dataclasses.replace(MASKED, policy_map=policy_map), (0,))
    assert trainer.env.view == "agents"


def test_actions_are_evaluated_under_the_masks_they_were_taken_with():
    """The first minibatch is evaluated with the weights that acted, so log-probabilities are those of the collector."""
    ppo = dataclasses.replace(PAIRS.ppo, num_epochs=1, num_minibatches=1)
    for policy_map in (None, {"left": "one", "right": "one"}):
        trainer = Trainer(dataclasses.replace(PAIRS, ppo=ppo, policy_map=policy_map), quiet=True)
        metrics = trainer.train(iterations=1)
        for name in trainer.parts.algorithms:
            assert abs(metrics[f"kl/{name}"]) < 1e-7
        (name, policy), *_ = trainer.policies.items()
        samples = trainer.parts.rows[name].samples()
        inputs = samples.steps(samples.obs, slice(1, 2), with_mask=True)
        with_mask, without = (policy.evaluate(x, samples.action[1]).log_prob for x in (inputs, inputs._replace(mask=None)))
        assert (with_mask > without + 0.1).all()  # one of three choices is forbidden


def joined_rows(obs):
    """Rows of a policy from samples of worlds."""
    shared = obs["shared"].unsqueeze(1).expand(-1, obs["own"].shape[1], -1)
    return torch.cat((shared, obs["own"]), dim=-1).flatten(0, 1)


@pytest.mark.parametrize("policy_map", [None, {"left": "one", "right": "one"}], ids=["separate", "shared"])
def test_samples_equal_what_the_env_returns(policy_map):
    """Samples of each policy, with their shared part, compared with rows joined in NumPy."""
    trainer = Trainer(dataclasses.replace(PAIRS, policy_map=policy_map), quiet=True)
    env, seen, step = trainer.env, [], trainer.env.step

    def recorded(actions):
        obs, *_, info = step(actions)
        seen.append(copy.deepcopy((obs, info)))

    env.step = recorded
    trainer.parts.collector.collect()
    for name, rows in trainer.parts.rows.items():
        samples, roles = rows.samples(), [name] if policy_map is None else ["left", "right"]
        for t, (obs, info) in enumerate(seen, start=1):
            place = [(role, w, i) for role in roles for w in range(4) for i in range(env.role_counts[role])]
            joined = [np.append(obs[role]["shared"][w], obs[role]["own"][w, i]) for role, w, i in place]
            assert np.array_equal(joined_rows({part: x[t] for part, x in samples.obs.items()}), joined)
            masks = [info["action_mask"][role][w, i] for role, w, i in place]
            assert np.array_equal(samples.mask[t].flatten(0, 1), masks)
            if t < samples.num_steps:
                chosen = samples.chosen(samples.place(torch.arange(rows.num_samples) + t * rows.num_samples))
                assert np.array_equal(joined_rows(chosen.obs), joined)
                assert np.array_equal(chosen.mask.flatten(0, 1), masks)
        assert rows.shape == ((4, env.role_counts[name]) if policy_map is None else (20, 1))


def test_results_by_world_reach_the_rows_of_their_agents():
    """Compared with loops over roles, worlds and agents."""
    trainer = Trainer(dataclasses.replace(TOWN, num_envs=3), quiet=True)
    rollout, by_world, g = trainer.parts.rollout, trainer.parts.rollout.by_world, torch.Generator().manual_seed(0)
    by_world.agent_reward.normal_(generator=g)
    for flags in (by_world.agent_alive, by_world.terminated, by_world.truncated):
        flags.random_(0, 2, generator=g)
    rollout.spread()
    row = 0
    for agents in ([0, 1, 2, 3, 4], [5]):
        for w in range(3):
            for agent in agents:
                assert torch.equal(rollout.reward[:, row], by_world.agent_reward[:, w, agent])
                assert torch.equal(rollout.agent_alive[:, row], by_world.agent_alive[:, w, agent])
                assert torch.equal(rollout.terminated[:, row], by_world.terminated[:, w])
                assert torch.equal(rollout.truncated[:, row], by_world.truncated[:, w])
                row += 1
    assert row == rollout.num_rows == 18


def flatten(x, prefix=""):
    if isinstance(x, dict):
        return {k: v for name, part in x.items() for k, v in flatten(part, f"{prefix}/{name}").items()}
    return {prefix: x}


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        dataclasses.replace(TOWN, num_envs=3, total_steps=3 * 7 * 6, ppo=PPOConfig(num_steps=7)),
        PAIRS,
        dataclasses.replace(PAIRS, policy_map={"left": "one", "right": "one"}),
        dataclasses.replace(PAIRS, policy_map={"left": "random", "right": "one"}),
        MASKED,
    ],
    ids=["town", "pairs", "shared", "random", "masked"],
)
def test_an_interrupted_run_equals_an_uninterrupted_one(config, tmp_path):
    whole = Trainer(config, quiet=True)
    whole.train()
    first = Trainer(config, quiet=True)
    first.train(iterations=3)
    assert 0 < first.env.get_state()["t"][0]  # in the middle of an episode
    second = Trainer.resume(first.save(tmp_path / "half.pt"), quiet=True)
    assert second.iteration == 3
    second.train()
    files = [load_checkpoint(trainer.save(tmp_path / f"{i}.pt")) for i, trainer in enumerate((whole, second))]
    states = [flatten(file) for file in files]
    assert states[0].keys() == states[1].keys()
    for name, x in states[0].items():
        assert torch.equal(x, states[1][name]) if isinstance(x, torch.Tensor) else x == states[1][name], name


def test_a_checkpoint_restores_observations_and_masks(monkeypatch):
    """The env's own observation of a restored state may differ from that of the last step, so the trainer's is kept."""
    trainer = Trainer(PAIRS, quiet=True)
    trainer.train(iterations=1)
    state = trainer.parts.collector.state_dict()
    slabs = [x for g in trainer.parts.rollout.groups for x in (g.obs.own, g.obs.shared, g.mask)]
    before = [slab[-1].clone() for slab in slabs]
    assert all(x.any() for x in before)
    for slab in slabs:
        slab[-1].zero_()
    monkeypatch.setattr(trainer.env, "set_state", lambda state: None)
    trainer.parts.collector.load_state_dict(state)
    assert all(torch.equal(slab[-1], x) for slab, x in zip(slabs, before, strict=True))


def test_roles_with_other_spaces_cannot_share_a_policy():
    said = (
        r"policy_map: expected roles with equal spaces for the policy 'all', got citizen with observations Box\(.*\(4,\), "
        r"float32\), actions Discrete\(3\), masked entries \[0\]; mayor with observations Box\(.*\(6,\), float32\), "
        r"actions Box\(.*\(2,\)"
    )
    with pytest.raises(PolicyMapError, match=said):
        Trainer(dataclasses.replace(TOWN, policy_map={"citizen": "all", "mayor": "all"}), quiet=True)
    with pytest.raises(PolicyMapError, match=r"expected roles out of \['citizen', 'mayor'\], .* got 'major'"):
        Trainer(dataclasses.replace(TOWN, policy_map={"citizen": "a", "major": "b"}), quiet=True)


def test_random_roles_have_policies_of_their_own():
    trainer = Trainer(dataclasses.replace(TOWN, policy_map={"citizen": "citizen", "mayor": "random"}), quiet=True)
    assert list(trainer.parts.algorithms) == ["citizen"]
    assert isinstance(trainer.policies["random/mayor"], RandomPolicy)
    with pytest.raises(PolicyMapError, match="at least one policy to train"):
        Trainer(dataclasses.replace(TOWN, policy_map=ALL_RANDOM), quiet=True)


def test_an_evaluation_equals_a_plain_loop(monkeypatch):
    """Returns of each world's first episode, from what the env returns."""
    made, seen = evaluation.make_env, []

    def make_env(*args):
        env = made(*args)
        step = env.step

        def recorded(actions):
            _, _, terminated, truncated, info = step(actions)
            seen.append((info["agent_reward"].numpy().copy(), (terminated | truncated).numpy().copy()))

        env.step = recorded
        return env

    monkeypatch.setattr(evaluation, "make_env", make_env)
    config = dataclasses.replace(TOWN, policy_map=ALL_RANDOM, env_kwargs={"max_episode_steps": 60})
    result = evaluate(config, episodes=8)
    returns, lengths = np.zeros((8, 6)), np.zeros(8)
    for w in range(8):
        for reward, ended in seen:
            returns[w] += reward[w]
            lengths[w] += 1
            if ended[w]:
                break
    assert len(set(lengths)) > 1
    assert result.mean_length == lengths.mean()
    assert result.mean_return["citizen"] == pytest.approx(returns[:, :5].mean(), rel=1e-5)
    assert result.mean_return["mayor"] == pytest.approx(returns[:, 5].mean(), rel=1e-5)
    assert result.mean_survival["mayor"] == pytest.approx(lengths.mean())


def test_a_run_by_role_can_be_watched(tmp_path):
    trainer = Trainer(dataclasses.replace(TOWN, num_envs=2, total_steps=40), quiet=True)
    trainer.train()
    states = list(play(trainer.save(tmp_path / "town.pt"), episodes=2, device="cpu"))
    assert [int(state["t"]) for state in states] == [*range(21), *range(21)]
    assert states[0]["wealth"].shape == (5,)


def test_the_agents_view_is_refused():
    """The trainer relies on this error, by which it learns that arrays are by role."""
    with pytest.raises(ParameterError, match="citizen and mayor have spaces of their own"):
        gymnasium.make_vec("Town-v0", num_worlds=1, view="agents")
