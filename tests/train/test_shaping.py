"""Rewards that a run changes, and parameters that it changes on the way, in updates, checkpoints and resumed runs."""

import dataclasses

import pytest
import role_envs  # noqa: F401  (registers Town-v0)
import torch
import wrapped_ids  # noqa: F401  (registers ClippedTag-v0)

from gpu_vecenv.errors import ShapeError
from gpu_vecenv.train import (
    Callback,
    CheckpointError,
    ConfigError,
    Curriculum,
    PPOConfig,
    Run,
    TrainConfig,
    Trainer,
    load_checkpoint,
)

GAME = {"num_taggers": 2, "num_runners": 3, "episode_length": 8, "step_reward_for_runner": 0.5, "step_penalty_for_tagger": -0.25}


def config(env_id="WarpTag-v0", env_kwargs=GAME, **options):
    options = {"total_steps": 32 * 6, "device": "cpu", "ppo": PPOConfig(num_steps=8)} | options
    return TrainConfig(env_id, num_envs=4, env_kwargs=env_kwargs, **options)


def shaped(agent_reward, terminated, truncated, metrics, state):
    return 3 * agent_reward - 0.1 * state["loc_x"] + truncated.unsqueeze(1)


def rewards(trainer):
    """Rewards that policies learn from and the env's own, (T, N, A)."""
    rollout, roles = trainer.parts.rollout, list(trainer.env.role_rows.values())
    by_agent = [torch.cat([x[:, rows].unflatten(1, (4, -1)) for rows in roles], 2) for x in (rollout.reward, rollout.env_reward)]
    return by_agent[0], by_agent[1]


def states(trainer, name):
    """A field of the state after each step of the next rollout, (T, N, ...)."""
    seen, step = [], trainer.env.step

    def recorded(actions):
        result = step(actions)
        seen.append(torch.as_tensor(trainer.env.get_state(name)[name]).clone())
        return result

    trainer.env.step = recorded
    return seen


def test_policies_learn_from_the_functions_rewards_and_returns_are_the_envs():
    trainer = Trainer(config(), quiet=True, reward=shaped)
    places = states(trainer, "loc_x")
    metrics = trainer.train(1)
    learned, plain = rewards(trainer)
    truncated = trainer.parts.rollout.truncated[:, trainer.parts.rollout.world_rows]
    assert torch.allclose(learned, 3 * plain - 0.1 * torch.stack(places) + truncated.unsqueeze(2))
    assert torch.equal(trainer.parts.rows["runner"].samples().reward, trainer.parts.rollout.reward[:, 8:])
    without = Trainer(config(), quiet=True)
    assert without.train(1)["return/runner"] == metrics["return/runner"] != 0


def test_agents_of_a_team_learn_from_the_mean_of_their_role():
    trainer = Trainer(config(reward="team"), quiet=True)
    trainer.train(1)
    learned, plain = rewards(trainer)
    for agents in (slice(0, 2), slice(2, 5)):
        assert torch.allclose(learned[..., agents], plain[..., agents].mean(2, keepdim=True).expand_as(plain[..., agents]))
    both = Trainer(config(reward="team"), quiet=True, reward=lambda reward, *_: 2 * reward)
    both.train(1)
    assert torch.allclose(rewards(both)[0], 2 * learned)


def test_rewards_of_roles_with_arrays_of_their_own_are_changed_too():
    town = config("Town-v0", {"max_episode_steps": 4})
    trainer, plain = Trainer(town, quiet=True, reward=lambda reward, *_: -reward), Trainer(town, quiet=True)
    trainer.train(1)
    plain.train(1)
    assert torch.equal(trainer.parts.rollout.env_reward, plain.parts.rollout.reward)
    assert torch.equal(trainer.parts.rollout.reward, -plain.parts.rollout.reward) and plain.parts.rollout.reward.any()


def test_metrics_of_episodes_reach_the_function():
    seen = {}

    def recorded(agent_reward, terminated, truncated, metrics, state):
        seen.update({name: x.shape for name, x in metrics.items()})
        return agent_reward

    Trainer(config("WarpCatalysis-v0", {}, ppo=None), quiet=True, reward=recorded).train(1)
    assert seen and set(seen.values()) == {(4,)}


def test_wrapped_rewards_are_changed_last():
    trainer = Trainer(config("ClippedTag-v0"), quiet=True, reward=lambda reward, *_: 2 * reward)
    trainer.train(1)
    learned, plain = rewards(trainer)
    assert torch.equal(learned, 2 * plain.clamp(-0.5, 0.25))


@pytest.mark.slow
def test_a_resumed_run_takes_the_function_again_and_ends_as_without_an_interruption(tmp_path):
    whole = Trainer(config(), quiet=True, reward=shaped)
    whole.train()
    Trainer(config(out=str(tmp_path)), quiet=True, reward=shaped).train(3)
    with pytest.raises(CheckpointError, match=r"expected the function 'shaped' for rewards again \(reward=\)"):
        Trainer.resume(tmp_path, quiet=True)
    rest = Trainer.resume(tmp_path, quiet=True, reward=shaped)
    rest.train()
    for name, policy in whole.policies.items():
        assert all(torch.equal(x, rest.policies[name].state_dict()[key]) for key, x in policy.state_dict().items())
    plain = Trainer(config(), quiet=True)
    with pytest.raises(CheckpointError, match="expected no function for rewards"):
        Trainer.resume(plain.save(tmp_path / "plain.pt"), quiet=True, reward=shaped)


@pytest.mark.parametrize(("reward", "error"), [
    ("team", r"reward: expected a function, got str; team rewards are TrainConfig\(reward='team'\)"),
    (lambda agent_reward: agent_reward, r"reward must be a function of agent_reward, .*, got one of \(agent_reward\)"),
    (lambda *_: None, "reward must return a tensor of float32 on cpu, got NoneType"),
])  # fmt: skip
def test_functions_that_do_not_fit_are_refused(reward, error):
    with pytest.raises(ConfigError, match=error):
        Trainer(config(), quiet=True, reward=reward).train(1)


@pytest.mark.slow
def test_a_curriculum_changes_parameters_and_resumed_runs_have_them(tmp_path):
    points = {"tagging_distance": [(0, 0.5), (32 * 4, 0.1)], "episode_length": [(32, 8), (32 * 3, 4)]}
    seen = []

    class Watch(Curriculum):
        def on_iteration(self, trainer, metrics):
            seen.append((round(trainer.env.params["tagging_distance"], 6), trainer.env.params["episode_length"]))
            super().on_iteration(trainer, metrics)

    whole = Trainer(config(), quiet=True, callbacks=[Watch(interval=2, **points)])
    whole.train()
    assert seen == [(0.5, 8), (0.5, 8), (0.3, 6), (0.3, 6), (0.1, 4), (0.1, 4)]
    for stop in (2, 3):
        out = tmp_path / str(stop)
        Trainer(config(out=str(out)), quiet=True, callbacks=[Curriculum(2, **points)]).train(stop)
        assert load_checkpoint(out)["params"].keys() == points.keys()
        rest = Trainer.resume(out, quiet=True, callbacks=[Curriculum(2, **points)])
        assert rest.env.params["episode_length"] == 6 or stop == 2
        rest.train()
        for name, policy in whole.policies.items():
            assert all(torch.equal(x, rest.policies[name].state_dict()[key]) for key, x in policy.state_dict().items())


class EasierWorlds(Callback):
    """Gives each world a tagging distance of its own, which falls from iteration to iteration."""

    def on_iteration(self, trainer, metrics):
        trainer.env.set_params(tagging_distance=[k / 2 ** (1 + trainer.iteration) for k in range(4)])


@pytest.mark.slow
def test_values_by_world_go_on_exactly_and_other_numbers_of_worlds_take_them_in_turn(tmp_path):
    game = GAME | {"tagging_distance": [0.0, 0.3, 0.6, 0.9], "starting_directions": [0.0] * 5}
    whole = Trainer(config(env_kwargs=game), quiet=True, callbacks=[EasierWorlds()])
    whole.train()
    out = tmp_path / "run"
    Trainer(config(env_kwargs=game, out=str(out)), quiet=True, callbacks=[EasierWorlds()]).train(3)
    assert load_checkpoint(out)["params"]["tagging_distance"].tolist() == [0.0, 1 / 16, 2 / 16, 3 / 16]
    rest = Trainer.resume(out, quiet=True, callbacks=[EasierWorlds()])
    rest.train()
    for name, policy in whole.policies.items():
        assert all(torch.equal(x, rest.policies[name].state_dict()[key]) for key, x in policy.state_dict().items())
    env = Run(out).make_env(6)
    assert env.unwrapped.params["tagging_distance"].tolist() == pytest.approx([0.0, 0.3, 0.6, 0.9, 0.0, 0.3])
    env.close()
    assert Run(out).evaluate(episodes=3).episodes == 3
    with pytest.raises(ShapeError, match="tagging_distance must hold one number a world"):
        Trainer(config(env_kwargs=GAME | {"tagging_distance": [0.1] * 3}), quiet=True)


def test_points_that_are_none_are_refused():
    for points in ([], [(1, 2), (0, 3)], [3], "text"):
        with pytest.raises(ConfigError, match="max_speed: expected pairs of steps in ascending order and numbers"):
            Curriculum(max_speed=points)
    with pytest.raises(ConfigError, match="Curriculum: expected points of a parameter"):
        Curriculum()


@pytest.mark.gpu
@pytest.mark.parametrize("env_id", ["WarpTag-v0", "WarpCartPole-v1"])
def test_functions_and_parameters_are_those_of_graphs_too(env_id):
    """Iterations in a graph, whose parameters change, end with the bits of iterations without one."""
    of_tag = "Tag" in env_id
    game = GAME if of_tag else {}
    points = {"max_speed": [(0, 1.0), (4096, 0.3)]} if of_tag else {"gravity": [(0, 9.8), (4096, 3.0)]}
    trained = {}
    for graph in (True, False):
        options = dataclasses.replace(config(env_id, game), num_envs=64, device="cuda:0", graph=graph, total_steps=64 * 8 * 10)
        options = dataclasses.replace(options, kernels="torch")
        reward = shaped if game else (lambda reward, *_: 2 * reward)
        trainer = Trainer(options, quiet=True, reward=reward, callbacks=[Curriculum(4, **points)])
        trainer.train()
        assert not graph or (trainer.executor._graph is not None and trainer.executor.reason == "")
        trained[graph] = {name: policy.state_dict() for name, policy in trainer.policies.items()}
    for name, weights in trained[True].items():
        assert all(torch.equal(x, trained[False][name][key]) for key, x in weights.items())
