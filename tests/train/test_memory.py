"""Memory of a training run: the estimate from its options, compared with tensors that are alive and with torch's profiler."""

import contextlib
import dataclasses
import gc
import warnings
from types import SimpleNamespace

import pytest
import role_envs  # noqa: F401  (registers Pairs-v0 and Masked-v0)
import torch
from torch.profiler import ProfilerActivity, profile
from ways import WAYS

from examples.evolution import Evolution, EvolutionConfig
from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.cli import memory as memory_command
from gpu_vecenv.cli.main import main
from gpu_vecenv.errors import OutOfMemoryError
from gpu_vecenv.train import NetworkConfig, PPOConfig, PQNConfig, TrainConfig, Trainer
from gpu_vecenv.train.config.algorithms import ALGORITHMS, Registered
from gpu_vecenv.train.runner import trainer as trainer_module
from gpu_vecenv.train.runner.memory import training_needs
from tests.marks import slow_but

TAG = {"num_taggers": 5, "num_runners": 20, "num_other_agents_observed": 5}
CARTPOLE = TrainConfig("WarpCartPole-v1", 512, device="cpu", ppo=PPOConfig(num_steps=8, num_minibatches=2))
RUNS = {
    "cartpole": CARTPOLE,
    "wide": dataclasses.replace(CARTPOLE, num_envs=64, network=NetworkConfig((256, 256), "relu", shared_trunk=True)),
    "box": TrainConfig("WarpPendulum-v1", 512, device="cpu", ppo=PPOConfig(num_steps=8)),
    "two policies": TrainConfig("WarpTag-v0", 64, device="cpu", env_kwargs=TAG, ppo=PPOConfig(num_steps=10)),
    "one policy": TrainConfig(
        "WarpTag-v0", 64, device="cpu", env_kwargs=TAG, ppo=PPOConfig(num_steps=10), policy_map={"tagger": "a", "runner": "a"}
    ),
    "ranges": TrainConfig(
        "Masked-v0", 256, device="cpu", ppo=PPOConfig(num_steps=8), policy_map={"left[0:1]": "a", "left[1:2]": "b", "right": "b"}
    ),
    "memory": dataclasses.replace(CARTPOLE, network=NetworkConfig((32,), memory="gru", memory_size=32)),
    "segments": TrainConfig(
        "WarpTag-v0", 64, device="cpu", env_kwargs=TAG, ppo=PPOConfig(num_steps=16, sequence_length=4),
        network=NetworkConfig((), memory="lstm"),
    ),
    "many steps": dataclasses.replace(
        CARTPOLE, num_envs=32, network=NetworkConfig((), memory="gru"), ppo=PPOConfig(num_steps=128, num_minibatches=4)
    ),
    "memory, shared part": TrainConfig(
        "Pairs-v0", 128, device="cpu", ppo=PPOConfig(num_steps=8), network=NetworkConfig((32,), memory="gru")
    ),
    "critic": TrainConfig(
        "WarpTag-v0", 64, device="cpu", env_kwargs=TAG, ppo=PPOConfig(num_steps=16, num_minibatches=2),
        network=NetworkConfig((32,), critic="observations"),
    ),
    "critic, memory": TrainConfig(
        "WarpTag-v0", 64, device="cpu", env_kwargs=TAG, ppo=PPOConfig(num_steps=16, sequence_length=4, num_minibatches=2),
        network=NetworkConfig((32,), critic="observations", memory="gru"),
    ),
    "critic of fields": TrainConfig(
        "WarpTag-v0", 64, device="cpu", env_kwargs=TAG, ppo=PPOConfig(num_steps=16, bootstrap_at_time_limit=False),
        network=NetworkConfig((32,), critic=("loc_x", "loc_y"), critic_value="team"),
    ),
    "pqn": TrainConfig(
        "WarpCartPole-v1", 512, device="cpu", algorithm="pqn", algorithms={"pqn": PQNConfig(num_steps=8, num_minibatches=2)}
    ),
    "pqn of a team": TrainConfig(
        "WarpTag-v0", 64, device="cpu", env_kwargs=TAG, algorithm="pqn", policy_map={"tagger": "a", "runner": "a"},
        algorithms={"pqn": PQNConfig(num_steps=10, num_minibatches=4, mixing="vdn")},
    ),
    "pqn with a shared part": TrainConfig(
        "Pairs-v0", 128, device="cpu", algorithm="pqn", algorithms={"pqn": PQNConfig(num_steps=8, num_minibatches=4)}
    ),
    "shared part": TrainConfig("Pairs-v0", 128, device="cpu", ppo=PPOConfig(num_steps=8), evaluation_interval=9),
}
QUICK = ("cartpole", "memory")


def alive():
    """Return the bytes of all tensors on the CPU."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = [x for x in gc.get_objects() if isinstance(x, torch.Tensor) and x.device.type == "cpu"]
    storages = {}
    for tensor in tensors:
        # Tensors of other tests may be sparse, or have lost their memory.
        with contextlib.suppress(RuntimeError, NotImplementedError):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def peak(function):
    """Return the most bytes that a function takes at a time beside what is alive before, by the profiler's allocations."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        function()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize("run", slow_but(QUICK, RUNS))
def test_the_estimate_is_what_a_run_takes(run):
    before = alive()
    with contextlib.closing(Trainer(RUNS[run], quiet=True)) as trainer:
        needs = training_needs(trainer.config, trainer.env.layout, torch.device("cpu"))
        trainer.launch(), trainer.finish()
        assert needs["rollout"] == sum(x.nbytes for x in tensors_of(trainer.parts.rollout))
        update = peak(lambda: (trainer.launch(), trainer.finish()))
        needs.pop("evaluation", None)
        assert sum(needs.values()) == pytest.approx(alive() - before + update, rel=0.15)


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    value = list(value.values()) if isinstance(value, dict) else value
    return [x for one in value for x in tensors_of(one)] if isinstance(value, list | tuple) else []


ON_A_GPU = {
    "cartpole": TrainConfig("WarpCartPole-v1", 65_536, ppo=PPOConfig(num_steps=32, num_minibatches=4)),
    "tag": TrainConfig("WarpTag-v0", 1_000, ppo=PPOConfig(num_steps=20, num_minibatches=4)),
    "wide": TrainConfig("WarpPendulum-v1", 65_536, ppo=PPOConfig(num_steps=32), network=NetworkConfig((256, 256))),
    "memory": TrainConfig("WarpCartPole-v1", 2_048, ppo=PPOConfig(num_steps=128), network=NetworkConfig((), memory="gru")),
}


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["eager", "graph", "fused"])
@pytest.mark.parametrize("run", ON_A_GPU)
def test_the_estimate_is_what_a_run_takes_on_a_gpu(run, way):
    config = ON_A_GPU[run]
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with contextlib.closing(Trainer(dataclasses.replace(config, **WAYS[way], device="cuda:0"), quiet=True)) as trainer:
        for _ in range(4):
            trainer.launch(), trainer.finish()
        needs = training_needs(trainer.config, trainer.env.layout, torch.device("cuda:0"))
    assert sum(needs.values()) == pytest.approx(torch.cuda.max_memory_allocated() - before, rel=0.2)


def test_a_rollout_that_does_not_fit_is_refused_before_it_is_made(monkeypatch, tmp_path):
    monkeypatch.setattr(TorchMemory, "free_bytes", lambda memory: 80_000)
    monkeypatch.setattr(trainer_module, "RunState", lambda *arguments: 1 / 0)
    text = (
        r"WarpCartPole-v1: training with 512 worlds and 8 steps in a rollout needs about .* MB on cpu \(env 0.0, rollout 0.2, "
        r"networks, .*, samples and update, at most .*\), and 0.1 MB were free; take fewer num_envs, .* --train prints this"
    )
    with pytest.raises(OutOfMemoryError, match=text):
        Trainer(dataclasses.replace(CARTPOLE, out=str(tmp_path / "run")), quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory"), MemoryError()],
)
@pytest.mark.parametrize("when", ["made", "trained"])
def test_an_allocation_that_fails_names_what_training_needs(monkeypatch, error, when):
    def fail(*arguments):
        raise error

    if when == "made":
        monkeypatch.setattr(trainer_module, "RunState", fail)
    else:
        monkeypatch.setattr(Trainer, "finish", fail)
    with pytest.raises(OutOfMemoryError, match="needs about .* MB on cpu .*; take fewer num_envs") as raised:
        Trainer(CARTPOLE, quiet=True).train()
    assert raised.value.__cause__ is error


def test_other_errors_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr(Trainer, "finish", lambda trainer: [][0])
    with pytest.raises(IndexError):
        Trainer(CARTPOLE, quiet=True).train()


def test_the_command_prints_what_a_run_with_its_options_needs(capsys):
    words = "--train --num-envs 512 --device cpu --ppo num_steps=8 num_minibatches=2"
    assert main(["memory", "WarpCartPole-v1", *words.split()]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    with contextlib.closing(Trainer(CARTPOLE, quiet=True)) as trainer:
        needs = training_needs(trainer.config, trainer.env.layout, torch.device("cpu"))
    assert lines[-1][:4] == ["in", "all", f"{sum(needs.values()) / 1e6:,.3f}", "MB"]
    assert next(line for line in lines if line[0] == "rollout")[1] == f"{needs['rollout'] / 1e6:,.3f}"


def test_a_replay_buffer_has_a_line_and_does_not_grow_with_the_worlds(capsys, monkeypatch):
    """The worlds that fit are those beside it; the command asks a device for what is free."""
    monkeypatch.setattr(memory_command, "choose_device", lambda device: "cuda:0")
    monkeypatch.setattr(memory_command, "TorchMemory", lambda device: SimpleNamespace(free_bytes=lambda: 2 * 10**9))
    line = "memory WarpPendulum-v1 --train --num-envs 100 --kernels torch --algorithm sac --sac replay_size=20000000"
    assert main(line.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    split = [line.split(" MB")[0].rpartition(" ") for line in lines[1:-1]]
    needs = {use.strip(): float(size.replace(",", "")) for use, _, size in split}
    assert needs["replay buffers"] == pytest.approx(20 * (3 + 3 + 1 + 1 + 1 / 4) * 4, rel=1e-3)
    room = float(lines[-1].split()[-2].replace(",", ""))
    rest = sum(size for use, size in needs.items() if use not in ("replay buffers", "in all"))
    assert room == pytest.approx((2000 - needs["replay buffers"]) * 100 / rest, rel=0.02)


def test_the_command_knows_algorithms_and_policies_as_train_does(capsys, monkeypatch):
    """The replay buffer of an algorithm is counted with its options, which the words of a policy change."""
    counted = []

    def memory(policy, options, setup):
        counted.append((options.num_steps, options.sigma))
        return 10**9, 0

    monkeypatch.setitem(ALGORITHMS, "evolution", Registered(EvolutionConfig, Evolution, memory))
    line = "WarpCartPole-v1 --train --num-envs 4 --device cpu --algorithm evolution --modules examples.evolution"
    line += " --evolution num_steps=8 sigma=0.5 --policies agent.evolution.sigma=0.25 --network hidden_sizes=[4]"
    assert main(["memory", *line.split()]) == 0
    assert counted == [(8, 0.25)] and "1,000.0" in capsys.readouterr().out
    assert main("memory WarpCartPole-v1 --device cpu --algorithm evolution --evolution sigma=0.5".split()) == 2
    assert "--algorithm: expected it with --train only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--ppo num_steps=4", "--ppo: expected it with --train only"),
        ("--kernels torch", "--kernels: expected it with --train only"),
        ("--train --view agents", "--view: expected it without --train only"),
        ("--train --no-copy", "--no-copy: expected it without --train only"),
        ("--train --num-envs 0", "num_envs: expected an integer from 1"),
        ("--train --executor fused", "--executor: expected --kernels and --graph in its place"),
        ("--train --policy agent=random", "expected at least one policy to train"),
        ("--train --algorithm pqn --sac batch_size=8", "sac: expected algorithms of the policies, pqn"),
    ],
)
def test_options_without_an_effect_are_refused(capsys, words, text):
    assert main(["memory", "WarpCartPole-v1", "--device", "cpu", *words.split()]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.gpu
def test_a_run_beyond_the_memory_of_a_gpu_names_what_it_needs():
    config = TrainConfig("WarpCartPole-v1", 65_536, device="cuda:0", ppo=PPOConfig(num_steps=32), kernels="torch", graph=False)
    gc.collect()
    torch.cuda.empty_cache()
    limit = torch.cuda.memory_reserved() + 120_000_000  # the rollout takes 62 MB, an update 500 MB
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    try:
        with contextlib.closing(Trainer(config, quiet=True)) as trainer, pytest.raises(OutOfMemoryError) as raised:
            trainer.train()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert isinstance(raised.value.__cause__, torch.OutOfMemoryError)
    assert "WarpCartPole-v1: training with 65,536 worlds and 32 steps" in str(raised.value)
