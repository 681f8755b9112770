"""Runs that learn with a memory: learning, evaluation, checkpoints, several runs, graphs, and networks of users."""

import dataclasses
import math

import beat  # noqa: F401  (registers Beat-v0)
import gymnasium
import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Arena-v0)
import torch
from dispatched import HostReads, operations
from test_states import require_same, tensors_of
from torch import nn

from gpu_vecenv.cli.main import main
from gpu_vecenv.train import (
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    TrainConfig,
    Trainer,
    evaluate,
    export_policy,
    load_checkpoint,
    register_network,
    train_many,
)
from gpu_vecenv.train.algorithms.ppo import backend as ppo_backend
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.policies.contract import apply
from gpu_vecenv.train.runner.evaluation import play
from gpu_vecenv.train.runner.matches import play_matches

GRU, LSTM = (NetworkConfig((8,), memory=memory, memory_size=6) for memory in ("gru", "lstm"))
RECALL = TrainConfig(
    "Beat-v0", num_envs=16, total_steps=16 * 12 * 60, device="cpu", policy_map={"left": "a", "right": "a"},
    env_kwargs={"absent": 0.0, "leave": 0.0, "end": 0.0, "max_episode_steps": 9},
    ppo=PPOConfig(num_steps=12, learning_rate=2e-2, gamma=0.0, num_minibatches=2),
)  # fmt: skip
"""The right action is the number of the step modulo 5, which no observation shows: the best constant action gets 2 of 9."""

ARENA = TrainConfig(
    "Arena-v0", num_envs=6, total_steps=6 * 8 * 4, device="cpu", env_kwargs={"max_episode_steps": 9}, network=GRU,
    ppo=PPOConfig(num_steps=8, sequence_length=4, bootstrap_at_time_limit=True),
)  # fmt: skip
"""Agents leave and are absent, and the policy blue has samples of worlds."""
CARTPOLE = TrainConfig("WarpCartPole-v1", num_envs=8, total_steps=8 * 16 * 4, device="cpu", ppo=PPOConfig(num_steps=16))


def recall(memory, **changes):
    network = NetworkConfig((16,), **({} if memory is None else {"memory": memory, "memory_size": 16}))
    return dataclasses.replace(RECALL, network=network, **changes)


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "segments"), [("gru", None), ("lstm", 6)])
def test_a_memory_solves_what_a_feed_forward_policy_cannot(memory, segments, tmp_path):
    """Learned, evaluated, watched over several episodes, and played against random agents."""
    ppo = dataclasses.replace(RECALL.ppo, sequence_length=segments)
    assert Trainer(recall(memory, ppo=ppo, out=str(tmp_path)), quiet=True).train()["return/a"] > 8.5
    assert evaluate(tmp_path, episodes=16, deterministic=True).mean_return["left"] > 8.5
    scores = [states["score"].max() for states in play(tmp_path, episodes=3, deterministic=True) if states["t"] == 9]
    assert len(scores) == 3 and min(scores) > 8
    trained = next(match for match in play_matches(tmp_path).matches if not match.random)
    assert trained.mean_return["left"] > 8.5


@pytest.mark.slow
def test_a_feed_forward_policy_plays_one_action_in_each_step():
    assert Trainer(recall(None), quiet=True).train()["return/a"] < 2.5


@pytest.mark.parametrize("network", [GRU, LSTM], ids=["gru", "lstm"])
def test_an_evaluation_is_that_of_a_loop_over_torchs_cell(network, tmp_path):
    config = dataclasses.replace(CARTPOLE, network=network, out=str(tmp_path), env_kwargs={"max_episode_steps": 40})
    policy = Trainer(config, quiet=True).policies["agent"]
    Trainer(config, quiet=True).train()
    policy.load_state_dict(load_checkpoint(tmp_path)["policies"]["agent"])
    assert evaluate(tmp_path, episodes=6, seed=5, deterministic=True).mean_return["agent"] == np.mean(
        returns_of(policy, episodes=6, seed=5)
    )


def returns_of(policy, episodes, seed):
    """Return the return of the first episode of each world, by a loop."""
    layers = policy.network
    cell = (nn.GRUCell if layers.state_shape == (6,) else nn.LSTMCell)(4, 6)
    cell.load_state_dict(layers.memory.state_dict())
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=episodes, device="cpu", array="torch", max_episode_steps=40)
    obs, _ = env.reset(seed=seed)
    totals, lives, state = np.zeros(episodes), np.ones(episodes, bool), None
    while lives.any():
        with torch.no_grad():
            state = cell(policy.normalized(obs), state)
            units = state if isinstance(state, torch.Tensor) else state[0]
            action = layers.actor_layers(units).argmax(-1)
        obs, reward, terminated, truncated, _ = env.step(action.int())
        totals += np.where(lives, reward.numpy(), 0.0)
        lives &= ~(terminated | truncated).numpy()
    return totals


@pytest.mark.slow
@pytest.mark.parametrize("network", [GRU, LSTM], ids=["gru", "lstm"])
def test_a_resumed_run_with_a_memory_has_the_bits_of_one_without_a_break(network, tmp_path):
    config = dataclasses.replace(ARENA, network=network)
    whole, half = (Trainer(dataclasses.replace(config, out=str(tmp_path / name)), quiet=True) for name in ("whole", "half"))
    whole.train()
    half.train(iterations=2)
    half.close()
    assert all(x.any() for x in load_checkpoint(tmp_path / "half")["collector"]["states"].values())
    again = Trainer.resume(tmp_path / "half", quiet=True)
    again.train()
    require_same(tensors_of(again), tensors_of(whole))
    adam, expected = (trainer.parts.algorithms["red"].adam.state_dict() for trainer in (again, whole))
    assert str(adam) == str(expected) and adam != {}


@pytest.mark.slow
def test_runs_side_by_side_remember_alone(tmp_path):
    configs = {f"seed-{seed}": dataclasses.replace(ARENA, seed=seed) for seed in range(2)}
    train_many(configs, tmp_path, quiet=True)
    for name, config in configs.items():
        trainer = Trainer(config, quiet=True)
        trainer.train()
        state, expected = load_checkpoint(tmp_path / name), tensors_of(trainer)
        found = {f"state/{policy}": x for policy, x in state["collector"]["states"].items()}
        found |= {f"{policy}/{key}": x for policy, own in state["policies"].items() for key, x in own.items()}
        require_same(found, {key: expected[key] for key in found})


# ---- networks of users ----------------------------------------------------------------------------------------------


class Cell(nn.Module):
    """A user's network around torch's cell, without a sequence of its own."""

    state_shape = (6,)

    def __init__(self, spec):
        super().__init__()
        self.memory = nn.GRUCell(sum(spec.parts), 6)
        self.acts = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, spec.num_outputs))
        self.worth = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, obs, state):
        state = self.memory(obs, state)
        return self.acts(state), self.worth(state).squeeze(-1), state


register_network("test.cell", Cell)


@pytest.mark.slow
@pytest.mark.parametrize("segments", [None, 4])
def test_a_users_cell_learns_as_the_built_in_network(segments):
    """From equal weights; its samples are worlds and its observations rows."""
    config = dataclasses.replace(ARENA, ppo=dataclasses.replace(ARENA.ppo, sequence_length=segments, learning_rate=0.01))
    found, start = [], {}
    for policies in ({}, {"blue": PolicyConfig(module="test.cell"), "red": PolicyConfig(module="test.cell")}):
        trainer = Trainer(dataclasses.replace(config, policies=policies), quiet=True)
        for name, policy in trainer.policies.items():
            own = policy.state_dict()
            if policies:
                policy.load_state_dict(dict(zip(own, in_order(start[name]), strict=True)))
            else:
                start[name] = {key: x.clone() for key, x in own.items()}
        trainer.train()
        found.append(tensors_of(trainer))
    for name, policy in trainer.policies.items():
        built_in = {key: x for key, x in found[0].items() if key.startswith(f"{name}/")}
        for x, y, before in zip(policy.state_dict().values(), in_order(built_in), in_order(start[name]), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-5)
            assert not torch.equal(y, before) or y.numel() == 0


@torch.no_grad()
def test_a_users_cell_is_exported_with_its_state(tmp_path):
    policies = {"agent": PolicyConfig(module="test.cell")}
    policy = Trainer(dataclasses.replace(CARTPOLE, policies=policies), quiet=True).policies["agent"]
    program = torch.export.load(export_policy(policy, tmp_path / "cell.pt2")).module()
    obs, state = torch.randn(5, 4), torch.randn(5, 6)
    outputs, _, after = policy.network(obs, state)  # no rollout has given statistics
    action, logits, found = program(obs, state=state)
    assert torch.equal(action, outputs.argmax(-1).int())
    torch.testing.assert_close(logits, outputs.log_softmax(-1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, after, rtol=1e-5, atol=1e-6)


def in_order(state):
    """Return the tensors of a built-in policy in the order of ``Cell``."""
    kinds = ("memory", "actor", "critic")
    rest = [x for key, x in state.items() if not any(kind in key for kind in kinds)]
    return [x for kind in kinds for key, x in state.items() if kind in key] + rest


# ---- parts of the back end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 4, None])
def test_long_rollouts_are_run_in_parts(segments, monkeypatch):
    """Values, first states of segments and log-probabilities do not depend on the parts."""
    config = dataclasses.replace(ARENA, ppo=dataclasses.replace(ARENA.ppo, sequence_length=segments))
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=2)
    for name in ("red", "blue"):
        backend, samples, found = trainer.parts.algorithms[name].backend, trainer.parts.rows[name].samples(), []
        for rows in (1 << 18, 3 * samples.reward[0].numel()):
            monkeypatch.setattr(ppo_backend, "MAX_CHUNK_ROWS", rows)
            value, final = backend.values(samples, True)
            backend.renew_log_prob(samples)
            found.append((value, final, backend.starts, samples.log_prob.clone()))
        for x, y in zip(*found, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", ["red", "blue"])
def test_a_memory_reads_numbers_of_agents_in_sequences_as_in_steps(name):
    """Samples of red are rows, and those of blue worlds."""
    config = dataclasses.replace(ARENA, network=dataclasses.replace(GRU, agent_ids=True))
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=1)
    samples, policy = trainer.parts.rows[name].samples(), trainer.policies[name]
    at = torch.arange(samples.reward.shape[1])
    sequences = samples.sequences((torch.zeros_like(at), at), samples.num_steps)
    found = policy.evaluate_sequence(*sequences, samples.state)
    policy.has_sequence = False
    expected = policy.evaluate_sequence(*sequences, samples.state)
    for x, y in zip((*found[0], found[1]), (*expected[0], expected[1]), strict=True):
        torch.testing.assert_close(x[samples.valid], y[samples.valid], rtol=1e-5, atol=1e-6)
    shown = sequences._replace(inputs=sequences.inputs._replace(agent=torch.zeros_like(sequences.inputs.agent)))
    assert not torch.equal(policy.evaluate_sequence(*shown, samples.state)[1], expected[1])


@pytest.mark.slow
@pytest.mark.parametrize("network", [GRU, LSTM], ids=["gru", "lstm"])
@pytest.mark.parametrize("segments", [None, 4])
def test_an_update_with_a_memory_reads_nothing_on_the_host(network, segments):
    """It takes the same operations for all data, so that a CUDA graph can record it."""
    ppo = dataclasses.replace(ARENA.ppo, sequence_length=segments, target_kl=0.01, normalize_advantages="minibatch")
    trainer = Trainer(dataclasses.replace(ARENA, network=network, ppo=ppo), quiet=True)
    trainer.train(iterations=2)
    for name, algorithm in trainer.parts.algorithms.items():
        counts = []
        for _ in range(2):
            trainer.parts.collector.collect()
            samples, scalars = trainer.parts.rows[name].samples(), DeviceScalars(*torch.tensor((1e-3, 0.01, 0.2)))
            with HostReads():
                trainer.policies[name].observe(apply(samples.obs, lambda x: x[:-1]), samples.valid)
                algorithm.begin(samples)
                algorithm.update(samples, scalars)
            counts.append(operations(lambda: algorithm.update(samples, scalars)))  # noqa: B023  (called at once)
        assert counts[0] == counts[1]


@pytest.mark.gpu
@pytest.mark.parametrize("network", [GRU, LSTM], ids=["gru", "lstm"])
@pytest.mark.parametrize("segments", [None, 4])
def test_a_captured_run_with_a_memory_has_the_bits_of_an_eager_one(network, segments):
    found = []
    for graph in (False, True):
        ppo = dataclasses.replace(ARENA.ppo, sequence_length=segments)
        config = dataclasses.replace(
            ARENA, network=network, ppo=ppo, device="cuda:0", kernels="torch", graph=graph, total_steps=6 * 8 * 8
        )
        trainer = Trainer(config, quiet=True)
        trainer.train()
        found.append(tensors_of(trainer))
    assert trainer.executor.reason == ""
    require_same(*found)


@pytest.mark.slow
def test_numbers_of_agents_that_left_change_nothing():
    """Their observations, actions and masks may hold anything."""
    trainer = Trainer(ARENA, quiet=True)
    trainer.train(iterations=1)
    for name in ("red", "blue"):
        found = []
        for wrong in (False, True):
            trainer = Trainer(ARENA, quiet=True)
            trainer.train(iterations=1)
            trainer.parts.collector.collect()
            samples = trainer.parts.rows[name].samples()
            assert not samples.valid.all()
            if wrong:
                own = samples.obs["own"] if isinstance(samples.obs, dict) else samples.obs
                own[:-1][~samples.valid] = math.nan
                samples.mask[:-1][~samples.valid] = False
                samples.log_prob[~samples.valid] = math.nan
            metrics = trainer.parts.algorithms[name].update(samples, DeviceScalars(*torch.tensor((1e-2, 0.01, 0.2))))
            found.append([*trainer.policies[name].state_dict().values(), metrics])
        assert all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in zip(*found, strict=True))


# ---- options --------------------------------------------------------------------------------------------------------


def test_options_of_sequences_are_checked():
    for ppo, network, message in (
        ({"sequence_length": 5}, GRU, "sequence_length: expected a divisor of num_steps, 16, got 5"),
        ({"sequence_length": 0}, GRU, "sequence_length: expected an integer from 1 to 65536, or None, got 0"),
        ({"sequence_length": 8}, None, "sequence_length: expected None for the policy 'agent', which has no state .*, got 8"),
        ({"num_minibatches": 9}, GRU, "num_minibatches: expected at most the 8 sequences of 16 steps .* 'agent', .*, got 9"),
        ({"num_minibatches": 17, "sequence_length": 8}, GRU, "expected at most the 16 sequences of 8 steps .*, got 17"),
    ):
        with pytest.raises(ConfigError, match=message):
            Trainer(dataclasses.replace(CARTPOLE, network=network, ppo=PPOConfig(num_steps=16, **ppo)), quiet=True)
    ppo = PPOConfig(num_steps=16, num_minibatches=16, sequence_length=8)
    Trainer(dataclasses.replace(CARTPOLE, network=GRU, ppo=ppo), quiet=True)


def test_policies_of_a_run_may_differ_in_memory():
    own = PolicyConfig(network={"memory": "lstm"}, ppo={"sequence_length": 4})
    config = dataclasses.replace(
        ARENA, network=NetworkConfig((8,)), policies={"red": own}, ppo=dataclasses.replace(ARENA.ppo, sequence_length=None)
    )
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=1)
    assert [trainer.policies[name].state_shape for name in ("red", "blue")] == [(2, 64), None]


@pytest.mark.slow
def test_the_command_line_has_a_memory(tmp_path, capsys):
    words = "--num-envs 8 --total-steps 256 --device cpu --network memory=gru memory_size=7 --ppo num_steps=16 sequence_length=8"
    assert main(["train", "WarpCartPole-v1", *words.split(), "--out", str(tmp_path / "run")]) == 0
    weight = load_checkpoint(tmp_path / "run")["policies"]["agent"]["network.memory.weight_hh"]
    assert weight.shape == (21, 7)
    assert main(["eval", str(tmp_path / "run"), "--episodes", "4", "--device", "cpu"]) == 0
    assert main(["memory", "WarpCartPole-v1", "--train", *words.split()[:2], *words.split()[4:]]) == 0
    capsys.readouterr()
    assert main(["train", "WarpCartPole-v1", "--device", "cpu", "--ppo", "sequence_length=1"]) == 2
    assert "sequence_length: expected None for the policy 'agent'" in capsys.readouterr().err
