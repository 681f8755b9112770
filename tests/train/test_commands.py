"""The commands, as a user types them."""

import dataclasses
import re
import sys

import ghosts  # noqa: F401  (registers Ghost-v0)
import gymnasium
import pytest
import tyro

from gpu_vecenv.cli import train as commands
from gpu_vecenv.cli.evaluation import eval_run
from gpu_vecenv.cli.main import main
from gpu_vecenv.cli.watch import watch
from gpu_vecenv.errors import DeviceError
from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    RunsError,
    TrainConfig,
    Trainer,
    load_checkpoint,
)
from gpu_vecenv.train.config import PRESETS
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_path
from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics


def run(command, line):
    return tyro.cli(command, args=line.split())


@pytest.mark.in_ci
def test_a_run_can_be_resumed_evaluated_and_plotted(tmp_path, capsys):
    out = tmp_path / "run"
    train = f"WarpCartPole-v1 --out {out}"
    run(
        commands.train,
        f"{train} --num-envs 4 --device cpu --total-steps 64 --env max_episode_steps=20 "
        "--ppo num_steps=8 --network hidden_sizes=(4,)",
    )
    assert {"checkpoint", "metrics.jsonl", "curves.png", "tensorboard"} <= {
        path.name for path in out.iterdir()
    }
    run(commands.train, f"{train} --total-steps 128 --resume")
    assert [line["steps"] for line in read_metrics(out)] == [32, 64, 96, 128]
    config = Trainer.resume(out, quiet=True).config
    assert (config.ppo.num_steps, config.network.hidden_sizes) == (8, (4,))
    assert config.env_kwargs == {"max_episode_steps": 20}
    # Options that the line does not name keep the preset's values.
    assert config.ppo.entropy_coef == 0.0

    capsys.readouterr()
    run(eval_run, f"{out} --episodes 3 --device cpu --policy agent=random")
    assert "3 episodes of" in capsys.readouterr().out
    run(commands.plot, f"{out} --out {tmp_path}/other.png")
    assert (tmp_path / "other.png").exists()


@pytest.mark.slow
def test_policies_can_be_shared_frozen_and_loaded(tmp_path):
    game = "num_taggers=1 num_runners=2 num_other_agents_observed=2 episode_length=5"
    line = f"WarpTag-v0 --num-envs 2 --total-steps 20 --device cpu --ppo num_steps=10 --env {game}"
    run(commands.train, f"{line} --out {tmp_path}/a --policy tagger=hunter runner=random")
    checkpoint = tmp_path / "a" / "checkpoint" / "iteration-00000001.pt"
    roles = "--policy tagger=hunter runner=prey"
    run(commands.train, f"{line} --out {tmp_path}/b {roles} --frozen hunter --load hunter={checkpoint}")
    trainer = Trainer.resume(tmp_path / "b", quiet=True)
    assert list(trainer.parts.algorithms) == ["prey"]


@pytest.mark.slow
def test_an_env_by_role_is_trained_and_evaluated(tmp_path, capsys):
    line = "role_envs:Town-v0 --num-envs 2 --total-steps 40 --device cpu --ppo num_steps=10"
    run(commands.train, f"{line} --out {tmp_path}/run --env max_episode_steps=8 --policy citizen=workers mayor=random")
    assert "return/workers" in read_metrics(tmp_path / "run")[-1]
    run(commands.train, f"role_envs:Town-v0 --out {tmp_path}/run --resume --total-steps 60")
    capsys.readouterr()
    run(eval_run, f"{tmp_path}/run --episodes 3 --device cpu --modules role_envs --policy citizen=random")
    assert re.match(r"3 episodes of 8\.0 steps\ncitizen: return .*\nmayor: return ", capsys.readouterr().out)


@pytest.mark.slow
def test_runs_of_several_seeds_are_trained_drawn_and_resumed(tmp_path, capsys):
    out = tmp_path / "runs"
    line = f"WarpCartPole-v1 --out {out}"
    run(commands.train, f"{line} --seeds 3 --seed 5 --at-once 2 --num-envs 4 --device cpu --total-steps 256 --ppo num_steps=16")
    assert sorted(path.name for path in out.iterdir()) == [".lock", "curves.png", "seed-5", "seed-6", "seed-7"]
    lines = [read_metrics(out / f"seed-{seed}") for seed in (5, 6, 7)]
    alone = TrainConfig.from_yaml(out / "seed-6" / "config.yaml")
    metrics = Trainer(dataclasses.replace(alone, out=None), quiet=True).train()
    assert alone.seed == 6 and lines[1][-1]["entropy/agent"] == metrics["entropy/agent"] != lines[0][-1]["entropy/agent"]
    printed = capsys.readouterr().out
    mean = sum(line[-1]["recent_return/agent"] for line in lines) / 3
    assert f"agent: mean return {mean:.2f} over 3 runs, 95 % interval " in printed
    assert "3 of 3 runs over" in printed and f"curves: {out}/curves.png" in printed

    run(commands.train, f"{line} --resume --total-steps 320")
    assert [read_metrics(out / f"seed-{seed}")[-1]["steps"] for seed in (5, 6, 7)] == [320] * 3
    assert read_metrics(out / "seed-5")[:4] == lines[0]
    (out / "curves.png").unlink()
    run(commands.plot, str(out))
    assert (out / "curves.png").exists()


def test_a_run_of_several_that_fails_is_the_commands_error(tmp_path, monkeypatch):
    save, line = Trainer.save, f"WarpCartPole-v1 --num-envs 4 --device cpu --total-steps 64 --ppo num_steps=16 --out {tmp_path}"

    def fail(self, path=None):
        if self.config.seed == 1:
            raise OSError("no space")
        return save(self, path)

    monkeypatch.setattr(Trainer, "save", fail)
    with pytest.raises(RunsError, match="1 of 3 runs ended with an error, the first of them seed-1: no space"):
        run(commands.train, f"{line} --seeds 3")
    assert (tmp_path / "curves.png").exists()
    assert [len(read_metrics(tmp_path / f"seed-{seed}")) for seed in (0, 2)] == [1, 1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("WarpCartPole-v1 --seeds 0", "--seeds: expected an integer from 1 to 10000, got 0"),
        ("WarpCartPole-v1 --seeds 2 --at-once 33", "--at-once: expected an integer from 1 to 32, got 33"),
        ("WarpCartPole-v1 --at-once 2", "--at-once: expected it with several runs, as by --seeds, got one run and 2"),
        ("WarpCartPole-v1 --seeds 2 --wandb project", "seed-0: wandb: expected None with several runs"),
        (f"WarpCartPole-v1 --seeds 2 --seed {2**64 - 1}", "seed: expected an integer from 0 to 2"),
        ("WarpCartPole-v1 --seeds 2 --resume", "--resume: expected no other options than .* got --seeds"),
    ],
)
def test_wrong_options_of_several_runs_are_named(options, text, tmp_path):
    with pytest.raises(ConfigError, match=text):
        run(commands.train, f"{options} --out {tmp_path}/runs")


def test_runs_of_another_env_are_not_resumed(tmp_path):
    run(commands.train, f"WarpCartPole-v1 --seeds 1 --num-envs 4 --device cpu --total-steps 64 --out {tmp_path}/runs")
    with pytest.raises(ConfigError, match="--resume: expected WarpCartPole-v1, .* got WarpTag-v0"):
        run(commands.train, f"WarpTag-v0 --resume --out {tmp_path}/runs")


@pytest.mark.parametrize("words", ["--executor eager", "--executor=eager"])
def test_the_former_executor_is_refused_by_name(words, capsys):
    assert main(["train", "WarpTag-v0", *words.split()]) == 2
    assert "--executor: expected --kernels and --graph in its place" in capsys.readouterr().err


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(ValueError, match="PPOConfig option: expected one of num_steps, .* got 'gama'"):
        run(commands.train, "WarpTag-v0 --ppo gama=1")


def started(monkeypatch, line):
    """Return the config with which a command line starts a run."""
    configs = []

    class Started(Exception):
        """Ends the command."""

    def start(config, processes=None):
        configs.append(config)
        raise Started

    monkeypatch.setattr("gpu_vecenv.train.runner.trainer.Trainer", start)
    with pytest.raises(Started):
        run(commands.train, line)
    return configs[0]


RUN_YAML = """
env_id: WarpTag-v0
out: runs/from_file
seed: 5
stop_at: 1e2
evaluation_interval: 7
env_kwargs: {num_taggers: 2, num_runners: 3}
ppo: {learning_rate: 1e-3, gamma: 0.5}
network: {hidden_sizes: [8, 8]}
policies:
  runner: {module: cnn, ppo: {gamma: 0.75, num_epochs: 9}}
"""


def test_the_command_line_replaces_options_of_a_file(tmp_path, monkeypatch):
    file = tmp_path / "run.yaml"
    file.write_text(RUN_YAML)
    config = started(monkeypatch, f"--config {file}")
    preset = PRESETS["WarpTag-v0"].on("auto").ppo
    assert (config.env_id, config.out, config.seed, config.stop_at) == ("WarpTag-v0", "runs/from_file", 5, 100.0)
    assert config.ppo == dataclasses.replace(preset, learning_rate=1e-3, gamma=0.5)
    assert config.network == NetworkConfig((8, 8))
    assert config.policies == {"runner": PolicyConfig(module="cnn", ppo={"gamma": 0.75, "num_epochs": 9})}

    words = "--seed 0 --out there --ppo gamma=0.25 --env num_runners=4 --stagger-starts True --network activation=relu"
    policies = "--policies runner.ppo.gamma=0.875 runner.algorithm=mine a.b.network.hidden_sizes=(4,) --frozen a.b"
    config = started(monkeypatch, f"WarpTag-v0 --config {file} {words} {policies}")
    assert (config.seed, config.out, config.stagger_starts, config.frozen) == (0, "there", True, ("a.b",))
    assert config.ppo == dataclasses.replace(preset, learning_rate=1e-3, gamma=0.25)
    assert config.network == NetworkConfig((8, 8), "relu")
    assert config.env_kwargs == {"num_taggers": 2, "num_runners": 4}
    assert config.policies == {
        "runner": PolicyConfig("mine", {"gamma": 0.875, "num_epochs": 9}, module="cnn"),
        "a.b": PolicyConfig(network={"hidden_sizes": [4]}),
    }


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--seed 5", "expected an env id, such as WarpTag-v0, or a --config with one, got None"),
        ("--resume", "--resume: expected the run's env id or --out, got none"),
        ("WarpTag-v0 --policies runner=5", "--policies: expected NAME.FIELD=VALUE, such as .*, got 'runner'"),
        ("WarpTag-v0 --policies runner.ppo.gama=5", r"policies\['runner'\]: ppo option: expected .* Did you mean 'gamma'\?"),
        ("WarpTag-v0 --ppo normalize_advantages=True", "expected 'rollout', 'minibatch' or 'none' .* got True"),
    ],
)
def test_wrong_options_of_a_run_are_named(line, text):
    with pytest.raises(ConfigError, match=text):
        run(commands.train, line)


@pytest.fixture
def cartpole(tmp_path):
    """Folder of a run of WarpCartPole-v1 that has completed no iteration."""
    config = TrainConfig("WarpCartPole-v1", 4, 128, device="cpu", out=str(tmp_path / "run"))
    Trainer(config, quiet=True).train(iterations=0)
    return tmp_path / "run"


@pytest.mark.parametrize(
    "given",
    [
        "--num-envs 4", "--seed 0", "--checkpoint-interval 9", "--env max_episode_steps=9", "--policy agent=a",
        "--frozen a", "--load a=b", "--ppo gamma=0.5", "--network activation=relu", "--policies agent.module=x",
        "--config x.yaml", "--stagger-starts False", "--stop-at 5",
    ],
)  # fmt: skip
def test_resume_refuses_options_that_cannot_change(cartpole, given):
    with pytest.raises(ConfigError, match=f"--resume: expected no other options than --out, .* got {given.split()[0]}$"):
        run(commands.train, f"WarpCartPole-v1 --out {cartpole} --resume {given}")


def test_resume_refuses_another_env(cartpole):
    with pytest.raises(ConfigError, match="--resume: expected WarpCartPole-v1, .* got WarpTag-v0"):
        run(commands.train, f"WarpTag-v0 --out {cartpole} --resume")


def change_config(folder, **changes):
    """Change options in the folder's checkpoint."""
    path = checkpoint_path(folder)
    state = load_checkpoint(path)
    config = dataclasses.replace(TrainConfig.from_json(state["config"]), **changes)
    save_checkpoint(path, {**state, "config": config.to_json()})


@pytest.mark.slow
def test_resume_uses_the_recorded_device_unless_another_is_given(cartpole):
    change_config(cartpole, device="cuda:99")
    wanted = re.escape(f"{cartpole}: this run was on cuda:99, which is missing here") + ".*--device cpu"
    with pytest.raises(DeviceError, match=wanted):
        run(commands.train, f"WarpCartPole-v1 --out {cartpole} --resume")
    run(commands.train, f"WarpCartPole-v1 --out {cartpole} --resume --device cpu --total-steps 128")
    assert TrainConfig.from_json(load_checkpoint(cartpole)["config"]).device == "cpu"


def test_a_new_run_records_its_actual_device(tmp_path):
    trainer = Trainer(TrainConfig("WarpCartPole-v1", 4, 128, device="auto"), quiet=True)
    assert trainer.config.device == trainer.env.device


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("CartPole-v1", "env_id: expected one of WarpTag-v0, .*WarpCartPole-v1, .* got 'CartPole-v1'"),
        ("Acrobot-v1", "env_id: expected one of WarpTag-v0, .*WarpCartPole-v1, .* got 'Acrobot-v1'"),
        ("nowhere:Env-v0", "env_id: expected one of WarpTag-v0, .*WarpCartPole-v1, .* got 'nowhere:Env-v0'"),
        ("WarpTag-v0 --env view=worlds", r"expected parameters of the env, got \['view'\], which are arguments of make_vec"),
        ("WarpTag-v0 --threads 0", "threads: expected an integer from 1 to 1024, got 0"),
    ],
)
def test_invalid_arguments_are_named(options, text, tmp_path):
    with pytest.raises(ConfigError, match=text):
        run(commands.train, f"{options} --out {tmp_path}/run")


@pytest.fixture
def orchard(tmp_path, monkeypatch):
    """Folder of a run of an env that the module ``orchard`` registers. The module and the id are removed afterwards."""
    (tmp_path / "orchard.py").write_text(
        "import gymnasium\nimport tag_stand_in\n"
        "gymnasium.register('Orchard-v0', vector_entry_point=tag_stand_in.TagStandIn)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = TrainConfig("orchard:Orchard-v0", 2, 40, out=str(tmp_path / "run"))
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=0)
    trainer.close()

    def forget():
        sys.modules.pop("orchard", None)
        gymnasium.registry.pop("Orchard-v0", None)

    forget()
    yield tmp_path / "run"
    forget()


def test_a_checkpoint_imports_no_module(orchard):
    for use in (Trainer.resume, lambda run: eval_run(str(run)), lambda run: watch(str(run))):
        with pytest.raises(CheckpointError, match="'orchard:Orchard-v0' needs the module 'orchard', and a file must"):
            use(orchard)
    assert "orchard" not in sys.modules


def test_a_caller_names_the_module_of_a_run(orchard, capsys):
    run(eval_run, f"{orchard} --episodes 2 --modules orchard")
    assert "2 episodes of" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="expected a module that can be imported, got 'nowhere'"):
        run(eval_run, f"{orchard} --modules nowhere")
    Trainer.resume(orchard, quiet=True)


@pytest.mark.slow
def test_a_command_that_names_the_module_resumes_the_run(orchard, capsys):
    run(commands.train, f"orchard:Orchard-v0 --out {orchard} --resume")
    assert re.search("video: none, because .*/tests/train has no render.py", capsys.readouterr().out)
    assert read_metrics(orchard)[-1]["iteration"] == 1


def test_a_module_whose_id_is_registered_is_not_imported(orchard):
    gymnasium.register("Orchard-v0", vector_entry_point="tag_stand_in:TagStandIn")
    assert Trainer.resume(orchard, quiet=True).config.env_id == "Orchard-v0"
    assert "orchard" not in sys.modules


@pytest.mark.slow
def test_a_run_whose_episodes_never_end_is_complete(tmp_path, capsys, monkeypatch):
    """Matches and videos stop at a bound, and the commands say so."""
    monkeypatch.setattr("gpu_vecenv.train.runner.measure.MAX_STEPS", 20)
    monkeypatch.setattr("gpu_vecenv.train.runner.watch.FRAMES_WITHOUT_END", 3)
    line = f"train WarpPendulum-v1 --env max_episode_steps=0 --num-envs 4 --total-steps 32 --ppo num_steps=8 --out {tmp_path}/run"
    assert main([*line.split(), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("matches against random play: none, because expected episodes that end within 20 steps, got 0 of") == 1
    assert "(means over" not in printed and f"curves: {tmp_path}/run/curves.png" in printed
    assert f"video: {tmp_path}/run/video.mp4\nNext:" in printed
    eval_line = ["eval", f"{tmp_path}/run", "--episodes", "2", "--device", "cpu"]
    assert main(eval_line) == main([*eval_line, "--max-steps", "30"]) == 2
    said = capsys.readouterr().err
    assert "eval: expected episodes that end within 20 steps, got 0 of 2" in said and "within 30 steps" in said
    assert main(["watch", f"{tmp_path}/run", "--episodes", "2", "--device", "cpu", "--out", f"{tmp_path}/film.gif"]) == 0
    assert f"video: {tmp_path}/film.gif, cut after 6 frames: set another number by --max-frames" in capsys.readouterr().out
    assert main(["watch", f"{tmp_path}/run", "--max-frames", "30", "--device", "cpu", "--out", f"{tmp_path}/film.gif"]) == 0
    assert "cut" not in capsys.readouterr().out


def test_a_role_without_agents_in_the_game_is_named(capsys, tmp_path):
    params = {"absent": 1.0, "max_episode_steps": 4}
    config = TrainConfig("Ghost-v0", device="cpu", env_kwargs=params, network=NetworkConfig((4,)))
    trainer = Trainer(config, quiet=True)
    run = trainer.save(tmp_path / "run.pt")
    assert main(["eval", str(run), "--episodes", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["red: no agent took part", "blue: no agent took part"]
