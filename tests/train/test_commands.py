"""The commands as a user types them."""

import pytest
import tyro

from gpu_vecenv.train import Trainer, commands
from gpu_vecenv.train.logger import read_metrics


def run(command, line):
    return tyro.cli(command, args=line.split())


def test_train_resume_evaluate_plot(tmp_path, capsys):
    out = tmp_path / "run"
    train = f"WarpCartPole-v1 --num-envs 4 --device cpu --out {out}"
    run(
        commands.train,
        f"{train} --total-steps 64 --env max_episode_steps=20 --ppo num_steps=8 --network hidden_sizes=(4,)",
    )
    assert {"checkpoint", "metrics.jsonl", "curves.png", "tensorboard"} <= {
        path.name for path in out.iterdir()
    }
    run(commands.train, f"{train} --total-steps 128 --resume")
    assert [line["steps"] for line in read_metrics(out)] == [32, 64, 96, 128]
    config = Trainer.resume(out, quiet=True).config
    assert (config.ppo.num_steps, config.network.hidden_sizes) == (8, (4,))
    assert config.env_kwargs == {"max_episode_steps": 20}
    # The preset's values stay where the line says nothing.
    assert config.ppo.entropy_coef == 0.0

    capsys.readouterr()
    run(commands.evaluate, f"{out} --episodes 3 --device cpu --policy agent=random")
    assert "3 episodes of" in capsys.readouterr().out
    run(commands.plot, f"{out} --out {tmp_path}/other.png")
    assert (tmp_path / "other.png").exists()


def test_roles_and_opponents(tmp_path):
    game = "num_taggers=1 num_runners=2 num_other_agents_observed=2 episode_length=5"
    line = f"WarpTag-v0 --num-envs 2 --total-steps 20 --device cpu --ppo num_steps=10 --env {game}"
    run(commands.train, f"{line} --out {tmp_path}/a --policy tagger=hunter runner=random")
    checkpoint = tmp_path / "a" / "checkpoint" / "latest.pt"
    roles = "--policy tagger=hunter runner=prey"
    run(commands.train, f"{line} --out {tmp_path}/b {roles} --frozen hunter --load hunter={checkpoint}")
    trainer = Trainer.resume(tmp_path / "b", quiet=True)
    assert list(trainer.learners) == ["prey"]


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(ValueError, match="PPOConfig option: expected one of num_steps, .* got 'gama'"):
        run(commands.train, "WarpTag-v0 --ppo gama=1")
