"""Policies with a state: a counter proves that it begins with zeros where an episode or a life does, and goes on elsewhere.

The counter is the number of steps of the episode, because agents join at its start alone. The env counts these steps itself.
"""

import contextlib
import dataclasses
import re

import beat
import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Arena-v0)
import torch
from dispatched import HostReads, operations
from torch import nn

from gpu_vecenv.train import (
    AlgorithmConfig,
    Callback,
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    TrainConfig,
    Trainer,
    evaluate,
    load_checkpoint,
    register_algorithm,
    register_network,
    train_many,
)
from gpu_vecenv.train.algorithms.contract import Algorithm
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.eligibility import fused_sizes
from gpu_vecenv.train.policies.contract import Inputs, Policy
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import play
from gpu_vecenv.train.runner.matches import play_matches
from gpu_vecenv.train.runner.players import Players


@dataclasses.dataclass(frozen=True)
class SequencesConfig(AlgorithmConfig):
    num_steps: int = 7
    normalize_observations: bool = False


class Sequences(Algorithm):
    """Learns from whole sequences: runs a policy again from the state at the start of a rollout."""

    metric_names = ("mismatch",)

    def __init__(self, policy, options, setup):
        self.policy = policy

    def update(self, samples, scalars):
        state, loss, mismatch = samples.state, 0.0, samples.reward.new_zeros(())
        for t in range(samples.num_steps):
            obs = {name: x[t] for name, x in samples.obs.items()} if isinstance(samples.obs, dict) else samples.obs[t]
            inputs = Inputs(obs, None if samples.mask is None else samples.mask[t], state=state)
            evaluated, state = self.policy.evaluate_with_state(inputs, samples.action[t])
            valid, ends = samples.valid[t], samples.episode_end[t].unsqueeze(-1)
            mismatch += torch.where(valid, (evaluated.log_prob - samples.log_prob[t]).abs(), 0.0).sum().detach()
            loss = loss + torch.where(valid, (evaluated.value - samples.reward[t]).square(), 0.0).sum()
            state = torch.where(ends, 0.0, state)
        slope = self.policy.network.slope
        (gradient,) = torch.autograd.grad(loss, slope)
        with torch.no_grad():
            slope.sub_(1e-5 * gradient)
        return mismatch.view(1)

    def state_dict(self):
        return {}

    def load_state_dict(self, state, where):
        pass


register_algorithm("sequences", SequencesConfig, Sequences)
COUNTER = PolicyConfig(module="counter", algorithm="sequences")
BEAT = TrainConfig(
    "Beat-v0", num_envs=6, total_steps=6 * 7 * 6, device="cpu", env_kwargs={"max_episode_steps": 9},
    policies={"left": COUNTER, "right": COUNTER},
)  # fmt: skip
FROZEN = dataclasses.replace(  # the left counter acts and does not learn; the right policy learns by PPO
    BEAT, frozen=("left",), network=NetworkConfig((8,)), ppo=PPOConfig(num_steps=7),
    policies={"left": PolicyConfig(module="counter")},
)
ROLES = TrainConfig(
    "Arena-v0", num_envs=6, total_steps=6 * 7 * 4, device="cpu", ppo=PPOConfig(num_steps=7), env_kwargs={"max_episode_steps": 9},
    policies={"red": PolicyConfig(module="counter"), "blue": PolicyConfig(module="counter")}, frozen=("blue",),
)  # fmt: skip


def tensors_of(trainer):
    state = trainer.parts.state_dict()
    found = {f"{name}/{key}": x for name, own in state["policies"].items() for key, x in own.items()}
    found |= {f"state/{name}": x for name, x in state["collector"].get("states", {}).items()}
    return {name: x.clone() for name, x in {**found, **state["collector"]["env"]}.items()}


def require_same(one, other):
    assert one.keys() == other.keys()
    for name, x in one.items():
        assert torch.equal(x.cpu(), other[name].cpu()), name


def watched(collector, name):
    """Compare the counter before each step of a policy with the steps of the episodes.

    Returns:
        Numbers of rows that were compared, of those after the first step of an episode, and of those out of the game.
    """
    rows = next(views[0]._rows for _, views in collector.step_views if views[0]._rows.states is collector._states[name])
    env, step, seen = collector.env, collector.env.step, [0, 0, 0]
    world, agent = (x.long() for x in rows.world_and_agent())

    def noted(actions):  # the policy has acted, so the state is that after the step, with the counter before it
        steps, lives = collector._t[world, 0], collector.alive[world, agent] != 0
        assert torch.equal(rows.states.now[..., 1][lives], steps[lives].float())
        for place, count in enumerate((lives, lives & (steps > 0), ~lives)):
            seen[place] += int(count.sum())
        return step(actions)

    env.step = noted
    return seen


@pytest.mark.parametrize("stagger", [False, True])
def test_a_counter_begins_anew_where_episodes_and_lives_do(stagger):
    trainer = Trainer(dataclasses.replace(BEAT, stagger_starts=stagger), quiet=True)
    if stagger:  # worlds begin in the middle of episodes, and states with zeros
        assert trainer.env.get_state("t")["t"].any()
        assert not any(states.now.any() for states in trainer.parts.collector._states.values())
        return
    seen = [watched(trainer.parts.collector, name) for name in ("left", "right")]
    for number in range(6):
        metrics = trainer.train(iterations=1)
        assert metrics["mismatch/left"] == metrics["mismatch/right"] == 0.0
        if number == 2:
            trainer.parts.collector.reset(8)
    assert all(min(counts) > 10 for counts in seen)


def test_a_counter_begins_anew_in_worlds_that_a_callback_resets():
    trainer = Trainer(dataclasses.replace(BEAT, env_kwargs={"absent": 0.0, "leave": 0.0, "end": 0.02}), quiet=True)
    seen = watched(trainer.parts.collector, "left")
    for number in range(4):
        trainer.train(iterations=1)
        every_other = np.asarray(trainer.env.worlds.view.world_of_env) % 2 == 0
        trainer.env.reset(**({"options": {"reset_mask": every_other}} if number < 2 else {"seed": 3}))
    assert min(seen[:2]) > 100


@pytest.mark.parametrize("steps", [1, 7])
def test_samples_tell_where_states_begin(steps):
    """The state before each step is that of the counter again, from ``Samples`` alone, also of agents that come back to life."""
    kwargs = {"leave": 0.2, "back": 0.3, "end": 0.02}
    trainer = Trainer(dataclasses.replace(BEAT, algorithms={"sequences": SequencesConfig(steps)}, env_kwargs=kwargs), quiet=True)
    rows, begun = trainer.parts.rows["left"], 0
    for _ in range(35 // steps):
        counts, step = [], trainer.env.step

        def noted(actions, counts=counts, step=step):
            counts.append(rows.states.now[:, 1].clone())
            return step(actions)

        trainer.env.step = noted
        trainer.parts.collector.collect()
        trainer.env.step = step
        samples, state = rows.samples(), rows.samples().state[:, 0]
        for t, count in enumerate(counts):
            assert torch.equal(count, state)
            state = torch.where(samples.episode_end[t], 0.0, state + 1)
        begun += int((samples.state[:, 0] > 0).sum())
        assert torch.equal(rows.states.now[:, 0], state)
    assert begun > 5


@pytest.mark.parametrize("name", ["red", "blue"])
def test_a_counter_begins_anew_in_roles_with_spaces_of_their_own(name):
    """The samples of blue are worlds, because its observations have a shared part."""
    config = dataclasses.replace(ROLES, frozen=(name,), policies={name: PolicyConfig(module="counter")})
    trainer = Trainer(config, quiet=True)
    assert trainer.parts.rows["blue"].form == "worlds"
    seen = watched(trainer.parts.collector, name)
    trainer.train()
    assert min(seen) > 10


@pytest.mark.parametrize("policy_map", [
    {"left": "count", "right": "count"}, {"left[0:1]": "count", "left[1:2]": "random", "right": "count"},
])  # fmt: skip
def test_parts_of_a_policy_have_states_of_their_own(policy_map):
    trainer = Trainer(dataclasses.replace(BEAT, policy_map=policy_map, policies={"count": COUNTER}), quiet=True)
    seen = watched(trainer.parts.collector, "count")
    trainer.train()
    assert min(seen) > 10


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_players_count_in_all_autoreset_modes(mode):
    config = resolve(dataclasses.replace(BEAT, seed=4))
    with contextlib.closing(make_env(config, 5, mode)) as env:
        players = Players.loaded(env, config, None, None, False, num_steps=1 if mode == "disabled" else 4)
        seen = watched(players.collector, "left")
        for seed in range(3):
            players.collector.reset(seed)
            for _ in range(8):
                ended = players.step(True).terminated
                if mode == "disabled" and ended.any():
                    break
    assert min(seen) > 3


def test_evaluations_matches_and_videos_play_with_the_state(tmp_path):
    """Each step of an agent in the game pays 1 if and only if the counter is right."""
    config = dataclasses.replace(
        BEAT, out=str(tmp_path), env_kwargs={"max_episode_steps": 9, "absent": 0.0, "leave": 0.0}, evaluation_interval=2,
        evaluation_episodes=8,
    )  # fmt: skip
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        seen = []
        trainer.callbacks = (OnEvaluation(seen),)
        trainer.train()
    result = evaluate(tmp_path, episodes=16)
    for each in (*seen, result):
        assert each.mean_return == {"left": each.mean_length, "right": each.mean_length}
    assert len(seen) == 3
    states = list(play(tmp_path, episodes=3, seed=1))
    assert len(states) > 6 and all((state["score"] == state["t"]).all() for state in states)
    trained = next(match for match in play_matches(tmp_path).matches if not match.random)
    assert trained.mean_return["left"] > 3


class OnEvaluation(Callback):
    """Keeps the results of evaluations."""

    def __init__(self, seen):
        self.seen = seen

    def on_evaluation(self, trainer, evaluation, is_best):
        self.seen.append(evaluation)


@pytest.mark.parametrize("config", [BEAT, FROZEN], ids=["learns", "frozen"])
def test_a_resumed_run_goes_on_in_the_middle_of_episodes(config, tmp_path):
    whole, half = (Trainer(dataclasses.replace(config, out=str(tmp_path / name)), quiet=True) for name in ("whole", "half"))
    whole.train()
    half.train(iterations=3)
    half.close()
    assert load_checkpoint(tmp_path / "half")["collector"]["states"]["left"].any()
    again = Trainer.resume(tmp_path / "half", quiet=True)
    again.train()
    require_same(tensors_of(again), tensors_of(whole))


def test_runs_side_by_side_count_alone(tmp_path):
    configs = {f"seed-{seed}": dataclasses.replace(BEAT, seed=seed) for seed in range(3)}
    alone = {}
    for name, config in configs.items():
        trainer = Trainer(config, quiet=True)
        trainer.train()
        alone[name] = tensors_of(trainer)
    train_many(configs, tmp_path, quiet=True)
    for name, expected in alone.items():
        state = load_checkpoint(tmp_path / name)
        found = {f"state/{policy}": x for policy, x in state["collector"]["states"].items()}
        found |= {f"{policy}/{key}": x for policy, own in state["policies"].items() for key, x in own.items()}
        require_same(found, {key: expected[key] for key in found})


def test_a_rollout_with_states_has_fixed_addresses_and_no_host_reads():
    """A CUDA graph can then record it."""
    trainer = Trainer(BEAT, quiet=True)
    collector, found = trainer.parts.collector, []
    for _ in range(3):
        with HostReads():
            collector.collect()
        found.append([x.data_ptr() for states in collector._states.values() for x in (states.now, states.first)])
        assert [views[t].inputs().state.data_ptr() for _, views in collector.step_views for t in (0, 6)] == [
            states.now.data_ptr() for states in collector._states.values() for _ in range(2)
        ]
    assert found[0] == found[1] == found[2]


def test_a_policy_without_a_state_costs_no_operation():
    """Compared with a rollout whose steps are written out."""
    trainer = Trainer(dataclasses.replace(BEAT, policies={}, ppo=PPOConfig(num_steps=7)), quiet=True)
    collector = trainer.parts.collector

    def bare():
        with torch.no_grad():
            collector.rollout.alive_start.copy_(collector.rollout.alive_next[-1])
            trainer.env.rewind()
            for t in range(7):
                for policy, views in collector.step_views:
                    policy.act(views[t].inputs(), views[t].draw)
                trainer.env.step(collector.rollout.groups[0].action[t])
                collector.rollout.alive_next[t].copy_(collector.alive)

    collector.collect()
    assert operations(collector.collect) == operations(bare)


@pytest.mark.gpu
@pytest.mark.parametrize("config", [BEAT, FROZEN], ids=["learns", "frozen"])
def test_a_captured_run_counts_like_an_eager_one(config):
    found = []
    for graph in (False, True):
        trainer = Trainer(dataclasses.replace(config, device="cuda:0", kernels="torch", graph=graph), quiet=True)
        metrics = trainer.train()
        assert all(value == 0.0 for name, value in metrics.items() if name.startswith("mismatch/"))
        found.append(tensors_of(trainer))
    assert trainer.executor.reason == ""
    require_same(*found)
    t = trainer.env.get_state("t")["t"].repeat_interleave(2).float()
    alive = trainer.env.get_state("present")["present"][:, :2].flatten() != 0
    assert torch.equal(trainer.parts.rows["left"].states.now[alive, 0], t[alive]) and t.any()


def test_a_run_without_states_has_none_in_its_checkpoint():
    trainer = Trainer(dataclasses.replace(BEAT, policies={}, ppo=PPOConfig(num_steps=7)), quiet=True)
    assert "states" not in trainer.parts.collector.state_dict() and not trainer.parts.collector._states


# ---- refused by name ------------------------------------------------------------------------------------------------


def test_fused_kernels_refuse_a_state():
    policy = Trainer(BEAT, quiet=True).policies["left"]
    assert fused_sizes(policy, torch.device("cpu")) == "it has a state"


def networks_that_are_refused():
    def returns(change):
        class Changed(beat.Counter):
            def forward(self, obs, state):
                return change(*super().forward(obs, state))

        return Changed(5)

    def declares(shape):
        network = beat.Counter(5)
        network.state_shape = shape
        return network

    class Acts(beat.Counter):
        def actor(self, obs, state):
            outputs, _, new = self(obs, state)
            return outputs, new + 1

    class Late(beat.Counter):
        def sequence(self, obs, state, episode_end):
            first = torch.zeros_like(state)
            return tuple(map(torch.stack, zip(*(self(x, first) for x in obs), strict=True)))

    class Adds(beat.Counter):
        def forward(self, obs, state):
            return *super().forward(obs, state)[:2], state.add_(1)

    return {
        "no state": (returns(lambda outputs, value, state: (outputs, value)), "(outputs, value, state), got a tuple of 2"),
        "its shape": (returns(lambda outputs, value, state: (outputs, value, state[:, :2])), "state: expected float32 (2, 3)"),
        "not finite": (returns(lambda outputs, value, state: (outputs, value, state / 0)), "state: expected finite numbers"),
        "a list": (declares([3]), "state_shape of a network: expected a tuple of positive integers or None, got [3]"),
        "no length": (declares((0,)), "state_shape of a network: expected a tuple of positive integers or None, got (0,)"),
        "another actor": (Acts(5), "expected state of actor() to return what forward() returns"),
        "another sequence": (Late(5), "expected outputs of sequence() as of a loop over steps, got other numbers"),
        "in place": (Adds(5), "got a change in place"),
    }


@pytest.mark.parametrize("case", networks_that_are_refused())
def test_networks_with_a_wrong_state_are_refused(case):
    network, message = networks_that_are_refused()[case]
    with pytest.raises(ConfigError, match=re.escape(message)):
        Trainer(FROZEN, quiet=True, networks={"left": network})


def test_an_actor_must_return_the_state_it_is_given():
    trainer = Trainer(FROZEN, quiet=True)
    (left, views), (right, others) = trainer.parts.collector.step_views
    for policy, own, said in ((left, views, "expected a state"), (right, others, "expected no state")):
        draw, inputs = own[0].draw, own[0].inputs()
        results = policy.act(inputs, draw)
        wrong = results[:2] if len(results) == 3 else (*results, torch.zeros(6, 3))
        with pytest.raises(ConfigError, match=said):
            own[0].store(*wrong)


class Methods(nn.Module):
    """A counter with an actor and a critic of its own, for samples of worlds as well."""

    state_shape, shared_parts = (3,), True

    def __init__(self):
        super().__init__()
        self.counter = beat.Counter(5)

    def actor(self, obs, state):
        return self.forward(obs, state)[::2]

    def critic(self, obs, state):
        return self.forward(obs, state)[1]

    def forward(self, obs, state):
        return self.counter(obs, state)


def test_an_actor_alone_takes_the_state_too():
    found = []
    for network in (beat.Counter(5), Methods()):
        trainer = Trainer(FROZEN, quiet=True, networks={"left": network})
        trainer.train()
        found.append({name: x for name, x in tensors_of(trainer).items() if not name.startswith("left/")})
    require_same(*found)


# ---- samples of sequences -------------------------------------------------------------------------------------------


def collected(config=BEAT, name="left", networks=None):
    """Return a policy and its samples after two rollouts."""
    trainer = Trainer(config, quiet=True, networks=networks)
    for _ in range(2):
        trainer.parts.collector.collect()
    return trainer.policies[name], trainer.parts.rows[name].samples()


def test_inputs_without_a_state_are_refused_by_name():
    policy, samples = collected()
    inputs = samples.steps(samples.obs, slice(0, 7))
    for call in (policy.value, lambda inputs: policy.evaluate(inputs, samples.action.flatten()),
                 lambda inputs: policy.outputs(inputs.obs)):  # fmt: skip
        with pytest.raises(ConfigError, match=r"^policy 'left' has a state: expected Inputs.state of \(3,\) a row, got None"):
            call(inputs)


@pytest.mark.parametrize("name", ["red", "blue"])
def test_inputs_take_states_of_steps_and_of_transitions(name):
    """The value of a counter is its count times 0.5. Samples of blue are worlds."""
    config = dataclasses.replace(ROLES, frozen=(name,), policies={name: PolicyConfig(module="counter")})
    policy, samples = collected(config, name)
    rows = samples.reward.shape[1:]
    state = torch.arange(2.0 * samples.reward[0].numel()).view(2, *rows, 1).expand(-1, *[-1] * len(rows), 3)
    value = policy.value(samples.steps(samples.obs, slice(3, 5), state=state))
    assert torch.equal(value.view(2, *rows), 0.5 * state[..., 0])
    at = torch.tensor([3, 0]), torch.tensor([1, 5])
    assert torch.equal(policy.value(samples.chosen(at, state[0][at[1]])), 0.5 * state[0][at[1]][..., 0])


@pytest.mark.parametrize("name", ["red", "blue"])
def test_places_may_have_two_axes(name):
    config = dataclasses.replace(ROLES, frozen=(name,), policies={name: PolicyConfig(module="counter")})
    _, samples = collected(config, name)
    steps, sample = torch.tensor([[0, 3], [1, 4], [2, 5]]), torch.tensor([5, 1]).expand(3, -1)
    both, flat = samples.chosen((steps, sample)), samples.chosen((steps.flatten(), sample.flatten()))
    assert not samples.valid[steps, sample].all()
    for one, other in zip(arrays_of(both), arrays_of(flat), strict=True):
        assert one.shape[:2] == (3, 2) and torch.equal(one.flatten(0, 1), other)


def arrays_of(inputs):
    obs = inputs.obs.values() if isinstance(inputs.obs, dict) else [inputs.obs]
    return [x for x in (*obs, *inputs[1:]) if x is not None]


def starts(samples):
    """Return the places of the whole rollout as sequences."""
    num_samples = samples.reward.shape[1]
    return torch.zeros(num_samples, dtype=torch.int64), torch.arange(num_samples)


@pytest.mark.parametrize(("config", "name"), [(BEAT, "left"), (ROLES, "red"), (ROLES, "blue")], ids=["beat", "red", "blue"])
def test_sequences_of_a_counter_have_the_log_probabilities_of_the_rollout(config, name):
    """The states are those of the whole rollout, and of segments that start from its states."""
    if config is ROLES:
        config = dataclasses.replace(ROLES, frozen=(name,), policies={name: PolicyConfig(module="counter")})
    policy, samples = collected(config, name)
    whole, after = policy.evaluate_sequence(*samples.sequences(starts(samples), 7), samples.state)
    valid, ends = samples.valid, samples.episode_end
    assert not valid.all() and torch.equal(whole.log_prob[valid], samples.log_prob[valid])
    assert (whole.log_prob[~valid] < 1).all() and after.shape == (*valid.shape, 3)
    before = torch.cat((samples.state[None], torch.where(ends.unsqueeze(-1), 0.0, after)[:-1]))
    count = before[valid][:, 0]
    assert torch.equal(after[valid], torch.stack((count + 1, count, torch.full_like(count, 7.0)), -1))
    first, sample = torch.tensor([0, 4, 2, 3]), torch.tensor([2, 1, 5, 1])
    part, of_part = policy.evaluate_sequence(*samples.sequences((first, sample), 3), before[first, sample])
    for number, (t, column) in enumerate(zip(first, sample, strict=True)):
        assert torch.equal(part.value[:, number], whole.value[t : t + 3, column])
        assert torch.equal(part.log_prob[:, number], whole.log_prob[t : t + 3, column])
        assert torch.equal(of_part[:, number], after[t : t + 3, column])


class Leaky(nn.Module):
    """A recurrent layer whose products with observations ``sequence()`` takes once over all steps."""

    state_shape = (4,)

    def __init__(self, spec, critic_sources=(), shared_parts=False):
        super().__init__()
        torch.manual_seed(1)
        self.critic_sources, self.shared_parts, self.calls = critic_sources, shared_parts, []
        self.reads, self.keeps = nn.Linear(sum(spec.parts), 4), nn.Linear(4, 4)
        self.acts, self.worth = nn.Linear(4, spec.num_outputs), nn.Linear(4 + sum(spec.sources[x] for x in critic_sources), 1)

    def read(self, obs):
        if isinstance(obs, dict):
            own = obs["own"]
            obs = torch.cat((obs["shared"].unsqueeze(-2).expand(*own.shape[:-1], -1), own), -1)
        return self.reads(obs)

    def results(self, hidden, *inputs):
        if inputs:
            own = inputs[0].repeat_interleave(hidden.shape[-2] // inputs[0].shape[-2], -2)
            return self.acts(hidden), self.worth(torch.cat((hidden, own), -1)).squeeze(-1), hidden
        return self.acts(hidden), self.worth(hidden).squeeze(-1), hidden

    def forward(self, obs, state):
        return self.results(torch.tanh(self.read(obs) + self.keeps(state)))

    def actor(self, obs, state):
        hidden = torch.tanh(self.read(obs) + self.keeps(state))
        return self.acts(hidden), hidden

    def critic(self, obs, *rest):
        return self.results(torch.tanh(self.read(obs) + self.keeps(rest[-1])), *rest[:-1])[1]

    def sequence(self, obs, *rest):
        *inputs, state, episode_end = rest
        self.calls.append(episode_end.shape)
        states = []
        for read, end in zip(self.read(obs), episode_end, strict=True):
            states.append(torch.tanh(read + self.keeps(state)))
            state = torch.where(end.unsqueeze(-1), 0.0, states[-1])
        return self.results(torch.stack(states), *inputs)


register_network("leaky", Leaky)
register_network("leaky parts", lambda spec: Leaky(spec, shared_parts=True))
register_network("leaky critic", lambda spec: Leaky(spec, ("place", "t")))


@pytest.mark.parametrize(("name", "module", "shape"), [
    ("red", "leaky", (3, 6)), ("blue", "leaky", (3, 12)), ("blue", "leaky parts", (3, 6, 2)), ("red", "leaky critic", None),
])  # fmt: skip
def test_a_network_runs_a_sequence_in_one_call_as_in_a_loop(name, module, shape):
    """Results and gradients, also if agents that do not count hold NaN, no allowed choice and an action out of range."""
    ppo = dataclasses.replace(ROLES.ppo, bootstrap_at_time_limit=False)
    policies = {name: PolicyConfig(module=module, algorithm="sequences")}
    config = dataclasses.replace(ROLES, frozen=({"red": "blue", "blue": "red"}[name],), policies=policies, ppo=ppo)
    policy, samples = collected(config, name)
    start = torch.tensor([0, 3, 4, 1, 2, 2]), torch.tensor([2, 1, 5, 0, 4, 3])
    state = torch.rand(*samples.reward[0][start[1]].shape, 4, generator=torch.Generator().manual_seed(0))
    found = []
    for evaluate_sequence in (policy.evaluate_sequence, lambda *given: Policy.evaluate_sequence(policy, *given)):
        for spoiled in (False, True):
            if spoiled:
                spoil(samples)
            policy.network.calls.clear()
            policy.zero_grad()
            sequences = samples.sequences(start, 3)
            evaluated, states = evaluate_sequence(*sequences, state)
            (evaluated.log_prob * evaluated.value + evaluated.entropy).sum().backward()
            found.append([*evaluated, states, *(x.grad.clone() for x in policy.parameters())])
            assert len(policy.network.calls) == (len(found) < 3)
            assert shape is None or policy.network.calls in ([], [shape])
    assert not samples.valid.all() and evaluated.value.shape == sequences.episode_end.shape
    for other in found[1:]:
        for one, x in zip(found[0], other, strict=True):
            torch.testing.assert_close(x, one)


def spoil(samples):
    own = samples.obs["own"] if isinstance(samples.obs, dict) else samples.obs
    own[:-1][~samples.valid] = float("nan")
    samples.mask[:-1][~samples.valid] = False
    samples.action[~samples.valid] = 1_000_000
    if samples.valid.dim() > 2:
        nobody = ~samples.valid.any(-1)
        for x in [samples.critic] if samples.critic is not None else [samples.obs["shared"]]:
            x[:-1][nobody] = float("nan")
