"""LeanRL's ppo_continuous_action.py and its compiled form, changed by the diffs in docs/adapters."""

import json
import math
import os
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gpu_vecenv  # noqa: F401
from tests.adapters.upstream_scripts import (
    PAGES,
    hunks,
    names_for,
    needs_leanrl,
    options_on,
    play,
    returns_of_pendulum,
    run_changed,
    run_script,
    script_and_counts,
)
from tests.devices import DEVICES

PAGE = PAGES / "leanrl.md"
PLAIN = PAGES / "leanrl_ppo_continuous_action.diff"
COMPILED = PAGES / "leanrl_ppo_continuous_action_torchcompile.diff"
PENDULUM = "WarpPendulum-v1"

WANDB = """
import json

def init(**options):
    pass

def log(values, step):
    with open("returns.jsonl", "a") as file:
        file.write(json.dumps(float(values["episode_return"])) + "\\n")
"""
"""A module in the place of wandb that writes returns to a file."""


@pytest.mark.parametrize("diff", [PLAIN, COMPILED], ids=lambda diff: diff.stem)
def test_the_page_links_the_diff_and_the_diff_is_short(diff):
    path, added, removed = script_and_counts(diff)
    assert path == f"leanrl/{diff.stem.removeprefix('leanrl_')}.py" and path in PAGE.read_text()
    assert f"]({diff.name})" in PAGE.read_text()
    assert added <= 12 and removed <= 12


def test_the_page_shows_the_diff_of_ppo():
    assert f"~~~diff\n{PLAIN.read_text()}~~~" in PAGE.read_text()


@pytest.mark.works("LeanRL", "ppo_continuous_action.py with eleven lines changed, its arrays on the device")
@pytest.mark.parametrize("device", DEVICES)
def test_the_changed_lines_normalise_and_keep_raw_returns(device):
    names = names_for(PENDULUM, device)
    names |= {"rewards": torch.zeros(201, 4, device=device), "avg_returns": deque(maxlen=20), "max_ep_ret": -math.inf}
    imports, setup, reset, rollout = hunks(PLAIN, "+")
    play([imports, setup, reset], rollout, 201, names)
    returns = returns_of_pendulum(200)
    assert list(names["avg_returns"]) == pytest.approx(returns, rel=1e-5)
    assert names["max_ep_ret"] == pytest.approx(returns.max(), rel=1e-5) and "global_step=199" in names["desc"]
    assert names["next_obs"].device.type == names["next_done"].device.type == torch.device(device).type
    assert names["next_obs"].abs().max() <= 10 and names["rewards"].abs().max() <= 10 and names["rewards"].std() > 0.01


@pytest.mark.works("LeanRL", "ppo_continuous_action_torchcompile.py with eleven lines changed, its arrays on the device")
@pytest.mark.parametrize("device", DEVICES)
def test_the_changed_step_of_the_compiled_form_gives_tensors_that_do_not_change(device):
    names = {**names_for(PENDULUM, device), "math": math, "Tuple": tuple}
    names |= {"avg_returns": deque(maxlen=20), "kept": [], "copies": []}
    imports, log, setup, step, _, reset = hunks(COMPILED, "+")
    each_step = f"next_obs, reward, next_done, infos = step_func(action)\n{log}\n"
    each_step += "kept += [next_obs, reward, next_done]\ncopies += [one.clone() for one in kept[-3:]]\n"
    play([imports, setup, step, reset], each_step, 201, names)
    assert list(names["avg_returns"]) == pytest.approx(returns_of_pendulum(200), rel=1e-5)
    assert all(map(torch.equal, names["kept"], names["copies"]))
    ends = torch.stack(names["kept"][2::3])
    assert ends.dtype == torch.bool and ends.device.type == torch.device(device).type
    assert ends.nonzero()[:, 0].tolist() == [199] * 4


@pytest.mark.parametrize("diff", [PLAIN, COMPILED], ids=lambda diff: diff.stem)
def test_the_changed_log_keeps_the_returns_of_worlds_that_ended(diff):
    (log,) = (program for program in hunks(diff, "+") if "avg_returns" in program)
    flags = torch.tensor([True, False, True, False])
    infos = {"_episode": flags, "episode": {"r": torch.tensor([1.0, 2.0, 3.0, 4.0])}}
    results = (torch.zeros(4, 3), torch.zeros(4), flags, torch.zeros_like(flags), infos)
    names = {"torch": torch, "avg_returns": deque(maxlen=20), "max_ep_ret": 2.5, "global_step": 8, "infos": infos}
    names |= {"envs": SimpleNamespace(step=lambda action: results), "action": None, "rewards": torch.zeros(1, 4), "step": 0}
    exec(log, names)
    assert list(names["avg_returns"]) == [1, 3] and names["max_ep_ret"] == (3 if diff == PLAIN else 2.5)
    flags[:] = False
    exec(log, names)
    assert list(names["avg_returns"]) == [1, 3]


def with_wandb(folder):
    """A folder for a script, which imports ``WANDB`` because it lies beside it."""
    (folder / "leanrl").mkdir()
    (folder / "leanrl" / "wandb.py").write_text(WANDB)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_leanrl
@pytest.mark.parametrize("diff, more", [
    pytest.param(PLAIN, [], id="plain", marks=pytest.mark.works(
        "LeanRL", "ppo_continuous_action.py with eleven lines changed swings up the pendulum")),
    pytest.param(COMPILED, [], id="eager", marks=pytest.mark.works(
        "LeanRL", "ppo_continuous_action_torchcompile.py with eleven lines changed swings up the pendulum")),
    pytest.param(COMPILED, ["--compile"], id="compiled", marks=pytest.mark.works(
        "LeanRL", "ppo_continuous_action_torchcompile.py swings up the pendulum with `--compile`")),
    pytest.param(COMPILED, ["--compile", "--cudagraphs"], id="graphs", marks=pytest.mark.gpu),
])  # fmt: skip
def test_upstream_with_the_diff_swings_up_the_pendulum(diff, more, tmp_path):
    run_changed(os.environ["LEANRL"], diff, with_wandb(tmp_path), *options_on(PAGE, "leanrl/ppo_continuous_action.py"), *more)
    returns = [json.loads(line) for line in (tmp_path / "returns.jsonl").read_text().splitlines()]
    print(returns)
    assert len(returns) == 9 and returns[0] < -900 and sum(returns[-3:]) / 3 >= -300


@pytest.mark.slow
@needs_leanrl
@pytest.mark.limit("LeanRL", "continuous scripts without changes: written for Gymnasium 0.29, they fail on 1 with any env")
@pytest.mark.parametrize("env_id", ["Pendulum-v1", f"gpu_vecenv:{PENDULUM}"])
@pytest.mark.parametrize("diff", [PLAIN, COMPILED], ids=lambda diff: diff.stem)
def test_scripts_for_gymnasium_0_29_fail_with_any_env(diff, env_id, tmp_path):
    path, *_ = script_and_counts(diff)
    script = with_wandb(tmp_path) / path
    script.write_text((Path(os.environ["LEANRL"]) / path).read_text())
    done = run_script(script, tmp_path, "--env-id", env_id)
    assert done.returncode != 0 and "TransformObservation" in done.stderr
