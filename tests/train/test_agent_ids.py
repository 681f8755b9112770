"""Networks that read which agent of its world a row is, compared with networks whose observations hold one-hot numbers."""

import dataclasses
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from policy_cases import ACTIONS, AGENTS, SHARED, group, observations
from test_policy_rows import PAIRS, agents_of

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Role
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer, evaluate, export_policy
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.eligibility import fused_sizes
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.networks import WorldSpec
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

KERNEL = """
// Seats: agents observe nothing, and each must choose its own number.
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    if (w.once) w.state.unused = 0;
}
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) me.reward = me.action.index() == me.index ? 1.0f : 0.0f;
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {1.0f};
}
"""
IDS = NetworkConfig((8,), agent_ids=True)


@pytest.fixture(scope="module")
def seats(tmp_path_factory):
    """Options of a run of Seats with five agents in two roles."""
    kernel = tmp_path_factory.mktemp("seats") / "seats.cu"
    kernel.write_text(KERNEL)
    spec = EnvSpec(
        "Seats-v0", kernel, (Role("front", 2), Role("back", 3)), (TIME_LIMIT,), (Field("unused", "int32", (), "nothing"),),
        lambda p: Box(0, 1, (1,), np.float32), lambda p: Discrete(5),
    )  # fmt: skip
    if "Seats-v0" not in gymnasium.registry:
        gymnasium.register("Seats-v0", vector_entry_point=partial(GpuVectorEnv, spec))
    ppo = PPOConfig(num_steps=8, num_minibatches=2, learning_rate=2e-2, entropy_coef=0.0)
    return TrainConfig("Seats-v0", num_envs=16, total_steps=16 * 8 * 12, device="cpu", env_kwargs={"max_episode_steps": 4},
                       ppo=ppo, policy_map={"front": "one", "back": "one"})  # fmt: skip


@pytest.mark.parametrize("shared", [False, True])
def test_a_policy_equals_its_network_with_one_hot_numbers(shared):
    agents = group(ACTIONS[1], shared)
    policy = make_policy("agent", agents, 0, IDS, normalize_observations=False, world=WorldSpec(7))
    obs = observations(6, shared).obs
    number = torch.randint(7, (6, AGENTS) if shared else (6,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    one_hot = torch.nn.functional.one_hot(number.long(), 7).float()
    if shared:
        rows = torch.cat((obs["shared"].unsqueeze(1).expand(-1, AGENTS, SHARED), obs["own"], one_hot), -1)
    else:
        rows = torch.cat((obs, one_hot), -1)
    dense = torch.nn.Sequential(*policy.network.actor_layers)
    first = dense[0]
    plain = torch.tanh(torch.nn.functional.linear(rows, first.weight, first.bias))
    expected = torch.nn.functional.linear(plain, dense[2].weight, dense[2].bias)
    torch.testing.assert_close(policy.outputs(obs, number), expected)
    without = make_policy("agent", agents, 0, NetworkConfig((8,)), normalize_observations=False, world=WorldSpec(7))
    assert first.weight.shape[1] == without.network.actor_layers[0].weight.shape[1] + 7
    assert policy.state_dict().keys() == without.state_dict().keys()  # the numbers are not stored
    evaluated = policy.evaluate(Inputs(obs, agent=number), torch.zeros(*number.shape, 2, dtype=torch.int32))
    torch.testing.assert_close(policy.value(Inputs(obs, agent=number)), evaluated.value)


@pytest.mark.slow
def test_agents_that_observe_alike_learn_to_differ(seats, tmp_path):
    """Without numbers the best policy of all five chooses one seat, which one of five agents needs."""
    rewards = {}
    for ids in (False, True):
        out = tmp_path / str(ids)
        config = dataclasses.replace(seats, out=str(out), network=NetworkConfig((16,), agent_ids=ids))
        trainer = Trainer(config, quiet=True)
        trainer.train()
        trainer.close()
        found = evaluate(out, episodes=16, deterministic=True).mean_return
        rewards[ids] = (2 * found["front"] + 3 * found["back"]) / 5 / 4
    assert rewards[False] < 0.3 and rewards[True] > 0.95


def test_a_resumed_run_continues_bit_by_bit(seats, tmp_path):
    config = dataclasses.replace(seats, network=IDS, total_steps=16 * 8 * 4)
    whole, half = (Trainer(dataclasses.replace(config, out=str(tmp_path / name)), quiet=True) for name in ("whole", "half"))
    whole.train()
    half.train(iterations=2)
    half.save()
    half.close()
    again = Trainer.resume(tmp_path / "half", quiet=True)
    again.train()
    for name, value in whole.parts.policies["one"].state_dict().items():
        assert torch.equal(value, again.parts.policies["one"].state_dict()[name]), name


@pytest.mark.parametrize("policy_map", [{"left": "one", "right": "one"}, {"left[0:1]": "a", "left[1:3]": "b", "right": "b"}])
def test_samples_have_the_numbers_of_their_agents(policy_map):
    trainer = Trainer(dataclasses.replace(PAIRS, policy_map=policy_map, network=IDS), quiet=True)
    trainer.parts.collector.collect()
    counts, agents = agents_of(trainer, policy_map)
    first = {"left": 0, "right": counts["left"]}
    for name, rows in trainer.parts.rows.items():
        samples = rows.samples()
        expected = torch.tensor([first[role] + i for role, _, i in agents[name]], dtype=torch.int32)
        assert torch.equal(samples.agent.flatten(), expected)
        at = torch.tensor([3, 0]), torch.tensor([1, 2])
        assert torch.equal(samples.chosen(at).agent, samples.agent[at[1]])
        steps = samples.steps(samples.obs, slice(1, 3)).agent
        assert torch.equal(steps, torch.cat([samples.agent, samples.agent]))
    trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_an_exported_policy_takes_the_numbers(shared, tmp_path):
    policy = make_policy("agent", group(ACTIONS[0], shared, masked=(0,)), 0, IDS, world=WorldSpec(AGENTS))
    path = export_policy(policy, tmp_path / "policy.pt2")
    obs = observations(5, shared).obs
    lead = (5, AGENTS) if shared else (5,)
    number = torch.randint(AGENTS, lead, generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    mask = torch.ones(*number.shape, 4, dtype=torch.bool)
    given = tuple(obs.values()) if shared else (obs,)
    action, logits = torch.export.load(path).module()(*given, mask, agent=number)
    torch.testing.assert_close(logits, policy.outputs(obs, number).log_softmax(-1))
    assert not torch.equal(logits, torch.export.load(path).module()(*given, mask, agent=(number + 1) % AGENTS)[1])


def test_where_numbers_have_no_use_they_are_refused():
    with pytest.raises(ConfigError, match="agent_ids is for the built-in network"):
        make_policy("agent", group(), 0, IDS, module=torch.nn.Linear(6, 4), world=WorldSpec(3))
    policy = make_policy("agent", group(), 0, IDS, world=WorldSpec(3))
    assert fused_sizes(policy, torch.device("cpu")) == "its network reads the numbers of agents"
