"""The kernels of the trainer compile for every supported GPU, to arithmetic that gives the bits of the CPU."""

import itertools
import re
from types import SimpleNamespace

import pytest

from gpu_vecenv.backend.cuda import OPTIONS, raw_module
from gpu_vecenv.backend.programs import program_options
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.backend.trainer_programs import (
    ADAM_STEP,
    CHOICES,
    CRITICS,
    CUDA_PROGRAMS,
    DRAW,
    EFFECTS,
    EPISODES,
    FINITE,
    LAYER_NORMS,
    MASKS,
    METRICS,
    METRICS_TO_HOST,
    MINIBATCH_MOMENTS,
    MOMENTS,
    NOISE,
    PROGRAMS,
    Q_LOSS,
    REPLAY_ADD,
    REPLAY_SAMPLE,
    SCAN,
    SHUFFLE,
    SQUASH,
    UPDATE_ENDS,
)
from gpu_vecenv.testing.nvrtc import ARCHITECTURES, compile_text, inexact_instructions
from tests.kernels.test_ptx import shared_bytes, touches

KERNELS = {
    DRAW: ["gv_draw_choices", "gv_draw_greedy", "gv_draw_normals", "gv_draw_uniforms"],
    SQUASH: ["gv_squash", "gv_squash_back"],
    SCAN: ["gv_advantages", "gv_episodes", "gv_returns"],
    MASKS: ["gv_masks"],
    CHOICES: ["gv_choices"],
    EFFECTS: ["gv_limit"],
    MOMENTS: ["gv_merge", "gv_moments"],
    MINIBATCH_MOMENTS: ["gv_minibatch_moments"],
    EPISODES: ["gv_list", "gv_take"],
    METRICS: ["gv_metric_means", "gv_metric_sums"],
    SHUFFLE: ["gv_choose", "gv_shuffle"],
    NOISE: ["gv_noise_integers", "gv_noise_normal", "gv_noise_uniform"],
    REPLAY_ADD: ["gv_replay_advance", "gv_replay_copy", "gv_replay_mark", "gv_replay_sum"],
    REPLAY_SAMPLE: ["gv_replay_draw", "gv_replay_follow", "gv_replay_gather", "gv_replay_priorities"],
    UPDATE_ENDS: ["gv_begin", "gv_end"],
    FINITE: ["gv_search"],
    METRICS_TO_HOST: ["gv_metrics_to_host"],
    ADAM_STEP: ["gv_decide_step", "gv_square_gradient", "gv_take_step"],
    CRITICS: ["gv_actor_loss", "gv_critic_loss"],
    Q_LOSS: ["gv_q_loss", "gv_q_sums"],
    **dict.fromkeys(LAYER_NORMS.values(), ["gv_norm", "gv_norm_back"]),
}
DOUBLE = (MOMENTS, MINIBATCH_MOMENTS, EPISODES, METRICS, REPLAY_ADD, REPLAY_SAMPLE, UPDATE_ENDS, ADAM_STEP)
IN_SCRATCH = (CHOICES, DRAW, SCAN, MOMENTS, MINIBATCH_MOMENTS, EPISODES, METRICS, ADAM_STEP, CRITICS, Q_LOSS, *CUDA_PROGRAMS)


def test_a_compiler_without_a_word_leaves_bytes_of_one_character_alone():
    """The interpreter shares them; an empty log of NVRTC is one byte."""
    compile_text('extern "C" __global__ void nothing() {}', 90)
    assert bytes([32])[0] == 32


def test_every_program_is_tested():
    assert tuple(KERNELS) == (*PROGRAMS, *CUDA_PROGRAMS)


FOR_ARCHITECTURES = [
    pytest.param(arch, marks=pytest.mark.in_ci if arch == ARCHITECTURES[0] else pytest.mark.slow) for arch in ARCHITECTURES
]
"""All architectures; CI compiles for the oldest one."""


@pytest.mark.parametrize("arch", FOR_ARCHITECTURES)
@pytest.mark.parametrize("program", KERNELS, ids=lambda program: program.name)
def test_programs_compile_for_every_architecture_without_inexact_instructions(program, arch):
    ptx = compile_text(kernel_source(program), arch, *program_options(program))
    assert f".target sm_{arch}" in ptx
    assert sorted(re.findall(r"\.entry (\w+)", ptx)) == KERNELS[program]
    assert inexact_instructions(ptx, doubles=program in DOUBLE) == []
    assert ".local" not in ptx
    assert (shared_bytes(ptx) > 0) == (program in IN_SCRATCH)
    assert shared_bytes(ptx) <= 48 * 1024
    for found in touches(ptx):
        waits = [instruction for instruction in found if instruction.startswith("griddep")]
        assert waits == (["griddepcontrol.wait", "griddepcontrol.launch_dependents"] if arch >= 90 else [])
        assert found[: len(waits)] == waits


@pytest.mark.slow
@pytest.mark.parametrize("program", KERNELS, ids=lambda program: program.name)
def test_the_text_and_options_that_cupy_gets_compile_to_the_same_instructions(program):
    compiler = SimpleNamespace(_NVRTCProgram=SimpleNamespace(compile=None))
    cupy = SimpleNamespace(RawModule=lambda code, options: (code, options), cuda=SimpleNamespace(compiler=compiler))
    text, options = raw_module(cupy, kernel_source(program), program_options(program))
    assert options == OPTIONS
    assert compile_text(text, 90, *options) == compile_text(kernel_source(program), 90, *program_options(program))


def test_a_scan_reads_several_steps_before_it_uses_the_first():
    """A kernel loads the three or more numbers of eight steps one after the other."""
    ptx = compile_text(kernel_source(SCAN), 90, *program_options(SCAN))
    for text in re.split(r"\.entry ", ptx)[1:]:
        accesses = re.findall(r"\b(?:ld|st)\.(?:global|shared)", text)
        runs = [len(list(run)) for access, run in itertools.groupby(accesses) if access == "ld.global"]
        assert max(runs) >= 24
