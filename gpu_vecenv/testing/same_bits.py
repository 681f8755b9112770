"""Checks that an env gives the same bits however its steps are computed: rollouts, builds, threads, teams, devices, numbers."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gpu_vecenv.backend.build_kind import KINDS, RELEASE
from gpu_vecenv.backend.cpu import MIN_AGENTS_PER_THREAD, CpuBackend, load_kernels
from gpu_vecenv.backend.debug import DebugCpuBackend
from gpu_vecenv.backend.driver import DriverError, find_driver
from gpu_vecenv.errors import MissingExtraError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.builds import Builds, clang
from gpu_vecenv.testing.difference import Arrays, require_equal
from gpu_vecenv.testing.errors import NotRunError
from gpu_vecenv.testing.run import arrays_of, run, run_of, steps_of
from gpu_vecenv.testing.subject import MakeBackend, Subject, action_table
from gpu_vecenv.vector.outputs.tree import tree_map
from gpu_vecenv.web.node_worlds import NodeWorlds

TEAMS = (1, 7, 32)
"""Lanes of the teams that ``check_teams()`` builds: one, a number that divides nothing, a warp."""


def one_thread(layout: Layout) -> CpuBackend:
    """Return the build for speed, with one thread."""
    return CpuBackend(layout, load_kernels(layout.spec, RELEASE), threads=1)


def require_same_run(subject: Subject, built: str, backend: MakeBackend | None = None, **options: Any) -> None:
    """Compare a run with that of the usual CPU build in one thread; see ``run()``.

    Args:
        subject: the env.
        built: what distinguishes the run, for messages.
        backend: makes the back end of the run.
        options: of the run, such as ``at_once`` or ``device``.

    Raises:
        CheckError: the bits differ.
    """
    expected = run(subject, one_thread)
    require_equal(subject.layout(), expected, run(subject, backend, **options), built)


def check_rollouts(subject: Subject) -> str:
    """Compare rollouts of ten steps a launch with single steps."""
    subject = subject.with_short_episodes()
    expected = run(subject, one_thread)
    actual = run(subject, one_thread, at_once=10)
    require_equal(subject.layout(), expected, actual, "in a rollout, not by single steps")
    return f"{subject.num_steps} steps"


def check_threads(subject: Subject) -> str:
    """Compare two CPU threads with one."""
    layout = subject.layout()
    worlds = -(-2 * MIN_AGENTS_PER_THREAD // layout.num_agents)
    options = {"num_worlds": worlds, "num_steps": min(20, subject.num_steps)}
    expected = run(subject, one_thread, **options)
    actual = run(subject, lambda layout: CpuBackend(layout, threads=2), **options)
    require_equal(layout, expected, actual, "stepped by two threads")
    return f"{worlds:,} worlds"


def check_worlds(subject: Subject) -> str:
    """Compare worlds of a large env with the same worlds in an env of their own: nothing may depend on other worlds."""
    num_steps, first, few = subject.num_steps, 2, 2
    runs = []
    for start, count in ((0, first + few + 1), (first, few)):
        env = subject.make(num_worlds=count, first_world=start)
        large_env = subject.make(num_worlds=first + few + 1)
        actions = action_table(large_env, num_steps, subject.seed + 1)
        large_env.close()
        if start:
            actions = tree_map(lambda array: array[:, first : first + few], actions)
        obs, _ = env.reset(seed=subject.seed)
        results = [arrays_of((obs, *(np.zeros(count, bool),) * 3, {}))]
        results += [arrays_of(out) for out in steps_of(env, actions)]
        env.close()
        runs.append(results if start else [_worlds(arrays, first, few) for arrays in results])
    require_equal(subject.layout(), runs[0], runs[1], f"worlds {first} and {first + 1} in an env of their own")
    return f"{few} of {first + few + 1} worlds"


def _worlds(arrays: Arrays, first: int, few: int) -> Arrays:
    """Return the results of some worlds alone."""
    return {name: array[first : first + few] for name, array in arrays.items()}


def check_team(subject: Subject, lanes: int, builds: Builds | None = None) -> str:
    """Compare a team of threads, which stand for the lanes of a GPU, with one lane."""
    built = (builds or Builds()).team(lanes, "-O0" if lanes == 7 else "-O1")
    require_same_run(subject, f"built with a team of {lanes}", built)
    return f"{lanes} lanes"


def check_teams(subject: Subject) -> str:
    """Compare teams of 1, 7 and 32 threads with one lane."""
    for lanes in TEAMS:
        check_team(subject, lanes)
    return f"{', '.join(map(str, TEAMS))} lanes"


def check_unoptimised(subject: Subject) -> str:
    """Compare a build without optimisation with the usual one: undefined behaviour often changes with it."""
    require_same_run(subject, "built with -O0", Builds().backend("-O0"))
    return "-O0"


def check_debug(subject: Subject) -> str:
    """Compare a debug build, which checks each index of a hook, with the usual build.

    Raises:
        HookFault: a hook uses an index outside of an array; the message has file and line.
    """
    require_same_run(subject, "in a debug build", lambda layout: DebugCpuBackend(layout, KINDS["debug"]))
    return "-O0 -g, indices checked"


def check_compilers(subject: Subject) -> str:
    """Compare a build by Clang with the usual one."""
    compiler = clang()
    if compiler is None:
        raise NotRunError('there is no Clang: pip install "gpu-vecenv[check]", or install clang++')
    require_same_run(subject, f"built by {compiler}", Builds().backend(compiler=compiler))
    return compiler.rpartition(" -m ")[2]


def check_wasm(subject: Subject) -> str:
    """Compare worlds that Node steps, by kernels in WebAssembly and the script of pages, with the usual build."""
    env = subject.make()
    try:
        actions = action_table(env, subject.num_steps, subject.seed + 1)
        with contextlib.closing(NodeWorlds(env.worlds.view)) as worlds:
            in_node = run_of(worlds, subject.seed, actions)
    except MissingExtraError as error:
        raise NotRunError(str(error)) from error
    finally:
        env.close()
    require_equal(subject.layout(), run(subject, one_thread), in_node, "in WebAssembly")
    return f"{subject.num_steps} steps in Node"


def check_gpu(subject: Subject) -> str:
    """Compare a GPU with the CPU, by single steps and in rollouts."""
    try:
        devices = find_driver().devices
    except DriverError as error:
        raise NotRunError(f"there is no GPU: {error}") from error
    if not devices:
        raise NotRunError("there is no GPU that this process may use")
    for at_once in (0, 10):
        require_same_run(subject, "stepped by a GPU", device="cuda:0", at_once=at_once)
    return "steps and rollouts"
