"""Actions of policies have the same bits on CUDA and on the CPU, and a CUDA graph draws anew at each replay."""

from dataclasses import fields

import pytest
import torch

from gpu_vecenv.train.policies.contract import Draw
from gpu_vecenv.train.policies.draw import draw_choices, draw_normal, draw_uniform

pytestmark = pytest.mark.gpu

HEADS = {
    "one of 2": [2],
    "one of 1": [1],
    "one of 8": [8],
    "21 and 21": [21, 21],
    "one of 300": [300],
    "different sizes": [3, 1, 10, 2, 10, 7],
    "138 entries": [10] * 57 + [2] * 27 + [10] * 54,
    "larger than scratch": [3000, 3000],
}


def make_counters(rows, agents=5, t=3):
    worlds = -(-rows // agents)
    number = torch.arange(rows, dtype=torch.int32)
    full = torch.full((worlds,), t, dtype=torch.int32)
    seed = torch.full((worlds,), -(2**40) - 17, dtype=torch.int64)
    return Draw(seed, torch.arange(worlds, dtype=torch.int32), full + 1, full, number // agents, number % agents)


def on_gpu(draw):
    return Draw(**{field.name: getattr(draw, field.name).cuda() for field in fields(draw) if field.name != "out"})


def assert_same_bits(device, host):
    """NaN has other bits on each device."""
    for one, other in zip(device, host, strict=True):
        here = one.cpu()
        assert torch.equal(here.isnan(), other.isnan())
        same = (here.view(torch.int32) == other.view(torch.int32)) | other.isnan()
        assert same.all()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rows", [1, 77, 10_001])
@pytest.mark.parametrize("sizes", HEADS.values(), ids=HEADS)
def test_choices_have_the_bits_of_the_cpu(sizes, rows, masked, deterministic):
    rows = min(rows, 4_000_000 // sum(sizes))
    generator = torch.Generator().manual_seed(0)
    logits = 3.0 * torch.randn(rows, sum(sizes), generator=generator)
    logits[::5] *= 30.0
    logits[rows // 2, 0] = -torch.inf
    mask = torch.rand(rows, sum(sizes), generator=generator) < 0.6 if masked else None
    draw = make_counters(rows)
    host = draw_choices(logits, sizes, draw, mask, deterministic=deterministic)
    device = draw_choices(
        logits.cuda(), sizes, on_gpu(draw), None if mask is None else mask.cuda(), deterministic=deterministic
    )
    assert_same_bits(device, host)


@pytest.mark.parametrize("entries", [1, 3, 130, 600])
def test_numbers_have_the_bits_of_the_cpu(entries):
    draw = make_counters(3001)
    mean, log_std = torch.randn(3001, entries), torch.randn(entries)
    low, high = -torch.rand(entries), torch.rand(entries)
    assert_same_bits(draw_normal(mean.cuda(), log_std.cuda(), on_gpu(draw)), draw_normal(mean, log_std, draw))
    assert_same_bits(draw_uniform(low.cuda(), high.cuda(), on_gpu(draw)), draw_uniform(low, high, draw))


def test_a_graph_draws_from_the_present_counters():
    sizes, logits = [21, 21], torch.randn(500, 42)
    draw = make_counters(500)
    there, logits_there = on_gpu(draw), logits.cuda()
    draw_choices(logits_there, sizes, there)
    torch.cuda.set_sync_debug_mode("error")
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            drawn = draw_choices(logits_there, sizes, there)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for _ in range(3):
        graph.replay()
        assert_same_bits(drawn, draw_choices(logits, sizes, draw))
        draw.t.add_(1)
        there.t.add_(1)
