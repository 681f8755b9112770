"""CleanRL's own dqn.py, sac_continuous_action.py and td3_continuous_action.py, changed by the diffs in docs/adapters."""

import os
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.adapters.upstream_scripts import (
    PAGES,
    Writer,
    claims,
    hunks,
    names_for,
    needs_cleanrl,
    options_on,
    run_changed,
    script_and_counts,
)

pytest.importorskip("tensorboard")
from tests.adapters.tensorboard_curves import curves  # noqa: E402

PAGE = PAGES / "cleanrl.md"
LIMIT = 200  # steps of an episode of these envs
PENDULUM = "WarpPendulum-v1"
DQN, SAC, TD3 = (PAGES / f"cleanrl_{name}.diff" for name in ("dqn", "sac_continuous_action", "td3_continuous_action"))
ENVS = {DQN: "WarpMountainCar-v0", SAC: PENDULUM, TD3: PENDULUM}


@pytest.mark.parametrize("diff", ENVS, ids=lambda diff: diff.stem)
def test_the_page_links_a_short_diff(diff):
    path, added, removed = script_and_counts(diff)
    assert (path, added) == (f"cleanrl/{diff.stem.removeprefix('cleanrl_')}.py", 7) and removed <= 11
    assert f"]({diff.name})" in PAGE.read_text()


def test_the_page_shows_the_diff_of_dqn():
    assert f"~~~diff\n{DQN.read_text()}~~~" in PAGE.read_text()


@pytest.mark.parametrize(
    "diff", claims(ENVS, "with seven lines changed stores the true last observation of episodes that a time limit ends")
)
def test_the_changed_lines_store_the_true_last_observation(diff):
    """The twin does not reset worlds by itself, so that the observations that it returns are the last ones."""
    twin = gymnasium.make_vec(ENVS[diff], num_envs=4, device="cpu", array="numpy", autoreset_mode="disabled")
    stored, writer = [], Writer()
    buffer = SimpleNamespace(add=lambda *transition: stored.append(transition))
    names = {**names_for(ENVS[diff], "cpu"), "writer": writer, "rb": buffer}
    imports, setup, step = hunks(diff, "+")
    for program in (imports, setup):
        exec(program, names)
    names["obs"], _ = names["envs"].reset(seed=3)
    twin.reset(seed=3)
    returns = np.zeros(4)
    for names["global_step"] in range(LIMIT):
        names["actions"] = names["envs"].action_space.sample()
        exec(step, names)
        _, next_obs, actions, rewards, terminations, _ = stored[-1]
        expected, reward, terminated, truncated, _ = twin.step(actions)
        for mine, theirs in ((next_obs, expected), (rewards, reward), (terminations, terminated)):
            np.testing.assert_array_equal(mine, theirs)
        returns += reward
        names["obs"] = names["next_obs"]
    assert truncated.all() and not np.array_equal(names["next_obs"], next_obs)
    mean = pytest.approx(returns.mean(), rel=1e-5)
    assert writer == [("charts/episodic_return", LIMIT - 1, mean), ("charts/episodic_length", LIMIT - 1, LIMIT)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_cleanrl
@pytest.mark.parametrize("diff", claims(ENVS, "with seven lines changed learns"))
def test_upstream_with_the_diff_learns(diff, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.environ["CLEANRL"])  # for cleanrl_utils
    script, *_ = script_and_counts(diff)
    run_changed(os.environ["CLEANRL"], diff, tmp_path, *options_on(PAGE, script))
    (run,) = (tmp_path / "runs").iterdir()
    returns = curves(run)["charts/episodic_return"]
    print(returns[:5], returns[-10:])
    first, last = np.mean(returns[:5]), np.mean(returns[-10:])
    assert last > 3 * first if diff == DQN else last > first + 600
