"""Draws have the same bits with any number of threads or lanes, with logits staged or not, and follow an env's state."""

import ctypes

import gymnasium
import pytest
import torch
from counters import counters
from test_draw import same, some_logits, some_mask

import gpu_vecenv  # noqa: F401
from gpu_vecenv.backend import programs
from gpu_vecenv.backend.compiler import LEVELS, compile_object, cpu_level
from gpu_vecenv.backend.programs import CpuProgram
from gpu_vecenv.backend.trainer_programs import DRAW
from gpu_vecenv.train.policies.counters import counters_of, worlds_and_agents
from gpu_vecenv.train.policies.draw import SCRATCH, draw_choices, draw_greedy, draw_normal, draw_uniform

ROWS, SIZES = 3000, [5, 2, 8, 21]


def all_draws():
    """Draws of all kinds for the same rows."""
    draw, logits = counters(ROWS // 3, 3), some_logits(ROWS, SIZES)
    mean, ones = some_logits(ROWS, [5], 1), torch.ones(5)
    return (
        *draw_choices(logits, SIZES, draw, some_mask(ROWS, SIZES)),
        *draw_choices(logits, SIZES, draw, deterministic=True),
        *draw_greedy(logits, SIZES, draw, some_mask(ROWS, SIZES), epsilon=torch.tensor(0.5)),
        *draw_normal(mean, -ones, draw),
        *draw_uniform(-ones, 2.0 * ones, draw),
    )


class Changed:
    """Launches of a build, with another tile, or with logits staged in rows of another padding or not staged."""

    def __init__(self, library, tile_rows=None, padding=None, staged=True):
        self.library, self.tile_rows, self.padding, self.staged = library, tile_rows, padding, staged

    def launch(self, name, args, teams, small, shared_bytes):
        if self.padding is not None:
            args.stride = args.columns + self.padding
        if not self.staged:
            args.stride = 0
        args.tile_rows = self.tile_rows or args.tile_rows
        assert args.tile_rows * (2 * args.entries + args.stride) <= SCRATCH
        args.teams = -(-args.rows // args.tile_rows)
        getattr(self.library, name)(ctypes.byref(args), ctypes.c_int32(0), ctypes.c_int32(args.teams))


@pytest.fixture
def by(monkeypatch):
    """Return a function that makes all draws by other launches."""

    def make(launches):
        monkeypatch.setattr(programs, "launches", lambda program, device: launches)
        return all_draws()

    return make


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_change_no_bit(by, threads):
    expected = all_draws()
    for _ in range(3):
        assert same(by(CpuProgram(DRAW, threads)), expected)


@pytest.mark.parametrize("padding", [None, 0, 1, 7])
def test_tiles_and_staged_logits_change_no_bit(by, padding):
    expected = all_draws()
    assert same(by(Changed(CpuProgram(DRAW, 1)._library, 17, padding)), expected)


def test_logits_that_are_not_staged_change_no_bit(by):
    expected = all_draws()
    assert same(by(Changed(CpuProgram(DRAW, 1)._library, staged=False)), expected)


@pytest.mark.parametrize("build", ["3 lanes", *LEVELS])
def test_lanes_and_instruction_sets_change_no_bit(by, build, tmp_path):
    lanes = build not in LEVELS
    if not lanes and LEVELS.index(build) < LEVELS.index(cpu_level()):
        pytest.skip("this processor lacks the instructions")
    flags = ("-DGV_LANES=3", "-pthread", "-O0") if lanes else ()
    expected = all_draws()
    library = ctypes.CDLL(str(compile_object(DRAW, cpu_level() if lanes else build, tmp_path / "draw.so", flags)))
    assert same(by(Changed(library, 50, 1 if lanes else None)), expected)


def make_tag(**options):
    env = gymnasium.make_vec(
        "WarpTag-v0", num_worlds=3, num_taggers=2, num_runners=3, view="agents", array="torch", device="cpu", **options
    )
    return env.unwrapped


def test_rows_are_those_of_the_agents_view():
    env = make_tag()
    world, agent = worlds_and_agents(env)
    taggers, runners = (env.worlds.view.role_rows[role] for role in env.layout.role_counts)
    assert world[taggers].tolist() == [0, 0, 1, 1, 2, 2] and agent[taggers].tolist() == [0, 1] * 3
    assert world[runners].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] and agent[runners].tolist() == [2, 3, 4] * 3


def test_counters_follow_the_env_into_the_next_episode():
    env = make_tag(episode_length=3, autoreset_mode="same_step")
    world, agent = worlds_and_agents(env)
    draw = counters_of(env, world, agent)
    env.reset(seed=2**64 - 3)
    sizes = [int(n) for n in env.single_action_space.nvec]
    seen = []
    for _ in range(7):
        for name in ("world_id", "episode", "t"):
            assert torch.equal(getattr(draw, name), env.get_state()[name])
        assert (draw.seed == -3).all()
        seen.append((int(draw.episode[0]), int(draw.t[0])))
        env.step(draw_choices(torch.zeros(15, sum(sizes)), sizes, draw).action)
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
