"""Words that users type by habit: 1e5, options of other libraries and in other places, and runs that do not exist."""

import shutil
import subprocess

import pytest

from gpu_vecenv.cli.main import COMMANDS, main
from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    MetricsError,
    NetworkConfig,
    PPOConfig,
    Run,
    TrainConfig,
    evaluate,
    load_checkpoint,
    play,
    watch,
)
from gpu_vecenv.train.config.presets import preset_of


@pytest.mark.parametrize(("words", "error"), [
    ("train WarpTag-v0 --num-runners 20", "--num-runners: expected --env num_runners=20 in its place."),
    ("train WarpTag-v0 --num-runners=20", "--num-runners: expected --env num_runners=20 in its place."),
    ("train WarpTag-v0 --lr 1e-3 --seed 1", "--lr: expected --ppo learning_rate=1e-3 in its place."),
    ("train WarpTag-v0 --lr --seed 1", "--lr: expected --ppo learning_rate=VALUE in its place."),
    ("train WarpTag-v0 --learning-rate=1e-3", "--learning-rate: expected --ppo learning_rate=1e-3 in its place."),
    ("train WarpTag-v0 --hidden-sizes 64 64", "--hidden-sizes: expected --network hidden_sizes=VALUE in its place."),
    ("train WarpTag-v0 --total-timesteps 100", "--total-timesteps: expected --total-steps 100 in its place."),
    ("memory WarpCartPole-v1 --gravity 3", "--gravity: expected --env gravity=3 in its place."),
    ("eval runs/a --num-runners 3", "--num-runners: expected --env num_runners=3 in its place."),
])  # fmt: skip
def test_options_in_other_places_name_theirs(words, error, capsys):
    assert main(words.split()) == 2
    assert error in capsys.readouterr().err


def test_a_run_has_as_many_steps_as_1e2_says(tmp_path, monkeypatch, capsys):
    said = "gpu_vecenv.cli.train.show_run"
    monkeypatch.setattr(said, lambda trainer, left_out, *_: print(trainer.config.total_steps, left_out))
    line = f"train WarpCartPole-v1 --total-steps 1e2 --num-envs 4 --ppo num_steps=8 --device cpu --out {tmp_path}/a"
    assert main([*line.split(), "--no-video", "--no-matches"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] in ("100 {'video', 'matches'}", "100 {'matches', 'video'}")


def test_a_run_without_matches_and_video_ends_with_curves_alone(tmp_path, capsys):
    line = f"train WarpCartPole-v1 --total-steps 64 --num-envs 4 --ppo num_steps=8 --device cpu --out {tmp_path}/a"
    assert main([*line.split(), "--no-video", "--no-matches"]) == 0
    files = {path.name for path in (tmp_path / "a").iterdir()}
    assert "curves.png" in files and not {"video.mp4", "against_random.json"} & files
    assert "(means over" not in capsys.readouterr().out


def test_a_missing_run_names_runs_nearby(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("tag", "cartpole"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        TrainConfig("WarpTag-v0").save(tmp_path / "runs" / name)
    with pytest.raises(CheckpointError, match="runs/tga: expected a checkpoint file, got none; runs nearby: runs/tag, runs/c"):
        load_checkpoint("runs/tga")
    assert main(["eval", "tag"]) == 2
    assert "tag: expected a checkpoint file, got none; runs nearby: " in capsys.readouterr().err
    assert main(["plot", "tag"]) == 2
    assert "tag: expected the folder of a run, got none; runs nearby: " in capsys.readouterr().err
    with pytest.raises(MetricsError, match="runs/tga: expected the folder of a run, got none; runs nearby: runs/tag, runs/c"):
        Run("runs/tga")


def test_an_id_in_place_of_a_run_is_answered_with_what_takes_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "tag").mkdir(parents=True)
    TrainConfig("WarpTag-v0").save("runs/tag")
    for of_run in (evaluate, watch, lambda target: next(play(target))):
        with pytest.raises(ConfigError, match=r"got the id of an env: TrainConfig\('WarpTag-v0'\) .*; runs nearby: runs/tag$"):
            of_run("WarpTag-v0")
    with pytest.raises(MetricsError, match=r"id of an env: gpu_vecenv.make_vec\('WarpTag-v0'\) .*; runs nearby: runs/tag$"):
        Run("WarpTag-v0")
    (tmp_path / "WarpTag-v0").mkdir()  # a folder of that name may be a run
    with pytest.raises(CheckpointError, match="expected a checkpoint file"):
        evaluate("WarpTag-v0")


@pytest.mark.parametrize(("command", "words"), [
    ("train", "[ENV_ID]"), ("sweep", "[ENV_ID]"), ("eval", "[RUN]"), ("watch", "[RUN]"), ("reproduce", "[ID]"), ("new", "NAME"),
    ("check", "ENV_ID"), ("memory", "ENV_ID"), ("debug", "ENV_ID [SCRIPT ...]"), ("lint", "TARGET ..."),
])  # fmt: skip
def test_usage_names_words_and_puts_those_that_may_be_left_out_in_brackets(command, words, capsys):
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split("] ", 1)[1].removeprefix("[OPTIONS] ") == words


def test_fields_may_be_given_as_dicts():
    preset = preset_of("WarpTag-v0").on("auto")
    config = TrainConfig("WarpTag-v0", ppo={"gamma": 0.5}, network={"hidden_sizes": [8]})
    assert config.ppo == PPOConfig(**{**vars(preset.ppo), "gamma": 0.5}) != PPOConfig(gamma=0.5)
    assert config.network == NetworkConfig(**{**vars(preset.of("ppo").network), "hidden_sizes": (8,)})
    assert config == TrainConfig.from_options({"env_id": "WarpTag-v0", "ppo": {"gamma": 0.5}, "network": {"hidden_sizes": [8]}})
    with pytest.raises(ConfigError, match="got 'lr'. Did you mean 'learning_rate'"):
        TrainConfig("WarpTag-v0", ppo={"lr": 0.1})
    with pytest.raises(ConfigError, match="Did you mean 'num_epochs'"):
        TrainConfig("WarpTag-v0", ppo={"n_epochs": 3})


def completed(script, *words):
    """Return the completions that bash has for the last of some words."""
    line = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _gpu_vecenv; echo ${{COMPREPLY[@]}}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_options_and_ids(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert completed(script, "gpu-vecenv", "tr") == ["train"]
    assert completed(script, "gpu-vecenv", "train", "--total") == ["--total-steps"]
    assert completed(script, "gpu-vecenv", "train", "--no-v") == ["--no-video"]
    assert completed(script, "gpu-vecenv", "train", "WarpT") == ["WarpTag-v0"]
    assert completed(script, "gpu-vecenv", "watch", "--beside") == ["--beside-random"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_of_other_shells_name_each_command(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS) and "total-steps" in script and "no-matches" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n", "/dev/stdin"], input=script, text=True, check=True)
