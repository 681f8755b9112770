"""Exported policies: run in a process without this package, they return what the policy returns."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gymnasium import spaces
from policy_cases import ACTIONS, AGENTS, draws, group, observations, policy_of

from gpu_vecenv.cli.main import main
from gpu_vecenv.errors import MissingExtraError
from gpu_vecenv.train import CheckpointError, ConfigError, NetworkConfig, TrainConfig
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.policies import export
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import apply
from gpu_vecenv.train.policies.export import write_policy
from gpu_vecenv.train.policies.networks import WorldSpec
from gpu_vecenv.train.policies.random import RandomPolicy
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint
from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint
from gpu_vecenv.train.runner.export import export_policy

RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
for name in ("gpu_vecenv", "gymnasium"):
    sys.modules[name] = None  # an import raises ImportError
import torch
results = []
for path, inputs in json.load(sys.stdin):
    inputs = [torch.tensor(values, dtype=getattr(torch, dtype)) for values, dtype in inputs]
    outputs = torch.export.load(path).module()(*inputs)
    results.append([(output.tolist(), str(output.dtype).removeprefix("torch.")) for output in outputs])
print(json.dumps(results))
"""
NUM_FEATURES = 15
"""Features of Tag with three agents."""
CASES = [
    (ACTIONS[0], False, ()),
    (ACTIONS[1], False, (1,)),
    (ACTIONS[2], False, ()),
    (ACTIONS[1], True, (1, 0)),
    (ACTIONS[2], True, ()),
]


def trained(action, shared, masked):
    """Return a policy far from its start, with statistics of observations."""
    policy = policy_of(action, shared, masked, normalize=True)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    inputs = observations(50, shared)
    seen = {part: 3.0 * x[None] + 1.0 for part, x in inputs.obs.items()} if shared else 3.0 * inputs.obs[None] + 1.0
    policy.observe(seen, torch.ones((1, 50, AGENTS) if shared else (1, 50), dtype=torch.bool))
    return policy


def inputs_of(policy, shared, masked, num=7):
    """Return inputs for the policy, and in the order of the file."""
    inputs = observations(num, shared)
    if masked:
        rows = (num, AGENTS) if shared else (num,)
        mask = torch.rand(*rows, policy.group.num_choices, generator=torch.Generator().manual_seed(1)) < 0.5
        mask[..., [0, policy.group.masked_choices[0]] if len(masked) > 1 else 0] = True
        inputs = inputs._replace(mask=mask)
    tensors = [*(inputs.obs.values() if shared else [inputs.obs]), *([inputs.mask] if masked else [])]
    return inputs, tensors


def expect_equal(policy, inputs, outputs, num, shared):
    """Compare action, and logits or mean and deviation, with those of the policy."""
    action, log_prob = policy.act(inputs, draws(num, shared), deterministic=True)
    if policy.box is not None:
        low, high = torch.tensor(policy.group.action.low), torch.tensor(policy.group.action.high)
        expected = [action.clamp(low, high), action]
        for ours, theirs in zip(outputs[:2], expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        normal = torch.distributions.Normal(outputs[1], outputs[2])  # in the env's units
        other = torch.full_like(action, 0.5)
        constant = ((high - low) / 2).log().sum()
        torch.testing.assert_close(
            normal.log_prob(other).sum(-1) + constant, policy.evaluate(inputs, other).log_prob, rtol=1e-3, atol=1e-3
        )
        return
    assert torch.equal(outputs[0], action)
    parts = outputs[1].split(policy.choices, dim=-1)
    chosen = action.reshape(*action.shape[: 2 if shared else 1], -1).long().unbind(-1)
    total = sum(part.gather(-1, choice.unsqueeze(-1)).squeeze(-1) for part, choice in zip(parts, chosen, strict=True))
    torch.testing.assert_close(total, log_prob, rtol=1e-4, atol=1e-4)
    for part in parts:
        torch.testing.assert_close(part.exp().sum(-1), torch.ones(part.shape[:-1]))


def run_alone(programs):
    """Return the outputs of exported programs, (path, inputs) each, in a process in which only torch can be imported."""
    given = [(str(path), [(x.tolist(), str(x.dtype).removeprefix("torch.")) for x in inputs]) for path, inputs in programs]
    command = [sys.executable, "-S", "-I", "-W", "ignore", "-c", RUN, str(Path(torch.__file__).parent.parent)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [[torch.tensor(values, dtype=getattr(torch, dtype)) for values, dtype in outputs] for outputs in found]


@pytest.mark.slow
@torch.no_grad()
def test_programs_of_torch_run_alone_and_equal_their_policies(tmp_path):
    policies = [trained(*case) for case in CASES]
    given = [inputs_of(policy, *case[1:]) for policy, case in zip(policies, CASES, strict=True)]
    paths = [write_policy(policy, tmp_path / f"{number}.pt2") for number, policy in enumerate(policies)]
    found = run_alone(list(zip(paths, (tensors for _, tensors in given), strict=True)))
    for policy, case, (inputs, _), outputs in zip(policies, CASES, given, found, strict=True):
        expect_equal(policy, inputs, outputs, 7, case[1])


@pytest.mark.slow
def test_an_onnx_model_is_written_without_warnings(tmp_path, recwarn):
    pytest.importorskip("onnxscript")
    write_policy(policy_of(ACTIONS[0]), tmp_path / "policy.onnx")
    assert [str(warning.message) for warning in recwarn.list] == []


@pytest.mark.slow
@pytest.mark.parametrize(("action", "shared", "masked"), CASES, ids=str)
def test_an_onnx_model_equals_the_policy(action, shared, masked, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    policy = trained(action, shared, masked)
    session = runtime.InferenceSession(str(write_policy(policy, tmp_path / "policy.onnx")))
    inputs, tensors = inputs_of(policy, shared, masked)
    names = [*(("shared", "own") if shared else ("obs",)), *(["mask"] if masked else [])]
    assert [entry.name for entry in session.get_inputs()] == names
    outputs = session.run(None, {name: x.numpy() for name, x in zip(names, tensors, strict=True)})
    with torch.no_grad():
        expect_equal(policy, inputs, [torch.from_numpy(output) for output in outputs], 7, shared)


WITH_STATE = [("gru", ACTIONS[1], False, (1,), True), ("lstm", ACTIONS[2], True, (), False)]
"""Memory, action, shared part, masked entries, and numbers of agents as inputs."""


def with_state(memory, action, shared, masked, agent_ids):
    """Return a policy with a memory, far from its start."""
    network = NetworkConfig((8,), memory=memory, memory_size=5, agent_ids=agent_ids)
    policy = make_policy("a", group(action, shared, masked), 0, network, world=WorldSpec(AGENTS))
    with torch.no_grad():
        policy.network.actor_layers[-1].weight.mul_(50.0)
    seen = apply(observations(50, shared).obs, lambda x: 3.0 * x[None] + 1.0)
    policy.observe(seen, torch.ones((1, 50, AGENTS) if shared else (1, 50), dtype=torch.bool))
    return policy


def play_both(policy, call, shared, masked, agent_ids):
    """Compare a program, ``call(inputs by name)``, with ``act()`` over 12 steps, in one of which a row's episode begins anew."""
    rows = (7, AGENTS) if shared else (7,)
    generator = torch.Generator().manual_seed(0)
    ours = theirs = torch.zeros(*rows, *policy.state_shape)
    for t in range(12):
        inputs, _ = inputs_of(policy, shared, masked)
        inputs = inputs._replace(obs=apply(inputs.obs, lambda x: torch.randn(x.shape, generator=generator)), state=ours)
        begins = torch.arange(7) == t
        ours, theirs = (x.clone() for x in (ours, theirs))
        ours[begins], theirs[begins] = 0.0, 0.0
        draw = draws(7, shared, agent=0 if shared else t % AGENTS, t=t)
        named = {**(inputs.obs if shared else {"obs": inputs.obs}), "mask": inputs.mask, "state": theirs}
        named |= {"agent": draw.agent} if agent_ids else {}
        *chosen, theirs = call({name: x for name, x in named.items() if x is not None})
        action, log_prob, ours = policy.act(inputs._replace(state=ours), draw, deterministic=True)
        torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-5)
        if policy.box is not None:
            torch.testing.assert_close(chosen[1], action, rtol=1e-4, atol=1e-4)
            continue
        assert torch.equal(chosen[0], action)
        parts = chosen[1].split(policy.choices, dim=-1)
        entries = zip(parts, action.long().unbind(-1), strict=True)
        total = sum(part.gather(-1, choice.unsqueeze(-1)).squeeze(-1) for part, choice in entries)
        torch.testing.assert_close(total, log_prob, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "action", "shared", "masked", "agent_ids"), WITH_STATE, ids=str)
@torch.no_grad()
def test_programs_take_and_return_the_state(memory, action, shared, masked, agent_ids, tmp_path):
    policy = with_state(memory, action, shared, masked, agent_ids)
    program = torch.export.load(write_policy(policy, tmp_path / "policy.pt2")).module()

    def call(named):
        given = [named.pop(name) for name in ("shared", "own", "obs", "mask") if name in named]
        return program(*given, **named)

    play_both(policy, call, shared, masked, agent_ids)


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "action", "shared", "masked", "agent_ids"), WITH_STATE, ids=str)
@torch.no_grad()
def test_an_onnx_model_takes_and_returns_the_state(memory, action, shared, masked, agent_ids, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    policy = with_state(memory, action, shared, masked, agent_ids)
    session = runtime.InferenceSession(str(write_policy(policy, tmp_path / "policy.onnx")))
    assert session.get_outputs()[-1].name == "new_state" and session.get_inputs()[-1].name == "state"

    def call(named):
        return [torch.from_numpy(x) for x in session.run(None, {name: x.numpy() for name, x in named.items()})]

    play_both(policy, call, shared, masked, agent_ids)


@pytest.mark.parametrize("memory", [None, "gru"])
def test_the_form_of_a_program_says_when_its_state_is_zeros(memory):
    policy = make_policy("a", group(ACTIONS[0]), 0, NetworkConfig((8,), memory=memory))
    first, *more = export.form_text("runs/policy.onnx", policy).splitlines()
    assert first.startswith(f"policy.onnx takes obs (B, ...){', state' if memory else ''} and returns action, logits")
    assert more == ([export.STATE_TEXT] if memory else [])


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, "gru"])
def test_an_onnx_model_says_when_its_state_is_zeros(memory, tmp_path):
    pytest.importorskip("onnxscript")
    onnx = pytest.importorskip("onnx")
    policy = make_policy("a", group(ACTIONS[0]), 0, NetworkConfig((8,), memory=memory))
    assert onnx.load(write_policy(policy, tmp_path / "policy.onnx")).doc_string == (export.STATE_TEXT if memory else "")


def test_the_policy_is_not_changed(tmp_path):
    policy = policy_of(ACTIONS[0])
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    write_policy(policy, tmp_path / "policy.pt2")
    assert policy.training
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())


def test_onnx_without_onnxscript_raises_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install .gpu-vecenv.export"):
        write_policy(policy_of(ACTIONS[0]), tmp_path / "policy.onnx")


def test_what_cannot_be_exported_raises_an_error_and_leaves_the_file(tmp_path):
    class Reader(torch.nn.Module):
        def forward(self, obs):
            gain = 2.0 if obs.sum().item() > 0 else 1.0
            return gain * obs[:, :4], obs[:, 0]

    path = tmp_path / "policy.pt2"
    path.write_bytes(b"earlier")
    with pytest.raises(ConfigError, match="expected a network that torch can export, got"):
        write_policy(policy_of(ACTIONS[0], module=Reader()), path)
    with pytest.raises(ConfigError, match=r"ends with \.pt2, \.onnx or \.pt, got .*policy\.pth"):
        write_policy(policy_of(ACTIONS[0]), tmp_path / "policy.pth")
    with pytest.raises(ConfigError, match="expected a policy with a network, got RandomPolicy"):
        write_policy(RandomPolicy(group()), path)
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def run(tmp_path):
    """Write a checkpoint of Tag with two policies of different weights; return it and the runners' policy."""
    parameters = {"num_taggers": 1, "num_runners": 2, "num_other_agents_observed": 2, "extended_observation": False}
    config = resolve(TrainConfig("WarpTag-v0", device="cpu", env_kwargs=parameters))
    agents = group(spaces.MultiDiscrete([3, 3]), shape=(NUM_FEATURES,))
    policies = {name: make_policy(name, agents, 5, config.network) for name in ("tagger", "runner")}
    path = tmp_path / "run.pt"
    empty = {"algorithms": {}, "collector": {"alive": torch.ones(config.num_envs, 3)}, "episodes": {}}
    empty |= {"reset_pool": {}, "best": {}}
    states = {name: policy.state_dict() for name, policy in policies.items()}
    save_checkpoint(path, {"config": config.to_json(), "iteration": 0, "policies": states, **empty})
    return path, policies["runner"]


def test_the_command_exports_a_policy_of_a_run(run, tmp_path, capsys):
    checkpoint, policy = run
    path = tmp_path / "runner.pt2"
    assert main(["export", str(checkpoint), str(path), "--policy", "runner"]) == 0
    assert capsys.readouterr().out.startswith(f"policy: {path}\nrunner.pt2 takes obs (B, ...) and returns action, logits")
    obs = torch.rand(9, NUM_FEATURES)
    action, logits = torch.export.load(path).module()(obs)
    torch.testing.assert_close(logits, torch.cat([x.log_softmax(-1) for x in policy.outputs(obs).split([3, 3], -1)], -1))
    assert main(["export", str(checkpoint), str(path)]) == 2
    expected = "policy: expected the name of one of the run's policies ['tagger', 'runner'], got None"
    assert capsys.readouterr().err.strip() == f"gpu-vecenv export: {expected}"
    assert main(["export", str(checkpoint), str(tmp_path / "runner.pth"), "--policy", "runner"]) == 2
    assert capsys.readouterr().err.startswith("gpu-vecenv export: path: expected a file that ends with .pt2, .onnx or .pt, got ")


def test_a_policy_of_another_shape_raises_an_error(run, tmp_path):
    checkpoint = run[0]
    state = load_checkpoint(checkpoint)
    state["policies"]["runner"]["network.actor_layers.0.weight"] = torch.zeros(3, 3)
    save_checkpoint(checkpoint, state)
    with pytest.raises(CheckpointError, match="policy 'runner'/network.actor_layers.0.weight: expected a tensor"):
        export_policy(checkpoint, tmp_path / "runner.pt2", "runner")
