"""The single-file PPO examples, and upstream's files changed by the diffs in docs/adapters."""

import dataclasses
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES

pytest.importorskip("tensorboard")
pytest.importorskip("tyro")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

from examples import cleanrl_ppo, cleanrl_ppo_continuous_action  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
DIFF = ROOT / "docs/adapters/cleanrl_ppo.diff"
CONTINUOUS = ROOT / "docs/adapters/cleanrl_ppo_continuous_action.diff"
PAGE = ROOT / "docs/adapters/cleanrl.md"
SMALL = {"num_envs": 4, "num_steps": 16, "num_epochs": 1, "num_minibatches": 2, "eval_episodes": 2}


def curves(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return {name: [event.value for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def short(example, tmp_path, device, **options):
    return example.Args(device=device, run_dir=str(tmp_path), **{**SMALL, **options})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("example", [cleanrl_ppo, cleanrl_ppo_continuous_action])
def test_an_example_runs_and_writes_its_curves(example, device, tmp_path):
    result = example.train(short(example, tmp_path, device, num_steps=240, total_steps=2 * 960))
    assert set(result) == {"mean_return", "rows_per_second"} and all(np.isfinite(list(result.values())))
    written = curves(tmp_path)
    assert {"charts/episodic_return", "charts/rows_per_second", "losses/value_loss"} <= set(written)
    assert all(len(values) == 2 and np.isfinite(values).all() for values in written.values())


@pytest.mark.works("CleanRL-style", "Tag, with one row for each agent and one policy for all roles")
def test_the_example_trains_on_rows_of_tag(tmp_path, monkeypatch):
    make_vec = gymnasium.make_vec
    monkeypatch.setattr(
        gymnasium, "make_vec", lambda *a, **k: make_vec(*a, **k, num_taggers=1, num_runners=3, episode_length=10)
    )
    result = cleanrl_ppo.train(short(cleanrl_ppo, tmp_path, "cpu", env_id="WarpTag-v0", total_steps=4 * 64))
    assert np.isfinite(result["mean_return"])
    assert curves(tmp_path)["charts/episodic_length"][-1] == 10


@pytest.mark.works("CleanRL-style", "bootstrapping from the true last observation at time limits")
def test_values_are_bootstrapped_at_the_time_limit(tmp_path, monkeypatch):
    """With reward 1 a step and discount 1/2, every state has value 2; a first state would have 1.75 if the limit were an end."""
    make_vec, seen = gymnasium.make_vec, {}
    monkeypatch.setattr(gymnasium, "make_vec", lambda *a, **k: make_vec(*a, **k, max_episode_steps=3))
    monkeypatch.setattr(cleanrl_ppo, "evaluate", lambda agent, args: seen.update(agent=agent) or 0.0)
    args = cleanrl_ppo.Args(
        device="cpu", num_envs=32, num_steps=8, gamma=0.5, total_steps=32 * 8 * 30, learning_rate=1e-2, run_dir=str(tmp_path)
    )
    cleanrl_ppo.train(args)
    obs, _ = make_vec("WarpCartPole-v1", num_envs=64, device="cpu").reset(seed=5)
    with torch.no_grad():
        assert seen["agent"].value(obs).mean().item() == pytest.approx(2, abs=0.1)


@pytest.mark.works("CleanRL-style", "observations kept by reference for a whole rollout")
@pytest.mark.parametrize("device", DEVICES)
def test_observations_kept_by_reference_do_not_change(device):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=8, device=device, max_episode_steps=10)
    kept = [env.reset(seed=0)[0]]
    copies = [kept[0].clone()]
    for _ in range(30):
        kept.append(env.step(torch.ones(8, dtype=torch.int64, device=device))[0])
        copies.append(kept[-1].clone())
    assert torch.equal(torch.stack(kept), torch.stack(copies))


# ---- upstream's ppo.py --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diff, most_added", [(DIFF, 10), (CONTINUOUS, 12)])
def test_the_page_shows_the_diff_and_the_diff_is_short(diff, most_added):
    assert f"~~~diff\n{diff.read_text()}~~~" in PAGE.read_text()
    counts = subprocess.run(["git", "apply", "--numstat", diff], capture_output=True, text=True, check=True).stdout
    added, removed, name = counts.split()
    assert int(added) <= most_added and int(removed) <= 15 and name == f"cleanrl/{diff.stem.removeprefix('cleanrl_')}.py"


class Writer(list):
    """Collects logged values as (name, step, value)."""

    def add_scalar(self, name, value, step):
        self.append((name, step, float(value)))


def upstream_loop(sign, steps, diff=DIFF, **names):
    """Run the rollout of upstream's file before the diff (``-``) or after it (``+``); return the names that it sets."""
    names = {"np": np, "torch": torch, "gym": gymnasium, "writer": Writer(), **names}
    names["rewards"] = torch.zeros(steps, names["args"].num_envs, device=names["device"])
    imports, setup, _, rollout = (
        textwrap.dedent("\n".join(line[1:] for line in hunk.splitlines()[1:] if line[0] in f" {sign}"))
        for hunk in diff.read_text().split("\n@@ ")[1:]
    )
    if sign == "+":
        exec("\n".join([*imports.splitlines()[1:], *setup.splitlines()]), names)
    names["envs"].reset(seed=3)
    generator = torch.Generator().manual_seed(0)
    for names["step"] in range(steps):
        names["global_step"] = names["step"]
        shape = (names["args"].num_envs, *names["envs"].single_action_space.shape)
        names["action"] = torch.randint(2, shape, generator=generator).to(names["device"])
        if names["envs"].single_action_space.dtype.kind == "f":
            names["action"] = names["action"].float()
        exec(rollout, names)
    return names


def options_of_upstream(device):
    return {"args": SimpleNamespace(env_id="WarpCartPole-v1", num_envs=4), "device": torch.device(device)}


@pytest.mark.works("CleanRL-style", "upstream's ppo.py with ten lines changed logs the true return and length of each episode")
@pytest.mark.parametrize("device", DEVICES)
def test_the_changed_lines_log_every_episode(device):
    names = upstream_loop("+", 60, **options_of_upstream(device))
    plain = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cpu", array="numpy")
    plain.reset(seed=3)
    generator, lengths, expected = torch.Generator().manual_seed(0), np.zeros(4), []
    for step in range(60):
        _, reward, terminated, truncated, _ = plain.step(torch.randint(2, (4,), generator=generator).numpy())
        np.testing.assert_array_equal(names["rewards"][step].cpu(), reward)
        lengths, ended = lengths + 1, terminated | truncated
        if ended.any():
            mean = lengths[ended].mean()  # every step of CartPole has reward 1
            expected += [("charts/episodic_return", step, mean), ("charts/episodic_length", step, mean)]
            lengths[ended] = 0
    assert names["writer"] == expected and len(expected) > 4
    np.testing.assert_array_equal(names["next_done"].cpu(), ended)


@pytest.mark.works("CleanRL-style", "upstream's ppo_continuous_action.py with twelve lines changed, its arrays on the device")
@pytest.mark.parametrize("device", DEVICES)
def test_the_changed_lines_normalise_and_log_raw_returns(device):
    args = SimpleNamespace(env_id="WarpPendulum-v1", num_envs=4, gamma=0.9)
    names = upstream_loop("+", 201, CONTINUOUS, args=args, device=torch.device(device))
    plain = gymnasium.make_vec("WarpPendulum-v1", num_envs=4, device="cpu", array="numpy")
    plain.reset(seed=3)
    generator, returns = torch.Generator().manual_seed(0), np.zeros(4)
    for _ in range(200):
        returns += plain.step(torch.randint(2, (4, 1), generator=generator).float().numpy())[1]
    (name, step, mean), length = names["writer"]
    assert (name, step) == ("charts/episodic_return", 199) and mean == pytest.approx(returns.mean(), rel=1e-5)
    assert length == ("charts/episodic_length", 199, 200)
    assert names["next_obs"].device.type == names["rewards"].device.type == torch.device(device).type
    assert names["next_obs"].abs().max() <= 10 and names["rewards"].abs().max() <= 10 and names["rewards"].std() > 0.01


@pytest.mark.limit("CleanRL-style", "upstream's ppo.py without changes: needs array='numpy'; logs no episodes with Gymnasium 1")
@pytest.mark.parametrize("device", DEVICES)
def test_upstreams_own_lines_take_numpy_arrays_and_log_nothing(device):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device=device, array="numpy")
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    theirs = upstream_loop("-", 60, envs=env, **options_of_upstream(device))
    ours = upstream_loop("+", 60, **options_of_upstream(device))
    for name in ("next_obs", "next_done", "rewards"):
        assert torch.equal(theirs[name], ours[name]), name
    assert theirs["writer"] == [] != ours["writer"]


@pytest.mark.gpu
def test_upstreams_own_lines_fail_with_tensors_on_a_gpu():
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cuda:0")
    with pytest.warns(UserWarning, match="Host actions are uploaded"), pytest.raises(TypeError, match="numpy"):
        upstream_loop("-", 1, envs=env, **options_of_upstream("cuda:0"))


def upstream_learns(source, diff, tmp_path, *options):
    """Train with a copy of upstream's file after the diff; return the logged returns."""
    script = tmp_path / "cleanrl" / f"{diff.stem.removeprefix('cleanrl_')}.py"
    script.parent.mkdir()
    script.write_text(Path(source).read_text())
    subprocess.run(["git", "apply", diff], cwd=tmp_path, check=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, script, *options], cwd=tmp_path, check=True, env=environment)
    (folder,) = (tmp_path / "runs").iterdir()
    return curves(folder)["charts/episodic_return"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif("CLEANRL_PPO" not in os.environ, reason="CLEANRL_PPO names no copy of upstream's cleanrl/ppo.py")
@pytest.mark.works("CleanRL-style", "upstream's ppo.py with ten lines changed solves CartPole")
def test_upstream_with_the_diff_solves_cartpole(tmp_path):
    options = ["--env-id", "WarpCartPole-v1", "--num-envs", "16", "--total-timesteps", "500000", "--learning-rate", "1e-3"]
    assert np.mean(upstream_learns(os.environ["CLEANRL_PPO"], DIFF, tmp_path, *options)[-50:]) >= 475


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif("CLEANRL_CONTINUOUS" not in os.environ, reason="CLEANRL_CONTINUOUS names no copy of ppo_continuous_action.py")
@pytest.mark.works("CleanRL-style", "upstream's ppo_continuous_action.py with twelve lines changed swings up the pendulum")
def test_upstream_with_the_diff_swings_up_the_pendulum(tmp_path):
    (command,) = re.findall("`python cleanrl/ppo_continuous_action.py (.*?)`", PAGE.read_text(), re.DOTALL)
    returns = upstream_learns(os.environ["CLEANRL_CONTINUOUS"], CONTINUOUS, tmp_path, *command.split())
    assert np.mean(returns[-5:]) >= -250


# ---- learning -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("example, least", [
    pytest.param(cleanrl_ppo, 475, marks=pytest.mark.works("CleanRL-style", "CartPole is solved")),
    pytest.param(cleanrl_ppo_continuous_action, -250, marks=pytest.mark.works("CleanRL-style", "Pendulum is swung up and held")),
])  # fmt: skip
def test_an_example_learns(example, least, device, tmp_path):
    result = example.train(dataclasses.replace(example.Args(), device=device, run_dir=str(tmp_path)))
    print(result)
    assert result["mean_return"] >= least
