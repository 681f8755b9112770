"""``gpu-vecenv bench --quick``: its table, its cases, and options that it does not take."""

import json

import pytest

from gpu_vecenv.bench import env_only, quick, rollouts, training
from gpu_vecenv.bench.cases import Case
from gpu_vecenv.bench.plain import amount, times, title
from gpu_vecenv.bench.settings import Setting
from gpu_vecenv.cli.main import main
from gpu_vecenv.train import PPOConfig

TINY = {
    "env": {"cpu": (Case("WarpCartPole-v1", 3, only=quick.ONLY), Case("WarpGridTag-v0", 2, only=quick.ONLY))},
    "training": {"cpu": (Setting("WarpCartPole-v1", 4, ppo=PPOConfig(num_steps=3, num_epochs=1, num_minibatches=2)),)},
}


def row(library="gpu_vecenv", path="python_copy_false", speed=1e6, **more):
    made = {"mode": "env", "library": library, "path": path, "env": "WarpTag-v0", "starts": "own"}
    made |= {"params": {"num_taggers": 5, "num_runners": 100}}
    return made | {"worlds": 64, "agents": 105, "env_steps_per_s": speed} | more


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setattr(quick, "TABLES", TINY)
    monkeypatch.setattr(quick, "SECONDS", 1e-4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.in_ci
def test_a_line_for_each_env_and_no_file(tiny, capsys):
    assert main(["bench", "--quick", "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    assert list(tiny.iterdir()) == []
    table = told[told.index("environment") :]
    assert table.index("WarpCartPole-v1") < table.index("Gymnasium") < table.index("WarpGridTag-v0") < table.index("5 agents")
    assert "4 worlds" in table and "failed" not in table
    assert max(map(len, table.splitlines())) <= 80
    assert not {"floor", "slab", "bits"} & set(told.replace(":", " ").split())


@pytest.mark.in_ci
def test_the_file_is_written_where_the_user_says(tiny, capsys):
    assert main(["bench", "--quick", "--device", "cpu", "--envs", "cartpole", "--no-peers", "--out", "deep/quick.json"]) == 0
    made = json.loads((tiny / "deep" / "quick.json").read_text())
    assert [(each["mode"], each["path"]) for each in made["rows"]] == [
        ("env", "python_copy_false"), ("env", "rollout"), ("env", "rollout_random"), ("training", "fused"),
        ("training", "eager")]  # fmt: skip
    assert made["command"] == "gpu-vecenv bench --envs cartpole --device cpu --no-peers --quick"
    assert made["rounds"] == quick.ROUNDS
    assert "5 rows in deep/quick.json" in capsys.readouterr().out


def test_cells_hold_the_fastest_mode_and_the_fastest_way_of_each_library():
    rows = [row(), row(path="graph", speed=3e6), row(path="rollout", speed=2e6)]
    rows += [row("WarpDrive", "slow", 1e3), row("WarpDrive", "fast", 5450.0), row("VMAS", "x", 10.0)]
    rows += [row(worlds=9, speed=7.0), row(mode="training", path="eager", params={}, worlds=8, speed=284.4)]
    rows += [row(mode="training", path="eager", env="WarpCartPole-v1", params={}, agents=1)]
    shown, other = quick.lines(rows)
    name, trained = "WarpTag-v0\n5 taggers\n100 runners", "284\n8 worlds"
    assert shown == (name, "64", "1 million", "3 million\nCUDA graph", "5,450\nWarpDrive\n10\nVMAS", trained)
    assert other == (name, "9", "7", "7\nfrom Python", "–", trained)


def test_failed_rows_are_named_below_the_table():
    broken = {key: value for key, value in row("VMAS").items() if key != "env_steps_per_s"} | {"error": "ValueError: no"}
    alone = {key: value for key, value in row(worlds=1).items() if key != "env_steps_per_s"} | {"error": "MemoryError: full"}
    assert [cells[2:] for cells in quick.lines([row(), broken, alone])] == [
        ("1 million", "1 million\nfrom Python", "–", "–"), ("–", "–", "–", "–")]  # fmt: skip
    assert quick.errors([row(), broken]) == ["WarpTag-v0, 5 taggers, 100 runners, VMAS: ValueError: no"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rounds", "3"], "which it sets; got --rounds."),
        (["--modes", "env", "--sizes", "4", "--seconds", "1"], "which it sets; got --sizes, --modes, --seconds."),
        (["--cases", "tag"], "which it sets; got --cases."),
        (["--envs", "pendulum"], "the ids WarpCartPole-v1, WarpTag-v0, WarpGridTag-v0 with --quick, got 'pendulum'."),
        (["--out", "."], "--out must be a file to write"),
    ],
)
def test_options_that_it_does_not_take_print_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "--quick", "--device", "cpu", *words]) == 2
    assert said in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "device"), [("cpu", "cpu"), ("cuda", "cuda:0")])
def test_cases_have_names_for_their_ways(kind, device):
    for case in quick.CASES[kind]:
        made = env_only.ways(case, device) | rollouts.ways(case, device)
        assert set(quick.WAYS) - set(made) == ({"graph"} if kind == "cpu" else set())
    for setting in quick.TRAINED[kind]:
        assert set(setting.only) <= set(training.ways(setting, device)) and len(setting.only) == 1
    assert {case.env for case in quick.CASES[kind]} == {setting.env for setting in quick.TRAINED[kind]}


@pytest.mark.parametrize(
    ("value", "text"),
    [(999_600, "1 million"), (545_432, "545,000"), (3.956e7, "39.6 million"), (9.7e10, "97 billion"), (284.4, "284")],
)
def test_amounts_have_three_digits(value, text):
    assert amount(value) == text


def test_ratios_have_two_digits():
    assert [times(ratio) for ratio in (72.7, 4.64, 0.513, 20.0, 1234.0)] == ["73", "4.6", "0.51", "20", "1,200"]


def test_titles_name_the_agents():
    assert title(row(params={"num_taggers": 3, "num_runners": 1})) == "WarpTag-v0, 3 taggers, 1 runner"
    assert title(row(params={}, starts="corner")) == "WarpTag-v0, 105 agents, all in one corner"
    assert title(row(env="WarpCartPole-v1", params={}, agents=1)) == "WarpCartPole-v1"
    assert title(row(params={"num_taggers": 5, "num_runners": 100, "use_full_observation": True})).endswith("observes all others")
