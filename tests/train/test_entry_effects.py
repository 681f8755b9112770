"""Entries without effect: what the trainer learns from in Whisper, compared with distributions of single entries."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from fused_runs import fused
from gymnasium import spaces
from ways import WAYS

import tests.roles  # noqa: F401  # registers Whisper
from gpu_vecenv import ClipReward
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig, PPOConfig, PQNConfig, TrainConfig, Trainer, evaluate, train_many
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.export import write_policy
from gpu_vecenv.train.returns.effects import Limits
from gpu_vecenv.train.run_folder.metrics import read_metrics
from tests.roles.whisper import SPEC


def clipped(**options):
    return ClipReward(gymnasium.make_vec("WhisperAlike-v0", **options), -0.5, 0.25)


gymnasium.register("ClippedWhisper-v0", vector_entry_point=clipped)

CHOICES, GROUP_OF = (3, 4, 5), (0, 1, 0)
"""Choices of each entry of an action, and its group of effect."""


def config_of(env_id="Whisper-v0", algorithm="ppo", env_kwargs=None, **changes):
    config = TrainConfig(
        env_id, num_envs=6, total_steps=6 * 10 * 3, device="cpu", network=NetworkConfig((16,)),
        env_kwargs={"max_episode_steps": 7, **(env_kwargs or {})},
        ppo=PPOConfig(num_steps=10, num_minibatches=2, num_epochs=2),
    )  # fmt: skip
    config = dataclasses.replace(config, **changes)
    return fused(config, ["whisperer"] if env_id == "Whisper-v0" else None) if algorithm == "fused" else config


def full_mask(group, mask, effects):
    """Return which choices are allowed and have an effect, bool (..., 12), by a loop over entries."""
    parts, first = [], 0
    for entry, size in enumerate(CHOICES):
        own = np.ones((*effects.shape[:-1], size), bool)
        if entry in group.masked:
            own, first = mask[..., first : first + size].copy(), first + size
        parts.append(own & effects[..., GROUP_OF[entry], None])
    return np.concatenate(parts, -1)


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("quiet", [0, 1])
def test_masks_of_policies_are_those_of_a_loop(quiet, rows):
    (group, _), g = Layout(SPEC, SPEC.resolve({"quiet": quiet})).groups, torch.Generator().manual_seed(rows)
    mask = torch.rand(rows, 5, generator=g) < 0.5 if quiet else None
    effects = torch.rand(rows, 2, generator=g) < 0.5
    out = torch.zeros(rows, 12, dtype=torch.bool)
    Limits(group, torch.device("cpu")).write(out, mask, effects)
    assert np.array_equal(out, full_mask(group, None if mask is None else mask.numpy(), effects.numpy()))


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("choices", [(4, 8), (3, 4, 6), (2, 1)])
def test_masks_of_policies_are_those_of_a_loop_wherever_they_lie(choices, before):
    """Four of them are written at a time, if they lie for it. All entries but the first have a mask and an effect."""
    g, rows, entries = torch.Generator().manual_seed(1), 301, tuple(range(1, len(choices)))
    space, box = spaces.MultiDiscrete(choices), spaces.Box(-1, 1, (2,))
    group = Group("", "", 1, box, space, entries, effects=tuple((f"of {entry}", (entry,)) for entry in entries))
    mask = torch.rand(rows, sum(choices[1:]), generator=g) < 0.5
    effects = torch.rand(rows, len(entries), generator=g) < 0.5
    memory = torch.ones(before + mask.numel() + 8, dtype=torch.bool)
    out = memory[before : before + mask.numel()].view(rows, -1)
    Limits(group, torch.device("cpu")).write(out, mask, effects)
    want = [mask[:, i] & effects[:, entry - 1] for i, entry in enumerate(e for e in entries for _ in range(choices[e]))]
    assert torch.equal(out, torch.stack(want, -1)) and memory[:before].all() and memory[before + mask.numel() :].all()


@pytest.mark.parametrize(("env_id", "quiet"), [("Whisper-v0", 1), ("WhisperAlike-v0", 0), ("ClippedWhisper-v0", 1)])
def test_masks_of_final_observations_are_those_that_the_env_gives(env_id, quiet):
    pqn = PQNConfig(num_steps=10, num_minibatches=2, bootstrap_at_time_limit=True)
    params = {"quiet": quiet, "max_episode_steps": 5}
    config = config_of(env_id, env_kwargs=params, algorithms={"pqn": pqn})
    config = dataclasses.replace(config, algorithm="pqn", ppo=None)
    trainer = Trainer(config, quiet=True)
    made = {"num_envs": 6, "device": "cpu", "array": "torch", **trainer.config.env_kwargs}
    group = trainer.parts.rows["whisperer"].group
    env = gymnasium.make_vec(env_id.replace("ClippedWhisper", "WhisperAlike"), **made)
    env.reset(seed=trainer.config.seed)
    seen = []
    for _ in range(3):
        trainer.parts.collector.collect()
        samples = {name: rows.samples() for name, rows in trainer.parts.rows.items()}
        for t in range(10):
            taken = {name: each.action[t].unflatten(0, (6, -1)) for name, each in samples.items()}
            info = env.step(taken if env_id == "Whisper-v0" else taken["whisperer"])[4]
            given = [info.get(f"final_{name}") for name in ("action_mask", "action_effects")]
            mask, effects = (x["whisperer"] if isinstance(x, dict) else x for x in given)
            want = full_mask(group, None if mask is None else mask.numpy(), effects.numpy()).reshape(12, 12)
            ended = samples["whisperer"].ended[t]
            assert np.array_equal(samples["whisperer"].final_mask[t][ended], want[ended])
            seen += [want[ended]] * bool(ended.any())
    assert len(seen) > 3 and not np.concatenate(seen).all() and np.concatenate(seen).any()
    assert samples["whisperer"].final_mask.shape == (10, 12, 12)
    inputs = samples["whisperer"].steps(samples["whisperer"].final_obs, slice(2, 4), with_mask=True)
    assert torch.equal(inputs.mask, samples["whisperer"].final_mask[2:4].flatten(0, 1))


@pytest.mark.parametrize("algorithm", ["ppo", "fused"])
@pytest.mark.parametrize("env_id", ["Whisper-v0", "WhisperAlike-v0"])
@pytest.mark.parametrize("quiet", [0, 1])
def test_entries_without_effect_are_0_and_add_nothing(env_id, quiet, algorithm):
    """Log-probability and entropy are sums over entries with an effect; a step of listening has no choice."""
    trainer = Trainer(config_of(env_id, algorithm, {"quiet": quiet}), quiet=True)
    trainer.parts.collector.collect()
    samples, policy = trainer.parts.rows["whisperer"].samples(), trainer.policies["whisperer"]
    slabs = trainer.parts.rollout.groups[0]
    effects = slabs.effects[:-1].numpy()
    want = full_mask(policy.group, None if slabs.env_mask is None else slabs.env_mask[:-1].numpy(), effects)
    assert np.array_equal(samples.mask[:-1], want) and not want.all()
    dead = ~effects[..., list(GROUP_OF)]
    assert not samples.action.numpy()[dead].any() and samples.action.numpy()[~dead].any()
    with torch.no_grad():
        logits = policy.outputs(samples.obs[:-1].flatten(0, 1)).view(*samples.log_prob.shape, -1)
    log_prob, entropy, first = 0.0, 0.0, 0
    for entry, size in enumerate(CHOICES):
        allowed = torch.from_numpy(want[..., first : first + size])
        part = torch.where(allowed, logits[..., first : first + size], -1e30).log_softmax(-1)
        live = torch.from_numpy(~dead[..., entry])
        taken = part.gather(-1, samples.action[..., entry : entry + 1].long()).squeeze(-1)
        log_prob = log_prob + torch.where(live, taken, 0.0)
        entropy = entropy - torch.where(live, (part.exp() * torch.where(allowed, part, 0.0)).sum(-1), 0.0)
        first += size
    torch.testing.assert_close(samples.log_prob, log_prob, rtol=0, atol=2e-3 if algorithm == "fused" else 1e-5)
    inputs = Inputs(samples.obs[:-1].flatten(0, 1), samples.mask[:-1].flatten(0, 1))
    found = policy.evaluate(inputs, samples.action.flatten(0, 1))
    torch.testing.assert_close(found.entropy, entropy.flatten(), rtol=0, atol=1e-5)
    assert torch.equal(samples.choice, torch.from_numpy(~dead.all(-1)) & samples.valid) and not samples.choice.all()
    # No gradient flows to the logits of entries without effect.
    outputs = logits.flatten(0, 1).clone().requires_grad_()
    distribution = policy.distribution(outputs, inputs.mask)
    (distribution.log_prob(samples.action.flatten(0, 1)) + distribution.entropy()).sum().backward()
    of_entry = torch.from_numpy(np.repeat(dead, CHOICES, -1)).flatten(0, 1)
    assert not outputs.grad[of_entry].any() and outputs.grad[~of_entry].any()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "fused"])
def test_a_run_that_is_resumed_goes_on_as_one_that_was_not(algorithm, tmp_path):
    def weights(trainer):
        return torch.cat([x.detach().flatten() for x in trainer.policies["whisperer"].parameters()])

    whole = Trainer(config_of(algorithm=algorithm), quiet=True)
    metrics = whole.train()
    # One step of three has all entries, one none, and one the guess.
    assert metrics["choice_fraction/whisperer"] == pytest.approx(2 / 3, abs=0.15) and metrics["choice_fraction/listener"] == 1.0
    config = config_of(algorithm=algorithm, out=str(tmp_path / "run"))
    Trainer(dataclasses.replace(config, total_steps=6 * 10 * 2, schedule_steps=6 * 10 * 3), quiet=True).train()
    resumed = Trainer.resume(tmp_path / "run", total_steps=6 * 10 * 3, quiet=True)
    resumed.train()
    assert torch.equal(weights(resumed), weights(whole))
    found = evaluate(tmp_path / "run", episodes=6)
    assert found.mean_return


def test_runs_side_by_side_learn_as_each_alone(tmp_path):
    configs = {f"{how}-{seed}": config_of(algorithm=how, seed=seed) for how in ("ppo", "fused") for seed in (0, 1)}
    train_many(configs, tmp_path, quiet=True)
    for name, config in configs.items():
        last = Trainer(config, quiet=True).train()
        found = read_metrics(tmp_path / name)[-1]
        for metric in ("policy_loss", "entropy", "kl", "grad_norm", "choice_fraction"):
            assert found[f"{metric}/whisperer"] == last[f"{metric}/whisperer"]


@pytest.mark.parametrize("quiet", [0, 1])
def test_a_checkpoint_holds_what_the_env_wrote(quiet):
    """The masks of policies follow from it."""
    trainer = Trainer(config_of(env_kwargs={"quiet": quiet, "max_episode_steps": 9}), quiet=True)  # slot 0 is a step of no effect
    trainer.parts.collector.collect()
    slabs = trainer.parts.rollout.groups[0]
    held = {name: slab[-1].clone() for name, slab in (("effects", slabs.effects), ("mask", slabs.env_mask)) if slab is not None}
    kept = slabs.last()
    assert set(kept) == {"obs", *held} and not held["effects"].all()
    masks = []
    for spoil in (False, True):
        if spoil:
            for slab in (slabs.effects, slabs.mask):
                slab[-1] = True
            slabs.restore(kept)
        trainer.env.rewind()
        slabs.limit(0)
        masks.append(slabs.mask[0].clone())
        trainer.parts.collector.count_all_steps()
    assert torch.equal(*masks) and torch.equal(slabs.effects[0], held["effects"])


@pytest.mark.parametrize("way", [pytest.param("graph", marks=pytest.mark.gpu)])
def test_a_graph_learns_as_eager_operations_do(way):
    """A CUDA graph records the kernels of masks and choices."""
    found = []
    for how in ("eager", way):
        trainer = Trainer(config_of(device="cuda", **WAYS[how]), quiet=True)
        metrics = trainer.train()
        found.append([metrics[f"{name}/whisperer"] for name in ("entropy", "kl", "choice_fraction", "policy_loss")])
    assert found[0] == found[1]


def test_wrapped_envs_write_flags():
    """Rewards are changed by a wrapper; flags and masks are those of the env alone."""
    runs = []
    for env_id in ("WhisperAlike-v0", "ClippedWhisper-v0"):
        trainer = Trainer(config_of(env_id), quiet=True)
        trainer.parts.collector.collect()
        slabs = trainer.parts.rollout.groups[0]
        runs.append((slabs.effects.clone(), slabs.mask[:-1].clone(), slabs.action.clone()))
    assert all(torch.equal(*pair) for pair in zip(*runs, strict=True))


def test_rewards_of_random_play_do_not_depend_on_entries_without_effect():
    """Random policies of the trainer play 0 in them, and rollouts of the env any choice."""
    trainer = Trainer(config_of(policy_map={"whisperer": "random", "listener": "listener"}, policies={}), quiet=True)
    trainer.parts.collector.collect()
    slabs = trainer.parts.rollout.groups[0]
    effects, actions = slabs.effects[:-1].numpy(), slabs.action.numpy()
    assert not actions[~effects[..., list(GROUP_OF)]].any()
    counts = [np.bincount(actions[effects[..., GROUP_OF[entry]], entry], minlength=size) for entry, size in enumerate(CHOICES)]
    assert all(count.min() > 0 for count in counts)
    env = gymnasium.make_vec("Whisper-v0", num_worlds=4, device="cpu", array="numpy").unwrapped
    env.reset(seed=0)
    info = env.rollout(num_steps=9)[4]
    silent = ~info["action_effects"]["whisperer"][:-1, ..., 0]
    assert info["actions"]["whisperer"][1:][silent][:, 0].any()


def test_an_exported_policy_takes_the_masks_of_the_env(tmp_path):
    trainer = Trainer(config_of(env_kwargs={"quiet": 1}), quiet=True)
    write_policy(trainer.policies["whisperer"], tmp_path / "policy.pt2")
    module = torch.export.load(tmp_path / "policy.pt2").module()
    mask = torch.tensor([[True] * 4 + [False]] * 3)
    action, logits = module(torch.randn(3, 3), mask)
    assert action.shape == (3, 3) and logits.shape == (3, 12) and (action[:, 2] < 4).all()
