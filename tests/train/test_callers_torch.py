"""Settings of torch that a caller may have changed, and other threads, do not change a run."""

import ast
import concurrent.futures
import contextlib
import dataclasses
import threading
from pathlib import Path

import pytest
import torch
from fused_runs import fused
from policy_cases import ACTIONS, policy_of
from torch import nn

import gpu_vecenv.train
from gpu_vecenv.errors import SequenceError
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.policies.networks import NetworkSpec, SharedLinear, _blank
from gpu_vecenv.train.policies.registry import register_network

CARTPOLE = TrainConfig(
    "WarpCartPole-v1", num_envs=4, total_steps=4 * 8 * 2, device="cpu", network=NetworkConfig((16, 16)),
    ppo=PPOConfig(num_steps=8, num_epochs=1, num_minibatches=2),
)  # fmt: skip


def weights(trainer):
    return [x.detach().clone() for policy in trainer.policies.values() for x in policy.state_dict().values()]


def trained(config):
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        trainer.train()
        return weights(trainer)


def assert_equal(found, wanted):
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype and x.device == y.device and torch.equal(x, y)


CONFIGS = {
    "eager": CARTPOLE,
    "fused": fused(CARTPOLE),
    "roles": dataclasses.replace(
        CARTPOLE, env_id="WarpTag-v0", policy_map={"tagger": "a", "runner": "random"},
        env_kwargs={"num_taggers": 2, "num_runners": 3, "num_other_agents_observed": 2, "episode_length": 6},
    ),
    "numbers": dataclasses.replace(CARTPOLE, env_id="WarpPendulum-v1"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_default_dtype_and_default_device_of_the_caller_change_nothing(name, tmp_path):
    wanted = trained(CONFIGS[name])
    with torch.no_grad():
        assert_equal(trained(CONFIGS[name]), wanted)
    config = dataclasses.replace(CONFIGS[name], out=str(tmp_path / "run"), evaluation_interval=1, evaluation_episodes=2)
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        with contextlib.closing(Trainer(config, quiet=True)) as trainer:
            trainer.train(iterations=1)
        with torch.no_grad(), contextlib.closing(Trainer.resume(config.out, quiet=True)) as trainer:
            trainer.train()
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert_equal(weights(trainer), wanted)


def test_no_array_of_the_trainer_takes_the_callers_default():
    """A kernel reads an array by its address, so one of another type would be read wrongly and without an error."""
    wanted = {"zeros", "ones", "empty", "full", "tensor", "rand", "randn", "arange", "as_tensor", "linspace", "eye"}
    wrong = []
    for path in Path(gpu_vecenv.train.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).removeprefix("torch.") in wanted):
                continue
            given = {keyword.arg for keyword in node.keywords}
            needed = {"device"} if ast.unparse(node.func) == "torch.as_tensor" else {"dtype", "device"}
            if ast.unparse(node.func).startswith("torch.") and None not in given and not needed <= given:
                wrong.append(f"{path}, line {node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_inference_mode_is_refused():
    trainer = Trainer(CARTPOLE, quiet=True)
    with torch.inference_mode():
        with pytest.raises(SequenceError, match=r"training: expected a call outside of torch.inference_mode\(\)"):
            trainer.train()
        with pytest.raises(SequenceError, match=r"outside of torch.inference_mode\(\)"):
            Trainer(CARTPOLE, quiet=True)
    trainer.train()
    assert trainer.iteration == 2


class Registered(nn.Module):
    """Draws its weights from torch's own generator, and lets other threads run meanwhile."""

    entered = threading.Barrier(2, timeout=0.2)

    def __init__(self, spec):
        super().__init__()
        self.first = nn.Linear(sum(spec.parts), 8)
        try:
            self.entered.wait()
        except threading.BrokenBarrierError:
            self.entered.reset()
        self.last = nn.Linear(8, spec.num_outputs + 1)

    def forward(self, obs):
        results = self.last(self.first(obs))
        return results[:, :-1], results[:, -1]


register_network("test_callers_torch.registered", Registered)


@pytest.mark.slow
@pytest.mark.parametrize("module", [None, "test_callers_torch.registered"], ids=["built-in", "registered"])
def test_policies_of_threads_have_the_weights_of_one_alone(module):
    """The threads build their policies at the same time; a network between two layers of another would change its draws."""
    network = NetworkConfig((64, 64))

    def built(name, before=lambda: None):
        before()
        return [[x.detach() for x in policy_of(ACTIONS[0], network=network, name=name, seed=i, module=module).parameters()]
                for i in range(2 if module else 40)]  # fmt: skip

    state = torch.get_rng_state()
    alone = {name: built(name) for name in "ab"}
    barrier = threading.Barrier(2)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        together = {name: threads.submit(built, name, barrier.wait) for name in "ab"}
    assert torch.equal(torch.get_rng_state(), state)
    for name, policies in alone.items():
        for wanted, found in zip(policies, together[name].result(), strict=True):
            assert_equal(found, wanted)


def test_runs_in_two_threads_equal_runs_alone():
    configs = [dataclasses.replace(CARTPOLE, seed=seed) for seed in (3, 4)]
    wanted = [trained(config) for config in configs]
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        for found, alone in zip(threads.map(trained, configs), wanted, strict=True):
            assert_equal(found, alone)


def test_a_built_in_policy_draws_nothing_from_torchs_generator(monkeypatch):
    def never(*_, **__):
        raise AssertionError("torch's own generator is used")

    monkeypatch.setattr(torch.random, "fork_rng", never)
    state = torch.get_rng_state()
    policy_of(ACTIONS[0])
    assert torch.equal(torch.get_rng_state(), state)


def test_first_weights_are_those_that_a_layer_of_torch_would_lead_to():
    """By torch's own generator: a plain layer, then orthogonal weights, layer by layer."""
    policy = policy_of(ACTIONS[1], network=NetworkConfig((8,)), seed=3, name="a")
    spec = NetworkSpec.of(policy.group)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(bytes.fromhex("8c702fba0ff69c0c"), "little"))  # of sha256sum for 3/a
        for layer, gain in zip(
            [x for part in (policy.network.actor_layers, policy.network.critic_layers) for x in part if isinstance(x, nn.Linear)],
            (2.0**0.5, 0.01, 2.0**0.5, 1.0), strict=True,
        ):  # fmt: skip
            wanted = nn.Linear(layer.in_features, layer.out_features)
            nn.init.orthogonal_(wanted.weight, gain)
            assert torch.equal(layer.weight, wanted.weight)
    assert spec.num_outputs == policy.network.actor_layers[-1].out_features


@pytest.mark.parametrize(("kind", "sizes"), [(nn.Linear, (6, 5)), (SharedLinear, (2, 4, 5))])
def test_a_layer_without_first_weights_has_all_that_a_layer_of_torch_has(kind, sizes):
    usual, blank = kind(*sizes), _blank(kind, 6, 5)
    blank.parts = [2, 4]
    assert vars(blank).keys() | {"parts"} == vars(usual).keys() | {"parts"}
    assert type(blank) is type(usual) and repr(blank) == repr(usual)
    assert [(name, x.shape) for name, x in blank.named_parameters()] == [(name, x.shape) for name, x in usual.named_parameters()]
