"""Runs that are spread over devices: which run is on which, how many at a time, and the bits of each."""

import dataclasses
import itertools

import pytest
import torch

from gpu_vecenv.cli.main import main
from gpu_vecenv.cli.many import train_seeds
from gpu_vecenv.errors import DeviceError
from gpu_vecenv.train import AutoSizes, ConfigError, TrainConfig, Trainer, load_checkpoint, resume_many, train_many
from gpu_vecenv.train.run_folder.runs import run_folders
from gpu_vecenv.train.runner import many, size_trials, streams, waiting
from gpu_vecenv.train.runner.waiting import Waiting, spread

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.fixture
def configs(config):
    return {f"seed-{seed}": dataclasses.replace(config, seed=seed) for seed in range(5)}


@pytest.fixture
def named_devices(monkeypatch):
    """Let ``cpu``, ``cpu:0`` and ``cpu:1`` stand for devices of their own that compute on the CPU."""
    trained = {}

    class OnCpu(Trainer):
        def __init__(self, config, *arguments, **options):
            trained[config.seed] = config.device
            super().__init__(dataclasses.replace(config, device="cpu"), *arguments, **options)

    monkeypatch.setattr(many, "Trainer", OnCpu)
    monkeypatch.setattr(waiting, "choose_device", str)
    monkeypatch.setattr(streams, "choose_device", lambda device: "cpu")
    return trained


def weights(folder):
    policies = load_checkpoint(folder)["policies"]
    return [x for policy in policies.values() for x in policy.values()]


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


@pytest.mark.slow
def test_runs_take_the_devices_in_turn(configs, named_devices):
    train_many(configs, quiet=True, devices=["cpu:0", "cpu:1"])
    assert named_devices == {0: "cpu:0", 1: "cpu:1", 2: "cpu:0", 3: "cpu:1", 4: "cpu:0"}


@pytest.mark.slow
def test_a_run_has_the_bits_that_it_has_without_devices(configs, tmp_path):
    train_many(configs, tmp_path / "one", quiet=True)
    results = train_many(configs, tmp_path / "two", quiet=True, devices=["cpu", "cpu"], at_once=1)
    assert all(result.finished == "done" for result in results.values())
    for name in configs:
        assert equal(tmp_path / "one" / name, tmp_path / "two" / name), name


@pytest.mark.slow
def test_each_device_has_its_own_number_of_runs_at_a_time(configs, monkeypatch):
    most, active = {}, []
    take = Waiting.take

    def watch(self, runs):
        devices = [run.result.config.seed % 2 for run in runs]
        active.append(sorted(devices))
        for device in (0, 1):
            most[device] = max(most.get(device, 0), devices.count(device))
        return take(self, runs)

    monkeypatch.setattr(Waiting, "take", watch)
    train_many(configs, quiet=True, devices=["cpu", "cpu"], at_once=1)
    assert most == {0: 1, 1: 1} and [0, 1] in active


@pytest.mark.parametrize(("runs", "queues", "at_once"), list(itertools.product([1, 2, 7], [1, 2, 3], [1, 2])))
def test_queues_beside_a_simulation(runs, queues, at_once):
    """Runs end in the order in which they began; each begins as soon as its device has room, in the order of its device."""
    left, active, begun = Waiting(range(100, 100 + runs), queues, at_once), [], []
    places = {run: (run - 100) % queues for run in range(100, 100 + runs)}
    while left or active:
        while (run := left.take(active)) is not None:
            begun.append(run)
            active.append(run)
            assert run not in left
        for place in range(queues):
            here = [run for run in active if places[run] == place]
            rest = [run for run in left if places[run] == place]
            assert len(here) == at_once or not rest
            assert rest == sorted(rest) and all(run < other for run in here for other in rest)
        assert len(left) + len(begun) == runs
        active.pop(0)
    assert sorted(begun) == list(range(100, 100 + runs))


def test_the_device_with_the_fewest_runs_is_next():
    left = Waiting(list("abcdef"), 2, 3)
    active = []
    for _ in range(4):
        active.append(left.take(active))
    assert active == ["a", "b", "c", "d"]
    assert left.take(["a", "c"]) == "f"
    assert [spread(number, ["x", "y", "z"]) for number in range(4)] == ["x", "y", "z", "x"]


@pytest.mark.slow
def test_resumed_runs_may_take_other_devices(configs, tmp_path, named_devices):
    train_many(configs, tmp_path, quiet=True)
    moved = resume_many(tmp_path, quiet=True, devices=["cpu", "cpu"], total_steps=4 * 10 * 7)
    assert [result.finished for result in moved.values()] == ["done"] * 5
    assert [load_checkpoint(path)["iteration"] for path in run_folders(tmp_path)] == [7] * 5


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"devices": []}, r"devices: expected a list of devices, such as \['cuda:0', 'cuda:1'\], got \[\]"),
        ({"devices": "cpu"}, "devices: expected a list of devices"),
        ({"devices": ["cpu", 3]}, "devices: expected a list of devices"),
        ({"devices": ["cpu", "cpu"], "at_once": 17}, "at most 32 runs at a time on a device, got 17 for each of"),
    ],
)
def test_wrong_devices_are_refused(configs, options, expected):
    with pytest.raises(ConfigError, match=expected):
        train_many(configs, quiet=True, **options)


def test_a_device_that_is_missing_is_an_error_before_any_run(configs, tmp_path):
    with pytest.raises(DeviceError):
        train_many(configs, tmp_path / "runs", quiet=True, devices=["cpu", "cuda:63"])
    assert not (tmp_path / "runs").exists()


def test_options_with_a_device_beside_devices_are_refused(configs, tmp_path):
    configs["seed-3"] = dataclasses.replace(configs["seed-3"], device="cpu")
    with pytest.raises(ConfigError, match="seed-3: device: expected 'auto' with devices, got 'cpu'"):
        train_many(configs, quiet=True, devices=["cpu"])
    with pytest.raises(ConfigError, match="resume_many: device: expected none with devices, got 'cpu'"):
        resume_many(tmp_path, quiet=True, devices=["cpu"], device="cpu")


CARTPOLE = ["WarpCartPole-v1", "--num-envs", "4", "--total-steps", "256", "--ppo", "num_steps=16", "num_minibatches=2"]


@pytest.mark.slow
def test_seeds_of_a_command_are_spread(tmp_path, capsys):
    out = str(tmp_path / "runs")
    assert main(["train", *CARTPOLE, "--seeds", "3", "--devices", "cpu", "cpu", "--at-once", "1", "--out", out]) == 0
    assert "3 runs of WarpCartPole-v1, at most 1 at a time on each of 2 devices" in capsys.readouterr().out
    assert {TrainConfig.of_run(path).device for path in run_folders(out)} == {"cpu"}
    again = ["train", "--resume", "--out", out, "--devices", "cpu", "cpu", "--total-steps", "320"]
    assert main(again) == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--devices", "cpu"], "--devices: expected it with several runs, as by --seeds, got one run and cpu"),
        (["--devices", "cpu", "--seeds", "2", "--device", "cpu"], "--devices: expected no --device with it, got cpu"),
    ],
)
def test_devices_without_effect_are_refused(tmp_path, capsys, words, expected):
    assert main(["train", *CARTPOLE, *words, "--out", str(tmp_path / "runs")]) != 0
    assert expected in capsys.readouterr().err


def test_seeds_with_auto_have_the_same_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(size_trials.Trials, "__call__", lambda self, sizes: 1e4 * sizes.num_envs)
    bounds = AutoSizes(num_envs=(2, 6), num_steps=(16, 16), num_minibatches=(2, 2), min_updates=2)
    config = TrainConfig("WarpCartPole-v1", "auto", 256, auto_sizes=bounds, out=str(tmp_path))
    results = train_seeds(config, 2, None, ("cpu", "cpu"))
    runs = [result.config for result in results.values()]
    assert [(run.num_envs, run.ppo.num_steps, run.seed) for run in runs] == [(6, 16, 0), (6, 16, 1)]


@pytest.mark.gpu
@two_gpus
def test_runs_on_two_gpus_have_the_bits_of_one(tmp_path):
    config = TrainConfig("WarpCartPole-v1", num_envs=128, total_steps=128 * 64 * 12)
    configs = {f"seed-{seed}": dataclasses.replace(config, seed=seed) for seed in range(4)}
    train_many(configs, tmp_path / "one", quiet=True, devices=["cuda:0"])
    train_many(configs, tmp_path / "two", quiet=True, devices=["cuda:0", "cuda:1"])
    assert [TrainConfig.of_run(path).device for path in run_folders(tmp_path / "two")] == ["cuda:0", "cuda:1"] * 2
    for name in configs:
        assert equal(tmp_path / "one" / name, tmp_path / "two" / name), name
