"""Executors: which one a run takes, what a CUDA graph must not change, and precision."""

import dataclasses
import re

import pytest
import role_envs  # noqa: F401  (registers Town-v0 and Pairs-v0)
import torch
from torch import nn
from ways import WAYS

from gpu_vecenv.train import Callback, NetworkConfig, PPOConfig, TrainConfig, Trainer, train_many
from gpu_vecenv.train.config import SMALL_TAG
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.runner.executor import GraphExecutor, eager, first_line
from gpu_vecenv.train.runner.torch_settings import in_precision

CARTPOLE = TrainConfig("WarpCartPole-v1", num_envs=64, total_steps=64 * 32 * 8, ppo=PPOConfig(), device="cuda:0")


class Net(nn.Module):
    """A network whose forward calls a function of the test."""

    def __init__(self, call=lambda x: None):
        super().__init__()
        self.layers, self.call = nn.Linear(4, 3), call

    def forward(self, obs):
        self.call(obs)
        out = self.layers(obs)
        return out[:, :2], out[:, 2]


def weights(trainer):
    return {name: x.clone() for p in trainer.policies.values() for name, x in p.state_dict().items()}


def test_cpu_runs_are_eager():
    config = dataclasses.replace(CARTPOLE, device="cpu")
    assert Trainer(config, quiet=True).executor is eager
    with pytest.raises(ConfigError, match="graph: expected None or False on cpu, got True"):
        Trainer(dataclasses.replace(config, graph=True), quiet=True)


def test_the_share_of_the_gpu_is_given_by_name(monkeypatch):
    """Runs side by side share it, and a trainer on a stream of its own does not unless it says so."""
    config = dataclasses.replace(CARTPOLE, device="cpu", kernels="fused", num_envs=4, total_steps=4 * 32)
    for shares in (False, True):
        assert Trainer(config, quiet=True, shares_gpu=shares).parts.actors["agent"].alone is not shares
    seen = []

    class Note(Callback):
        def on_start(self, trainer):
            seen.append(trainer.parts.actors["agent"].alone)

    train_many({"a": config}, quiet=True, callbacks=[Note()])
    assert seen == [False]


@pytest.mark.parametrize("precision", ["tf32", "bfloat16", "float16"])
def test_precision_lasts_for_an_iteration_and_keeps_results_in_float32(precision):
    config = dataclasses.replace(CARTPOLE, device="cpu", precision=precision)
    seen = []
    trainer = Trainer(config, quiet=True, networks={"agent": Net(lambda obs: seen.append(torch.is_autocast_enabled("cpu")))})
    plain = Trainer(dataclasses.replace(config, precision="float32"), quiet=True, networks={"agent": Net()})
    plain.policies["agent"].load_state_dict(trainer.policies["agent"].state_dict())
    seen.clear()
    a, b = trainer.train(iterations=1), plain.train(iterations=1)
    assert set(seen) == {precision != "tf32"}
    assert not torch.is_autocast_enabled("cpu")
    assert all(x.dtype != torch.bfloat16 and x.dtype != torch.float16 for x in weights(trainer).values())
    assert a["value_loss/agent"] == pytest.approx(b["value_loss/agent"], rel=0.05)
    assert (a["value_loss/agent"] == b["value_loss/agent"]) == (precision == "tf32")


@pytest.mark.slow
def test_gradients_of_single_transitions_survive_float16():
    # A transition's share of the value loss has a derivative of about 6e-8, the smallest number of float16.
    states = []
    for precision in ("float32", "float16"):
        ppo = PPOConfig(num_epochs=1, num_minibatches=1, value_coef=1e-3)
        config = dataclasses.replace(CARTPOLE, device="cpu", precision=precision, num_envs=512, ppo=ppo)
        trainer = Trainer(config, quiet=True)
        trainer.train(iterations=1)
        moments = trainer.parts.algorithms["agent"].adam.state_dict()
        of_critic = [name.startswith("network.critic") for name, _ in trainer.policies["agent"].named_parameters()]
        states.append(torch.cat([moments[i]["exp_avg"].flatten() for i, wanted in enumerate(of_critic) if wanted]))
    assert (states[1] - states[0]).norm() < 0.02 * states[0].norm()


def test_tf32_is_switched_back():
    before = torch.backends.cuda.matmul.allow_tf32
    with in_precision("tf32", "cpu"):
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before


TAG = dataclasses.replace(SMALL_TAG, device="cuda:0", ppo=dataclasses.replace(SMALL_TAG.ppo, num_steps=30))
GRU = NetworkConfig((), memory="gru")
GAMES = {
    "cartpole": CARTPOLE,
    "frozen": dataclasses.replace(TAG, total_steps=64 * 30 * 8, frozen=("tagger",)),
    "town": TrainConfig("Town-v0", num_envs=64, total_steps=64 * 32 * 8, ppo=PPOConfig(target_kl=0.01), device="cuda:0"),
    "adaptive": dataclasses.replace(
        CARTPOLE, ppo=PPOConfig(learning_rate_schedule="adaptive", target_kl=0.01, normalize_advantages="minibatch")
    ),
    "shared trunk": dataclasses.replace(CARTPOLE, network=NetworkConfig(shared_trunk=True)),
    "pendulum": dataclasses.replace(CARTPOLE, env_id="WarpPendulum-v1"),
    "bfloat16": dataclasses.replace(CARTPOLE, precision="bfloat16"),
}


class Curriculum(Callback):
    """Gives the env another reset pool in the middle of the run."""

    def on_iteration(self, trainer, metrics):
        if metrics["iteration"] == 5:
            trainer.env.set_reset_pool({"state": torch.full((3, 4), 0.01, device="cuda:0")})


@pytest.mark.gpu
@pytest.mark.parametrize("game", GAMES)
def test_a_graph_trains_to_the_same_bits(game):
    callbacks = [Curriculum()] if game == "cartpole" else []
    runs = [
        Trainer(dataclasses.replace(GAMES[game], **WAYS[name]), quiet=True, callbacks=callbacks) for name in ("eager", "graph")
    ]
    metrics = [{k: v for k, v in run.train().items() if k != "steps_per_second"} for run in runs]
    assert runs[1].executor.reason == ""
    assert metrics[0] == pytest.approx(metrics[1], rel=0, abs=0, nan_ok=True)
    states = [weights(run) for run in runs]
    assert all(torch.equal(x, states[1][name]) for name, x in states[0].items())
    for name, x in runs[0].env.get_state().items():
        torch.testing.assert_close(x, runs[1].env.get_state()[name], rtol=0, atol=0, equal_nan=True)


FUSED = {
    "cartpole": CARTPOLE,
    "pendulum": GAMES["pendulum"],
    "tag": dataclasses.replace(TAG, total_steps=64 * 30 * 8),
    "frozen": GAMES["frozen"],
    "minibatch": dataclasses.replace(CARTPOLE, ppo=PPOConfig(target_kl=0.01, normalize_advantages="minibatch")),
    "memory": dataclasses.replace(CARTPOLE, network=GRU),
    "memory, segments": dataclasses.replace(
        CARTPOLE, network=GRU, ppo=PPOConfig(num_steps=32, sequence_length=8, normalize_advantages="minibatch")
    ),
    "memory, pendulum": dataclasses.replace(GAMES["pendulum"], network=GRU),
    "memory, tag": dataclasses.replace(TAG, network=GRU, total_steps=64 * 30 * 8),
}


@pytest.mark.gpu
@pytest.mark.parametrize("game", FUSED)
def test_fused_kernels_train_like_torch_and_repeat_their_bits(game):
    runs = [Trainer(dataclasses.replace(FUSED[game], **WAYS[name]), quiet=True) for name in ("graph", "fused", "fused")]
    assert runs[1].parts.not_fused == {}
    metrics = [run.train(iterations=4) for run in runs]
    states = [weights(run) for run in runs]
    assert all(torch.equal(x, states[2][name]) for name, x in states[1].items())
    for name in metrics[0]:
        if name.startswith(("entropy/", "explained_variance/")):
            assert metrics[1][name] == pytest.approx(metrics[0][name], abs=0.05, nan_ok=True), name
    metrics = [run.train() for run in runs]
    states = [weights(run) for run in runs]
    assert all(torch.equal(x, states[2][name]) for name, x in states[1].items())
    assert runs[1].executor.reason == ""


@pytest.mark.gpu
@pytest.mark.parametrize("game", ["memory", "memory, segments", "memory, tag"])
def test_a_graph_of_fused_kernels_trains_to_the_bits_of_single_launches(game):
    ways = ({"graph": False}, {"graph": True})
    runs = [Trainer(dataclasses.replace(FUSED[game], kernels="fused", **way), quiet=True) for way in ways]
    for run in runs:
        run.train()
    assert runs[1].executor.reason == "" and runs[1].parts.not_fused == {}
    states = [weights(run) for run in runs]
    assert all(torch.equal(x, states[1][name]) for name, x in states[0].items())
    for name, rows in runs[0].parts.rows.items():
        assert torch.equal(rows.states.now, runs[1].parts.rows[name].states.now)


@pytest.mark.gpu
def test_a_fused_run_learns_cartpole():
    trainer = Trainer(TrainConfig("WarpCartPole-v1", device="cuda:0", kernels="fused", evaluation_interval=50), quiet=True)
    metrics = trainer.train()
    assert max(metrics["recent_return/agent"], trainer.best.value) >= 475.0


@pytest.mark.gpu
def test_a_policy_without_fused_kernels_says_why(capsys):
    config = dataclasses.replace(GAMES["shared trunk"], kernels="fused")
    Trainer(config).train(iterations=1)
    said = capsys.readouterr().out
    assert "'agent' has no fused kernels: its actor and critic share hidden layers\ntorch takes 5 to 17 times as long" in said


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda obs: obs.sum().item(), "the host waits for the device in .*test_executor.py"),
        (lambda obs: torch.cuda.synchronize(), "AcceleratorError|RuntimeError"),
    ],
    ids=["item", "synchronize"],
)
def test_code_that_cannot_be_captured_stays_eager_and_trains_alike(capsys, call, reason):
    plain = Trainer(dataclasses.replace(CARTPOLE, kernels="torch", graph=False), quiet=True, networks={"agent": Net()})
    trainer = Trainer(CARTPOLE, networks={"agent": Net(call)})
    trainer.policies["agent"].load_state_dict(plain.policies["agent"].state_dict())
    trainer.train()
    plain.train()
    assert isinstance(trainer.executor, GraphExecutor)
    assert capsys.readouterr().out.count("iterations run without a CUDA graph") == 1
    assert re.search(reason, trainer.executor.reason)
    states = weights(trainer), weights(plain)
    assert all(torch.equal(x, states[1][name]) for name, x in states[0].items())


@pytest.mark.parametrize(
    ("error", "line"), [(NotImplementedError(), "NotImplementedError"), (ValueError("one\ntwo"), "ValueError: one")]
)
def test_the_reason_of_an_error_is_its_first_line(error, line):
    assert first_line(error) == line


# Largest mean KL divergence, by Schulman's estimate k3, between a rollout and the evaluation of its actions before an update.
KL = {"float32": 1e-9, "tf32": 1e-6, "bfloat16": 1e-4, "float16": 1e-5}


@pytest.mark.gpu
@pytest.mark.parametrize("precision", KL)
def test_the_first_minibatch_starts_near_the_rollout(precision):
    network = NetworkConfig(hidden_sizes=(256, 256))
    config = dataclasses.replace(TAG, precision=precision, kernels="torch", network=network, total_steps=64 * 30 * 40)
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=20)
    with in_precision(precision, "cuda:0"):
        trainer.parts.collector.collect()
        for name, rows in trainer.parts.rows.items():
            samples = rows.samples()
            steps = slice(0, samples.num_steps)
            with torch.no_grad():
                inputs = samples.steps(samples.obs, steps, with_mask=True)
                now = trainer.policies[name].evaluate(inputs, samples.action.flatten(0, 1)).log_prob
            change = (now - samples.log_prob.flatten())[samples.valid.flatten()]
            kl = (change.exp() - 1 - change).mean().item()
            print(f"{precision} {name}: {kl:.3g}, largest change {change.abs().max().item():.3g}")
            assert kl <= KL[precision]
