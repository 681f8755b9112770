"""Opponents of a role: policies of other runs, functions and scripted policies, in training, evaluations and videos."""

import dataclasses
from pathlib import Path

import pytest
import torch

from gpu_vecenv.envs.grid_tag.opponents import chase, flee
from gpu_vecenv.envs.tag import opponents as tag
from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    NetworkConfig,
    PolicyMapError,
    PPOConfig,
    TrainConfig,
    Trainer,
    evaluate,
    load_checkpoint,
    play,
    watch,
)
from gpu_vecenv.train.run_folder.source import PolicySource

GAME = {"num_taggers": 2, "num_runners": 3, "episode_length": 8}


def config(out=None, **options):
    options = {"ppo": PPOConfig(num_steps=8)} | options
    return TrainConfig(
        "WarpTag-v0", num_envs=4, total_steps=64, device="cpu", out=None if out is None else str(out), env_kwargs=GAME, **options
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs whose networks differ in size, the second one with a best checkpoint, and a third one by PQN."""
    folder = tmp_path_factory.mktemp("runs")
    Trainer(config(folder / "a"), quiet=True).train()
    Trainer(
        config(folder / "b", network=NetworkConfig(hidden_sizes=(16,)), evaluation_interval=1, evaluation_episodes=2), quiet=True
    ).train()
    Trainer(config(folder / "values", algorithm="pqn", ppo=None), quiet=True).train()
    return folder


def still(obs):
    """Actions of index 0: no change of acceleration, no turn."""
    return torch.zeros(*obs.shape[:2], 2, dtype=torch.int64, device=obs.device)


def test_text_names_a_policy_of_a_run(tmp_path):
    read = [PolicySource.of(text) for text in ("runs/a", "runs/a:x", "runs/a@best", "runs/a:x@newest")]
    assert [(str(each.run), each.policy, each.which) for each in read] == [
        ("runs/a", None, "newest"), ("runs/a", "x", "newest"), ("runs/a", None, "best"), ("runs/a", "x", "newest"),
    ]  # fmt: skip
    strange = tmp_path / "a:b@best"
    strange.mkdir()
    assert PolicySource.of(str(strange)) == PolicySource(strange)
    assert PolicySource.of("no/folder@host") == PolicySource(Path("no/folder@host"))
    for text in (f"{tmp_path}@bset", f"{tmp_path}:runner@bset"):
        with pytest.raises(CheckpointError, match="@bset: expected @best or @newest, got @bset$"):
            PolicySource.of(text)
    with pytest.raises(CheckpointError, match="best.pt: expected the best checkpoint, which runs with evaluation_interval have"):
        PolicySource(tmp_path, which="best").file  # noqa: B018


def test_policies_of_two_runs_play_each_other_as_their_weights_do_in_one_run(runs):
    """The same match by a run whose policies were loaded from both."""
    between = evaluate(None, 6, {"tagger": str(runs / "a"), "runner": f"{runs / 'b'}:runner@best"}, device="cpu", seed=3)
    settings = {"runner": {"network": {"hidden_sizes": [16]}}}
    loaded = TrainConfig.from_options(
        {**config(runs / "unused").to_options(), "policies": settings, "out": None,
         "load_policies": {"tagger": str(runs / "a"), "runner": str(runs / "b" / "checkpoint" / "best.pt")}}
    )  # fmt: skip
    assert between == evaluate(loaded, 6, device="cpu", seed=3)


def test_a_folder_alone_is_the_policy_of_the_role_and_takes_the_place_of_the_runs(runs):
    a, b = str(runs / "a"), str(runs / "b")
    mixed = evaluate(a, 4, {"runner": b}, device="cpu", seed=1)
    assert mixed == evaluate(None, 4, {"tagger": a, "runner": f"{b}:runner"}, device="cpu", seed=1)
    assert mixed == evaluate(b, 4, {"tagger": a}, device="cpu", seed=1)


def test_policies_of_other_algorithms_play_too(runs):
    values = str(runs / "values")
    result = evaluate(str(runs / "a"), 4, {"runner": values}, device="cpu", seed=1)
    assert result == evaluate(values, 4, {"tagger": str(runs / "a")}, device="cpu", seed=1)
    trainer = Trainer(config(), quiet=True, opponents={"runner": values})
    trainer.train()
    assert trainer.config.algorithm_of("runner") == "pqn" and trainer.config.frozen == ("runner",)


def test_episode_returns_and_intervals_are_those_of_all_seeds(runs):
    options = {"policy_map": {"tagger": "chase"}, "device": "cpu", "env_kwargs": {**GAME, "tagging_distance": 0.3}}
    together = evaluate(runs / "a", 3, seeds=3, seed=5, **options)
    apart = [evaluate(runs / "a", 3, seed=seed, **options) for seed in (5, 6, 7)]
    returns = torch.tensor([x for each in apart for x in each.episode_returns["runner"]], dtype=torch.float64)
    assert together.episodes == 9 and together.episode_returns["runner"] == returns.tolist()
    assert together.mean_return["runner"] == pytest.approx(returns.mean().item())
    assert together.return_interval["runner"] == pytest.approx(2.306004 * returns.std().item() / 3, rel=1e-5)  # t of 8 degrees


def test_a_run_trains_against_the_frozen_policy_of_another(runs, tmp_path):
    trainer = Trainer(config(tmp_path / "c"), quiet=True, opponents={"runner": f"{runs / 'b'}@best"})
    best = load_checkpoint(runs / "b" / "checkpoint" / "best.pt")["policies"]["runner"]
    trainer.train()
    assert {*trainer.parts.algorithms} == {"tagger"}
    saved = load_checkpoint(tmp_path / "c")["policies"]["runner"]
    assert saved.keys() == best.keys() and all(torch.equal(saved[name], best[name]) for name in best)
    trainer.close()
    assert Trainer.resume(tmp_path / "c", quiet=True, total_steps=96).config.frozen == ("runner",)


def test_a_run_of_options_with_an_opponent_begins_from_its_file(runs, tmp_path):
    trainer = Trainer(config(), quiet=True, opponents={"runner": str(runs / "b")})
    path = trainer.config.save(tmp_path)
    other = Trainer(TrainConfig.from_yaml(path), quiet=True)
    assert other.config.policies == trainer.config.policies
    results = [{k: x for k, x in each.train().items() if k != "steps_per_second"} for each in (trainer, other)]
    assert results[0] == pytest.approx(results[1], nan_ok=True, rel=0, abs=0)


def test_a_function_acts_in_place_of_a_policy(tmp_path):
    seen = []

    def recorded(obs, state, params, agents):
        seen.append((obs.shape, state["loc_x"].shape, params["num_taggers"], agents.tolist()))
        return still(obs)

    trainer = Trainer(config(tmp_path / "run"), quiet=True, opponents={"runner": recorded})
    trainer.train()
    assert seen[0] == ((4, 3, trainer.env.single_observation_space.shape[0]), (4, 5), 2, [2, 3, 4])
    assert (trainer.parts.rollout.groups[0].action.view(8, -1, 2)[:, 8:] == 0).all()
    assert trainer.config.policy_map == {"tagger": "tagger", "runner": "recorded"}
    assert load_checkpoint(tmp_path / "run")["policies"]["recorded"] == {}


def test_a_run_with_a_function_goes_on_as_it_would_have(tmp_path):
    whole = Trainer(config(), quiet=True, opponents={"runner": still})
    whole.train()
    Trainer(config(tmp_path / "run"), quiet=True, opponents={"runner": still}).train(1)
    with pytest.raises(CheckpointError, match="opponents: expected the function 'still' for 'runner' again"):
        Trainer.resume(tmp_path / "run", quiet=True)
    with pytest.raises(CheckpointError, match=r"opponents: expected functions for \['runner'\], as in the run"):
        Trainer.resume(tmp_path / "run", quiet=True, opponents={"tagger": still})
    rest = Trainer.resume(tmp_path / "run", quiet=True, opponents={"runner": still})
    rest.train()
    for name, weights in whole.policies["tagger"].state_dict().items():
        assert torch.equal(weights, rest.policies["tagger"].state_dict()[name])
    with pytest.raises(CheckpointError, match="'still', which acted by a function in that run; give the function again"):
        evaluate(tmp_path / "run", 2, device="cpu")
    assert evaluate(tmp_path / "run", 2, opponents={"runner": still}, device="cpu").episodes == 2


def test_all_roles_but_one_may_be_fixed_in_evaluations_and_videos(runs, tmp_path):
    both = {"tagger": still, "runner": lambda state: torch.zeros(len(state["t"]) * 3, 2, dtype=torch.int32)}
    result = evaluate(config(), 4, opponents=both)
    assert result.mean_length == 8
    states = list(play(config(), opponents=both))
    assert len(states) == 9 and (states[0]["direction"] == states[-1]["direction"]).all()
    assert watch(config(), tmp_path / "film.gif", opponents=both, max_frames=2) == tmp_path / "film.gif"


def test_evaluations_during_training_give_functions_the_state_of_their_own_env():
    numbers = set()

    def counted(state):
        numbers.add(len(state["t"]))
        return torch.zeros(len(state["t"]), 3, 2, dtype=torch.int64)

    Trainer(config(evaluation_interval=1, evaluation_episodes=7), quiet=True, opponents={"runner": counted}).train(1)
    assert numbers == {4, 7}


@pytest.mark.parametrize(("function", "error"), [
    (lambda: None, "expected a function with observations or state as its first parameter, .* got parameters none"),
    (lambda obs, temperature: None, "got parameters obs, temperature"),
    (lambda obs: torch.zeros(4, 3), r"expected actions of the shape \(4, 3, 2\), got \(4, 3\)"),
    (lambda obs: torch.zeros(4, 3, 2), "expected integers as actions, got torch.float32"),
    (lambda obs: None, "expected actions as a tensor, got None"),
])  # fmt: skip
def test_functions_that_do_not_fit_are_refused(function, error):
    with pytest.raises(ConfigError, match=error):
        Trainer(config(), quiet=True, opponents={"runner": function}).train(1)


@pytest.mark.parametrize(("opponents", "error"), [
    ({"runner": 3}, r"who acts for 'runner': expected a name, FOLDER\[:POLICY\]\[@best|@newest\] or a function, got 3"),
    ({"runner": "flea"}, "expected random, chase, flee, FOLDER.* or a function, got 'flea'"),
    ("flee", "opponents: expected a mapping of roles"),
    ({"tagger": "random", "runner": "flee"}, "expected at least one policy to train"),
    ({"runner": "chase"}, "'chase' is a scripted policy of the role 'tagger', got it for runner"),
    ({"ball": "random"}, "expected roles out of"),
])  # fmt: skip
def test_opponents_that_do_not_fit_are_refused(opponents, error):
    with pytest.raises((ConfigError, PolicyMapError), match=error):
        Trainer(config(), quiet=True, opponents=opponents)


def test_matches_that_do_not_fit_are_refused(runs):
    with pytest.raises(ConfigError, match="target: expected a run, a TrainConfig, or policies of runs as FOLDER"):
        evaluate(None, 2, {"tagger": "chase", "runner": "flee"})
    with pytest.raises(PolicyMapError, match="expected a policy for every role, got none for 'runner'"):
        evaluate(None, 2, {"tagger": str(runs / "a")}, device="cpu")
    with pytest.raises(ConfigError, match=r"a:pilot: expected one of the policies of that run, .*'runner'\], got 'pilot'"):
        evaluate(str(runs / "a"), 2, {"tagger": f"{runs / 'a'}:pilot"}, device="cpu")
    with pytest.raises(CheckpointError, match=r"'flea', got policies \[.*'runner'\] and the scripted \['chase', 'flee'\]"):
        evaluate(str(runs / "a"), 2, {"runner": "flea"}, device="cpu")
    with pytest.raises(ConfigError, match="opponents: expected roles that policy_map does not name"):
        evaluate(str(runs / "a"), 2, {"runner": "random"}, opponents={"runner": still})


@pytest.mark.parametrize("params", [{}, {"flatten_actions": True}, {"continuous_actions": True}, {"num_turn_levels": 0}])
def test_taggers_that_chase_head_for_the_nearest_runner(params):
    """One tagger and two runners that stand still: the distance to the nearer one falls until it is caught."""
    game = {"num_taggers": 1, "num_runners": 2, "episode_length": 60, "grid_length": 10.0, **params}

    def hold(obs):
        shape = obs.shape[:2]
        if params.get("continuous_actions"):
            return torch.zeros(*shape, 2)
        return torch.zeros(shape if params.get("flatten_actions") else (*shape, 2), dtype=torch.int64)

    options = TrainConfig("WarpTag-v0", env_kwargs=game, device="cpu")
    *_, last = play(options, opponents={"tagger": "chase", "runner": hold}, seed=2)
    if params.get("num_turn_levels") != 0:
        assert last["alive"].tolist() == [1, 0, 0]


def test_runners_that_flee_outlive_those_that_stand_still():
    game = {"num_taggers": 2, "num_runners": 4, "episode_length": 100, "skill_level_runner": 1.0}
    options = TrainConfig("WarpTag-v0", env_kwargs=game, device="cpu")
    by = {
        name: evaluate(options, 8, opponents={"tagger": "chase", "runner": act}).mean_exits["runner"]
        for name, act in {"flee": "flee", "still": lambda obs: torch.zeros(*obs.shape[:2], 2, dtype=torch.int64)}.items()
    }
    assert by["flee"] < 0.5 * by["still"]


def test_the_runner_of_grid_tag_is_caught_by_taggers_that_chase_and_later_if_it_flees():
    options = TrainConfig("WarpGridTag-v0", env_kwargs={"grid_length": 8, "num_taggers": 3}, device="cpu")
    lengths = [evaluate(options, 16, {"tagger": tagger, "runner": runner}).mean_length
               for tagger, runner in (("chase", "random"), ("random", "random"), ("random", "flee"))]  # fmt: skip
    assert lengths[0] < 0.5 * lengths[1] < 0.5 * lengths[2]


def test_scripted_grid_tag_moves_along_the_longer_way():
    state = {"loc_x": torch.tensor([[0, 5, 3, 3]]), "loc_y": torch.tensor([[0, 3, 9, 3]])}
    agents = torch.tensor([0, 1, 2])
    assert chase(state, {"num_taggers": 3}, agents).tolist() == [[1, 2, 4]]
    assert flee(state, {"num_taggers": 3, "grid_length": 9}, torch.tensor([3])).item() in (2, 3, 4)


@pytest.mark.gpu
@pytest.mark.parametrize("opponent", ["flee", "random", still], ids=["flee", "random", "function"])
def test_opponents_are_part_of_the_graph_and_train_as_without_it(opponent):
    trained = {}
    for graph in (True, False):
        options = TrainConfig("WarpTag-v0", 64, 3_072, device="cuda:0", env_kwargs=GAME, graph=graph, ppo=PPOConfig(num_steps=8))
        trainer = Trainer(options, quiet=True, opponents={"runner": opponent})
        trainer.train()
        assert not graph or (trainer.executor._graph is not None and trainer.executor.reason == "")
        trained[graph] = trainer.policies["tagger"].state_dict()
    assert all(torch.equal(x, trained[False][name]) for name, x in trained[True].items())


@pytest.mark.gpu
def test_a_function_that_waits_for_the_device_runs_without_a_graph_with_the_reason(capsys):
    def waits(obs):
        return still(obs) if obs.sum().item() > -1e30 else None

    options = TrainConfig("WarpTag-v0", 64, 64 * 8 * 5, device="cuda:0", env_kwargs=GAME, ppo=PPOConfig(num_steps=8))
    trainer = Trainer(options, opponents={"runner": waits})
    trainer.train()
    assert "the host waits for the device" in trainer.executor.reason and __file__ in trainer.executor.reason
    assert "iterations run without a CUDA graph: the host waits" in capsys.readouterr().out


@pytest.mark.gpu
def test_a_frozen_policy_of_another_run_is_part_of_the_graph(tmp_path):
    options = TrainConfig("WarpTag-v0", 64, 64 * 8 * 6, device="cuda:0", env_kwargs=GAME, ppo=PPOConfig(num_steps=8))
    Trainer(dataclasses.replace(options, out=str(tmp_path / "a")), quiet=True).train()
    trainer = Trainer(options, quiet=True, opponents={"runner": str(tmp_path / "a")})
    before = {name: x.clone() for name, x in trainer.policies["runner"].state_dict().items()}
    trainer.train()
    assert trainer.executor._graph is not None
    assert all(torch.equal(x, before[name]) for name, x in trainer.policies["runner"].state_dict().items())


@pytest.mark.parametrize("continuous", [False, True])
def test_scripted_policies_of_tag_follow_the_parameters_of_their_world(continuous):
    """A world in which they differ acts as an env of one world does."""
    generator, worlds = torch.Generator().manual_seed(0), 5
    state = {name: 6 * torch.rand((worlds, 6), generator=generator) for name in ("loc_x", "loc_y", "direction")}
    state["alive"] = torch.randint(2, (worlds, 6), generator=generator)
    of_world = {
        "grid_length": [6.0, 7.0, 9.0, 6.0, 7.0],
        "max_speed": [0.5, 1.0, 2.0, 3.0, 0.1], "skill_level_runner": [1.0, 2.0, 0.5, 1.0, 1.0],
        "min_turn": [-2.0, -1.0, 0.5, 0.0, -3.0], "max_turn": [2.0, 1.5, 0.5, 1.0, 3.0],
        "min_acceleration": [-1.0, -0.5, 0.1, -0.2, 0.2], "max_acceleration": [0.5, -0.1, 0.2, 0.3, 0.2],
    }  # fmt: skip
    for levels in (0, 1, 6):
        shared = {
            "num_taggers": 2, "num_acceleration_levels": levels, "num_turn_levels": levels,
            "flatten_actions": False, "continuous_actions": continuous,
        }  # fmt: skip
        for act, agents in ((tag.chase, torch.arange(2)), (tag.flee, torch.arange(2, 6))):
            actions = act(state, shared | {name: torch.tensor(x) for name, x in of_world.items()}, agents)
            for world in range(worlds):
                numbers = {name: values[world] for name, values in of_world.items()}
                expected = act({name: x[world : world + 1] for name, x in state.items()}, shared | numbers, agents)
                assert actions.dtype == expected.dtype and torch.equal(actions[world], expected[0])


def test_functions_get_parameters_by_world_as_tensors():
    seen = []

    def looks(obs, params):
        seen.append(params["tagging_distance"].clone())
        return torch.zeros(*obs.shape[:2], 2, dtype=torch.int64)

    game = GAME | {"tagging_distance": [0.1, 0.2, 0.3]}
    evaluate(TrainConfig("WarpTag-v0", 3, device="cpu", env_kwargs=game), 3, opponents={"tagger": "random", "runner": looks})
    assert torch.equal(seen[0], torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
