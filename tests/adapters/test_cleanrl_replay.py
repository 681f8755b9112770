"""CleanRL's own dqn.py, sac_continuous_action.py and td3_continuous_action.py, changed by the diffs in docs/adapters."""

import os
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.adapters.test_cleanrl_upstream import Writer
from tests.adapters.upstream_scripts import PAGES, hunks, names_for, needs_cleanrl, options_on, run_changed, script_and_counts

pytest.importorskip("tensorboard")
from tests.adapters.tensorboard_curves import curves  # noqa: E402

PAGE = PAGES / "cleanrl.md"
LIMIT = 200  # steps of an episode of these envs
PENDULUM = "WarpPendulum-v1"
FILES = {"dqn.py": "WarpMountainCar-v0", "sac_continuous_action.py": PENDULUM, "td3_continuous_action.py": PENDULUM}


def diff_of(name):
    return PAGES / f"cleanrl_{name.removesuffix('.py')}.diff"


def claimed(said):
    """Parameters of a test: each file, with the text of its row in the support table."""
    works = (pytest.mark.works("CleanRL-style", f"upstream's {name} with seven lines changed {said}") for name in FILES)
    return [pytest.param(name, id=name, marks=mark) for name, mark in zip(FILES, works, strict=True)]


@pytest.mark.parametrize("name", FILES)
def test_the_page_links_a_short_diff(name):
    diff = diff_of(name)
    path, added, removed = script_and_counts(diff)
    assert (path, added) == (f"cleanrl/{name}", 7) and removed <= 11 and f"]({diff.name})" in PAGE.read_text()


def test_the_page_shows_the_diff_of_dqn():
    assert f"~~~diff\n{diff_of('dqn.py').read_text()}~~~" in PAGE.read_text()


@pytest.mark.parametrize("name", claimed("stores the true last observation of episodes that a time limit ends"))
def test_the_changed_lines_store_the_true_last_observation(name):
    """The twin does not reset worlds by itself, so that the observations that it returns are the last ones."""
    twin = gymnasium.make_vec(FILES[name], num_envs=4, device="cpu", array="numpy", autoreset_mode="disabled")
    stored, writer = [], Writer()
    buffer = SimpleNamespace(add=lambda *transition: stored.append(transition))
    names = {**names_for(FILES[name], "cpu"), "writer": writer, "rb": buffer}
    imports, setup, step = hunks(diff_of(name), "+")
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
@pytest.mark.parametrize("name", claimed("learns"))
def test_upstream_with_the_diff_learns(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.environ["CLEANRL"])  # for cleanrl_utils
    script = f"cleanrl/{name}"
    run_changed(os.environ["CLEANRL"], diff_of(name), tmp_path, *options_on(PAGE, script))
    (run,) = (tmp_path / "runs").iterdir()
    returns = curves(run)["charts/episodic_return"]
    print(returns[:5], returns[-10:])
    first, last = np.mean(returns[:5]), np.mean(returns[-10:])
    assert last > 3 * first if name == "dqn.py" else last > first + 600
