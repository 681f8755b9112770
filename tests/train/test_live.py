"""Excerpts of a run for its live page: a second env makes each rollout again, and decisions are those of the rollout."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv.train import Callback
from gpu_vecenv.train.runner import live
from gpu_vecenv.train.runner.iteration import IN_FLIGHT
from gpu_vecenv.train.runner.live_curves import MOST, LiveCurves
from gpu_vecenv.train.runner.trainer import Trainer
from gpu_vecenv.web.shown import plan_of_worlds
from tests.devices import DEVICES
from tests.train.live_cases import RUNS, WORLDS, config_of, live_trainer, recorded

IN_CI = ("choir", "covid", "pendulum", "pendulum by SAC", "grid tag by PQN")
"""Runs whose tests are left to CI; the others have worlds of one agent, agents that leave, roles, masks, flags and memory."""


def marked(case, *more):
    return pytest.param(case, *more, marks=pytest.mark.in_ci if case in IN_CI else ())


def iterate(trainer, count=1):
    for _ in range(count):
        trainer.launch()
        trainer.finish()


def small_env(trainer, params=None):
    """An env on the CPU with the parameters of the worlds shown."""
    view = trainer.env.worlds.view
    params = dict(view.layout.params if params is None else params)
    params |= {name: params[name][list(WORLDS)] for name in view.layout.per_world}
    view_name = "agents" if view.by_agent else "worlds"
    return gymnasium.make_vec(trainer.config.env_id, num_worlds=len(WORLDS), device="cpu", array="numpy",
                              autoreset_mode="same_step", view=view_name, **params).unwrapped  # fmt: skip


def assert_made_again(env, rollouts):
    for rollout in rollouts:
        env.set_state(rollout.start)
        layout = env.layout
        for t in range(len(rollout.actions[0])):
            by_group = [actions[t] for actions in rollout.actions]
            if layout.by_role:
                groups = zip(layout.groups, by_group, strict=True)
                env.step({g.role: actions.reshape(len(WORLDS), g.count, *actions.shape[1:]) for g, actions in groups})
            else:
                env.step(by_group[0])
        for name, values in env.get_state().items():
            np.testing.assert_array_equal(values, rollout.end[name], err_msg=f"{name}, iteration {rollout.iteration}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", [marked(case) for case in RUNS])
def test_a_second_env_makes_recorded_rollouts_again(case, device, monkeypatch):
    trainer = live_trainer(monkeypatch, config_of(case, device))
    env, given = small_env(trainer), trainer.pipeline.live.server.given
    env.reset(seed=0)
    while len(given) < 2:
        iterate(trainer)
    for wish, message in given:
        assert wish.worlds == WORLDS
        rollouts = recorded(trainer, message).rollouts
        assert sum(len(rollout.actions[0]) for rollout in rollouts) >= live.STEPS
        assert_made_again(env, rollouts)
    if case == "small tag":  # actions in another order lead elsewhere
        with pytest.raises(AssertionError):
            assert_made_again(env, [rollouts[-1]._replace(actions=[actions[::-1] for actions in rollouts[-1].actions])])
    env.close()
    trainer.close()


@pytest.mark.parametrize("device", DEVICES)
def test_a_pool_and_changed_parameters_are_those_of_the_rollouts(device, monkeypatch):
    trainer = live_trainer(monkeypatch, config_of("cartpole, gravity by world", device))
    given, env = trainer.pipeline.live.server.given, small_env(trainer)
    env.reset(seed=0)
    pool = {"state": np.array([[0.5, 0, 0.1, 0], [-0.5, 0, -0.1, 0]], np.float32)}
    trainer.env.set_reset_pool({"state": torch.tensor(pool["state"], device=device)})
    before = trainer.env.layout.params
    iterate(trainer)
    trainer.env.set_params(gravity=np.linspace(50, 80, 8).tolist())  # ends the excerpt, whose plan it is not
    iterate(trainer, 4)
    first, second, *_ = (recorded(trainer, message) for _, message in given)
    assert len(first.rollouts) == 1 and first.rollouts[0].iteration == 1
    assert first.head["plan"] == 1 and second.head["plan"] == 2
    np.testing.assert_array_equal(first.pool["state"], pool["state"])
    assert recorded(trainer, given[1][1], 2, second.head["pool"]).head.keys() == {"plan", "pool", "rollouts", "bytes"}
    plans = [plan_of_worlds(trainer.env.worlds.view, params, WORLDS) for params in (before, trainer.env.layout.params)]
    assert [first.head["newPlan"], second.head["newPlan"]] == plans and len(plans[0]["pictures"]) == len(WORLDS)
    env.set_reset_pool(pool)
    assert_made_again(env, first.rollouts)
    env.set_params(gravity=trainer.env.layout.params["gravity"][list(WORLDS)].tolist())
    assert_made_again(env, second.rollouts)
    assert any((rollout.end["pool_entry"] >= 0).any() for rollout in second.rollouts)
    env.close()
    trainer.close()


FOLLOWED = {
    "small tag": (0, 3), "harvest": (0, 2), "whisper": (0,), "choir": (1,), "recall, with memory": (0,), "covid": (0, 1),
    "pendulum": (0,),
}  # fmt: skip
"""Agents of runs; an agent of each role."""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("case", "agent"), [marked(case, agent) for case, agents in FOLLOWED.items() for agent in agents])
def test_decisions_give_actions_the_probabilities_that_they_were_drawn_with(case, agent, device, monkeypatch):
    trainer = live_trainer(monkeypatch, config_of(case, device), agent)
    given, live_view = trainer.pipeline.live.server.given, trainer.pipeline.live
    iterate(trainer, 3)  # later rollouts have statistics of observations
    given.clear()
    live_view._excerpt = None
    iterate(trainer, -(-live.STEPS // trainer.parts.num_steps))
    rollout = recorded(trainer, given[-1][1]).rollouts[-1]
    assert rollout.iteration == trainer.iteration  # so the rollout of the run is still in its slabs
    log_prob, action, group = of_agent(trainer, agent)
    numbers = rollout.decisions["numbers"]
    if rollout.decisions["kind"] == "normal":
        mean, std = np.split(numbers, 2, axis=1)
        box = group.action
        z = (action - mean) / std
        scale = std / ((box.high - box.low) / 2)  # densities are those of normalised units
        found = (-0.5 * z**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)).sum(1)
    else:
        ends = [0, *itertools.accumulate(group.choices)]
        parts = [numbers[:, a:b] for a, b in itertools.pairwise(ends)]
        for part in parts:
            np.testing.assert_allclose(part.sum(1), 1, rtol=1e-5)
        taken = [part[np.arange(len(part)), action[:, k]] for k, part in enumerate(parts)]
        found = np.log(taken).sum(0)
    np.testing.assert_allclose(found, log_prob, rtol=2e-3, atol=2e-3)
    trainer.close()


def of_agent(trainer, agent):
    """Log-probabilities (T,) and actions (T, k) of an agent of the first world shown, and its group."""
    counts, first = iter(trainer.env.worlds.view.layout.role_counts.items()), 0
    while agent >= first + (pair := next(counts))[1]:
        first += pair[1]
    role, count = pair
    groups = trainer.env.layout.groups
    number = next(k for k, group in enumerate(groups) if group.role in ("", role))
    slabs, rows = trainer.parts.rollout.groups[number], trainer.env.role_rows[role]
    of_group = rows.start if groups[number].role == "" else 0
    row = of_group + WORLDS[0] * count + agent - first
    steps = trainer.parts.num_steps
    return slabs.log_prob[:, row].cpu().numpy(), slabs.action[:, row].cpu().numpy().reshape(steps, -1), groups[number]


@pytest.mark.parametrize(("case", "kind"), [marked("grid tag by PQN", "values"), marked("pendulum by SAC", "number")])
def test_policies_without_probabilities_give_values_or_their_likeliest_action(case, kind, monkeypatch):
    trainer = live_trainer(monkeypatch, config_of(case), 0)
    while not (given := trainer.pipeline.live.server.given):
        iterate(trainer)
    assert recorded(trainer, given[0][1]).rollouts[0].decisions["kind"] == kind
    trainer.close()


def test_an_agent_without_a_network_has_no_decisions(monkeypatch):
    trainer = live_trainer(monkeypatch, config_of("small tag", policy_map={"tagger": "tagger", "runner": "random"}), 3)
    iterate(trainer, 2)
    (_, message), *_ = trainer.pipeline.live.server.given
    assert recorded(trainer, message).rollouts[0].decisions is None
    trainer.close()


def weights(trainer):
    return {name: policy.state_dict() for name, policy in trainer.policies.items()}


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_that_is_watched_trains_to_the_same_bits(device, monkeypatch):
    config = config_of("small tag", device)
    watched, alone = live_trainer(monkeypatch, config, 3), Trainer(config, quiet=True)
    for trainer in (watched, alone):
        trainer.train(6)
        trainer.close()
    assert watched.pipeline.live.server.given  # one rollout on a GPU, which has all iterations in flight
    for name, state in weights(alone).items():
        for key, values in state.items():
            assert torch.equal(values, weights(watched)[name][key]), f"{name} {key}"


@pytest.mark.gpu
def test_recorded_iterations_stay_in_flight(monkeypatch):
    trainer = live_trainer(monkeypatch, config_of("small tag", "cuda:0"), 3)
    env, given = small_env(trainer), trainer.pipeline.live.server.given
    env.reset(seed=0)
    for _ in range(4):
        for _ in range(IN_FLIGHT):
            trainer.launch()
        assert trainer.pipeline.count == IN_FLIGHT
        for _ in range(IN_FLIGHT):
            trainer.finish()
    assert len(given) >= 4
    for _, message in given:
        assert_made_again(env, recorded(trainer, message).rollouts)
    env.close()
    trainer.close()


def test_recordings_pause_so_that_they_take_a_small_share_of_the_time(monkeypatch):
    trainer = live_trainer(monkeypatch, config_of("small tag"))
    monkeypatch.setattr(live, "SHARE", 1e-9)
    iterate(trainer, 8)
    assert len(trainer.pipeline.live.server.given) == 1
    trainer.close()


class Reset(Callback):
    """Starts new episodes between two iterations of an excerpt."""

    def on_iteration(self, trainer, metrics):
        trainer.env.reset(seed=7)


def test_each_rollout_of_a_recording_starts_from_its_own_state(monkeypatch):
    trainer = live_trainer(monkeypatch, config_of("small tag"), callbacks=[Reset()])
    env = small_env(trainer)
    env.reset(seed=0)
    trainer.train(2)
    (_, message), *_ = trainer.pipeline.live.server.given
    first, second = recorded(trainer, message).rollouts
    assert (first.end["t"] != second.start["t"]).any()
    assert_made_again(env, [first, second])
    env.close()
    trainer.close()


def test_curves_have_the_newest_points_and_no_more_than_a_page_draws(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("gpu_vecenv.train.runner.live_curves.time.monotonic", lambda: float(next(clock)))
    curves = LiveCurves()
    for iteration in range(1, 10 * MOST):
        curves.log({"iteration": iteration, "return/agent": float("nan") if iteration % 2 else 1.0})
    points = curves.after(0)
    assert MOST / 2 <= len(points) <= MOST and points[0] == {"iteration": 1}
    assert points[-1]["iteration"] > 10 * MOST - 50 and curves.after(points[-2]["iteration"]) == points[-1:]
