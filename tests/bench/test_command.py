"""``gpu-vecenv bench`` at small sizes: its file, the rows of the file, and peers that fail."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpu_vecenv
from gpu_vecenv.backend.private import each_operation
from gpu_vecenv.bench import env_only, startup
from gpu_vecenv.bench.cases import CPU_CASES, GPU_CASES, TAG, Case, choose
from gpu_vecenv.bench.counting import _Operations
from gpu_vecenv.bench.env_only import make_env, prepare
from gpu_vecenv.bench.peers.client import PeerError, PeerProcess
from gpu_vecenv.bench.ready import Peers
from gpu_vecenv.bench.results import figures
from gpu_vecenv.bench.run import measure
from gpu_vecenv.bench.settings import SETTINGS
from gpu_vecenv.bench.timing import Local, Summary
from gpu_vecenv.cli.bench import default_file, groups
from gpu_vecenv.cli.main import main

SMALL = ["--device", "cpu", "--rounds", "2", "--seconds", "0.0001"]
FLOORS = {"copy_bytes_per_s": 1e9}


def run(tmp_path, *words):
    out = tmp_path / "deep" / "bench.json"
    assert main(["bench", *SMALL, "--out", str(out), *words]) == 0
    return json.loads(out.read_text())


@pytest.mark.in_ci
def test_the_file_holds_the_command_the_machine_and_a_row_for_every_path(tmp_path, capsys):
    made = run(tmp_path, "--envs", "cartpole", "--sizes", "4", "--modes", "env", "inference", "training")
    assert made["machine"]["device"] == "cpu" and made["machine"]["commit"]
    assert made["command"] == (
        "gpu-vecenv bench --envs cartpole --sizes 4 --device cpu --modes env inference training --rounds 2 --seconds 0.0001"
    )
    assert made["floors"]["copy_bytes_per_s"] > 0
    rows = {(row["mode"], row["library"], row["path"]): row for row in made["rows"]}
    ours = {("env", f"python_{way}") for way in ("copy_false", "copy_true", "bind", "one_thread")}
    ours |= {("env", way) for way in ("rollout", "rollout_random", "rollout_unkept")}
    ours |= {("inference", "eager"), ("training", "fused"), ("training", "eager")}
    assert {(mode, path) for mode, library, path in rows if library == "gpu_vecenv"} == ours
    assert ("env", "Gymnasium", "vector_entry_point") in rows
    for row in rows.values():
        assert "error" not in row
        assert row["low_s"] <= row["median_s"] <= row["high_s"]
        assert row["env_steps_per_s"] == pytest.approx(4 / row["median_s"])
    step = rows["env", "gpu_vecenv", "python_copy_false"]
    assert (step["kernel_launches"], step["allocations"], step["torch_operations"]) == (1, 0, 0)
    assert rows["env", "gpu_vecenv", "python_copy_true"]["allocations"] == 6
    for path in ("rollout", "rollout_random", "rollout_unkept"):
        many = rows["env", "gpu_vecenv", path]
        assert many["kernel_launches"] == 1 / many["steps_per_launch"] == 1 / 16
        apart = {"rollout_unkept": {"actions": 0}, "rollout_random": {"actions": 4}}.get(path, {})  # random ones are uint8
        assert many["floor_bytes"] == {**step["floor_bytes"], "state": step["floor_bytes"]["state"] / 16, **apart}
    assert rows["env", "gpu_vecenv", "python_one_thread"]["floor_bytes"] == step["floor_bytes"]
    policy = rows["inference", "gpu_vecenv", "eager"]
    heads = {"actions": 4 * 8, "policy": 4 * (4 * 4 + 8 + 4 + 4)}  # int64 indices; policy: 4 floats in, an index and 2 floats out
    assert policy["floor_bytes"] == {**step["floor_bytes"], **heads}
    assert policy["kernel_launches"] == 1 and policy["times_floor"] > 1
    assert ("training", "PyTorch", "eager loop") in rows
    assert step["host_syncs"] is None and step["peak_bytes"] is None
    assert step["floor_s"] == pytest.approx(sum(step["floor_bytes"].values()) / made["floors"]["copy_bytes_per_s"])
    assert f"{len(made['rows'])} rows in" in capsys.readouterr().out


def test_floor_bytes_of_a_cartpole_step():
    """Read: 4 floats, the time, an action index. Written: 4 floats, the time, observation, reward, three flags."""
    env, facts = prepare(Case("WarpCartPole-v1", 7), "cpu", copy=True)
    env.close()
    assert facts["floor_bytes"] == {"state": 7 * 2 * (4 * 4 + 4), "results": 7 * (4 * 4 + 4 + 3), "actions": 7 * 4}


def test_floor_bytes_of_a_tag_step():
    """Read and written: 7 words an agent. Written: a row, a reward and a flag an agent, a reward and three flags a world."""
    env, facts = prepare(Case(TAG, 3, {"num_taggers": 2, "num_runners": 4}), "cpu", copy=False)
    env.close()
    agents, width = 3 * 6, 7 * 5 + 1
    assert facts["floor_bytes"] == {
        "state": 2 * (agents * 7 * 4 + 3 * 4),
        "results": agents * (width * 4 + 4 + 1) + 3 * (4 + 3),
        "actions": agents * 2 * 4,
    }


def test_the_row_of_a_failing_peer_holds_its_error():
    case, way = Case("WarpCartPole-v1", 2), {"path": "p", "device": "cpu", "env_id": "CartPole-v1", "num_envs": 2}
    wrong = {**way, "path": "wrong", "env_id": "NoSuchEnv-v0"}
    peers = Peers("cpu", {}, ("envpool_sync", "gymnax_jax", "jaxmarl_mpe", "vmas_torch", "warpdrive"))
    peers.installed = [SimpleNamespace(NAME="A", __name__=peers.installed[0].__name__, ways=lambda *_: [wrong, way])]
    peers.installed += [SimpleNamespace(NAME="B", __name__="no_such_module", ways=lambda *_: [way])]
    called = []
    peers.prepare([case], lambda: called.append(1))
    rows = measure(case, "env", {"broken": lambda: 1 / 0}, "cpu", FLOORS, 1, 1e-4, peers.ways(case))
    peers.close()
    errors = [row.get("error") for row in rows]
    assert called == [1] and [row["library"] for row in rows] == ["gpu_vecenv", "A", "A", "B"]
    assert errors[0] == "ZeroDivisionError: division by zero"
    assert errors[1].startswith("PeerError: ") and "NoSuchEnv" in errors[1]
    assert errors[2] is None and rows[2]["env_steps_per_s"] > 0
    assert errors[3].startswith("PeerError: the process ended with status 1: ModuleNotFoundError")
    assert all(("median_s" in row) == ("error" not in row) for row in rows)
    assert peers.ways(Case("WarpCartPole-v1", 3)) == []


def test_a_case_may_be_limited_to_some_paths(monkeypatch):
    large = Case("WarpCartPole-v1", 9, only=("python_bind",))
    monkeypatch.setattr("gpu_vecenv.cli.bench.CPU_CASES", (Case("WarpCartPole-v1", 2), large))
    (_, every), (case, some) = groups("env", "cpu", "cpu", (), ())
    assert case == large and list(some) == ["python_bind"] and set(some) < set(every)
    assert [case.only for case, _ in groups("env", "cpu", "cpu", (), (5,))] == [()]  # sizes given by the user have every path


def test_a_comparison_that_cannot_be_made_is_left_out_of_the_rows():
    case, made = Case("WarpCartPole-v1", 2), []

    def out_of_memory():
        raise MemoryError

    def comparison():
        made.append(Local(lambda: None, "cpu"))
        return made[-1]

    rows = measure(case, "env", env_only.ways(case, "cpu"), "cpu", FLOORS, 1, 1e-4, (), {"a_s": out_of_memory, "b_s": comparison})
    assert made and all("a_s" not in row and row["b_s"] > 0 and row["median_s"] > 0 for row in rows)


def test_fresh_arrays_allocates_as_many_arrays_as_a_step_returns():
    case = Case(TAG, 3, {"num_taggers": 2, "num_runners": 4})
    env, _ = make_env(case, "cpu")
    *arrays, info = env.step(env.action_space.sample())
    env.close()
    operations = _Operations()
    with each_operation(operations.run):
        env_only.fresh_arrays(case, "cpu").read(1)
    before = operations.allocations
    with each_operation(operations.run):
        env_only.fresh_arrays(case, "cpu")
    made_only = operations.allocations - before  # allocated by making the env and stepping it once
    assert before - made_only == len([*arrays, *info]) == 8


def test_a_peer_whose_process_ends_raises_an_error_with_its_reason():
    process = PeerProcess("no_such_module", "cpu")
    with pytest.raises(PeerError, match="ended with status 1: ModuleNotFoundError"):
        process.call({"close": 0})
    assert not process.alive
    process.close()


def test_a_peer_imports_the_tree_of_its_environment_first(tmp_path, monkeypatch):
    (tmp_path / "gpu_vecenv").symlink_to(Path(gpu_vecenv.__file__).parent)
    (tmp_path / "place.py").write_text(
        "import gpu_vecenv\nfrom gpu_vecenv.bench.subject import Subject\nfrom gpu_vecenv.bench.timing import Local\n"
        "def make():\n    return Subject(Local(int, 'cpu'), facts={'file': gpu_vecenv.__file__})\n"
    )
    monkeypatch.chdir(Path(gpu_vecenv.__file__).parents[1])  # where benchmarks are run
    process = PeerProcess("place", "cpu", {"PYTHONPATH": str(tmp_path)})
    try:
        subject = process.receive_subject(process.request_subject({}))
        assert subject.facts["file"] == str(tmp_path / "gpu_vecenv" / "__init__.py")
    finally:
        process.close()


def test_agents_that_start_in_the_corner_stay_there():
    env, _ = make_env(Case(TAG, 2, {"num_taggers": 2, "num_runners": 8}, starts="corner"), "cpu")
    before = env.get_state("loc_x", "loc_y")
    for _ in range(3):
        env.step(env.action_space.sample())
    after = env.get_state("loc_x", "loc_y")
    env.close()
    assert all((before[name] == after[name]).all() and float(after[name].max()) <= 1 for name in before)


def test_cases_have_the_right_number_of_agents_and_unique_names():
    for case in (*GPU_CASES, *CPU_CASES):
        env, _ = make_env(Case(case.env, 1, case.params, case.starts), "cpu")
        assert env.num_agents == case.agents
        env.close()
    assert len({case.name for case in GPU_CASES}) == len(GPU_CASES)


def test_cases_are_chosen_by_env_and_resized():
    chosen = choose(GPU_CASES, ["CARTPOLE", "grid"], [8, 16])
    assert [(case.env, case.worlds) for case in chosen] == [
        ("WarpCartPole-v1", 8), ("WarpCartPole-v1", 16), ("WarpGridTag-v0", 8), ("WarpGridTag-v0", 16)]  # fmt: skip


def test_cases_are_chosen_by_words_of_their_names():
    (chosen,) = choose(SETTINGS["cuda"], [], [], ["256-256", "nowhere"])
    assert chosen.name == "WarpTag-v0 x 2,000, extended_observation=True, 16 steps, 1 x 4, 256-256"
    (resized,) = choose(SETTINGS["cuda"], ["TAG"], [3], ["256-256"])
    assert (resized.worlds, resized.ppo, resized.only) == (3, chosen.ppo, ())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--modes", "sleep"], "--modes must be some of env, inference, training, goal, startup, got sleep"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--purejaxrl", "nowhere"], "--purejaxrl must be a folder that holds ppo.py, got nowhere"),
        (["--warpdrive", "nowhere"], "--warpdrive must be a folder that holds warp_drive, got nowhere"),
    ],
)
def test_invalid_options_print_one_line(words, said, capsys):
    assert main(["bench", "--device", "cpu", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("modes", "name"),
    [
        (["startup"], "startup"),
        (["goal"], "training"),
        (["training", "goal"], "training"),
        (["training", "startup"], "bench"),
        (["env"], "bench"),
    ],
)
def test_modes_with_tables_of_their_own_have_files_of_their_own(modes, name):
    assert default_file(modes, "cuda") == Path(f"benchmarks/results/{name}_cuda.json")


@pytest.mark.in_ci
def test_start_up_is_measured_with_both_caches(tmp_path):
    made = run(tmp_path, "--envs", "cartpole", "--sizes", "2", "--modes", "startup", "--rounds", "1")
    cold, warm = made["rows"]
    assert (cold["path"], warm["path"]) == ("cold", "warm")
    assert "error" not in cold and "error" not in warm and "env_steps_per_s" not in cold
    assert cold["low_s"] == cold["median_s"] == cold["high_s"]
    assert list(cold["phases_s"]) == ["imported", "built", "stepped"]
    seconds = list(cold["phases_s"].values())
    assert seconds == sorted(seconds) and seconds[-1] == cold["median_s"]


@pytest.mark.slow
def test_the_start_of_training_is_measured_up_to_a_trained_policy(monkeypatch):
    monkeypatch.setattr(startup, "TO_THE_END", {"evaluation_interval": 1, "stop_at": 1.0})
    _, (case, ways) = groups("startup", "cpu", "cpu", ("cartpole",), ())
    assert list(ways) == [f"fused_{way}" for way in ("first_iteration_cold", "first_iteration_warm", "trained_warm")]
    assert len(startup.training_ways(case, "cuda:0")) == 6
    (trained,) = measure(case, "startup", {"trained": ways["fused_trained_warm"]}, "cpu", FLOORS, 1, None)
    assert list(trained["phases_s"]) == ["imported", "built", "iterated", "trained"]
    assert trained["phases_s"]["trained"] == trained["median_s"] > trained["phases_s"]["iterated"]
    monkeypatch.setattr(startup, "TO_THE_END", {"evaluation_interval": 1, "stop_at": 501.0, "patience": 1})
    (failed,) = measure(case, "startup", {"x": startup.training_ways(case, "cpu")["fused_trained_warm"]}, "cpu", FLOORS, 1, None)
    assert "did not get to 'trained': RuntimeError: expected a mean return of 501.0, got" in failed["error"]


def test_the_floor_is_the_larger_of_memory_time_and_launch_time():
    taken = Summary(median=3e-6, low=2e-6, high=4e-6, coverage=0.9, hosts=(1e-6,) * 5, calls=7, reached=5)
    facts = {"floor_bytes": {"state": 600.0, "results": 300, "actions": 100}, "kernel_launches": 1.0}
    case = Case("WarpCartPole-v1", 10)
    floors = {"copy_bytes_per_s": 1e9, "graph_node_s": 1e-6}
    assert figures(case, "env", 1, facts, taken, {"copy_bytes_per_s": 1e9})["floor_s"] == pytest.approx(1e-6)
    assert figures(case, "env", 1, facts | {"floor_bytes": {"state": 1.0}}, taken, floors)["floor_s"] == pytest.approx(1e-6)
    many = figures(case, "env", 10, facts | {"kernel_launches": 0.1}, taken, floors | {"graph_node_s": 2e-5})
    assert (many["floor_s"], many["median_s"]) == (pytest.approx(2e-6), pytest.approx(3e-7))
    assert many["env_steps_per_s"] == pytest.approx(10 / 3e-7)


def test_an_interrupted_run_writes_the_rows_measured_so_far(tmp_path, monkeypatch):
    def stopped(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpu_vecenv.bench.inference.ways", lambda *given: {"python": stopped})
    out = tmp_path / "bench.json"
    words = ["--envs", "cartpole", "--sizes", "4", "--modes", "env", "inference", "--no-peers", "--out", str(out)]
    assert main(["bench", *SMALL, *words]) == 130
    made = json.loads(out.read_text())
    assert {row["mode"] for row in made["rows"]} == {"env"} and made["wall_s"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]
