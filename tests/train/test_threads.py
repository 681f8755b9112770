"""Number of torch's CPU threads: an option of a run, used wherever its policies act, and restored afterwards."""

import json

import pytest
import torch

from gpu_vecenv.cli.main import main
from gpu_vecenv.train import ConfigError, PPOConfig, TrainConfig, Trainer, evaluate, play
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.policies.actor_critic import ActorCritic


@pytest.fixture
def seen(monkeypatch):
    """Numbers of threads with which policies and learners computed."""
    counts = []

    def watch(original):
        def noted(self, *given):
            counts.append(torch.get_num_threads())
            return original(self, *given)

        return noted

    monkeypatch.setattr(ActorCritic, "act", watch(ActorCritic.act))
    monkeypatch.setattr(PPO, "update", watch(PPO.update))
    return counts


@pytest.fixture(autouse=True)
def five_threads(one_thread):
    """Give the process a number of threads that no test uses."""
    torch.set_num_threads(5)


def small(**options):
    short = {"ppo": PPOConfig(num_steps=32), "env_kwargs": {"max_episode_steps": 9}}
    return TrainConfig("WarpCartPole-v1", 2, 64, device="cpu", **short, **options)


@pytest.mark.parametrize("threads", [1, 3])
def test_training_and_evaluation_use_the_threads_of_the_run(threads, seen, tmp_path):
    trainer = Trainer(small(out=str(tmp_path / "run"), threads=threads), quiet=True)
    assert torch.get_num_threads() == 5
    trainer.train()
    trainer.close()
    assert set(seen) == {threads} and torch.get_num_threads() == 5
    for use in (lambda: evaluate(tmp_path / "run", 2), lambda: Trainer.resume(tmp_path / "run", True, total_steps=128).train()):
        seen.clear()
        use()
        assert set(seen) == {threads} and torch.get_num_threads() == 5
    seen.clear()
    evaluate(tmp_path / "run", 2, threads=2)
    assert set(seen) == {2}


def test_play_restores_the_threads_between_steps(seen):
    for _ in play(small(threads=2)):
        assert torch.get_num_threads() == 5
    assert set(seen) == {2}


def test_threads_are_restored_after_an_error(monkeypatch):
    def fail(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "launch", fail)
    with pytest.raises(KeyboardInterrupt):
        Trainer(small(threads=2), quiet=True).train()
    assert torch.get_num_threads() == 5


@pytest.mark.slow
def test_train_and_resume_use_the_threads_option(seen, tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.cli.train.plot", lambda *_: None)
    monkeypatch.setattr("gpu_vecenv.cli.watch.watch", lambda *_, **__: None)
    line = f"train WarpCartPole-v1 --device cpu --out {tmp_path}/run"
    new = f"{line} --num-envs 2 --env max_episode_steps=9 --total-steps 64 --ppo num_steps=32"
    for words, threads in ((f"{new} --threads 2", 2), (f"{line} --resume --total-steps 128", 2),
                           (f"{line} --resume --total-steps 192 --threads 4", 4)):  # fmt: skip
        seen.clear()
        assert main(words.split()) == 0
        assert set(seen) == {threads}


def test_eval_and_watch_use_the_threads_option(seen, tmp_path):
    Trainer(small(out=str(tmp_path / "run"), threads=3), quiet=True).train(iterations=0)
    for line in (f"eval {tmp_path}/run --episodes 2", f"watch {tmp_path}/run --max-frames 2 --out {tmp_path}/film.gif"):
        for option, threads in (("", 3), ("--threads 4", 4)):
            seen.clear()
            assert main([*line.split(), "--device", "cpu", *option.split()]) == 0
            assert set(seen) == {threads}


def test_runs_saved_without_the_option_have_one_thread():
    options = json.loads(small(threads=7).to_json())
    del options["threads"]
    assert TrainConfig.from_json(json.dumps(options)).threads == 1


@pytest.mark.parametrize("threads", [0, -1, True, 2.5, "two", 1025, 2**40])
def test_invalid_numbers_of_torch_threads_raise_an_error(threads):
    with pytest.raises(ConfigError, match="threads: expected an integer from 1 to 1024, got"):
        small(threads=threads)
