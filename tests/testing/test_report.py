"""All checks as one report and one command: failures, crashes and endless checks are rows like others."""

import os
import signal
import time

import pytest

from gpu_vecenv import testing
from gpu_vecenv.cli.main import main
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.registration import IDS
from gpu_vecenv.testing import report


def fails(subject):
    raise testing.CheckError("step 3, world 1, obs[2]: 1.0 and 2.0.")


def cannot(subject):
    raise testing.NotRunError("there is no GPU")


def crashes(subject):
    os.kill(os.getpid(), signal.SIGKILL)


def breaks(subject):
    raise KeyError("of a user's reference")


def waits(subject):
    time.sleep(60)


@pytest.fixture
def checks(monkeypatch):
    def use(**checks):
        monkeypatch.setattr(report, "QUICK", checks)
        monkeypatch.setattr("gpu_vecenv.cli.check.QUICK", checks)

    return use


def test_every_check_has_a_title():
    assert {*report.CHECKS, *report.QUICK, "spec"} == set(report.TITLES)


def test_results_of_all_kinds_become_rows(checks, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    checks(rollouts=lambda subject: "40 steps", values=fails, gpu=cannot, bounds=crashes, reference=breaks)
    assert main(["check", "WarpCartPole-v1", "--quick"]) == 1
    out = capsys.readouterr().out
    for words in (
        "rollouts", "40 steps", "there is no GPU", "failed values: step 3, world 1, obs[2]: 1.0 and 2.0.\n",
        "failed bounds: the process ended by SIGKILL", "or of a division of integers by 0.\n",
        "KeyError: \"of a user's reference\"", "WarpCartPole-v1: 2 passed, 3 failed, 1 not run",
    ):  # fmt: skip
        assert words in out, out


def compiles_slowly(subject):
    time.sleep(2.5)
    return "sm_80"


def test_a_check_that_does_not_end_fails_unless_it_only_compiles(checks, monkeypatch):
    checks(teams=waits, ptx=compiles_slowly)
    monkeypatch.setattr(report, "SECONDS", 0.2)
    results = {one.name: one for one in report.results_of(testing.Subject("WarpCartPole-v1"), quick=True)}
    assert (results["teams"].status, "barrier" in results["teams"].detail) == ("failed", True) and results["teams"].seconds < 20
    assert results["ptx"].status == "ok"


def test_without_a_failure_the_status_is_0(checks, capsys):
    checks(rollouts=lambda subject: "40 steps", gpu=cannot)
    assert main(["check", "WarpGridTag-v0", "--quick", "--env", "num_taggers=3"]) == 0
    assert "2 passed, 0 failed, 1 not run" in capsys.readouterr().out
    found = testing.check_env("WarpGridTag-v0", quick=True, num_taggers=3)
    assert found.env == "WarpGridTag-v0" and [one.name for one in found.results if one.status == "ok"] == ["spec", "rollouts"]


def test_prints_of_hooks_do_not_stand_between_the_rows(checks, capfd):
    """Fault 8 prints in a debug build."""
    checks(debug=testing.check_debug)
    testing.check_env("tests.debug.faulty:Faulty-v0", quick=True, fault=8)
    assert capfd.readouterr().out == ""


def test_check_env_raises_with_a_line_for_each_failure(checks):
    checks(rollouts=lambda subject: "40 steps", values=fails)
    with pytest.raises(testing.CheckError, match=r"^WarpCartPole-v1:\n  values: step 3, world 1, obs\[2\]"):
        testing.check_env("WarpCartPole-v1", quick=True)


def test_an_env_that_cannot_be_made_is_one_failure(checks, capsys):
    checks(rollouts=lambda subject: "40 steps")
    assert main(["check", "WarpCartPole-v1", "--quick", "--env", "gravity=soon"]) == 1
    assert "failed spec: " in (out := capsys.readouterr().out) and "0 passed, 1 failed, 0 not run" in out


@pytest.mark.parametrize(("words", "says"), [
    (["no_module:Env-v0"], "the module 'no_module' cannot be imported"),
    (["WarpTag-v0", "--num-worlds", "0"], "--num-worlds: expected an integer >= 1"),
    (["WarpTag-v0", "--num-steps", "3"], "--num-steps: expected an integer >= 10"),
])  # fmt: skip
def test_what_cannot_be_checked_is_refused(words, says, capsys):
    assert main(["check", *words]) == 2
    assert says in capsys.readouterr().err


def test_an_env_of_another_package_is_no_subject():
    with pytest.raises(ParameterError, match="expected the id of a GpuVectorEnv"):
        testing.Subject("CartPole-v1").make()


@pytest.mark.parametrize("env_id", [
    *(pytest.param(name, marks=pytest.mark.in_ci) for name in IDS),
    *(pytest.param(f"tests.roles:{name}-v0", marks=pytest.mark.slow) for name in ("Town", "Harvest", "Pot", "Choir")),
])  # fmt: skip
def test_a_quick_check_of_an_env_passes(env_id):
    testing.check_env(env_id, quick=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("env_id", IDS)
def test_a_whole_check_of_a_shipped_env_passes(env_id):
    testing.check_env(env_id)


@pytest.mark.gpu
@pytest.mark.parametrize("env_id", IDS)
def test_a_gpu_gives_the_bits_of_the_cpu(env_id):
    testing.check_gpu(testing.Subject(env_id))
