"""``num_envs="auto"``: what the search measures, what a run does with it, and what is refused."""

import contextlib
import dataclasses
import json
import weakref

import numpy as np
import pytest
import torch
from ranks import in_processes

from gpu_vecenv.errors import OutOfMemoryError
from gpu_vecenv.train import (
    AutoSizes,
    ConfigError,
    NetworkConfig,
    PPOConfig,
    PQNConfig,
    TrainConfig,
    Trainer,
    find_sizes,
    train_many,
)
from gpu_vecenv.train.config import PolicyConfig, resolve
from gpu_vecenv.train.errors import CheckpointError, RunExistsError
from gpu_vecenv.train.run_folder import sizes_table
from gpu_vecenv.train.runner import auto_sizes, size_trials
from gpu_vecenv.train.runner.size_grid import Sizes

SMALL = AutoSizes(num_envs=(2, 6), num_steps=(5, 10), num_minibatches=(2, 4), min_updates=4, seconds=1e9)


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    monkeypatch.setattr(size_trials, "SAMPLE_S", 0.0)
    monkeypatch.setattr(size_trials, "TRIAL_S", 1e-9)


@pytest.fixture
def auto():
    return TrainConfig(
        "WarpTag-v0",
        num_envs="auto",
        total_steps=240,
        auto_sizes=SMALL,
        env_kwargs={"num_taggers": 1, "num_runners": 2, "episode_length": 20},
        ppo=PPOConfig(num_steps=10, num_epochs=2, num_minibatches=3),
        network=NetworkConfig(hidden_sizes=(16,)),
    )


@pytest.fixture
def rates(monkeypatch):
    """Steps a second by sizes, in place of measurements; those of others are 1,000."""
    rates = {}
    monkeypatch.setattr(size_trials.Trials, "__call__", lambda self, sizes: rates.get(sizes, 1e3))
    return rates


class Linear(torch.nn.Module):
    """A network for CartPole."""

    def __init__(self):
        super().__init__()
        self.both = torch.nn.Linear(4, 3)

    def forward(self, obs):
        both = self.both(obs)
        return both[..., :-1], both[..., -1]


def weights(trainer):
    return {name: [x.clone() for x in policy.parameters()] for name, policy in trainer.policies.items()}


def equal(first, second):
    return all(torch.equal(a, b) for name in first for a, b in zip(first[name], second[name], strict=True))


def test_a_run_takes_the_fastest_sizes(auto, rates):
    rates[Sizes(6, 5, 4)] = 9e3
    rates[Sizes(6, 10, 4)] = 5e3
    rates[Sizes(6, 10, 2)] = 2e3
    trainer = Trainer(auto, quiet=True)
    config = trainer.config
    assert (config.num_envs, config.ppo.num_steps, config.ppo.num_minibatches) == (6, 5, 4)
    assert config.ppo == dataclasses.replace(auto.ppo, num_steps=5, num_minibatches=4)
    assert trainer.steps_per_iteration == 30 and trainer.num_iterations == 8
    trainer.close()


@pytest.mark.slow
def test_a_run_has_the_bits_of_one_whose_options_name_the_sizes(auto):
    """The search itself runs here: it leaves no trace in random numbers, and networks of users are not trained by it."""
    torch.manual_seed(5)
    trainer = Trainer(auto, quiet=True)
    drawn = torch.rand(3)
    found = trainer.found_sizes
    config = dataclasses.replace(auto, num_envs=found.sizes.num_envs, auto_sizes=None, ppo=trainer.config.ppo)
    assert found.config == config
    torch.manual_seed(5)
    named = Trainer(config, quiet=True)
    assert torch.equal(torch.rand(3), drawn)
    trainer.train(2), named.train(2)
    assert equal(weights(trainer), weights(named))
    trainer.close(), named.close()


@pytest.mark.slow
def test_networks_of_the_user_are_not_trained_by_the_search(auto):
    net = Linear()
    before = [x.clone() for x in net.parameters()]
    cartpole = TrainConfig("WarpCartPole-v1", "auto", 240, auto_sizes=SMALL)
    found = find_sizes(cartpole, quiet=True, networks={"agent": net})
    assert any(row["steps_per_second"] > 0 for row in found.table["rows"])
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), before, strict=True))


def test_the_folder_keeps_the_table_and_a_resumed_run_the_sizes(auto, rates, tmp_path):
    rates[Sizes(4, 10, 2)] = 3e3
    rates[Sizes(6, 10, 2)] = 4e3
    auto = dataclasses.replace(auto, out=str(tmp_path), auto_sizes=dataclasses.replace(SMALL, num_envs=(4, 6)))
    trainer = Trainer(auto, quiet=True)
    trainer.train(2)
    trainer.close()
    table = json.loads((tmp_path / "auto_sizes.json").read_text())
    assert table == json.loads(json.dumps(trainer.found_sizes.table))
    assert table["chosen"] == trainer.found_sizes.sizes._asdict() == {"num_envs": 6, "num_steps": 10, "num_minibatches": 2}
    assert [row["sizes"] for row in table["rows"]][0] == table["chosen"]
    assert TrainConfig.of_run(tmp_path).num_envs == 6 and TrainConfig.of_run(tmp_path).auto_sizes is None
    resumed = Trainer.resume(tmp_path, quiet=True)
    assert resumed.config.num_envs == 6 and resumed.found_sizes is None and resumed.iteration == 2
    resumed.train()
    resumed.close()
    for changes in ({"num_envs": "auto"}, {"auto_sizes": SMALL}):
        with pytest.raises(ConfigError, match="num_envs"):
            Trainer.resume(tmp_path, quiet=True, **changes)


def test_a_folder_with_a_run_is_refused_before_the_search(auto, tmp_path, monkeypatch):
    (tmp_path / "metrics.jsonl").write_text("")
    monkeypatch.setattr(size_trials.Trials, "__call__", lambda self, sizes: pytest.fail("measured"))
    with pytest.raises(RunExistsError):
        Trainer(dataclasses.replace(auto, out=str(tmp_path)), quiet=True)


def test_the_table_names_each_trial(auto, rates, capsys):
    rates[Sizes(6, 10, 2)] = 12345.0
    find_sizes(auto)
    printed = capsys.readouterr().out.splitlines()
    (taken,) = [line.split() for line in printed if line.endswith("taken")]
    assert taken[:4] == ["6", "10", "2", "4"] and taken[-2:] == ["12,345", "taken"]
    taken = "took num_envs=6, num_steps=10, num_minibatches=2 in place of num_minibatches=3: "
    assert any(line.startswith(taken) for line in printed)
    assert sum(line.split()[:1] in (["6"], ["3"], ["2"]) for line in printed) >= 3


def test_a_short_run_is_that_of_the_preset_and_says_so(auto, rates, capsys):
    short = dataclasses.replace(auto, auto_sizes=None)
    search = find_sizes(short)
    printed = capsys.readouterr().out
    assert "1 size tried in" in printed
    assert "; the run is short: sizes of the preset, with 200 updates from 16,000 steps on" in printed
    assert [row["sizes"] for row in search.table["rows"]] == [search.table["chosen"]]
    assert resolve(search.config) == resolve(dataclasses.replace(short, num_envs=None))


def test_the_table_is_the_same_without_rich(auto, rates, capsys, monkeypatch):
    table = find_sizes(auto, quiet=True).table
    sizes_table.print_sizes(table)
    by_rich = capsys.readouterr().out
    monkeypatch.setattr(sizes_table.importlib.util, "find_spec", lambda name: None)
    sizes_table.print_sizes(table)
    plain = capsys.readouterr().out
    words = [[line.split() for line in text.splitlines() if "─" not in line] for text in (by_rich, plain)]
    assert words[0] == words[1]


def test_updates_and_bytes_of_the_table_are_those_of_the_run(auto, rates):
    found = find_sizes(auto, quiet=True)
    trainer = Trainer(found.config, quiet=True)
    (row,) = [row for row in found.table["rows"] if row["sizes"] == found.table["chosen"]]
    assert row["updates"] == trainer.num_iterations
    needs = auto_sizes.training_needs(trainer.config, trainer.env.layout, torch.device("cpu"))
    assert row["bytes"] == sum(needs.values())
    trainer.close()


@pytest.mark.parametrize("algorithm", ["ppo", "pqn"])
def test_sizes_of_pqn_are_found_too(algorithm, rates):
    sizes = AutoSizes(num_envs=(2, 4), num_steps=(4, 8), num_minibatches=(1, 2), min_updates=2)
    found = find_sizes(TrainConfig("WarpCartPole-v1", "auto", 1_000, algorithm=algorithm, auto_sizes=sizes), quiet=True)
    options = resolve(found.config).options_of("agent")
    assert isinstance(options, PPOConfig if algorithm == "ppo" else PQNConfig)
    assert (found.config.num_envs, options.num_steps, options.num_minibatches) == found.sizes


def test_a_trial_steps_as_a_run_does(auto, monkeypatch):
    """The seconds of an iteration are those of a clock that moves once an iteration."""
    resolved = resolve(dataclasses.replace(auto, num_envs=4, auto_sizes=None))
    time, launched = [0.0], []
    run = size_trials.Pipeline.launch

    def launch(self, number):
        run(self, number)
        time[0] += 2.0
        launched.append(number)

    monkeypatch.setattr(size_trials.Pipeline, "launch", launch)
    trials = size_trials.Trials(lambda sizes: resolved, {}, clock=lambda: time[0])
    assert trials(Sizes(4, 10, 3)) == 4 * 10 / 2.0
    assert launched == list(range(len(launched))) and len(launched) >= 2


def test_a_trial_that_runs_out_of_memory_frees_its_arrays(auto, monkeypatch):
    arrays = []

    def fail(*arguments):
        array = torch.zeros(3)
        arrays.append(weakref.ref(array))
        raise MemoryError("too much")

    monkeypatch.setattr(size_trials, "RunState", fail)
    trials = size_trials.Trials(lambda sizes: resolve(dataclasses.replace(auto, num_envs=4, auto_sizes=None)), {})
    with pytest.raises(OutOfMemoryError, match="too much") as caught:
        trials(Sizes(4, 10, 3))
    assert caught.value.__context__ is not None and [array() for array in arrays] == [None]


def test_memory_that_runs_share_limits_the_sizes(auto, rates, monkeypatch):
    wide = dataclasses.replace(auto, total_steps=10**9, auto_sizes=AutoSizes(num_steps=(10, 10), seconds=1e9))
    monkeypatch.setattr(auto_sizes.TorchMemory, "free_bytes", lambda self: 20_000_000)
    alone, shared = (find_sizes(wide, quiet=True, at_once=count).table for count in (1, 4))
    assert alone["room_bytes"] == 16_000_000 and shared["room_bytes"] == 4_000_000
    for table in (alone, shared):
        assert all(row["bytes"] <= table["room_bytes"] for row in table["rows"])


def test_policies_with_a_memory_keep_the_length_of_a_rollout(rates):
    long = AutoSizes(seconds=1e9)
    found = find_sizes(TrainConfig("WarpRecall-v0", "auto", auto_sizes=long), quiet=True)
    assert {row["sizes"]["num_steps"] for row in found.table["rows"]} == {65}
    cartpole = TrainConfig("WarpCartPole-v1", "auto", total_steps=2_000_000, auto_sizes=long, ppo={"num_steps": 64})
    feed_forward = find_sizes(cartpole, quiet=True)
    assert {row["sizes"]["num_steps"] for row in feed_forward.table["rows"]} == {64, 32}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"algorithm": "sac", "ppo": None, "env_id": "WarpPendulum-v1", "network": None}, "'sac', which does not learn"),
        ({"policies": {"tagger": PolicyConfig(ppo={"num_minibatches": 2})}}, r"\['tagger'\]: expected no num_minibatches"),
        ({"policies": {"tagger": PolicyConfig(algorithm="pqn")}}, "several algorithms, got 'auto' with 'ppo' and 'pqn'"),
        ({"total_steps": 3}, "at most 0 steps in a rollout"),
        ({"auto_sizes": dataclasses.replace(SMALL, num_envs=(50, 60))}, r"worlds \(50, 60\)"),
    ],
)
def test_runs_whose_sizes_cannot_be_found_are_refused(auto, changes, expected):
    with pytest.raises(ConfigError, match=expected):
        Trainer(dataclasses.replace(auto, **changes), quiet=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"num_envs": 4}, "auto_sizes: expected num_envs='auto' with it, got 4"),
        ({"num_envs": None}, "auto_sizes: expected num_envs='auto' with it, got None"),
        ({"num_envs": "most", "auto_sizes": None}, "num_envs: expected an integer from 1 to .*, 'auto' or None, got 'most'"),
        ({"num_envs": np.array([1, 2]), "auto_sizes": None}, "num_envs: expected"),
    ],
)
def test_wrong_options_are_refused(auto, changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(auto, **changes)


@pytest.mark.parametrize("value", [(0, 4), (4, 2), (1, 2, 3), (1.5, 2), 4, (True, 4)])
def test_wrong_bounds_are_refused(value):
    with pytest.raises(ConfigError, match=r"auto_sizes\.num_envs: expected two integers from 1 to"):
        AutoSizes(num_envs=value)


def test_bounds_survive_a_file(auto, tmp_path):
    auto.save(tmp_path)
    assert TrainConfig.from_yaml(tmp_path / "config.yaml") == auto


def test_options_with_auto_have_no_numbers_yet(auto):
    with pytest.raises(ConfigError, match="find_sizes"):
        resolve(auto)
    with pytest.raises(ConfigError, match="a: num_envs: expected a number in one of several runs"):
        train_many({"a": auto}, quiet=True)
    with pytest.raises(ConfigError, match="find_sizes: num_envs: expected 'auto', got 4"):
        find_sizes(dataclasses.replace(auto, num_envs=4, auto_sizes=None))


def test_a_process_of_several_needs_the_others(auto, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="processes: expected those of the run, of which there are 2, got None"):
        find_sizes(auto, quiet=True)


def test_processes_train_with_the_sizes_that_the_first_one_found(auto, rates, tmp_path):
    """Bounds of 3 to 12 worlds and 480 steps of two processes are 2 to 6 worlds and 240 steps of each."""
    rates |= {Sizes(worlds, steps, minibatches): 1e3 * worlds * minibatches / steps
              for worlds in (3, 6) for steps in (5, 10) for minibatches in (2, 4)}  # fmt: skip
    bounds = dataclasses.replace(SMALL, num_envs=(3, 12))
    config = dataclasses.replace(auto, total_steps=480, auto_sizes=bounds, device="cpu")

    def act(processes):
        with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
            trainer.train(1)
            sizes = trainer.found_sizes
            return trainer.config.num_envs, trainer.env.num_envs // 3, sizes.table, sizes.sizes, weights(trainer)

    results = in_processes(2, act, tmp_path)
    for total, local, table, sizes, _ in results:
        assert (total, local, tuple(sizes)) == (12, 6, (12, 5, 4)) and table["chosen"]["num_envs"] == 6
        text = "took num_envs=12, num_steps=5, num_minibatches=4 in place of num_steps=10 and num_minibatches=3, measured as 6"
        assert table["text"].startswith(text) and table["processes"] == 2
    assert equal(*(result[-1] for result in results))


def test_bounds_of_worlds_hold_a_multiple_of_the_processes(auto):
    config = dataclasses.replace(auto, auto_sizes=dataclasses.replace(SMALL, num_envs=(5, 5)))
    with pytest.raises(ConfigError, match=r"num_envs: expected a multiple of 2, the number of processes, in it, got \(5, 5\)"):
        auto_sizes.plan_search(config, count=2)


def test_a_checkpoint_with_auto_is_damaged(config, tmp_path):
    trainer = Trainer(config, quiet=True)
    state = trainer.state_dict()
    trainer.close()
    state["config"] = json.dumps(json.loads(state["config"]) | {"num_envs": "auto"})
    torch.save(state, tmp_path / "other.pt")
    from gpu_vecenv.train.run_folder.checkpoint import saved_config

    with pytest.raises(CheckpointError, match="num_envs auto"):
        saved_config(tmp_path / "other.pt", state)


@pytest.mark.gpu
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_the_search_leaves_no_memory_on_a_gpu_and_the_bits_of_named_sizes(kernels):
    bounds = AutoSizes(num_envs=(32, 512), num_steps=(16, 32), num_minibatches=(1, 4), min_updates=20, seconds=60)
    config = TrainConfig("WarpCartPole-v1", "auto", 1_000_000, device="cuda:0", kernels=kernels, auto_sizes=bounds)
    find_sizes(config, quiet=True)  # kernels and libraries keep memory from their first use on
    before = torch.cuda.memory_allocated()
    found = find_sizes(config, quiet=True)
    assert torch.cuda.memory_allocated() <= before + 2**26  # a workspace of cuBLAS for another stream
    assert all(row["steps_per_second"] > 0 for row in found.table["rows"])
    searched = Trainer(config, quiet=True)
    named = Trainer(searched.found_sizes.config, quiet=True)
    searched.train(5), named.train(5)
    assert equal(weights(searched), weights(named))
    searched.close(), named.close()
