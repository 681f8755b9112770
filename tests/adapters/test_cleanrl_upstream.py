"""CleanRL's own ppo.py, ppo_continuous_action.py and rpo_continuous_action.py, changed by the diffs in docs/adapters."""

import os
import re

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from tests.adapters.upstream_scripts import (
    PAGES,
    Writer,
    claims,
    hunks,
    names_for,
    needs_cleanrl,
    options_on,
    play,
    returns_of_pendulum,
    run_changed,
    script_and_counts,
)
from tests.devices import DEVICES

pytest.importorskip("tensorboard")
pytest.importorskip("tyro")
from tests.adapters.tensorboard_curves import curves  # noqa: E402

PAGE = PAGES / "cleanrl.md"
DIFF = PAGES / "cleanrl_ppo.diff"
CONTINUOUS = [PAGES / f"cleanrl_{name}_continuous_action.diff" for name in ("ppo", "rpo")]


@pytest.mark.parametrize("diff, most_added", [(DIFF, 10), *((diff, 12) for diff in CONTINUOUS)], ids=lambda value: str(value))
def test_the_page_links_the_diff_and_the_diff_is_short(diff, most_added):
    path, added, removed = script_and_counts(diff)
    assert path == f"cleanrl/{diff.stem.removeprefix('cleanrl_')}.py" and path in PAGE.read_text()
    assert f"]({diff.name})" in PAGE.read_text()
    assert added <= most_added and removed <= 15


def test_the_page_shows_the_diff_of_ppo_and_the_env_of_the_others():
    shown = PAGE.read_text()
    assert f"~~~diff\n{DIFF.read_text()}~~~" in shown
    for diff in CONTINUOUS:
        env = re.findall(r"^\+    envs = .*\n", diff.read_text(), re.MULTILINE)
        assert len(env) == 3 and f"~~~diff\n{''.join(env)}~~~" in shown


def upstream_loop(diff, sign, steps, env_id, device, **names):
    """Run the rollout of upstream's file before the diff (``-``) or after it (``+``); return the names that it sets."""
    names = {**names_for(env_id, device), "writer": Writer(), "rewards": torch.zeros(steps, 4, device=device), **names}
    imports, setup, reset, rollout = hunks(diff, sign)
    return play([reset] if "envs" in names else [imports, setup, reset], rollout, steps, names)


@pytest.mark.works("CleanRL-style", "upstream's ppo.py with ten lines changed logs the true return and length of each episode")
@pytest.mark.parametrize("device", DEVICES)
def test_the_changed_lines_log_every_episode(device):
    names = upstream_loop(DIFF, "+", 60, "WarpCartPole-v1", device)
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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("diff", claims(CONTINUOUS, "with twelve lines changed, its arrays on the device"))
def test_the_changed_lines_normalise_and_log_raw_returns(diff, device):
    names = upstream_loop(diff, "+", 201, "WarpPendulum-v1", device)
    (name, step, mean), length = names["writer"]
    assert (name, step) == ("charts/episodic_return", 199)
    assert mean == pytest.approx(returns_of_pendulum(200).mean(), rel=1e-5)
    assert length == ("charts/episodic_length", 199, 200)
    assert names["next_obs"].device.type == names["rewards"].device.type == torch.device(device).type
    assert names["next_obs"].abs().max() <= 10 and names["rewards"].abs().max() <= 10 and names["rewards"].std() > 0.01
    assert names["next_done"].dtype == torch.float32 and not names["next_done"].any()


@pytest.mark.limit("CleanRL-style", "upstream's ppo.py without changes: needs array='numpy'; logs no episodes with Gymnasium 1")
@pytest.mark.parametrize("device", DEVICES)
def test_upstreams_own_lines_take_numpy_arrays_and_log_nothing(device):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device=device, array="numpy")
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    theirs = upstream_loop(DIFF, "-", 60, "WarpCartPole-v1", device, envs=env)
    ours = upstream_loop(DIFF, "+", 60, "WarpCartPole-v1", device)
    for name in ("next_obs", "next_done", "rewards"):
        assert torch.equal(theirs[name], ours[name]), name
    assert theirs["writer"] == [] != ours["writer"]


@pytest.mark.gpu
def test_upstreams_own_lines_fail_with_tensors_on_a_gpu():
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cuda:0")
    with pytest.warns(UserWarning, match="Host actions are uploaded"), pytest.raises(TypeError, match="numpy"):
        upstream_loop(DIFF, "-", 1, "WarpCartPole-v1", "cuda:0", envs=env)


def returns_of_training(diff, folder, *options):
    """Train with a copy of upstream's file after the diff; return the logged returns."""
    run_changed(os.environ["CLEANRL"], diff, folder, *options)
    (run,) = (folder / "runs").iterdir()
    return curves(run)["charts/episodic_return"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_cleanrl
@pytest.mark.works("CleanRL-style", "upstream's ppo.py with ten lines changed solves CartPole")
def test_upstream_with_the_diff_solves_cartpole(tmp_path):
    options = ["--env-id", "WarpCartPole-v1", "--num-envs", "16", "--total-timesteps", "500000", "--learning-rate", "1e-3"]
    assert np.mean(returns_of_training(DIFF, tmp_path, *options)[-50:]) >= 475


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_cleanrl
@pytest.mark.parametrize("diff", claims(CONTINUOUS, "with twelve lines changed swings up the pendulum"))
def test_upstream_with_the_diff_swings_up_the_pendulum(diff, tmp_path):
    returns = returns_of_training(diff, tmp_path, *options_on(PAGE, "cleanrl/ppo_continuous_action.py"))
    print(returns)
    assert np.mean(returns[-5:]) >= -250
