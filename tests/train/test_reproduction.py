"""Tasks of ``gpu-vecenv reproduce``, and the results that it prints and writes."""

import json
import math

import numpy as np
import pytest

from gpu_vecenv.cli.main import main
from gpu_vecenv.train.config import PRESETS, resolve
from gpu_vecenv.train.config.tasks import EVALUATIONS, TASKS, Task
from gpu_vecenv.train.run_folder.intervals import bootstrap_interval, interquartile_mean
from gpu_vecenv.train.run_folder.reproduction import marl_eval, result_lines

EVERY = [(name, algorithm) for name, task in TASKS.items() for algorithm in task.algorithms]


@pytest.mark.parametrize("name, algorithm", EVERY)
def test_a_training_ends_with_the_last_of_equally_distant_evaluations(name, algorithm):
    task = TASKS[name]
    config = resolve(task.config(algorithm))
    rollout = config.num_envs * config.num_steps([""])
    assert config.total_steps == EVALUATIONS * config.evaluation_interval * rollout
    wanted = task.algorithms[algorithm].get("total_steps") or resolve(task.config(algorithm)).total_steps
    assert 0 <= config.total_steps - wanted < EVALUATIONS * rollout


def test_algorithms_of_a_task_differ_in_what_their_names_say():
    task = TASKS["WarpSimpleSpread-v3"]
    configs = {name: resolve(task.config(name)) for name in task.algorithms}
    networks = {name: (config.network.critic, config.network.memory) for name, config in configs.items()}
    assert networks == {
        "ippo": ("own", None), "mappo": ("observations", None), "ippo-gru": ("own", "gru"), "mappo-gru": ("observations", "gru"),
        "pqn-vdn": ("own", None),
    }  # fmt: skip
    assert {name for name, config in configs.items() if config.algorithm == "pqn"} == {"pqn-vdn"}
    assert all(configs[name].ppo == PRESETS["WarpSimpleSpread-v3"].ppo for name in ("ippo", "mappo", "ippo-gru", "mappo-gru"))


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if "pqn-vdn" in task.algorithms])
def test_pqn_vdn_sums_the_values_of_a_team(name):
    assert resolve(TASKS[name].config("pqn-vdn")).algorithms["pqn"].mixing == "vdn"


def test_the_list_names_every_task_and_algorithm(capsys):
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()[1:]
    assert len(listed) == len(EVERY)
    for line, (name, algorithm) in zip(listed, EVERY, strict=True):
        assert line.startswith(f"{name} ") and f" {algorithm} " in line


@pytest.mark.parametrize(
    "words, error",
    [
        ([], "expected the id of a task, or --list, got neither"),
        (["WarpSimpleSpread"], "of gpu-vecenv reproduce --list, got 'WarpSimpleSpread'; did you mean 'WarpSimpleSpread-v3'?"),
        (["WarpTag-v0", "--algorithm", "qmix"], "--algorithm: expected one of ippo, mappo, pqn for WarpTag-v0, got qmix"),
        (["WarpTag-v0", "--seeds", "0"], "--seeds: expected an integer from 1 to 10000, got 0"),
        (["WarpTag-v0", "--list"], "--list: expected no task and no --algorithm with it, got WarpTag-v0"),
    ],
)  # fmt: skip
def test_wrong_words_are_refused(capsys, words, error):
    assert main(["reproduce", *words]) == 2
    assert error in capsys.readouterr().err


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of two short runs in few worlds, made by the command."""
    folder = tmp_path_factory.mktemp("reproduced") / "spread"
    words = ["WarpSimpleSpread-v3", "--seeds", "2", "--total-steps", "1", "--device", "cpu", "--out", str(folder)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "WarpSimpleSpread-v3", Task("mpe", "WarpSimpleSpread-v3", {"ippo": {"num_envs": 4}}, episodes=32))
        assert main(["reproduce", *words]) == 0
    return folder


def test_files_hold_evaluations_and_returns_of_agents_and_of_their_sum(results):
    content = json.loads((results / "results.json").read_text())
    assert content["roles"] == {"agent": 3} and [run["seed"] for run in content["runs"]] == [0, 1]
    for run in content["runs"]:
        assert run["final"]["sum"] == pytest.approx(3 * run["final"]["agent"], abs=1e-4)
        assert run["curve"]["steps"] == [100 * n for n in range(1, EVALUATIONS + 1)]
        assert run["curve"]["seconds"] == sorted(run["curve"]["seconds"])
    assert content["runs"][0]["final"] != content["runs"][1]["final"]
    assert (results / "returns.png").read_bytes().startswith(b"\x89PNG")
    assert len(set(content["runs"][0]["curve"]["returns"]["agent"])) == EVALUATIONS
    assert -32 < content["random"]["agent"] < -22  # 640 episodes have a mean of about -27


def check_run(run):
    """Check a run by marl-eval 0.0.4, its README and what its ``JsonLogger`` writes; return the lengths of its lists.

    A run holds ``step_0``, ``step_1``, ... with ``step_count``, ``elapsed_time`` and a list for each metric, and
    ``absolute_metrics`` with longer lists of the same metrics.
    """
    absolute = run["absolute_metrics"]
    steps = [run[f"step_{number}"] for number in range(len(run) - 1)]
    counts, seconds = [step["step_count"] for step in steps], [step["elapsed_time"] for step in steps]
    assert all(type(count) is int for count in counts) and counts == sorted(set(counts)) and seconds == sorted(seconds)
    assert all(set(step) == {"step_count", "elapsed_time", *absolute} for step in steps)
    during = [step[name] for step in steps for name in absolute]
    assert all(type(value) is float and math.isfinite(value) for values in (*during, *absolute.values()) for value in values)
    return {len(values) for values in during}, {len(values) for values in absolute.values()}


def test_marl_eval_gets_its_layout(results):
    content = json.loads((results / "marl_eval.json").read_text())
    runs = content["mpe"]["WarpSimpleSpread-v3"]["ippo"]
    assert set(runs) == {"seed_0", "seed_1"}
    for run in runs.values():
        assert check_run(run) == ({1}, {320})
        assert [run[f"step_{n}"]["step_count"] for n in range(EVALUATIONS)] == [100 * n for n in range(1, EVALUATIONS + 1)]
        absolute = run["absolute_metrics"]
        assert set(absolute) == {"return", "return_agent"}
        np.testing.assert_allclose(absolute["return"], 3 * np.array(absolute["return_agent"]), atol=1e-3)


def test_names_are_those_that_marl_eval_takes():
    """It makes names lower case, and refuses algorithms with commas in their names."""
    names = [task.lower() for task in TASKS]
    assert len(set(names)) == len(names)
    assert not any("," in algorithm for _, algorithm in EVERY)


def handmade(*finals):
    """Results with these mean returns of a runner and three taggers."""
    runs = [
        {
            "seed": seed,
            "curve": {"steps": [5], "seconds": [1.0], "returns": {name: [0.0] for name in ("tagger", "runner", "sum")}},
            "final": {"tagger": tagger, "runner": runner, "sum": 3 * tagger + runner},
            "best": {name: [1.0, 2.0] for name in ("tagger", "runner", "sum")},
        }
        for seed, (tagger, runner) in enumerate(finals)
    ]
    return {
        "suite": "tag", "task": "Mine-v0", "algorithm": "ippo", "device": "cpu", "episodes": 640, "steps": 5, "seconds": 1.0,
        "roles": {"tagger": 3, "runner": 1}, "random": {"tagger": 0.25, "runner": -2.0, "sum": -1.25}, "runs": runs,
    }  # fmt: skip


def test_the_table_has_interquartile_means_beside_random_play():
    finals = ((1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (1000.0, 8.0))
    tagger, runner, together = (line.split() for line in list(result_lines(handmade(*finals)))[3:])
    assert tagger[:5] == ["tagger,", "each", "of", "3", "2.5"] and tagger[-1] == "0.25"
    assert runner[:2] == ["runner", "0"] and together[:4] == ["all", "4", "agents", "7.5"]


def test_one_run_has_no_interval():
    assert "one run" in list(result_lines(handmade((1.0, 2.0))))[3]


def test_roles_are_metrics_of_marl_eval():
    run = marl_eval(handmade((1.0, 2.0)))["tag"]["Mine-v0"]["ippo"]["seed_0"]
    names = ("return", "return_tagger", "return_runner")
    assert run["step_0"] == {"step_count": 5, "elapsed_time": 1.0, **{name: [0.0] for name in names}}
    assert run["absolute_metrics"] == {name: [1.0, 2.0] for name in names}


@pytest.mark.parametrize("count, mean", [(1, 0.0), (3, 1.0), (4, 1.5), (8, 3.5), (10, 4.5)])
def test_the_interquartile_mean_leaves_out_the_outer_quarters(count, mean):
    values = np.arange(count, dtype=float)
    if count >= 4:
        values[[0, -1]] = -1e9, 1e9
    assert interquartile_mean(np.random.default_rng(0).permutation(values)) == pytest.approx(mean)


@pytest.mark.in_ci  # .ci/run installs rliable, whose 10,000 draws take seconds
@pytest.mark.parametrize("tasks", [1, 3])
def test_intervals_are_those_of_rliable(tasks):
    library, metrics = pytest.importorskip("rliable.library"), pytest.importorskip("rliable.metrics")
    scores = np.random.default_rng(tasks).normal(size=(10, tasks))
    np.random.seed(0)  # its draws come from NumPy's global generator, even if it is given a random_state
    mean, ends = library.get_interval_estimates({"a": scores}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=10_000)
    assert interquartile_mean(scores) == pytest.approx(mean["a"][0])
    np.testing.assert_allclose(bootstrap_interval(scores), ends["a"][:, 0], atol=0.03)


def test_intervals_of_one_value_have_no_width():
    assert bootstrap_interval(np.full(5, 2.0)) == (2.0, 2.0)
    assert math.isclose(interquartile_mean([2.0] * 5), 2.0)
