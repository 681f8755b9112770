"""The commands ``eval``, ``watch``, ``train --opponent`` and ``export`` with policies of several runs, as a user types them."""

import json

import pytest
import torch

from gpu_vecenv.cli.main import main
from gpu_vecenv.train import Run, TrainConfig, Trainer, evaluate, load_checkpoint

TRAIN = "--num-envs 4 --total-steps 64 --device cpu --ppo num_steps=8 --env num_taggers=2 num_runners=3 episode_length=8"


def command(line):
    assert main(line.split()) == 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("a", 0), ("b", 1)):
        game = {"num_taggers": 2, "num_runners": 3, "episode_length": 8}
        options = {"env_id": "WarpTag-v0", "num_envs": 4, "total_steps": 64, "device": "cpu", "ppo": {"num_steps": 8}}
        options |= {"seed": seed, "env_kwargs": game, "out": str(folder / name)}
        Trainer(TrainConfig.from_options(options), quiet=True).train()
    return folder


def test_results_of_a_match_are_printed_with_intervals_and_written_as_json(runs, tmp_path, capsys):
    a, b = runs / "a", runs / "b"
    line = f"eval --policy tagger={a} runner={b}:runner@newest --episodes 4 --seeds 2 --device cpu --env episode_length=6"
    command(f"{line} --json {tmp_path}/results.json")
    capsys.readouterr()
    command(line)
    text = capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text())
    who = {"tagger": str(a), "runner": str(b)}
    params = {**Run(a).config.env_kwargs, "episode_length": 6}
    expected = evaluate(None, 4, who, seeds=2, seed=1, device="cpu", env_kwargs=params)
    assert results["mean_return"] == expected.mean_return and results["episode_returns"] == expected.episode_returns
    assert results["return_interval"] == expected.return_interval and results["policies"]["runner"] == f"{b}:runner@newest"
    assert results["env_kwargs"]["episode_length"] == 6 and results["episodes"] == 8 and results["seeds"] == 2
    assert text.splitlines()[0] == "8 episodes of 6.0 steps"
    assert f"runner: return {expected.mean_return['runner']:.3f} +- {expected.return_interval['runner']:.3g}, alive" in text
    command(f"{line} --json")
    assert json.loads(capsys.readouterr().out)["mean_return"] == expected.mean_return


def test_an_env_alone_is_played_by_scripted_policies(capsys):
    command("eval WarpTag-v0 --policy tagger=chase runner=random --episodes 3 --device cpu --env num_runners=3 num_taggers=4")
    assert capsys.readouterr().out.startswith("3 episodes of ")
    assert main("eval --policy tagger=chase runner=flee".split()) == 2
    assert "expected a run, a TrainConfig, or policies of runs" in capsys.readouterr().err


def test_a_video_shows_policies_of_two_runs(runs, tmp_path, capsys):
    who = f"--policy tagger={runs / 'a'} runner={runs / 'b'}"
    command(f"watch {who} --max-frames 2 --device cpu --out {tmp_path}/film.gif")
    assert capsys.readouterr().out == f"video: {tmp_path}/film.gif\n"
    assert main(f"watch {who} --device cpu".split()) == 2
    assert "out: expected a video to write" in capsys.readouterr().err


def test_a_run_trains_against_an_opponent(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.cli.train.show_run", lambda *_: None)
    command(f"train WarpTag-v0 {TRAIN} --opponent runner={runs / 'b'} --out {tmp_path}/c")
    trained, opponent = (load_checkpoint(run)["policies"] for run in (tmp_path / "c", runs / "b"))
    assert all(torch.equal(x, opponent["runner"][name]) for name, x in trained["runner"].items())
    assert main(f"train WarpTag-v0 --resume --out {tmp_path}/c --opponent runner=flee".split()) == 2
    assert "--resume: expected no --opponent, because the run has its opponents" in capsys.readouterr().err


def test_an_export_says_what_it_takes(runs, tmp_path, capsys):
    command(f"export {runs / 'a'} {tmp_path}/runner.pt --policy runner")
    path, form = capsys.readouterr().out.splitlines()
    assert path == f"policy: {tmp_path}/runner.pt"
    assert form == "runner.pt takes obs (B, ...) and returns action, logits, for any number B of samples at a time"
    policy = Run(runs / "a").policy("runner", device="cpu")
    program = torch.jit.load(tmp_path / "runner.pt")
    for count in (1, 5):
        obs = torch.rand(count, *policy.observation_space.shape)
        assert torch.equal(program(obs)[0], policy.act(obs, deterministic=True)[0])
