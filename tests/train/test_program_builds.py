"""Kernels of updates have the same bits with any number of threads or lanes, and for each instruction set."""

import ctypes
import functools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete
from replay_cases import Worlds

from gpu_vecenv.backend import programs
from gpu_vecenv.backend.compiler import LEVELS, compile_object, cpu_level
from gpu_vecenv.backend.programs import CpuProgram
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.algorithms import shuffle
from gpu_vecenv.train.algorithms.adam_step import AdamStep
from gpu_vecenv.train.algorithms.off_policy.losses import critic_loss
from gpu_vecenv.train.algorithms.pqn.kernels import MinibatchLoss
from gpu_vecenv.train.policies.squash import squash
from gpu_vecenv.train.returns import choices, effects, episodes, masks, metrics, moments, scan
from gpu_vecenv.train.storage.replay import Replay


def results(steps=40, rows=700):
    """Return results of all kernels."""
    g = torch.Generator().manual_seed(0)
    reward, value = torch.randn(steps, rows, generator=g), torch.randn(steps + 1, rows, generator=g)
    valid, episode_end, timed_out = (torch.rand(steps, rows, generator=g) < share for share in (0.8, 0.1, 0.05))
    running, sums = torch.randn(rows, generator=g), torch.ones(3, rows)
    stats, by_world = episodes.EpisodeStats(rows, 200), episodes.EpisodeStats(rows, 200, [2, 1, 4])
    wide = torch.randn(3000, 37, generator=g)
    columns = wide.T.contiguous()
    return (
        *scan.advantages(reward, value, -reward, (valid, episode_end, timed_out), 0.9, 0.8),
        scan.discounted_returns(reward, valid, episode_end, 0.9, running),
        *scan.episode_sums(reward, valid, episode_end, sums),
        *(each.update(reward, episode_end, valid) for each in (stats, by_world) for _ in range(2)),
        *stats.state_dict().values(), *by_world.state_dict().values(),
        *masks.transition_masks(valid[0], valid, episode_end, timed_out, episode_end),
        choices.have_choice(wide.gt(1.0).view(2, 1500, 37), (1, 30, 6), valid.view(-1)[:3000].view(2, 1500)),
        limited(wide > 0.5),
        metrics.mean_metrics(value[:-1].view(2, -1, rows), episode_end[: steps // 2], timed_out[: steps // 2]),
        running, sums,
        *moments.moments(reward.view(-1, 1), valid.flatten()),
        *moments.moments(wide, torch.ones(3000, dtype=torch.bool)),
        *shuffle.shuffle(shuffle.choose(valid.flatten()), 3, torch.tensor(7)),
        *shuffle.shuffle(shuffle.choose(valid.flatten(), True), 3, torch.tensor(8)),
        shuffle.shuffle_samples(shuffle.choose(valid.flatten()), 3, torch.tensor(9), 1, 4),
        *replayed(None), *replayed(0.6), *stepped(wide), *stepped(wide, torch.tensor([[0.0, 0.0], [0.5, 0.25]])),
        *squash(wide[:, :6], wide[:, 6:9], -1.0, 1.0),
        *critic_loss(columns[:2].unsqueeze(2), columns[2], columns[3].abs(), 0.5)[:3],
        *of_values(wide),
    )  # fmt: skip


def of_values(wide, units=900, width=3):
    """Return the loss of values of a minibatch and its derivatives, of teams and of single agents; a tenth does not count."""
    counts = wide[:units, :width] > -1.28
    action, first = (wide[:units, : 2 * width] > 0).int(), torch.tensor([0, 2], dtype=torch.int32)
    found = []
    for sums in (True, False):
        teams = SimpleNamespace(sums=sums, width=width)
        columns = 1 if sums else width
        of_rollout = {"target": wide[:units, 9 : 9 + columns].contiguous(), "learned": counts[:, :columns].contiguous()}
        loss = MinibatchLoss(teams, action, first, {**of_rollout, "valid": counts.contiguous()}, 1.0)
        index = torch.arange(units).flip(0)
        total = torch.tensor(0.9 * units)
        values = wide[: units * width, 20:24].contiguous()
        found.append(loss.slopes(values, index=index, used=wide[:units, 30] > -1.28, total=total))
        loss.add(torch.tensor(2.0), torch.tensor(True))
        found.append(loss.sums)
    return found


def stepped(gradient, factors=None):
    """Return a step of Adam, or with factors of RAdam."""
    weight, m, v, step = (torch.zeros_like(gradient) for _ in range(4))
    adam = AdamStep([weight], [m], [v], [step.view(-1)[0]], torch.tensor(0.1), 0.5, 1e-8, factors)
    norm, taken = adam.decide([gradient], torch.tensor(True), 1.0)
    adam.take()
    return norm, taken, weight, m, v


def replayed(exponent):
    """Return numbers of a replay buffer after some rounds."""
    worlds = Worlds(num_worlds=60, by_world=True, mask=True, shared=True)
    replay = Replay(worlds.rows, 60 * 13, 1100, 0.9, 7, "cpu", 3, exponent)
    found, beta = [], () if exponent is None else (0.5,)
    for _ in range(4):
        replay.add(worlds.rollout())
        batch = replay.sample(*beta)
        if exponent is not None:
            replay.set_priorities(batch, batch.reward.sum(1))
            found.append(replay.ring.masses.clone())
        found += [batch.place, batch.weight, batch.reward, batch.next_inputs.obs["own"], batch.next_inputs.mask, batch.action]
    return found


def limited(flags):
    """Return masks of policies that follow from flags (3000, 37), of which two are flags of effect."""
    space, box = MultiDiscrete([5, 30, 6]), Box(-1, 1, (1,), np.float32)
    group = Group("", "", 1, box, space, (0, 1), effects=(("a", (1, 2)), ("b", (0,))))
    out = torch.empty(3000, 41, dtype=torch.bool)
    effects.Limits(group, torch.device("cpu")).write(out, flags[:, :35].contiguous(), flags[:, 35:].contiguous())
    return out


def assert_same(monkeypatch, launches):
    """Assert that all kernels give the same bits by other launches of their programs."""
    expected = results()
    by = functools.cache(launches)
    monkeypatch.setattr(programs, "launches", lambda program, device: by(program))
    for got, want in zip(results(), expected, strict=True):
        assert torch.equal(got, want)


class Build:
    """Launches of one build."""

    def __init__(self, library):
        self.library = library

    def launch(self, name, args, teams, small, shared_bytes):
        getattr(self.library, name)(ctypes.byref(args), ctypes.c_int32(0), ctypes.c_int32(teams))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_change_no_bit(monkeypatch, threads):
    assert_same(monkeypatch, lambda program: CpuProgram(program, threads))


@pytest.mark.slow
@pytest.mark.parametrize("build", ["3 lanes", "40 lanes", *LEVELS])
def test_lanes_and_instruction_sets_change_no_bit(monkeypatch, build, tmp_path):
    lanes = build not in LEVELS
    if not lanes and LEVELS.index(build) < LEVELS.index(cpu_level()):
        pytest.skip("this processor lacks the instructions")
    flags = (f"-DGV_LANES={build.split()[0]}", "-pthread") if lanes else ()

    def built(program):
        target = tmp_path / f"{program.kernel.stem}.so"
        return Build(ctypes.CDLL(str(compile_object(program, cpu_level() if lanes else build, target, flags))))

    assert_same(monkeypatch, built)
