"""Training through wrappers: slabs, returns, checkpoints and evaluations equal those of a plain loop over the wrapped env."""

import contextlib
import dataclasses
import sys

import gymnasium
import numpy as np
import pytest
import torch
import tyro
import wrapped_ids
from gymnasium.spaces import Box
from gymnasium.vector import VectorWrapper
from gymnasium.wrappers import vector as gymnasium_wrappers

import gpu_vecenv
from gpu_vecenv.cli import train as commands
from gpu_vecenv.cli.evaluation import eval_run
from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.train import CheckpointError, ConfigError, NetworkConfig, PPOConfig, TrainConfig, Trainer, evaluate, play
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import Players, evaluation_seed
from gpu_vecenv.train.runner.wrappers import through_wrappers
from gpu_vecenv.vector.wrappers.wrapper import DeviceWrapper
from tests.trees import assert_trees_equal, to_host

PARAMS = {
    "Pendulum": {"max_episode_steps": 7},
    "CartPole": {"max_episode_steps": 9},
    "Masked": {"max_episode_steps": 5},
    "Tag": {"num_taggers": 2, "num_runners": 3, "episode_length": 7, "tagging_distance": 0.3},
}
TRAINED = [
    *((wrap, "Pendulum") for wrap in ("Transformed", "Clipped", "InPlace", "Normal", "Nested", "Actions")),
    *(("Nested", base) for base in ("Tag", "CartPole", "Masked")),
]


def options(wrap, base, **changes):
    ppo = PPOConfig(num_steps=8, num_epochs=1, num_minibatches=2)
    small = {"num_envs": 3, "total_steps": 3 * 8 * 4, "device": "cpu", "network": NetworkConfig(hidden_sizes=(8,)), "ppo": ppo}
    return TrainConfig(f"{wrap}{base}-v0", env_kwargs=PARAMS[base], **{**small, **changes})


@contextlib.contextmanager
def training(*names, **changes):
    trainer = Trainer(options(*names, **changes), quiet=True)
    try:
        yield trainer
    finally:
        trainer.close()


def played_by_hand(trainer, env, own):
    """Repeat the actions of a trainer's rollout, and compare its slabs with the results of each step."""
    slabs = trainer.parts.rollout
    (group,) = slabs.groups
    for t in range(slabs.num_steps):
        obs, reward, terminated, truncated, info = env.step(group.action[t])
        assert torch.equal(group.obs.own[t + 1], obs) and torch.equal(slabs.reward[t], reward)
        assert torch.equal(slabs.terminated[t], terminated) and torch.equal(slabs.truncated[t], truncated)
        if group.final_obs is not None:
            ended = info["_final_obs"]
            assert torch.equal(group.final_obs.own[t][ended], info["final_obs"][ended])
        if group.mask is not None:
            assert torch.equal(group.mask[t + 1], info["action_mask"])
        assert torch.equal(slabs.agent_alive[t], info.get("agent_alive", torch.ones_like(terminated)))
        assert torch.equal(slabs.env_reward[t], own.step(group.action[t])[1])


@pytest.mark.parametrize("names", TRAINED, ids="".join)
def test_rollouts_equal_a_loop_over_the_wrapped_env(names):
    wrap, base = names
    with training(*names) as trainer:
        made = {"num_worlds": 3, "view": "agents", "device": "cpu", **PARAMS[base]}
        env = wrapped_ids.entry(wrap, base)(**made)
        own = gymnasium.make_vec(wrapped_ids.BASES[base], **made)
        obs, _ = env.reset(seed=trainer.config.seed)
        own.reset(seed=trainer.config.seed)
        for _ in range(3):
            trainer.launch()
            trainer.finish()
            (group,) = trainer.parts.rollout.groups
            assert torch.equal(group.obs.own[0], obs)
            played_by_hand(trainer, env, own)
            obs = group.obs.own[-1].clone()
            for rows in trainer.parts.rows.values():  # what algorithms get
                samples = rows.samples()
                assert torch.equal(samples.reward, rows.gather(trainer.parts.rollout.reward))
                (part, *_) = rows.spans
                assert samples.obs.shape[2:] == env.single_observation_space.shape == part.slabs.obs.own.shape[2:]


def test_networks_and_bootstrapping_use_the_spaces_and_final_observations_of_wrappers():
    with training("Transformed", "Pendulum") as trainer:
        trainer.train(1)
        assert trainer.policies["agent"].group.observation == Box(-100, 100, (2,))
        samples = trainer.parts.rows["agent"].samples()
        assert samples.timed_out.any() and samples.final_obs.shape[2:] == (2,)


def test_returns_are_those_of_the_envs_own_rewards():
    with training("Nested", "CartPole", evaluation_interval=2, evaluation_episodes=4) as trainer:
        metrics = trainer.train(2)
        # Each step of CartPole is rewarded with 1, wrappers change it, and four episodes have a whole number of steps.
        assert metrics["return/agent"] == metrics["episode_length/agent"] > 1
        assert metrics["evaluation/agent"] > 1 and (4 * metrics["evaluation/agent"]).is_integer()
        assert not (trainer.parts.rollout.reward == 1).any()


def state_of(trainer):
    weights = {name: dict(policy.state_dict()) for name, policy in trainer.policies.items()}
    return to_host({"wrappers": trainer.env.wrapper_states(), "policies": weights})


@pytest.mark.parametrize("names", [("Nested", "Pendulum"), ("Nested", "Tag"), ("Clipped", "Pendulum")], ids="".join)
@pytest.mark.parametrize("stagger", [False, True])
def test_a_resumed_run_ends_with_the_same_bits(names, stagger, tmp_path):
    with training(*names, stagger_starts=stagger) as whole:
        whole.train()
        expected = state_of(whole)
    with training(*names, stagger_starts=stagger, out=str(tmp_path)) as first:
        first.train(2)
    resumed = Trainer.resume(tmp_path, quiet=True)
    resumed.train()
    assert_trees_equal(state_of(resumed), expected)
    resumed.close()


def test_staggered_starts_are_observed_through_the_wrappers():
    with training("Transformed", "Pendulum", stagger_starts=True) as trainer:
        seen = trainer.parts.rollout.groups[0].obs.own[0]
        assert torch.equal(seen, wrapped_ids.sum_first(trainer.env.inner.observe()))
        assert len(set(trainer.env.get_state("t")["t"].tolist())) == 3


@pytest.mark.parametrize("names", [("Nested", "Pendulum"), ("Normal", "Tag")], ids="".join)
def test_evaluations_during_and_after_training_are_equal_and_leave_statistics_as_they_are(names, tmp_path):
    with training(*names, evaluation_interval=4, evaluation_episodes=5, out=str(tmp_path)) as trainer:
        metrics = trainer.train()
        trained = to_host(trainer.env.wrapper_states())
        trial = trainer.periodic_evaluation._players.collector.env
        for name, state in to_host(trial.wrapper_states()).items():
            for moments in ("obs_rms", "return_rms"):
                assert_trees_equal(state.get(moments, {}), trained[name].get(moments, {}))
    result = evaluate(tmp_path, episodes=5, device="cpu")
    assert {f"evaluation/{role}": value for role, value in result.mean_return.items()}.items() <= metrics.items()


def test_an_evaluation_normalises_by_the_statistics_of_the_checkpoint_and_measures_the_envs_own_rewards(tmp_path):
    with training("Normal", "Pendulum", out=str(tmp_path)) as trainer:
        trainer.train()
        config = trainer.config
    saved = load_checkpoint(tmp_path)["collector"]["wrappers"]["0 NormalizeObservation"]["obs_rms"]
    with contextlib.closing(make_env(config, 2)) as env:
        players = Players.loaded(env, config, tmp_path, None, all_loaded=False)
        players.collector.reset(3)
        for _ in range(10):
            players.step(deterministic=False)
            (group,) = players.collector.rollout.groups
            raw = env.inner.observe()
            assert torch.equal(group.obs.own[1], ((raw - saved["mean"]) / (saved["var"] + 1e-8) ** 0.5).float())
        assert torch.equal(env.wrappers["0 NormalizeObservation"].obs_rms.mean, saved["mean"])


def test_a_run_can_be_played(tmp_path):
    with training("Nested", "Pendulum", out=str(tmp_path)) as trainer:
        trainer.train()
    states = list(play(tmp_path, episodes=2, device="cpu"))
    assert len(states) == 2 * 8 and states[0].keys() == states[-1].keys()
    with contextlib.closing(gymnasium.make_vec("WarpPendulum-v1", num_envs=1, device="cpu")) as plain:
        plain.reset(seed=evaluation_seed(trainer.config.seed))
        assert np.array_equal(states[0]["state"], plain.get_state("state")["state"][0])


def test_policies_of_a_run_with_other_wrappers_are_not_evaluated(tmp_path, monkeypatch):
    with training("Normal", "Pendulum", out=str(tmp_path)) as trainer:
        trainer.train(1)
    monkeypatch.setitem(wrapped_ids.WRAPS, "Normal", lambda env: env)
    with pytest.raises(CheckpointError, match=r"wrappers of the run, \['0 NormalizeObservation'\], got none"):
        evaluate(tmp_path, episodes=2)
    with pytest.raises(CheckpointError, match="wrappers"):
        Trainer.resume(tmp_path, quiet=True)
    monkeypatch.setitem(wrapped_ids.WRAPS, "Normal", gpu_vecenv.NormalizeReward)
    with pytest.raises(CheckpointError, match=r"\['0 NormalizeObservation'\], got \['0 NormalizeReward'\]"):
        evaluate(tmp_path, episodes=2)
    with pytest.raises(CheckpointError, match="0 NormalizeReward"):
        Trainer.resume(tmp_path, quiet=True)


def test_clipped_actions_have_no_bounds_and_random_ones_those_of_the_env():
    with training("Actions", "Pendulum", policy_map={"agent": "agent"}) as trainer:
        trainer.train(2)
        assert not trainer.policies["agent"].group.action.is_bounded()
        assert trainer.policies["agent"].box.half_width.tolist() == [1]  # 2 within the env's bounds
    config = dataclasses.replace(options("Actions", "Pendulum"), policy_map={"agent": "random"})
    with contextlib.closing(make_env(trainer.config, 50)) as env:
        players = Players.loaded(env, trainer.config, None, {"agent": "random"}, num_steps=10, all_loaded=False)
        players.collector.reset(0)
        actions = players.step(deterministic=False).groups[0].action
        assert 1.9 < actions.abs().max() <= 2
    assert evaluate(config, episodes=3).mean_return["agent"] < 0


@pytest.mark.slow
def test_commands_train_show_and_evaluate_an_id_with_wrappers_of_a_module(tmp_path, monkeypatch, capsys):
    (tmp_path / "swing.py").write_text(
        "import gymnasium\nfrom gpu_vecenv import ClipAction, NormalizeObservation, NormalizeReward\n"
        "def make_vec(**options):\n"
        "    return NormalizeReward(NormalizeObservation(ClipAction(gymnasium.make_vec('WarpPendulum-v1', **options))))\n"
        "gymnasium.register('Swing-v0', vector_entry_point=make_vec)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    out, small = tmp_path / "run", "--num-envs 4 --device cpu --ppo num_steps=8 --network hidden_sizes=(4,)"
    tyro.cli(commands.train, args=f"swing:Swing-v0 --out {out} {small} --total-steps 64 --env max_episode_steps=4".split())
    assert (out / "video.mp4").exists() and (out / "curves.png").exists()
    assert [line["steps"] for line in read_metrics(out)] == [32, 64]
    tyro.cli(eval_run, args=f"{out} --episodes 3 --device cpu".split())
    assert "3 episodes of" in capsys.readouterr().out
    del gymnasium.registry["Swing-v0"], sys.modules["swing"]


class Mine(VectorWrapper):
    pass


class Stateful(gpu_vecenv.TransformReward):
    pass


REFUSED = [
    ("WarpPendulum-v1", gymnasium_wrappers.NormalizeReward, "gymnasium.*NormalizeReward; use gpu_vecenv.NormalizeReward"),
    ("WarpPendulum-v1", gymnasium_wrappers.ClipAction, "gymnasium.*ClipAction; use gpu_vecenv.ClipAction"),
    ("WarpPendulum-v1", gymnasium_wrappers.RecordEpisodeStatistics, "RecordEpisodeStatistics; leave it out"),
    ("WarpPendulum-v1", lambda env: gymnasium_wrappers.RescaleAction(env, -1, 1), "RescaleAction; its state would be missing"),
    ("WarpPendulum-v1", Mine, "Mine; its state would be missing in checkpoints; give a function to"),
    ("WarpPendulum-v1", lambda env: gpu_vecenv.ClipReward(Mine(env), 0, 1), "Mine; its state would be missing"),
    ("WarpPendulum-v1", lambda env: Stateful(env, abs), "Stateful; its state"),
    ("WarpPendulum-v1", DeviceWrapper, "DeviceWrapper; its state"),
    ("Town-v0", lambda env: gpu_vecenv.RoleRows(env, "citizen"), "got RoleRows; register the env alone, .* policy_map"),
    ("Town-v0", lambda env: gpu_vecenv.NormalizeReward(gpu_vecenv.RoleRows(env, "citizen")), "got RoleRows"),
    ("Town-v0", lambda env: gpu_vecenv.ClipReward(env, 0, 1), "roles have spaces of their own, got .*ClipReward; register"),
    (
        "WarpPendulum-v1",
        lambda env: gpu_vecenv.TransformObservation(env, torch.Tensor.double, Box(-9, 9, (3,), np.float64)),
        "in a Box of float32, got Box.*float64.* of .*TransformObservation",
    ),
]


@pytest.mark.parametrize("base, wrap, text", REFUSED, ids=[text[:20] for *_, text in REFUSED])
def test_other_wrappers_are_refused_by_name_with_what_to_do(base, wrap, text, tmp_path, monkeypatch):
    registered = gymnasium.envs.registration.EnvSpec(
        "Refused-v0", vector_entry_point=lambda **options: wrap(gymnasium.make_vec(base, **options))
    )
    monkeypatch.setitem(gymnasium.registry, "Refused-v0", registered)
    config = TrainConfig("Refused-v0", num_envs=2, total_steps=8, device="cpu", out=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match=f"^Refused-v0: expected .*{text}"):
        Trainer(config, quiet=True)
    with pytest.raises(ConfigError, match=text):
        evaluate(config, episodes=2)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "change, error, text",
    [
        (lambda obs: obs[:, :2], ShapeError, r"obs of the shape \(2, 3\), got \(2, 2\); single_observation_space"),
        (torch.Tensor.double, ArrayTypeError, "obs as a tensor of torch.float32 on cpu, got torch.float64 on cpu"),
        (lambda obs: obs.numpy(), ArrayTypeError, "obs as a tensor of torch.float32 on cpu, got ndarray"),
    ],
)
def test_observations_that_do_not_fit_their_space_are_refused_before_a_folder_is_made(change, error, text, tmp_path, monkeypatch):
    monkeypatch.setitem(wrapped_ids.WRAPS, "Normal", lambda env: gpu_vecenv.TransformObservation(env, change))
    with pytest.raises(error, match=f"wrappers TransformObservation: expected {text}"):
        Trainer(options("Normal", "Pendulum", num_envs=2, out=str(tmp_path / "run")), quiet=True)
    assert not (tmp_path / "run").exists()


def test_rewards_of_another_shape_are_refused(monkeypatch):
    monkeypatch.setitem(wrapped_ids.WRAPS, "Normal", lambda env: gpu_vecenv.TransformReward(env, torch.sum))
    with training("Normal", "Pendulum") as trainer, pytest.raises(ShapeError, match=r"of the shape \(3,\), got \(\)"):
        trainer.train()


def test_the_env_is_closed_with_its_wrappers():
    with training("Nested", "Pendulum") as trainer:
        assert not trainer.env.closed
    assert trainer.env.inner.closed


def test_an_env_without_wrappers_is_stepped_itself():
    env = gymnasium.make_vec("WarpPendulum-v1", num_envs=2, device="cpu")
    assert through_wrappers(env, "WarpPendulum-v1") is env


@pytest.mark.gpu
def test_iterations_with_wrappers_run_without_a_graph_and_say_why(capsys):
    for name in ("NestedPendulum-v0", "NestedCartPole-v0"):  # the second could have its rollouts in one launch
        trainer = Trainer(dataclasses.replace(options("Nested", "CartPole"), env_id=name, device="cuda:0"))
        assert "without a CUDA graph: the env has wrappers (EpisodeStatistics, TransformObservation" in capsys.readouterr().out
        trainer.train()
        assert trainer.executor.reason and trainer.executor._graph is None and trainer.parts.collector.fill_rollout is None
        trainer.close()
