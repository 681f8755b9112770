"""Policies of pages act as those of the trainer: outputs within rounding, and equal draws."""

import base64
import hashlib

import numpy as np
import pytest
import torch
from gymnasium import spaces

from gpu_vecenv.backend.wasm import wasm_module
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import ConfigError, NetworkConfig, SACConfig, TD3Config
from gpu_vecenv.train.policies.actor import make_deterministic_policy, make_soft_policy
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Draw, Inputs
from gpu_vecenv.train.policies.networks import NetworkSpec, QNetwork, WorldSpec
from gpu_vecenv.train.policies.page import page_policy
from gpu_vecenv.train.policies.q_policy import QPolicy
from gpu_vecenv.train.policies.random import RandomPolicy
from gpu_vecenv.web.policy_program import POLICY, program_plan
from tests.web.node import run_in_node

WORLDS, AGENTS, FEATURES, SHARED = 2000, 3, 6, 2
MASKED = (1,)
CHOICES = spaces.MultiDiscrete([3, 5])
BOX = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([-1.0, 4.0], np.float32))


def group_of(action, shared=False, masked=()):
    """A group of three agents."""
    def box(size):
        return spaces.Box(-np.inf, np.inf, (size,), np.float32)
    return Group("", "", AGENTS, box(FEATURES), action, masked, box(SHARED) if shared else None)


def usual(action, network, **kwargs):
    """A policy of PPO and its group."""
    group = group_of(action, **kwargs)
    return make_policy("agent", group, 0, network, True, None, world=WorldSpec(num_agents=AGENTS)), group


def values():
    """A policy of values and its group."""
    group, config = group_of(CHOICES), NetworkConfig((20,), "relu", layer_norm=True)
    return QPolicy(QNetwork(NetworkSpec.of(group), config, torch.Generator().manual_seed(0)), group), group


def off_policy(make, config, action):
    """A policy of SAC or TD3 and its group."""
    group = group_of(action)
    return make("agent", group, 0, NetworkConfig((16, 16), "relu"), config, None, True, WorldSpec(num_agents=AGENTS)), group


def at_random(action, masked=()):
    """The policy that acts at random and its group."""
    group = group_of(action, masked=masked)
    return RandomPolicy(group), group


CASES = {
    "choices": lambda: usual(CHOICES, NetworkConfig((17, 64))),
    "masked choices": lambda: usual(CHOICES, NetworkConfig((64, 64), "relu"), masked=MASKED),
    "shared part": lambda: usual(CHOICES, NetworkConfig((64,), "elu", shared_trunk=True), shared=True),
    "numbers of agents": lambda: usual(spaces.Discrete(4), NetworkConfig((32,), agent_ids=True), shared=True),
    "layer normalisation": lambda: usual(CHOICES, NetworkConfig((30, 30), "silu", layer_norm=True)),
    "without hidden layers": lambda: usual(CHOICES, NetworkConfig(())),
    "numbers": lambda: usual(BOX, NetworkConfig((64, 64), log_std=-0.5)),
    "values": values,
    "SAC": lambda: off_policy(make_soft_policy, SACConfig(), BOX),
    "SAC with choices": lambda: off_policy(make_soft_policy, SACConfig(), CHOICES),
    "TD3": lambda: off_policy(make_deterministic_policy, TD3Config(), BOX),
    "random choices": lambda: at_random(CHOICES, MASKED),
    "random numbers": lambda: at_random(BOX),
}


def trained(policy):
    """A policy far from its start, with statistics of observations."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.4 * torch.randn(parameter.shape, generator=generator)
    return policy


def inputs_of(group):
    """Observations of the agents of all worlds, and the counters of their draws."""
    generator = torch.Generator().manual_seed(2)
    own = 3 * torch.randn(WORLDS, AGENTS, FEATURES, generator=generator) + 1
    obs = {"shared": torch.randn(WORLDS, SHARED, generator=generator), "own": own} if group.shared else own.flatten(0, 1)
    mask = None
    if group.masked:
        mask = torch.rand(WORLDS * AGENTS, group.num_choices, generator=generator) < 0.6
        mask[0] = False  # an entry without a choice
    world, agent = torch.arange(WORLDS, dtype=torch.int32), torch.arange(AGENTS, dtype=torch.int32)
    worlds, agents = (x.contiguous() for x in torch.broadcast_tensors(world[:, None], agent))
    if not group.shared:
        worlds, agents = worlds.flatten(), agents.flatten()
    counters = Draw(torch.arange(WORLDS) * 2**33 + 5, world + 7, world % 3, world % 5, worlds, agents)
    return Inputs(obs, mask), counters


SCRIPT = """
const { Policy } = await web("policy.js");
const { instance } = await WebAssembly.instantiate(bytes(given.module), {});
const numbers = (text, Kind) => new Kind(bytes(text).buffer);
const span = { policy: "agent", group: 0, first: 0, agents: given.agents, number: 0 }, outputs = {
  obs: numbers(given.obs, Float32Array), mask: numbers(given.mask, Uint8Array), shared: numbers(given.shared, Float32Array),
};
const { seed, ...others } = given.counters, { entries, continuous } = given.group, Kind = continuous ? Float32Array : Int32Array;
const arrays = { seed: numbers(seed, BigUint64Array), action: new Kind(given.worlds * given.agents * entries) };
for (const name in others) arrays[name] = numbers(others[name], Int32Array);
const worlds = { worlds: given.worlds, arrays, outputs };
const weights = numbers(given.weights, Float32Array), { program, policy: plan, group } = given;
const policy = new Policy(program, plan, weights, span, group, worlds, instance.exports);
policy.act(given.worlds, true);
const likeliest = [...arrays.action];
policy.act(given.worlds);
const drawn = [...arrays.action];
arrays.action.fill(-1);
policy.act(1);
policy.act(given.worlds, false, 1);
answer({ outputs: [...policy.arrays.outputs], likeliest, drawn, inParts: [...arrays.action] });
"""


def text_of(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


@pytest.mark.in_ci
@pytest.mark.parametrize("case", CASES)
def test_a_page_acts_as_the_trainer_does(case):
    policy, group = CASES[case]()
    policy = trained(policy)
    inputs, draw = inputs_of(group)
    if getattr(policy, "obs_norm", None) is not None:
        obs = {name: x[None] for name, x in inputs.obs.items()} if group.shared else inputs.obs[None]
        policy.observe(obs, torch.ones((1, WORLDS, AGENTS) if group.shared else (1, WORLDS * AGENTS), dtype=torch.bool))
    plan = page_policy(policy, group, "agent")
    own, shared = (inputs.obs["own"], inputs.obs["shared"]) if group.shared else (inputs.obs, torch.zeros(0))
    mask = torch.zeros(0) if inputs.mask is None else inputs.mask
    found = run_in_node(SCRIPT, {
        "module": text_of(np.frombuffer(wasm_module(POLICY), np.uint8)), "program": program_plan(),
        "worlds": WORLDS, "agents": AGENTS, "weights": text_of(plan.weights),
        "policy": {"numbers": plan.numbers, "arrays": plan.arrays, "first": 0, "count": len(plan.weights)},
        "obs": text_of(own.numpy()), "shared": text_of(shared.numpy()), "mask": text_of(mask.numpy()),
        "counters": {name: text_of(getattr(draw, name).numpy()) for name in ("seed", "world_id", "episode", "t")},
        "group": {"prefix": "", "count": AGENTS, "features": FEATURES, "shared": group.num_shared, "entries": group.num_entries,
                  "maskColumns": group.num_choices, "obs": "obs", "sharedObs": "shared", "mask": "mask",
                  "continuous": group.continuous},
    })  # fmt: skip
    with torch.no_grad():
        likeliest, drawn = (policy.act(inputs, draw, deterministic)[0].reshape(-1).numpy() for deterministic in (True, False))
        if isinstance(policy, ActorCritic):
            outputs = policy.outputs(inputs.obs, draw.agent)
        elif isinstance(policy, RandomPolicy):
            outputs = torch.zeros(len(found["outputs"]))
        else:
            outputs = policy.outputs(policy.features(inputs.obs, draw.agent))
    assert found["inParts"] == found["drawn"]
    np.testing.assert_allclose(found["outputs"], outputs.reshape(-1).numpy(), rtol=1e-4, atol=1e-4)
    for name, expected in (("likeliest", likeliest), ("drawn", drawn)):
        if group.continuous:
            np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4)
        else:
            assert (np.array(found[name]) == expected).mean() > 0.999  # outputs differ by their rounding


REFUSED = {
    "a network with a memory": lambda: usual(CHOICES, NetworkConfig((8,), memory="gru")),
    "the network Linear": lambda: (ActorCritic(torch.nn.Linear(FEATURES, 9), group_of(CHOICES)), group_of(CHOICES)),
}


@pytest.mark.parametrize("named", REFUSED)
def test_a_policy_that_a_page_cannot_have_is_refused_by_name(named):
    policy, group = REFUSED[named]()
    with pytest.raises(ConfigError, match=rf"page: expected for policy 'agent' a built-in .*, got {named}"):
        page_policy(policy, group, "agent")


@pytest.mark.in_ci
def test_hashes_of_pages_are_those_of_hashlib():
    parts = [[b"abc"], [b"x" * 55], [b"y" * 56], [b"z" * 63, b"z", b""], [bytes(range(256)) * 9, b"end"]]
    script = """
    const { Sha256 } = await web("sha256.js");
    const hexOf = (hash, parts) => (parts.forEach((part) => hash.update(bytes(part))), hash.hex());
    answer(given.map((parts) => hexOf(new Sha256(), parts)));
    """
    found = run_in_node(script, [[base64.b64encode(part).decode() for part in several] for several in parts])
    assert found == [hashlib.sha256(b"".join(several)).hexdigest() for several in parts]
