"""Algorithms of users: evolution strategies of the examples learn, resume, share a run with PPO and run as a CUDA graph."""

import contextlib
import dataclasses
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from dispatched import HostReads
from ways import WAYS

from examples import evolution
from examples.evolution import EvolutionConfig
from gpu_vecenv.cli.main import main
from gpu_vecenv.train import (
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    TrainConfig,
    Trainer,
    evaluate,
    load_checkpoint,
    register_algorithm,
    train_many,
)
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.config.algorithms import ALGORITHMS, Registered
from gpu_vecenv.train.storage.samples import Samples

CARTPOLE = TrainConfig(
    "WarpCartPole-v1", num_envs=8, total_steps=8 * 20 * 12, device="cpu", network=NetworkConfig((16,)), algorithm="evolution",
    algorithms={"evolution": EvolutionConfig(num_steps=20)},
)  # fmt: skip
MIXED = TrainConfig(
    "WarpTag-v0", num_envs=4, total_steps=4 * 10 * 4, device="cpu", ppo=PPOConfig(num_steps=10, num_minibatches=2),
    env_kwargs={"num_taggers": 2, "num_runners": 3, "num_other_agents_observed": 2, "episode_length": 6, "tagging_distance": 0.3},
    network=NetworkConfig((8,)), policies={"runner": PolicyConfig(algorithm="evolution")},
    algorithms={"evolution": EvolutionConfig(num_steps=10)},
)  # fmt: skip
"""Runners learn by evolution, taggers by PPO."""
CONFIGS = {"cartpole": CARTPOLE, "mixed": MIXED}


def state(trainer):
    """Return all that a checkpoint has of policies and algorithms, by name."""
    found, parts = {}, trainer.parts.state_dict()

    def walk(value, where):
        if isinstance(value, dict):
            for name, each in value.items():
                walk(each, f"{where}/{name}")
        else:
            found[where] = value

    walk({name: parts[name] for name in ("policies", "algorithms")}, "")
    return found


def assert_same(found, want):
    assert found.keys() == want.keys()
    for name, value in found.items():
        assert torch.equal(value, want[name]) if isinstance(value, torch.Tensor) else value == want[name], name


@pytest.mark.slow
def test_evolution_solves_cartpole():
    """Random play has a mean return of 22, and 500 is the largest one. Evaluations have another number of worlds."""
    config = dataclasses.replace(CARTPOLE, num_envs=64, total_steps=400_000, algorithms={})
    config = dataclasses.replace(config, evaluation_interval=62, evaluation_episodes=16)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        metrics = trainer.train()
    assert metrics["recent_return/agent"] > 300 and trainer.best.value > 450 and "generation/agent" in metrics


@pytest.mark.parametrize("name", CONFIGS)
def test_a_resumed_run_has_the_bits_of_one_without_an_interruption(name, tmp_path):
    with contextlib.closing(Trainer(CONFIGS[name], quiet=True)) as whole:
        want = whole.train()
        states = state(whole)
    with contextlib.closing(Trainer(CONFIGS[name], quiet=True)) as first:
        first.train(2)
        path = first.save(tmp_path / "run.pt")
    with contextlib.closing(Trainer.resume(path, quiet=True)) as second:
        metrics = second.train()
        assert_same(state(second), states)
    del want["steps_per_second"], metrics["steps_per_second"]
    assert metrics == pytest.approx(want, rel=0, abs=0, nan_ok=True)
    before = states["/algorithms/agent/generation"] if name == "cartpole" else states["/algorithms/runner/generation"]
    assert before > 0  # the run has updates
    assert evaluate(path, episodes=4, device="cpu", max_steps=500).episodes == 4


def test_policies_of_one_run_have_algorithms_of_their_own(tmp_path):
    """Each learns, and PPO learns as it does without a neighbour of another kind."""
    with contextlib.closing(Trainer(MIXED, quiet=True)) as trainer:
        start = {name: [x.clone() for x in policy.parameters()] for name, policy in trainer.policies.items()}
        metrics = trainer.train()
        for name, policy in trainer.policies.items():
            assert any(not torch.equal(x, y) for x, y in zip(policy.parameters(), start[name], strict=True)), name
    assert {"policy_loss/tagger", "fitness/runner"} <= metrics.keys() and "policy_loss/runner" not in metrics


def test_the_state_of_an_algorithm_may_be_live_tensors(tmp_path):
    """A checkpoint has the numbers of its iteration, although later updates write the tensors of ``state_dict()`` in place."""
    with contextlib.closing(Trainer(CARTPOLE, quiet=True)) as trainer:
        scores = trainer.parts.algorithms["agent"].state_dict()["scores"]
        assert scores.data_ptr() == trainer.parts.algorithms["agent"].scores.data_ptr()
        trainer.train(2)
        then, path = scores.clone(), trainer.save(tmp_path / "run.pt")
        trainer.train(2)
        assert not torch.equal(scores, then)
    assert torch.equal(load_checkpoint(path)["algorithms"]["agent"]["scores"], then)


def test_runs_side_by_side_equal_each_alone():
    configs = {f"seed-{seed}": dataclasses.replace(CARTPOLE, seed=seed) for seed in range(2)}
    results = train_many(configs, quiet=True)
    for name, config in configs.items():
        with contextlib.closing(Trainer(config, quiet=True)) as trainer:
            want = trainer.train()
        found = results[name].metrics
        del want["steps_per_second"], found["steps_per_second"]
        assert found == pytest.approx(want, rel=0, abs=0, nan_ok=True)


def test_an_update_reads_nothing_on_the_host():
    with contextlib.closing(Trainer(MIXED, quiet=True)) as trainer:
        trainer.train(2)
        with HostReads():
            trainer.launch()
        trainer.finish()


class Plain:
    """Scores of one row, by a loop over its steps."""

    def __init__(self):
        self.returns, self.present, self.began = [], 0.0, False

    def add(self, reward, valid, ended):
        for r, v, e in zip(reward, valid, ended, strict=True):
            self.present += r if v else 0.0
            if e:
                self.returns += [self.present] if self.began else []
                self.present, self.began = 0.0, True


@pytest.mark.parametrize("seed", range(6))
def test_fitness_is_the_mean_return_of_whole_episodes(seed):
    rng, rows, steps = np.random.default_rng(seed), 4, 7
    with contextlib.closing(Trainer(dataclasses.replace(CARTPOLE, num_envs=rows), quiet=True)) as trainer:
        algorithm = trainer.parts.algorithms["agent"]
        weights = [x.clone() for x in algorithm.weights]
        plain, generation = [Plain() for _ in range(rows)], 0
        for _ in range(12):
            reward, valid = rng.integers(0, 9, (steps, rows)).astype(np.float32), rng.random((steps, rows)) < 0.8
            ended = rng.random((steps, rows)) < 0.15
            arrays = {name: torch.from_numpy(x) for name, x in (("reward", reward), ("valid", valid), ("ended", ended))}
            empty = torch.zeros(0)
            given = Samples(obs=empty, action=empty, log_prob=empty, episode_end=empty, timed_out=empty, **arrays)
            metrics = algorithm.update(given, ()).tolist()
            for number, row in enumerate(plain):
                row.add(reward[:, number], valid[:, number], ended[:, number])
            if not all(row.returns for row in plain):
                assert np.isnan(metrics).all()
                assert all(torch.equal(x, y) for x, y in zip(algorithm.weights, weights, strict=True))
                continue
            fitness = [np.mean(row.returns) for row in plain]
            assert metrics == pytest.approx([generation, np.mean(fitness), np.max(fitness)], rel=1e-6)
            generation += 1
            weights = [x.clone() for x in algorithm.weights]
            plain = [Plain() for _ in range(rows)]
            for number, row in enumerate(plain):
                row.began = bool(ended[-1, number])
        assert generation > 1


def test_the_step_is_along_the_noise_of_good_rows():
    ranks = evolution.Evolution._ranks(torch.tensor([3.0, 1.0, 3.0, 9.0]))
    assert ranks.tolist() == pytest.approx([0.0, -0.5, 0.0, 0.5])
    with contextlib.closing(Trainer(CARTPOLE, quiet=True)) as trainer, torch.no_grad():
        own = trainer.parts.algorithms["agent"]
        before, half = own.candidates.clone(), len(own.candidates) // 2
        mean = torch.cat([x.flatten() for x in own.weights])
        noise = (before[:half] - before[half:]) / (2 * own.options.sigma)
        ranks = torch.linspace(-0.5, 0.5, 2 * half)
        own._step(ranks)
        want = mean + own.options.learning_rate / own.options.sigma * torch.cat((noise, -noise)).mul(ranks.unsqueeze(1)).mean(0)
        torch.testing.assert_close(torch.cat([x.flatten() for x in own.weights]), want, rtol=0, atol=1e-6)
        assert (noise.std() - 1).abs() < 0.2 and (noise[0] != noise[1]).all()


def test_a_policy_has_final_observations_if_its_own_algorithm_asks():
    """The rollout has them for the taggers, whose PPO adds values at time limits."""
    ppo = dataclasses.replace(MIXED.ppo, bootstrap_at_time_limit=True)
    with contextlib.closing(Trainer(dataclasses.replace(MIXED, ppo=ppo), quiet=True)) as trainer:
        trainer.train(1)
        samples = {name: rows.samples() for name, rows in trainer.parts.rows.items()}
    assert samples["tagger"].final_obs is not None and samples["runner"].final_obs is None
    assert samples["runner"].timed_out.any()  # although the limit of Tag is a rule


# ---- options ------------------------------------------------------------------------------------------------------------


def test_options_of_an_algorithm_survive_files_and_those_of_a_policy_replace_them(tmp_path):
    own = PolicyConfig(algorithm="evolution", algorithms={"evolution": {"sigma": 0.5}})
    config = dataclasses.replace(MIXED, policies={"runner": own})
    for each in (config, resolve(config)):
        assert TrainConfig.from_json(each.to_json()) == TrainConfig(**vars(each))
        assert TrainConfig.from_yaml(each.save(tmp_path)) == TrainConfig(**vars(each))
    assert resolve(config).options_of("runner") == EvolutionConfig(num_steps=10, sigma=0.5)
    (tmp_path / "options.yaml").write_text("env_id: WarpCartPole-v1\nalgorithm: evolution\nevolution: {sigma: 0.2}\n")
    found = TrainConfig.from_yaml(tmp_path / "options.yaml")
    assert (found.algorithm, found.options_of("agent")) == ("evolution", EvolutionConfig(sigma=0.2))


def test_a_run_is_read_without_its_algorithm(tmp_path, monkeypatch):
    """Evaluations need the policies alone; a run that goes on needs the module."""
    with contextlib.closing(Trainer(CARTPOLE, quiet=True)) as trainer:
        path = trainer.save(tmp_path / "run.pt")
    monkeypatch.delitem(ALGORITHMS, "evolution")
    assert evaluate(path, episodes=4, device="cpu", max_steps=500).episodes == 4
    with pytest.raises(ConfigError, match="algorithm: expected one of ppo.*, got 'evolution'; import the module"):
        Trainer.resume(path, quiet=True)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ppo": PPOConfig()}, "ppo: expected algorithms of the policies, evolution, got 'ppo', which no policy uses"),
        ({"algorithm": "ppo"}, "evolution: expected algorithms of the policies, ppo, got 'evolution', which no policy uses"),
        ({"policies": {"agent": PolicyConfig(ppo={"gamma": 0.5})}}, "options of its algorithm 'evolution', got .* 'ppo'"),
        ({"algorithm": "nope", "algorithms": {}}, "algorithm: expected one of ppo.*, got 'nope'; import the module"),
        ({"num_envs": 3}, "an even number of rows, got 3"),
        ({"network": NetworkConfig((8,), shared_trunk=True)}, "expected the built-in network without a trunk"),
        ({"network": NetworkConfig((8,), layer_norm=True)}, "expected the built-in network .* without layer norms"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(changes, text, tmp_path):
    config = dataclasses.replace(CARTPOLE, **changes, out=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match=text):
        Trainer(config, quiet=True)
    assert not (tmp_path / "run").exists()


def test_policies_want_rollouts_of_one_length():
    config = dataclasses.replace(MIXED, algorithms={})
    with pytest.raises(ConfigError, match="num_steps: expected one number of steps for all policies of a run, got .*10.*100"):
        Trainer(config, quiet=True)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: EvolutionConfig(sigma=0.0), "sigma: expected a number > 0, got 0.0"),
        (lambda: TrainConfig("A", algorithms={"evolution": {"sigm": 1}}), "EvolutionConfig option: .*Did you mean 'sigma'"),
        (lambda: TrainConfig("A", algorithms={"evolution": PPOConfig()}), "evolution: expected a EvolutionConfig, got"),
        (lambda: TrainConfig("A", algorithms={"ppo": PPOConfig()}), "algorithms: expected options by name of the algorithm, but"),
        (lambda: TrainConfig("A", algorithms={"seed": {}}), "expected names of algorithms that are no options, got 'seed'"),
        (lambda: PolicyConfig(algorithms={"network": {}}), "expected names of algorithms that are no options, got 'network'"),
        (lambda: PolicyConfig(algorithms={"evolution": {"num_steps": 3}}), r"\(--algorithms evolution.num_steps=3\), got 3"),
        (lambda: register_algorithm("evolution", PPOConfig, evolution.Evolution), "expected a new name, got 'evolution'"),
        (lambda: register_algorithm("a b", EvolutionConfig, evolution.Evolution), "register_algorithm: name: expected a name"),
        (lambda: register_algorithm("mine", NetworkConfig, evolution.Evolution), "expected options of 'mine' in a dataclass"),
        (lambda: register_algorithm("mine", 5, evolution.Evolution), "config_class: expected a dataclass, got 5"),
        (lambda: register_algorithm("mine", EvolutionConfig, None), "register_algorithm: make: expected a function, .* got None"),
        (lambda: register_algorithm("mine", EvolutionConfig, "evolution"), "make: .* such as module:name, got 'evolution'"),
        (lambda: register_algorithm("mine", EvolutionConfig, evolution.Evolution, policy=5), "policy: expected a function"),
    ],
)
def test_wrong_options_and_registrations_are_named(make, text):
    with pytest.raises(ConfigError, match=text):
        make()
    assert ALGORITHMS["evolution"] == Registered(EvolutionConfig, evolution.Evolution)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"make": lambda *parts: None}, r"algorithm 'odd': expected make\(\) to return Algorithm, got NoneType"),
        ({"make": evolution.Evolution, "policy": lambda *parts: 5}, r"'odd': expected policy\(\) to return Policy, got int"),
    ],
)
def test_parts_that_return_something_else_are_named(parts, text, monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "odd", Registered(EvolutionConfig, **parts))
    with pytest.raises(ConfigError, match=text):
        Trainer(dataclasses.replace(CARTPOLE, algorithm="odd", algorithms={"odd": EvolutionConfig(num_steps=20)}), quiet=True)


@pytest.mark.slow
def test_the_command_line_takes_the_options_of_an_algorithm(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(evolution.__file__).parent))
    monkeypatch.delitem(ALGORITHMS, "evolution")
    line = "train WarpCartPole-v1 --num-envs 4 --device cpu --total-steps 80 --algorithm evolution:evolution"
    line += f" --network hidden_sizes=[4] --evolution num_steps=20 sigma=0.25 --out {tmp_path}/run"
    try:
        assert main(line.split()) == 0, capsys.readouterr().err
    finally:
        sys.modules.pop("evolution", None)
    saved = TrainConfig.of_run(tmp_path / "run")
    assert (saved.algorithm, saved.options_of("agent").sigma, saved.options_of("agent").num_steps) == ("evolution", 0.25, 20)
    assert main("train WarpCartPole-v1 --algorithms sigma=0.25".split()) == 2
    assert "--algorithms: expected NAME.FIELD=VALUE" in capsys.readouterr().err


@pytest.mark.slow
def test_the_printed_commands_work_as_they_are(tmp_path, monkeypatch, capsys):
    """Each begins in a process that has not imported the algorithm, whose module also registers the network."""
    place = Path(evolution.__file__)
    (tmp_path / "mine.py").write_text(place.read_text().replace('"evolution", Evo', '"mine", Evo'))
    monkeypatch.syspath_prepend(str(tmp_path))

    def begin(line):
        ALGORITHMS.pop("mine", None)
        sys.modules.pop("mine", None)
        status = main([*shlex.split(line, comments=True)[1:], "--device", "cpu"])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    try:
        line = "gpu-vecenv train WarpCartPole-v1 --num-envs 4 --total-steps 80 --algorithm mine:mine --mine num_steps=20"
        status, printed, error = begin(f"{line} --network hidden_sizes=[4] --out {tmp_path}/run")
        assert status == 0, error
        watch, resume = printed.partition("Next:\n")[2].splitlines()[:2]
        assert "--modules mine" in watch
        status, printed, error = begin(resume)
        assert status == 0 and "--modules mine" in printed, error
        status, _, error = begin(resume.replace("--modules mine", ""))
        assert status == 2 and "import the module that registers it first (--modules)" in error
    finally:
        ALGORITHMS.pop("mine", None)
        sys.modules.pop("mine", None)
    assert TrainConfig.of_run(tmp_path / "run").total_steps == 160


# ---- on a GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("name", CONFIGS)
def test_a_graph_trains_to_the_same_bits(name):
    base = dataclasses.replace(CONFIGS[name], device="cuda:0")
    runs = [Trainer(dataclasses.replace(base, **WAYS[way]), quiet=True) for way in ("eager", "graph")]
    for run in runs:
        run.train()
    assert runs[1].executor.reason == ""
    assert_same(state(runs[1]), state(runs[0]))
    for run in runs:
        run.close()


@pytest.mark.gpu
def test_fused_ppo_and_evolution_share_a_run_and_a_graph():
    with contextlib.closing(Trainer(dataclasses.replace(MIXED, device="cuda:0", **WAYS["fused"]), quiet=True)) as trainer:
        trainer.train()
        assert trainer.executor.reason == ""
        assert trainer.parts.not_fused == {"runner": "its algorithm has none"}
