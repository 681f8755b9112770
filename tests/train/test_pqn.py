"""PQN and PQN-VDN: updates against a plain version in double precision, targets, exploration, resumed runs, learning, options."""

import contextlib
import dataclasses

import pytest
import reference_pqn
import role_envs  # noqa: F401  (registers Arena, Pairs and Masked)
import torch
from dispatched import HostReads
from ways import WAYS

import tests.roles  # noqa: F401  (registers Whisper)
from gpu_vecenv.cli.main import main
from gpu_vecenv.train import (
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    PQNConfig,
    TrainConfig,
    Trainer,
    evaluate,
    export_policy,
    train_many,
)
from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.masked_radam import MaskedRAdam
from gpu_vecenv.train.config import PRESETS, SMALL_TAG_PQN
from tests.devices import DEVICES

NETWORK = NetworkConfig((8,), "tanh", layer_norm=True)
# Four steps of the optimiser, all along the first moment: those that divide by the second one amplify rounding.
BASE = PQNConfig(
    num_steps=12, num_epochs=1, num_minibatches=4, learning_rate=1.0, learning_rate_schedule="constant", q_lambda=0.7, gamma=0.9,
    epsilon_start=0.5, epsilon_final=0.5, max_grad_norm=1.0, reward_scale=0.5, normalize_observations=False,
)  # fmt: skip
TAG = {"num_taggers": 2, "num_runners": 3, "num_other_agents_observed": 2, "episode_length": 6, "tagging_distance": 0.3}
ARENA = {"ghost": 1000.0, "leaves": 0.15, "ends": 0.1, "max_episode_steps": 5}
CASES = {
    "time limits": ("WarpCartPole-v1", {"max_episode_steps": 5}, None, {}),
    "time limits that end": ("WarpCartPole-v1", {"max_episode_steps": 5}, None, {"bootstrap_at_time_limit": False}),
    "normalised": ("WarpCartPole-v1", {}, None, {"normalize_observations": True, "q_lambda": 1.0}),
    "one step, two epochs": ("WarpCartPole-v1", {}, None, {"q_lambda": 0.0, "num_epochs": 2, "num_minibatches": 2}),
    "deaths": ("WarpTag-v0", TAG, None, {}),
    "team of two roles with deaths": ("WarpTag-v0", TAG, "all", {"mixing": "vdn"}),
    "team with deaths and time limits": ("WarpTag-v0", TAG, None, {"mixing": "vdn", "bootstrap_at_time_limit": True}),
    "masks and absent agents": ("Arena-v0", ARENA, None, {}),
    "masks, time limits that end": ("Arena-v0", ARENA, None, {"bootstrap_at_time_limit": False}),
    "rows without a choice": ("Arena-v0", {**ARENA, "shut": 1}, None, {}),
    "teams with masks and absent agents": ("Arena-v0", ARENA, None, {"mixing": "vdn"}),
    "teams, time limits that end": ("Arena-v0", ARENA, None, {"mixing": "vdn", "bootstrap_at_time_limit": False}),
    "entries without effect": ("Whisper-v0", {"max_episode_steps": 7, "quiet": 1}, None, {"bootstrap_at_time_limit": True}),
    "entries without effect, terminal": ("Whisper-v0", {"max_episode_steps": 7}, None, {"bootstrap_at_time_limit": False}),
    "shared part": ("Pairs-v0", {"max_episode_steps": 5}, "all", {}),
    "team with a shared part": ("Pairs-v0", {"max_episode_steps": 5, "num_left": 2}, "all", {"mixing": "vdn"}),
    "team of unlike roles with a shared part": ("Pairs-v0", {"max_episode_steps": 5}, "all", {"mixing": "vdn"}),
    "masked team": ("Masked-v0", {"max_episode_steps": 5}, "all", {"mixing": "vdn"}),
}


def config_of(case, **changes):
    env_id, params, shared, options = CASES[case]
    roles = {"Pairs-v0": ("left", "right"), "Masked-v0": ("left", "right"), "WarpTag-v0": ("tagger", "runner")}.get(env_id)
    return TrainConfig(
        env_id, num_envs=4, total_steps=4 * 12 * 4, device="cpu", env_kwargs=params, algorithm="pqn", network=NETWORK,
        algorithms={"pqn": dataclasses.replace(BASE, **options)},
        policy_map=dict.fromkeys(roles, shared) if shared else None, **changes,
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_update_is_that_of_the_papers(case):
    with contextlib.closing(Trainer(config_of(case, seed=len(case)), quiet=True)) as trainer:
        parts = trainer.parts
        parts.collector.collect()
        for name, algorithm in parts.algorithms.items():
            policy, rows, own = parts.policies[name], parts.rows[name], algorithm.config
            samples = rows.samples()
            if own.normalize_observations:
                policy.observe(samples.obs[:-1], samples.valid)
            nothing = ~samples.valid  # rows that do not count may hold anything
            obs = samples.obs["own"] if isinstance(samples.obs, dict) else samples.obs
            obs[:-1][nothing], samples.reward[nothing] = torch.nan, torch.nan
            if samples.final_obs is not None:
                final = samples.final_obs["own"] if isinstance(samples.final_obs, dict) else samples.final_obs
                final[~samples.timed_out] = torch.nan
            bootstrap = algorithm.bootstraps
            assert bootstrap == (samples.final_obs is not None)
            world = rows.world_and_agent()[0].flatten().tolist()
            seed = algorithm.shuffles.item()
            want, loss = reference_pqn.update(policy, own, samples, world, seed, own.learning_rate, bootstrap)
            before = {key: x.detach().clone() for key, x in policy.network.named_parameters()}
            metrics = algorithm.update(samples, (torch.tensor(own.learning_rate), torch.tensor(0.25)))
            for key, x in policy.network.named_parameters():
                off, change = (x - want[key]).norm(), (want[key] - before[key]).norm()
                assert change > 2e-4 and off < 1e-5 * max(1.0, want[key].norm()) and off < 1e-3 * change, key
            found = dict(zip(algorithm.metric_names, metrics.tolist(), strict=True))
            assert found["loss"] == pytest.approx(loss, rel=1e-4) and found["skipped"] == 0 and found["epsilon"] == 0.5
            assert algorithm.epsilon.item() == 0.25


def test_cases_hold_what_their_names_say():
    """Without a transition of each kind, the comparison above would not test that kind."""
    seen = {}
    for case in ("time limits", "team of two roles with deaths", "masks and absent agents", "rows without a choice"):
        with contextlib.closing(Trainer(config_of(case, seed=len(case)), quiet=True)) as trainer:
            trainer.parts.collector.collect()
            seen[case] = [rows.samples() for rows in trainer.parts.rows.values()]
    assert seen["time limits"][0].timed_out.any() and not seen["time limits"][0].timed_out.all()
    (tag,) = seen["team of two roles with deaths"]
    assert (tag.episode_end & ~tag.ended & tag.valid).any() and not tag.all_valid
    arena = seen["masks and absent agents"][0]
    assert (~arena.valid).any() and arena.timed_out.any() and (arena.ended & ~arena.timed_out & arena.valid).any()
    shut = seen["rows without a choice"][0]
    assert (~shut.choice & shut.valid).any()


def test_masks_after_the_last_step_are_those_of_the_next_rollout():
    """The largest value there is that of an action that has an effect."""
    with contextlib.closing(Trainer(config_of("entries without effect"), quiet=True)) as trainer:
        rows = trainer.parts.rows["whisperer"]
        for _ in range(6):
            trainer.parts.collector.collect()
            last = rows.samples().mask[-1].clone()
            trainer.parts.collector.collect()
            assert torch.equal(rows.samples().mask[0], last) and not last.all()


# ---- the optimiser ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_kernels", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_steps_are_those_of_torchs_radam_and_a_masked_one_is_left_out(device, by_kernels):
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in ((4, 3), (5,))]
    ours = [torch.nn.Parameter(x.to(device)) for x in start]
    theirs = [torch.nn.Parameter(x.double()) for x in start]
    radam, other = MaskedRAdam(ours, 1.0), torch.optim.RAdam(theirs, lr=0.02, eps=1e-8)
    radam.learning_rate.fill_(0.02)
    radam.by_kernels = by_kernels
    for step in range(40):
        gradients = [torch.randn(x.shape, generator=generator) for x in start]
        taken = step not in (2, 5, 11)
        for x, gradient in zip(ours, gradients, strict=True):
            x.grad = gradient.to(device)
        if step == 11:  # not finite, so it is left out by itself
            ours[0].grad[0, 0] = torch.inf
        before = [x.detach().clone() for x in ours]
        _, was_taken = radam.step(torch.tensor(step not in (2, 5), device=device))
        assert was_taken.item() is taken
        if not taken:
            assert all(torch.equal(x, y) for x, y in zip(ours, before, strict=True))
            continue
        for x, gradient in zip(theirs, gradients, strict=True):
            x.grad = gradient.double()
        torch.nn.utils.clip_grad_norm_(theirs, 1.0)
        other.step()
        torch.testing.assert_close([x.detach().cpu().double() for x in ours], [x.detach() for x in theirs], rtol=1e-5, atol=1e-6)


def test_factors_of_late_steps_do_not_change_any_more():
    x = torch.nn.Parameter(torch.zeros(1))
    factors = MaskedRAdam([x], 1.0).factors
    assert factors[-1].tolist() == [1.0, 0.0] and factors[0].tolist() == [0.0, 0.0]
    assert (factors[:, 0].diff()[6:] >= 0).all() and (factors[1:6, 1] > 0).all() and (factors[6:, 1] == 0).all()
    assert isinstance(MaskedRAdam([x], 1.0), MaskedAdam)


# ---- exploration --------------------------------------------------------------------------------------------------------


def test_epsilon_falls_with_the_steps_of_the_run_and_reaches_the_actor():
    own = dataclasses.replace(BASE, epsilon_start=1.0, epsilon_final=0.1, exploration_fraction=0.5)
    config = dataclasses.replace(config_of("one step, two epochs"), algorithms={"pqn": own}, total_steps=48 * 8)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        algorithm = trainer.parts.algorithms["agent"]
        seen = [algorithm.epsilon.item()]
        for _ in range(8):
            metrics = trainer.train(1)
            assert metrics["epsilon/agent"] == pytest.approx(seen[-1])
            seen.append(algorithm.epsilon.item())
        assert seen == pytest.approx([1.0, 0.775, 0.55, 0.325, *[0.1] * 5])
        parts = trainer.parts
        views, draw = parts.collector.step_views[0][1][0], parts.collector.step_views[0][1][0].draw
        greedy = parts.policies["agent"].act(views.inputs(), draw)[0].clone()
        algorithm.epsilon.fill_(1.0)
        assert torch.equal(parts.actors["agent"].act(views.inputs(), draw, deterministic=True)[0], greedy)
        algorithm.epsilon.fill_(0.0)
        assert torch.equal(parts.actors["agent"].act(views.inputs(), draw)[0], greedy)
        assert parts.evaluation_actors["agent"] is parts.policies["agent"]


def test_random_choices_are_as_many_as_epsilon_says_and_never_forbidden():
    own = dataclasses.replace(BASE, epsilon_start=1.0, epsilon_final=1.0)
    config = dataclasses.replace(config_of("masked team"), algorithms={"pqn": own}, num_envs=200)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        trainer.parts.collector.collect()
        (samples,) = (rows.samples() for rows in trainer.parts.rows.values())
    assert samples.mask[:-1].gather(-1, samples.action.long().unsqueeze(-1)).all()
    assert samples.log_prob.exp().mean() == pytest.approx(0.5)  # two of three choices are allowed


# ---- runs ---------------------------------------------------------------------------------------------------------------


def state_of(trainer):
    parts, found = trainer.parts.state_dict(), {}

    def walk(value, where):
        for name, each in value.items():
            walk(each, f"{where}/{name}") if isinstance(each, dict) else found.__setitem__(f"{where}/{name}", each)

    walk({name: parts[name] for name in ("policies", "algorithms")}, "")
    return found


def assert_same(found, want):
    assert found.keys() == want.keys()
    for name, value in found.items():
        assert torch.equal(value, want[name]) if isinstance(value, torch.Tensor) else value == want[name], name


RUNS = ("time limits", "team of two roles with deaths", "teams with masks and absent agents")


@pytest.mark.parametrize("case", RUNS)
def test_a_resumed_run_has_the_bits_of_one_without_an_interruption(case, tmp_path):
    config = config_of(case)
    own = dataclasses.replace(config.algorithms["pqn"], epsilon_final=0.1, learning_rate_schedule="linear")
    config = dataclasses.replace(config, algorithms={"pqn": own})
    with contextlib.closing(Trainer(config, quiet=True)) as whole:
        want = whole.train()
        states = state_of(whole)
    with contextlib.closing(Trainer(config, quiet=True)) as first:
        first.train(2)
        path = first.save(tmp_path / "run.pt")
    with contextlib.closing(Trainer.resume(path, quiet=True)) as second:
        metrics = second.train()
        assert_same(state_of(second), states)
    del want["steps_per_second"], metrics["steps_per_second"]
    assert metrics == pytest.approx(want, rel=0, abs=0, nan_ok=True)
    both = [evaluate(path, episodes=4, device="cpu", deterministic=each, max_steps=500) for each in (False, True)]
    assert both[0].mean_return == pytest.approx(both[1].mean_return, nan_ok=True)  # greedy in both


@pytest.mark.parametrize("case", RUNS)
def test_an_iteration_reads_nothing_on_the_host(case):
    with contextlib.closing(Trainer(config_of(case), quiet=True)) as trainer:
        trainer.train(2)
        with HostReads():
            trainer.launch()
        trainer.finish()


def test_runs_side_by_side_equal_each_alone():
    configs = {f"seed-{seed}": config_of("time limits", seed=seed) for seed in range(2)}
    results = train_many(configs, quiet=True)
    for name, config in configs.items():
        with contextlib.closing(Trainer(config, quiet=True)) as trainer:
            want = trainer.train()
        found = results[name].metrics
        del want["steps_per_second"], found["steps_per_second"]
        assert found == pytest.approx(want, rel=0, abs=0, nan_ok=True)


def test_pqn_and_ppo_share_a_run():
    ppo = PPOConfig(num_steps=12, num_minibatches=2)
    policies = {"runner": PolicyConfig(algorithm="pqn", algorithms={"pqn": {"mixing": "vdn"}})}
    config = dataclasses.replace(config_of("deaths"), algorithm="ppo", ppo=ppo, policies=policies)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        metrics = trainer.train()
    assert {"policy_loss/tagger", "q_value/runner"} <= metrics.keys()


def test_a_gradient_that_is_not_finite_ends_the_run():
    with contextlib.closing(Trainer(config_of("time limits"), quiet=True)) as trainer:
        algorithm = trainer.parts.algorithms["agent"]
        trainer.parts.collector.collect()
        (samples,) = (rows.samples() for rows in trainer.parts.rows.values())
        samples.reward[3, 1] = torch.inf
        before = [x.clone() for x in trainer.policies["agent"].parameters()]
        metrics = algorithm.update(samples, (torch.tensor(0.1), torch.tensor(0.1)))
        found = dict(zip(algorithm.metric_names, metrics.tolist(), strict=True))
        assert found["skipped"] > 0 and found["updates"] + found["skipped"] == 4
        assert all(x.isfinite().all() for x in trainer.policies["agent"].parameters()) and before


# ---- learning -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mixing", ["none", "vdn"])
def test_agents_learn_the_right_choices_under_masks(mixing, tmp_path):
    """An agent's right choice is its observation. An episode has 5 steps, and random play is right in half of them.

    Time limits are bootstrapped, so values go to 1 / (1 - gamma) for each agent, which a small gamma reaches sooner.
    """
    own = PQNConfig(num_steps=10, num_minibatches=4, learning_rate=5e-3, mixing=mixing, gamma=0.5)
    config = dataclasses.replace(
        config_of("masked team"), algorithms={"pqn": own}, num_envs=16, total_steps=16 * 10 * 60, network=PQNConfig.network
    )
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run.pt")
    found = evaluate(path, episodes=32, device="cpu").mean_return
    assert min(found.values()) > 4.9


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "least"), [("WarpCartPole-v1", 475), ("WarpAcrobot-v1", -90)])
def test_the_presets_learn(env_id, least, tmp_path):
    with contextlib.closing(Trainer(TrainConfig(env_id, device="cpu", algorithm="pqn", seed=1), quiet=True)) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run.pt")
    assert evaluate(path, episodes=100, device="cpu").mean_return["agent"] >= least


@pytest.mark.slow
def test_teams_of_tag_learn_by_vdn(tmp_path):
    """Each role is better than random play against random opponents."""
    with contextlib.closing(Trainer(dataclasses.replace(SMALL_TAG_PQN, device="cpu"), quiet=True)) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run.pt")
    random = {"tagger": "random", "runner": "random"}
    matches = [{**random, role: role} for role in random]
    base = evaluate(path, 64, policy_map=random, device="cpu").mean_return
    found = [evaluate(path, 64, policy_map=each, device="cpu").mean_return for each in matches]
    assert found[0]["tagger"] > 1.5 * base["tagger"] and found[1]["runner"] > 0.75 * base["runner"]  # runners have negative ones


# ---- options ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_trains_with_its_options_and_the_preset(tmp_path, capsys):
    line = "train WarpCartPole-v1 --num-envs 4 --device cpu --total-steps 128 --algorithm pqn --pqn num_minibatches=2 gamma=0.9"
    assert main([*line.split(), "--network", "hidden_sizes=[8]", "--out", str(tmp_path / "run")]) == 0, capsys.readouterr().err
    assert "pqn: options are those of its preset for WarpCartPole-v1, but for num_envs" in capsys.readouterr().out
    saved = TrainConfig.of_run(tmp_path / "run")
    preset = PRESETS["WarpCartPole-v1"].algorithms["pqn"].options
    assert saved.options_of("agent") == dataclasses.replace(preset, num_minibatches=2, gamma=0.9)
    assert saved.network == dataclasses.replace(PQNConfig.network, hidden_sizes=(8,))
    assert evaluate(tmp_path / "run", episodes=2, device="cpu").episodes == 2
    assert export_policy(tmp_path / "run", tmp_path / "agent.pt2").exists()


def test_ppo_learns_with_layer_norms_and_a_module_does_not_take_the_option():
    config = TrainConfig("WarpCartPole-v1", num_envs=4, total_steps=64, device="cpu", network=NETWORK)
    config = dataclasses.replace(config, ppo=PPOConfig(num_steps=8, num_minibatches=2))
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        norm = trainer.policies["agent"].network.actor_layers[1]
        before = norm.weight.clone()
        trainer.train()
        assert isinstance(norm, torch.nn.LayerNorm) and not torch.equal(norm.weight, before)
    module = QModule()
    with pytest.raises(ConfigError, match="network.layer_norm: expected none, as each policy has a module"):
        Trainer(dataclasses.replace(config, network=NetworkConfig(layer_norm=True)), quiet=True, networks={"agent": module})


class QModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, obs):
        return self.layer(obs), self.layer(obs)[:, 0]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PQNConfig(q_lambda=1.5), r"q_lambda: expected a number in \[0, 1\], got 1.5"),
        (lambda: PQNConfig(mixing="qmix"), "mixing: expected 'none' or 'vdn', got 'qmix'"),
        (lambda: PQNConfig(reward_scale=0), "reward_scale: expected a number > 0, got 0"),
        (lambda: PQNConfig(learning_rate_schedule="adaptive"), "learning_rate_schedule: expected 'constant' or 'linear'"),
    ],
)
def test_wrong_options_are_named(make, text):
    with pytest.raises(ConfigError, match=text):
        make()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"env_id": "WarpPendulum-v1", "env_kwargs": {}}, "expected Discrete or MultiDiscrete actions, as choices have values"),
        ({"network": NetworkConfig(shared_trunk=True)}, "network.shared_trunk: expected none, as a network of values"),
        ({"algorithms": {"pqn": dataclasses.replace(BASE, num_minibatches=49)}}, "num_minibatches: expected at most 48 for"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(changes, text):
    with pytest.raises(ConfigError, match=text):
        Trainer(dataclasses.replace(config_of("time limits"), **changes), quiet=True)


def test_a_team_counts_once_in_a_minibatch():
    """Four worlds and twelve steps have 48 teams."""
    config = config_of("team of two roles with deaths")
    own = dataclasses.replace(config.algorithms["pqn"], num_minibatches=49)
    with pytest.raises(ConfigError, match="num_minibatches: expected at most 48 for the policy 'all', which has 4 rows"):
        Trainer(dataclasses.replace(config, algorithms={"pqn": own}), quiet=True)


# ---- on a GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("case", RUNS)
def test_a_graph_trains_to_the_same_bits(case):
    base = dataclasses.replace(config_of(case), device="cuda:0")
    runs = [Trainer(dataclasses.replace(base, **WAYS[way]), quiet=True) for way in ("eager", "graph")]
    for run in runs:
        run.train()
    assert runs[1].executor.reason == ""
    assert_same(state_of(runs[1]), state_of(runs[0]))
    for run in runs:
        run.close()
