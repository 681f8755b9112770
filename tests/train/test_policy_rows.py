"""The samples of a policy are those of its agents, compared with loops over roles, worlds and agents."""

import contextlib
import dataclasses

import pytest
import role_envs  # noqa: F401  (registers Pairs-v0)
import torch

from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer

PAIRS = TrainConfig(
    "Pairs-v0", num_envs=4, total_steps=4 * 6 * 3, device="cpu", env_kwargs={"max_episode_steps": 4},
    ppo=PPOConfig(num_steps=6, num_minibatches=2, bootstrap_at_time_limit=True), network=NetworkConfig((8,)),
)  # fmt: skip
STAND_IN = dataclasses.replace(PAIRS, env_id="TagStandIn-v0", env_kwargs={})
MAPS = {
    "pairs by role": (PAIRS, {"left": "left", "right": "right"}),
    "pairs, one for all": (PAIRS, {"left": "one", "right": "one"}),
    "pairs, ranges": (PAIRS, {"left[0:1]": "a", "left[1:3]": "b", "right[0:1]": "c", "right[1:2]": "b"}),
    "pairs, ranges of equal size": (PAIRS, {"left[0:1]": "a", "left[1:3]": "b", "right": "b"}),
    "stand-in by role": (STAND_IN, None),
    "stand-in, one for all": (STAND_IN, {"catcher": "one", "runner": "one"}),
    "stand-in, ranges": (STAND_IN, {"catcher[1:2]": "a", "catcher[0:1]": "b", "runner[1:3]": "b", "runner[0:1]": "random"}),
}


def agents_of(trainer, policy_map):
    """Return, for each policy, the (role, world, agent in the role) of its rows in their order."""
    counts = {role: (rows.stop - rows.start) // 4 for role, rows in trainer.env.role_rows.items()}
    found = {}
    for role, count in counts.items():
        ranges = {}
        for key, name in (policy_map or {role: role for role in counts}).items():
            if key == role:
                ranges[(0, count)] = name
            elif key.startswith(f"{role}["):
                lo, hi = key[len(role) + 1 : -1].split(":")
                ranges[(int(lo), int(hi))] = name
        for (lo, hi), name in sorted(ranges.items()):
            found.setdefault(name, []).append([(role, w, i) for w in range(4) for i in range(lo, hi)])
    return counts, {name: sum(parts, []) for name, parts in found.items()}


@pytest.fixture(params=MAPS)
def collected(request):
    """A trainer after its second rollout was collected, and its map."""
    config, policy_map = MAPS[request.param]
    trainer = Trainer(dataclasses.replace(config, policy_map=policy_map), quiet=True)
    trainer.parts.collector.collect()
    trainer.parts.collector.collect()
    return trainer, *agents_of(trainer, policy_map)


def test_samples_are_those_of_the_policys_agents(collected):
    trainer, counts, agents = collected
    rollout, rows_of = trainer.parts.rollout, trainer.env.role_rows
    rollout.reward.copy_(torch.arange(rollout.reward.numel()).view_as(rollout.reward))
    by_role = rollout.by_world is not None
    first_agent = dict(zip(counts, (0, *torch.tensor(list(counts.values())).cumsum(0).tolist()), strict=False))
    assert set(agents) == {name.partition("/")[0] for name in trainer.parts.rows}
    for name, rows in trainer.parts.rows.items():
        samples, (world, agent) = rows.samples(), rows.world_and_agent()
        own = samples.obs["own"] if isinstance(samples.obs, dict) else samples.obs
        final = samples.final_obs["own"] if isinstance(samples.final_obs, dict) else samples.final_obs
        flat = {
            key: x.flatten(1, samples.reward.dim() - 1)
            for key, x in vars(samples).items()
            if isinstance(x, torch.Tensor) and key not in ("obs", "final_obs")
        }
        own = own.flatten(1, samples.reward.dim() - 1)
        assert (final is None) == name.startswith("random")  # a policy without an algorithm
        final = None if final is None else final.flatten(1, samples.reward.dim() - 1)
        place = agents[name.partition("/")[0]]
        assert flat["reward"].shape == (6, len(place))
        assert world.flatten().tolist() == [w for _, w, _ in place]
        assert agent.flatten().tolist() == [first_agent[role] + i for role, _, i in place]
        for number, (role, w, i) in enumerate(place):
            row = rows_of[role].start + w * counts[role] + i
            slabs = rollout.groups[list(counts).index(role)] if by_role else rollout.groups[0]
            in_group = row - rows_of[role].start if by_role else row
            assert torch.equal(flat["reward"][:, number], rollout.reward[:, row])
            assert torch.equal(flat["ended"][:, number], (rollout.terminated | rollout.truncated)[:, row])
            alive = torch.ones(6, dtype=torch.bool)
            if rollout.alive_next is not None:
                before = torch.cat((rollout.alive_start.unsqueeze(0), rollout.alive_next[:-1]))
                alive = before[:, w, first_agent[role] + i]
            assert torch.equal(flat["valid"][:, number], alive)
            assert torch.equal(flat["action"][:, number], slabs.action[:, in_group])
            assert torch.equal(flat["log_prob"][:, number], slabs.log_prob[:, in_group])
            assert torch.equal(own[:, number], slabs.obs.own[:, in_group].flatten(1))
            if final is not None:
                torch.testing.assert_close(final[:, number], slabs.final_obs.own[:, in_group].flatten(1), equal_nan=True)
            if slabs.mask is not None:
                assert torch.equal(flat["mask"][:, number], slabs.mask[:, in_group])
            if isinstance(samples.obs, dict):
                per_world = rows.shape[1]
                assert torch.equal(samples.obs["shared"][:, number // per_world], slabs.obs.shared[:, w])


def test_each_agent_acts_by_its_policy(collected):
    """The stored log-probabilities are those of the policy that the map names, for the stored actions."""
    trainer, *_ = collected
    for name, rows in trainer.parts.rows.items():
        if name.startswith("random"):
            continue
        samples = rows.samples()
        with torch.no_grad():
            inputs = samples.steps(samples.obs, slice(0, 6), with_mask=True)
            again = trainer.policies[name].evaluate(inputs, samples.action.flatten(0, 1)).log_prob
        torch.testing.assert_close(again.view_as(samples.log_prob), samples.log_prob)
        for other, policy in trainer.policies.items():
            if other != name and not other.startswith("random"):
                with torch.no_grad():
                    foreign = policy.evaluate(inputs, samples.action.flatten(0, 1)).log_prob
                assert not torch.allclose(foreign.view_as(samples.log_prob), samples.log_prob)


@pytest.mark.parametrize("name", [name for name in MAPS if "ranges" in name])
def test_policies_of_ranges_learn_from_their_agents_alone(name):
    """Other rewards of foreign agents change no weight; other rewards of its own do."""
    config, policy_map = MAPS[name]
    results = []
    for disturbed in (None, "a", "b"):
        trainer = Trainer(dataclasses.replace(config, policy_map=policy_map), quiet=True)
        counts, agents = agents_of(trainer, policy_map)
        collect = trainer.parts.collector.collect

        place = agents.get(disturbed, ())

        def disturb(trainer=trainer, collect=collect, counts=counts, place=place):
            collect()
            for role, w, i in place:
                row = trainer.env.role_rows[role].start + w * counts[role] + i
                trainer.parts.rollout.reward[:, row] += torch.arange(6.0) ** 2

        trainer.parts.collector.collect = disturb
        trainer.train(iterations=1)
        results.append({key: [x.clone() for x in trainer.policies[key].parameters()] for key in ("a", "b")})
    for number, changed in ((1, "a"), (2, "b")):
        for key in ("a", "b"):
            same = all(torch.equal(x, y) for x, y in zip(results[0][key], results[number][key], strict=True))
            assert same == (key != changed)


@pytest.mark.parametrize("env_id", ["WarpPendulum-v1", "WarpCartPole-v1"])
def test_samples_of_later_rollouts_are_those_of_a_first_one(env_id):
    """Views and masks are made once; masks have other numbers in each rollout, in which episodes end or not."""
    ppo = PPOConfig(num_steps=70, num_minibatches=2)
    config = TrainConfig(env_id, 4, 4 * 70 * 6, device="cpu", ppo=ppo, stagger_starts=False)
    ends = set()
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        rows = trainer.parts.rows["agent"]
        for _ in range(4):
            trainer.train(1)
            found, rows._views, rows._masks = rows.samples(), None, None
            want = rows.samples()
            ends.add(bool(want.ended.any()))
            assert rows._views is not None
            for field in dataclasses.fields(found):
                x, y = getattr(found, field.name), getattr(want, field.name)
                assert torch.equal(x, y) if isinstance(y, torch.Tensor) else x == y, field.name
    assert ends == ({True, False} if env_id == "WarpPendulum-v1" else {True})
