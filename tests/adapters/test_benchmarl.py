"""BenchMARL's ``Experiment`` on tasks of this package, and the env of a task beside ``TorchRLEnv``."""

import importlib
import pickle
import sys

import gymnasium
import pytest
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.adapters.torchrl import TorchRLEnv
from gpu_vecenv.errors import MissingExtraError, ParameterError, UnknownParameterError
from tests.adapters import role_cases

try:  # BenchMARL can be imported only with the TorchRL that it requires; .ci/run installs both for these tests.
    import benchmarl.experiment  # noqa: F401
except ImportError as error:
    pytest.skip(f"BenchMARL: {error}", allow_module_level=True)

from benchmarl.algorithms import (
    IppoConfig,
    IqlConfig,
    MaddpgConfig,
    MappoConfig,
    MasacConfig,
    QmixConfig,
    VdnConfig,
)
from benchmarl.benchmark import Benchmark
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.envs.utils import ExplorationType, check_env_specs, set_exploration_type

from gpu_vecenv.adapters.benchmarl import BenchMARLTask, TaskEnv

works, limit = (lambda what, mark=mark: mark("BenchMARL", what) for mark in (pytest.mark.works, pytest.mark.limit))
pytestmark = pytest.mark.filterwarnings("ignore")

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 15, "tagging_distance": 0.2}
SMALL = {
    "max_n_iters": 2,
    "evaluation_interval": 200,
    "evaluation_episodes": 3,
    "render": False,
    "loggers": [],
    "on_policy_collected_frames_per_batch": 200,
    "on_policy_n_envs_per_worker": 10,
    "on_policy_n_minibatch_iters": 2,
    "on_policy_minibatch_size": 100,
    "off_policy_collected_frames_per_batch": 200,
    "off_policy_n_envs_per_worker": 10,
    "off_policy_n_optimizer_steps": 3,
    "off_policy_train_batch_size": 32,
    "off_policy_memory_size": 1000,
}
CHASE = {
    "num_taggers": 2,
    "num_runners": 3,
    "episode_length": 30,
    "grid_length": 10,
    "tagging_distance": 0.08,
    "skill_level_runner": 0.3,
    "max_acceleration": 1.0,
    "min_acceleration": -1.0,
    "num_acceleration_levels": 4,
    "num_turn_levels": 4,
    "use_full_observation": True,
    "extended_observation": True,
    "continuous_actions": False,
}
"""A small game of Tag in which runners are slow, so that taggers that chase them tag more than those that move at random."""


@pytest.fixture(autouse=True)
def _registered(monkeypatch, tmp_path):
    role_cases.register(monkeypatch, tmp_path)


def settings(folder, **options):
    config = ExperimentConfig.get_from_yaml()
    for name, value in {**SMALL, "save_folder": str(folder), **options}.items():
        assert hasattr(config, name), name
        setattr(config, name, value)
    return config


def experiment(task, algorithm, folder, **options):
    model = MlpConfig.get_from_yaml()
    model.num_cells = [64, 64]
    return Experiment(task, algorithm.get_from_yaml(), model, seed=0, config=settings(folder, **options))


def weights(run):
    return torch.cat([value.detach().flatten().clone() for value in run.policy.parameters()])


def trained(task, algorithm, folder, **options):
    """Run an experiment; its policies changed and are finite."""
    run = experiment(task, algorithm, folder, **options)
    before = weights(run)
    run.run()
    after = weights(run)
    assert run.total_frames == 400 and after.isfinite().all() and not before.equal(after)
    return run


@works("MAPPO, IPPO, MASAC, MADDPG, IQL, VDN and QMIX on Tag; algorithms choose continuous or discrete actions")
@pytest.mark.parametrize(
    ("algorithm", "continuous"),
    [
        (MappoConfig, True),
        (MappoConfig, False),
        (IppoConfig, True),
        (IppoConfig, False),
        (MasacConfig, True),
        (MasacConfig, False),
        (MaddpgConfig, True),
        (IqlConfig, False),
        (VdnConfig, False),
        (QmixConfig, False),
    ],
)
def test_algorithms_train_on_tag(algorithm, continuous, tmp_path):
    run = trained(BenchMARLTask("WarpTag-v0", **TAG), algorithm, tmp_path, prefer_continuous_actions=continuous)
    assert run.continuous_actions is continuous and run.group_map.keys() == {"tagger", "runner"} and run.max_steps == 15


@works("a global state for central critics, with state=True")
@pytest.mark.parametrize("algorithm", [MappoConfig, MasacConfig, QmixConfig])
def test_central_critics_read_the_state(algorithm, tmp_path):
    task = BenchMARLTask("WarpTag-v0", state=True, continuous_actions=False, **TAG)
    run = trained(task, algorithm, tmp_path)
    features = sum(run.observation_spec[role, "observation"].shape.numel() for role in run.group_map)
    assert run.state_spec["state"].shape == (features,)


IDS = {"WarpGridTag-v0": {"episode_length": 15}, "WarpCatalysis-v0": {"episode_length": 15},
       "WarpCartPole-v1": {}, "WarpPendulum-v1": {},
       "WarpForaging-v3": {"max_episode_steps": 15}, "WarpRware-v2": {}, "WarpSimpleSpread-v3": {},
       "WarpSimpleWorldComm-v3": {"max_cycles": 15}}  # fmt: skip


@works("ids with one agent, whose role is a group")
@pytest.mark.parametrize("env_id", IDS)
def test_mappo_trains_on_other_ids(env_id, tmp_path):
    trained(BenchMARLTask(env_id, **IDS[env_id]), MappoConfig, tmp_path, max_n_iters=2, evaluation=False)


@works("roles with spaces of their own, actions of several entries as one index, and action masks")
@pytest.mark.parametrize("algorithm", [MappoConfig, MasacConfig, IqlConfig])
@pytest.mark.parametrize("name", role_cases.CASES)
def test_algorithms_train_on_roles_with_masks(name, algorithm, tmp_path):
    env_id, params = role_cases.CASES[name]
    task = BenchMARLTask(env_id, **params)
    if algorithm is MasacConfig and sum(len(names) for names in make(name).group_map.values()) == 1:
        pytest.skip("MASAC's critic reads the actions of others")
    if algorithm is IqlConfig and task.supports_continuous_actions():
        with pytest.raises(ValueError, match="not compatible"):
            experiment(task, algorithm, tmp_path)
        return
    trained(task, algorithm, tmp_path)


@works("`Benchmark`, with several tasks and algorithms")
def test_a_benchmark_runs_all_pairs(tmp_path):
    tasks = [BenchMARLTask("WarpTag-v0", **TAG), BenchMARLTask("WarpGridTag-v0", episode_length=15)]
    algorithms = [IppoConfig.get_from_yaml(), IqlConfig.get_from_yaml()]
    config = settings(tmp_path, max_n_iters=1, prefer_continuous_actions=False)
    Benchmark(algorithms, MlpConfig.get_from_yaml(), tasks, {0}, config).run_sequential()
    names = {"_".join(path.name.split("_")[:2]) for path in tmp_path.iterdir()}
    assert names == {f"{algorithm}_{task}" for algorithm in ("ippo", "iql") for task in ("warptag-v0", "warpgridtag-v0")}


@works("pictures of evaluations, which BenchMARL gives to its loggers as a video")
def test_evaluations_are_drawn(tmp_path, monkeypatch):
    frames, draw = [], BenchMARLTask.render_callback
    monkeypatch.setattr(BenchMARLTask, "render_callback", staticmethod(lambda *given: frames.append(draw(*given)) or frames[-1]))
    run = experiment(BenchMARLTask("WarpTag-v0", **TAG), MappoConfig, tmp_path, render=True, loggers=["tensorboard"])
    run.evaluate()
    run.close()
    # TorchRL calls it between the 15 steps.
    assert len(frames) == 14 and frames[0].ndim == 3 and frames[0].dtype == "uint8"
    assert not (frames[0] == frames[-1]).all()


@works("checkpoints, and `reload_from_file`")
def test_a_checkpoint_is_reloaded(tmp_path):
    task = BenchMARLTask("gpu_vecenv:WarpTag-v0", state=True, **TAG)
    run = trained(task, MappoConfig, tmp_path, checkpoint_at_end=True, restore_map_location="cpu")
    (file,) = tmp_path.glob("*/checkpoints/*.pt")
    again = Experiment.reload_from_file(str(file))
    assert again.task == task and again.task.env_id == task.env_id and weights(again).equal(weights(run))
    assert again.total_frames == 400
    again.close()


def make(name, num_worlds=4, **options):
    env_id, params = role_cases.CASES[name]
    return TaskEnv(env_id, num_worlds, device="cpu", **params, **options)


CASES = {
    **role_cases.CASES,
    "tag": ("WarpTag-v0", TAG),
    "continuous tag": ("WarpTag-v0", {**TAG, "continuous_actions": True}),
    "cartpole": ("WarpCartPole-v1", {}),
    "catalysis": ("WarpCatalysis-v0", {"episode_length": 7}),
    "catalysis, two atoms": ("WarpCatalysis-v0", {"configuration": "two_atom_diffusion", "episode_length": 7}),
}


RICE = {"max_steps": 60, "negotiation_on": True}


@works("actions of many entries, which continuous algorithms choose, within their masks")
@pytest.mark.parametrize("observe", ["parts", "whole"])
def test_actions_with_too_many_choices_for_an_index_are_numbers(observe, tmp_path):
    task = BenchMARLTask("WarpRice-v0", observe=observe, **RICE)
    assert task.supports_continuous_actions() and not task.supports_discrete_actions()
    env = task.get_env_fun(3, True, 0, "cpu")()
    check_env_specs(env)
    assert task.action_mask_spec(env) is None
    plain = TorchRLEnv("WarpRice-v0", 3, device="cpu", observe=observe, negotiation_on=True)
    state, other = env.reset(), plain.reset()
    plain.vector_env.set_state(env.vector_env.get_state())
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        numbers = torch.rand(3, 27, 138, generator=generator) * torch.tensor([10.0] * 111 + [2.0] * 27)
        choices = numbers.floor().int()
        mask = other["region", "action_mask"][..., 10:20]  # rates from the least one on
        choices[..., 1] = torch.maximum(choices[..., 1], mask.int().argmax(-1).int())
        state["region", "action"], other["region", "action"] = numbers, choices.long()
        state, other = env.step(state)["next"], plain.step(other)["next"]
        for name in ("observation", "reward"):
            assert torch.equal(state["region", name], other["region", name]), (step, name)
    assert not mask.all()
    if observe == "parts":
        trained(task, MappoConfig, tmp_path, evaluation=False)


@pytest.mark.parametrize("name", CASES)
def test_data_of_a_task_match_its_specs(name):
    env_id, params = CASES[name]
    check_env_specs(BenchMARLTask(env_id, state=True, **params).get_env_fun(3, "continuous" in name, 0, "cpu")())


@pytest.mark.parametrize("name", CASES)
def test_the_env_of_a_task_has_the_results_of_torchrl_env(name):
    """A table of all actions gives the entries of an index."""
    env_id, params = CASES[name]
    env, plain = TaskEnv(env_id, 4, device="cpu", state=True, **params), TorchRLEnv(env_id, 4, device="cpu", **params)
    env.set_seed(1)
    plain.set_seed(1)
    torch.manual_seed(0)
    state, other = env.reset(), plain.reset()
    keys = {role: (role,) if plain.group_map else () for role in env.group_map}
    for _ in range(12):
        state = env.rand_action(state)
        for role, key in keys.items():
            action = state[role, "action"] if plain.group_map else state[role, "action"].squeeze(1)
            spec = plain.full_action_spec[(*key, "action")]
            if hasattr(spec, "nvec") and env._groups[role].action.shape:
                table = torch.cartesian_prod(*(torch.arange(n) for n in env._groups[role].choices))
                action = table[action]
            other[(*key, "action")] = action
        state, other = env.step(state)["next"], plain.step(other)["next"]
        whole = []
        for role, key in keys.items():
            lead = state[role, "observation"].shape[:2]
            for leaf in ("observation", "reward"):
                theirs = other[(*key, leaf)]
                assert state[role, leaf].equal(theirs.reshape(state[role, leaf].shape))
            left = ~other[(*key, "mask")] if key else torch.zeros(lead, dtype=torch.bool)
            for leaf in ("done", "terminated"):
                assert state[role, leaf].squeeze(-1).equal(other[leaf] | left)
            whole.append(state[role, "observation"].reshape(4, -1))
        assert state["state"].equal(torch.cat(whole, -1))
        if other["done"].any():
            break
        state = state.exclude(*((role, "reward") for role in keys))
        other = other.exclude(*((*key, "reward") for key in keys.values()))


def test_the_mask_of_an_index_is_that_of_its_entries():
    env, plain = make("harvest", 6), TorchRLEnv("Harvest-v0", 6, device="cpu", **role_cases.CASES["harvest"][1])
    env.set_seed(2)
    plain.set_seed(2)
    state, other = env.reset(), plain.reset()
    for role in env.group_map:
        choices = env._groups[role].choices
        table = torch.cartesian_prod(*(torch.arange(n) for n in choices)).reshape(-1, len(choices))
        parts = other[role, "action_mask"].split(choices, dim=-1)
        allowed = torch.stack([part[..., table[:, k]] for k, part in enumerate(parts)]).all(0)
        assert state[role, "action_mask"].equal(allowed) and not allowed.all()


def test_roles_without_masks_get_masks_if_another_role_has_them():
    env = make("pot")
    data = env.rollout(10, break_when_any_done=False)
    masked = {role: bool(group.masked) for role, group in env._groups.items()}
    assert set(masked.values()) == {True, False}
    assert all((role, "action_mask") in data.keys(True) for role in masked)
    assert all(data[role, "action_mask"].all() for role in masked if not masked[role])


def test_a_tagged_runner_ends_while_its_world_goes_on():
    env = BenchMARLTask("WarpTag-v0", **{**TAG, "tagging_distance": 0.4}).get_env_fun(16, False, 0, "cpu")()
    torch.manual_seed(0)
    data = env.rollout(14, break_when_any_done=False)
    ended, world = data["next", "runner", "terminated"].squeeze(-1), data["next", "done"]
    assert (ended & ~world).any() and (data["next", "runner", "mask"] | ended).all()


def test_seeds_are_those_of_the_experiment():
    task = BenchMARLTask("WarpTag-v0", **TAG)
    obs = [task.get_env_fun(3, False, seed, "cpu")().reset()["tagger", "observation"] for seed in (1, 1, 2)]
    assert obs[0].equal(obs[1]) and not obs[0].equal(obs[2])


def test_names_and_limits_of_a_task(monkeypatch):
    assert BenchMARLTask("gpu_vecenv:WarpTag-v0").name == "WarpTag-v0"
    spec = gymnasium.spec("WarpTag-v0")
    monkeypatch.setitem(gymnasium.registry, "mine/Tag-v0", spec)
    assert BenchMARLTask("mine/Tag-v0").name == "mine-Tag-v0"
    task = BenchMARLTask("WarpCartPole-v1", max_episode_steps=9)
    env = task.get_env_fun(2, False, None, "cpu")()
    assert task.max_steps(env) == 9 and BenchMARLTask("WarpCartPole-v1", max_steps=4).max_steps(env) == 4
    for env_id, steps in (("WarpSimpleSpread-v3", 25), ("WarpRware-v2", 500)):
        task_of_suite = BenchMARLTask(env_id)
        assert task_of_suite.max_steps(task_of_suite.get_env_fun(1, False, None, "cpu")()) == steps
    assert pickle.loads(pickle.dumps(task)) == task != BenchMARLTask("WarpCartPole-v1")
    with pytest.raises(ParameterError, match="no time limit, so its task needs max_steps"):
        BenchMARLTask("WarpCartPole-v1", max_episode_steps=0)


def test_misuse_raises_typed_errors():
    with pytest.raises(UnknownParameterError, match="num_tagers"):
        BenchMARLTask("WarpTag-v0", num_tagers=2)
    task = BenchMARLTask("WarpTag-v0", flatten_actions=True)
    assert task.supports_discrete_actions() and not task.supports_continuous_actions()
    task = BenchMARLTask("WarpTag-v0", continuous_actions=True)
    assert task.supports_continuous_actions() and not task.supports_discrete_actions()


def test_without_benchmarl_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "benchmarl.environments", None)
    monkeypatch.delitem(sys.modules, "gpu_vecenv.adapters.benchmarl")
    with pytest.raises(MissingExtraError, match=r'TorchRL that BenchMARL requires: pip install "gpu-vecenv\[benchmarl\]"'):
        importlib.import_module("gpu_vecenv.adapters.benchmarl")


def tags(run, roles, worlds=500):
    """Mean number of runners tagged in an episode in which trained policies act for some roles and others act at random."""
    env = run.task.get_env_fun(worlds, False, 100, "cpu")()

    def play(data):
        data = env.rand_action(data)
        for role in roles:
            data = run.group_policies[role](data)
        return data

    torch.manual_seed(0)
    with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
        data = env.rollout(CHASE["episode_length"], play, break_when_any_done=False, trust_policy=True)
    done = data["next", "done"].int()
    first_episode = (done.cumsum(1) - done == 0).unsqueeze(-1)
    return float(((data["next", "runner", "reward"] < -5) & first_episode).sum() / worlds)  # the penalty of a tag is 10


@pytest.mark.slow
@pytest.mark.timeout(600)
@works("MAPPO learns Tag: its taggers tag more than twice as many runners as random ones")
def test_mappo_learns_tag(tmp_path):
    run = experiment(
        BenchMARLTask("WarpTag-v0", **CHASE),
        MappoConfig,
        tmp_path,
        max_n_iters=90,
        evaluation=False,
        create_json=False,
        lr=1e-3,
        gamma=0.95,
        on_policy_collected_frames_per_batch=64 * 30,
        on_policy_n_envs_per_worker=64,
        on_policy_n_minibatch_iters=8,
        on_policy_minibatch_size=480,
    )
    at_random = tags(run, [])
    run.run()
    learned = tags(run, ["tagger"])
    print(f"runners tagged in an episode: {at_random} at random, {learned} with the learned taggers")
    assert learned > 2 * at_random
