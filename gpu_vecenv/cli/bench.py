"""The command ``bench``: speed of envs, policies and training, with floors and peers, as JSON, or as one table."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console

from gpu_vecenv.backend.cpu import num_threads
from gpu_vecenv.backend.select import choose_device
from gpu_vecenv.bench import env_only, goals, inference, rollouts, startup, training
from gpu_vecenv.bench import quick as quick_run
from gpu_vecenv.bench.cases import CPU_CASES, GPU_CASES, INFERENCE, START_OF_TRAINING, START_UP, Case, choose
from gpu_vecenv.bench.floors import measure_floors
from gpu_vecenv.bench.machine import clocks, commit_of, contents_of, machine
from gpu_vecenv.bench.peers import purejaxrl as purejaxrl_peer
from gpu_vecenv.bench.peers.warpdrive import SOURCE
from gpu_vecenv.bench.ready import Peers
from gpu_vecenv.bench.results import Results
from gpu_vecenv.bench.run import measure
from gpu_vecenv.bench.settings import GOALS, SETTINGS, Goal, Setting
from gpu_vecenv.bench.subject import Maker
from gpu_vecenv.cli.key_value import help_option
from gpu_vecenv.cli.quick_table import print_table
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train.config import require_threads
from gpu_vecenv.vector.outputs.views import MAX_WORLDS

MODES = ("env", "inference", "training", "goal", "startup")
PEER_MODES = ("env", "training", "goal")
"""Modes with peers."""

MODES_OF_FILES = {"startup": {"startup"}, "training": {"training", "goal"}}
"""Modes whose tables come from a file of their own."""

FIXED = ("cases", "sizes", "modes", "warpdrive", "purejaxrl", "rounds", "seconds")
"""Options that ``--quick`` fixes."""

START_UP_ROUNDS = 3
"""Most rounds of start-up, where each sample is a process."""


def bench(
    envs: Annotated[tuple[str, ...], help_option("all", "WORD ...")] = (),
    cases: Annotated[tuple[str, ...], help_option("all", "WORD ...")] = (),
    sizes: Annotated[tuple[int, ...], help_option("those of each case", "WORLDS ...")] = (),
    device: str = "auto",
    modes: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODE ...")] = MODES,
    peers: bool = True,
    warpdrive: Annotated[Path | None, help_option("WarpDrive is not measured", "FOLDER")] = None,
    purejaxrl: Annotated[Path | None, help_option("PureJaxRL is not measured", "FOLDER")] = None,
    out: Annotated[Path | None, help_option("benchmarks/results/bench_cpu.json or the like", "FILE")] = None,
    rounds: int = 5,
    seconds: float = 0.05,
    threads: int = 1,
    quick: bool = False,
) -> None:
    """Measure the speed of envs, policies and training, and write a JSON file.

    Example: gpu-vecenv bench --quick

    Example: gpu-vecenv bench --device cpu --envs cartpole --modes env --no-peers --out bench.json

    In each round all ways to run a case are timed once: those of this library, and those of the peers that are installed
    (Gymnasium, EnvPool, gymnax, JaxMARL, VMAS; WarpDrive and PureJaxRL from their sources), each peer in a process of its own.
    The file is complete after every case, so a run that is stopped keeps its results.

    Args:
        envs: measure only envs whose id contains one of these words, such as cartpole tag.
        cases: measure only cases whose name contains one of these words, such as 256-256; a run prints the names.
        sizes: numbers of worlds, in place of those of each case.
        device: auto, cpu or cuda:0.
        modes: env (steps with given or random actions), inference (steps with a policy), training (whole iterations of
            the trainer), goal (training up to a mean return), startup (a process up to its first step; without --sizes also
            up to the first iteration of training and up to a trained policy).
        peers: measure other libraries, too.
        warpdrive: source folder of WarpDrive; it contains the folders warp_drive and example_envs.
        purejaxrl: folder of PureJaxRL's scripts ppo.py and wrappers.py.
        out: file to write. Its default is bench_cpu.json or bench_cuda.json in benchmarks/results; training_cpu.json or
            training_cuda.json if the modes are training and goal alone; startup_cpu.json or startup_cuda.json if the mode is
            startup alone.
        rounds: samples of each way.
        seconds: length of a sample, which has at least one call.
        threads: CPU threads of PyTorch.
        quick: measure a few envs in less than a minute and print one table. A file is written only to --out.
    """
    options = locals()
    command = _command_line(options)
    device = choose_device(device)
    kind = device.partition(":")[0]
    require_threads(threads)
    _check(modes, sizes, rounds, seconds, warpdrive, purejaxrl)
    _check_envs(envs, quick_run.CASES[kind] if quick else (*CPU_CASES, *GPU_CASES), quick)
    if quick:
        _require_defaults(options)
        modes, rounds, seconds = quick_run.MODES, quick_run.ROUNDS, quick_run.SECONDS
    _use(device, threads)
    if out is None and not quick:
        out = default_file(modes, kind)
    if out is not None:
        _make_folder(out)
    console, start = Console(highlight=False, soft_wrap=True), time.perf_counter()
    detail: Callable[[str], None] = (lambda text: None) if quick else console.print
    detail(f"floors of {device}")
    floors = measure_floors(device, rounds, seconds)
    libraries = _installed_peers(device, warpdrive, purejaxrl)
    facts = _facts(device, libraries) | _identify("warpdrive", warpdrive) | _identify("purejaxrl", purejaxrl)
    head = {"benchmark": "bench", "command": command, "torch_threads": threads, "rounds": rounds, "sample_s": seconds}
    results = Results(out, head | facts | {"clocks_before": clocks(device), "floors": floors})
    cases_by_mode = {mode: groups(mode, kind, device, envs, sizes, cases, quick) for mode in modes}
    with closing(libraries):
        peer_modes = () if not peers else ("env",) if quick else PEER_MODES
        _prepare(cases_by_mode, libraries, peer_modes, device, console)
        for mode, mode_cases in cases_by_mode.items():
            for case, ways in mode_cases:
                name = quick_run.named(mode, case) if quick else f"{mode}  {case.name}"
                console.print(f"[dim]{time.perf_counter() - start:5.0f} s[/dim]  {name}")
                peer_ways = libraries.ways(case) if mode in PEER_MODES else []
                host_probes = env_only.host_probes(case, device) if mode == "env" and not quick else {}
                rows = measure(case, mode, ways, device, floors, *samples(case, mode, rounds, seconds), peer_ways, host_probes)
                results.add(rows, wall_s=time.perf_counter() - start)
                for row in rows:
                    detail(line(row))
            results.add([], clocks_after=clocks(device))
    if quick:
        print_table(console, results.rows, _processor(facts["machine"]))
    if out is not None:
        console.print(f"{len(results.rows)} rows in {out}, {time.perf_counter() - start:.0f} s")


def _prepare(
    cases_by_mode: Mapping[str, Sequence[tuple[Case, dict[str, Maker]]]], libraries: Peers, peer_modes: Sequence[str],
    device: str, console: Console,
) -> None:  # fmt: skip
    """Compile kernels, while other libraries make what they run in the cases of some modes."""
    compared = [case for mode, cases in cases_by_mode.items() if mode in peer_modes for case, _ in cases]
    stepped = [case for case, _ in cases_by_mode.get("env", [])]
    console.print(f"preparing kernels{f', and other libraries for {len(compared)} cases' if peer_modes else ''}")
    libraries.prepare(compared, lambda: compile_kernels(stepped, device))


def _use(device: str, threads: int) -> None:
    torch.set_num_threads(threads)
    if device != "cpu":
        torch.cuda.set_device(device)  # also sets CuPy's device


def _facts(device: str, peers: Peers) -> dict[str, Any]:
    """Return the machine, and versions of the other libraries."""
    env_threads = num_threads() if device == "cpu" else None
    return {"machine": machine(device), "env_threads": env_threads, "peers": peers.versions, "beneath": peers.runtimes}


def _processor(facts: dict[str, Any]) -> str:
    """Return the name of the GPU, or that of the CPU and its cores."""
    return str(facts.get("gpu", f"{facts['cpu']}, {facts['cores']} cores"))


def _make_folder(out: Path) -> None:
    """Make the folder of the file to write."""
    if not out.name or out.is_dir():
        raise ParameterError(f"--out must be a file to write, got {str(out)!r}.")
    out.parent.mkdir(parents=True, exist_ok=True)


def _installed_peers(device: str, warpdrive: Path | None, purejaxrl: Path | None) -> Peers:
    """Return the other libraries that are installed, or whose source folder is given."""
    sources = {"warpdrive": (SOURCE, warpdrive), "purejaxrl": (purejaxrl_peer.SOURCE, purejaxrl)}
    environment = {variable: str(folder.resolve()) for variable, folder in sources.values() if folder}
    return Peers(device, environment, [name for name, (_, folder) in sources.items() if folder is None])


def compile_kernels(cases: Sequence[Case], device: str) -> None:
    """Make a world of each case, so that no kernel is compiled between measurements; an error is reported by its row."""
    for case in cases:
        with suppress(Exception):
            env_only.make_env(replace(case, worlds=1), device)[0].close()


def samples(case: Case, mode: str, rounds: int, seconds: float) -> tuple[int, float | None]:
    """Return rounds and seconds of a sample (None for one call); a sample of a goal is a seed, one of start-up a process."""
    if isinstance(case, Goal):
        return case.seeds, None
    if mode == "startup":
        return min(rounds, START_UP_ROUNDS), None
    return rounds, seconds * (training.SAMPLE_SCALE if isinstance(case, Setting) else 1)


def groups(
    mode: str, kind: str, device: str, envs: tuple[str, ...], sizes: tuple[int, ...], names: tuple[str, ...] = (),
    quick: bool = False,
) -> list[tuple[Case, dict[str, Maker]]]:  # fmt: skip
    """Return the cases of a mode, or few of them for ``--quick``, each with this library's ways to run it."""
    table: dict[str, tuple[Any, Any]] = {
        "env": ({"cpu": CPU_CASES, "cuda": GPU_CASES}, lambda *arguments: env_only.ways(*arguments) | rollouts.ways(*arguments)),
        "inference": (INFERENCE, inference.ways),
        "training": (SETTINGS, training.ways),
        "goal": (GOALS, goals.ways),
        "startup": (START_UP, startup.ways),
    }
    cases, ways = table[mode]
    cases = quick_run.TABLES[mode] if quick else cases
    chosen = [(case, ways(case, device)) for case in choose(cases[kind], envs, sizes, names)]
    if mode == "startup" and not sizes:  # presets have worlds of their own
        chosen += [(case, startup.training_ways(case, device)) for case in choose(START_OF_TRAINING, envs, (), names)]
    return [(case, {path: way for path, way in makers.items() if path in (case.only or makers)}) for case, makers in chosen]


def line(row: dict[str, Any]) -> str:
    """Format a result row for the terminal."""
    name = f"  {row['library']:11} {row['path']:22}"
    if "error" in row:
        return f"{name} [red]{row['error'][:90].replace('[', '(')}[/red]"
    text = f"{name} {row['median_s'] * 1e6:12,.2f} us"
    text += f"  {row['env_steps_per_s']:9.3g} env steps/s" if "env_steps_per_s" in row else ""
    return text + (f"  {row['times_floor']:7.1f} x floor" if "times_floor" in row else "")


def _identify(name: str, source: Path | None) -> dict[str, str | None]:
    """Commit and hash of a peer's source folder; None without a folder, and without a checkout."""
    is_checkout = source is not None and (source / ".git").exists()  # not a folder inside another checkout
    return {
        f"{name}_commit": commit_of(source) if source and is_checkout else None,
        f"{name}_sha256": contents_of(source) if source else None,
    }


def _command_line(options: dict[str, Any]) -> str:
    """Command line of the options that differ from their defaults; folders by name, without the output file."""
    words = ["gpu-vecenv bench"]
    for name, parameter in inspect.signature(bench).parameters.items():
        value = options[name]
        if value == parameter.default or name == "out":
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{name}")
        else:
            values = value if isinstance(value, tuple) else (value.name if isinstance(value, Path) else value,)
            words.append(" ".join([f"--{name}", *map(str, values)]))
    return " ".join(words)


def _check(
    modes: tuple[str, ...], sizes: tuple[int, ...], rounds: int, seconds: float, warpdrive: Path | None,
    purejaxrl: Path | None,
) -> None:  # fmt: skip
    wrong = [mode for mode in modes if mode not in MODES]
    if wrong or not modes:
        raise ParameterError(f"--modes must be some of {', '.join(MODES)}, got {', '.join(wrong) or 'none'}.")
    outside = [size for size in sizes if not 1 <= size <= MAX_WORLDS]
    if outside:
        raise ParameterError(f"--sizes must be from 1 to {MAX_WORLDS}, got {outside[0]}.")
    if rounds < 1 or not 0 < seconds < math.inf:
        raise ParameterError(f"--rounds must be at least 1 and --seconds above 0 and finite, got {rounds} and {seconds}.")
    if warpdrive is not None and not (warpdrive / "warp_drive").is_dir():
        raise ParameterError(f"--warpdrive must be a folder that holds warp_drive, got {warpdrive}.")
    if purejaxrl is not None and not (purejaxrl / "ppo.py").is_file():
        raise ParameterError(f"--purejaxrl must be a folder that holds ppo.py, got {purejaxrl}.")


def _check_envs(envs: Sequence[str], cases: Sequence[Case], quick: bool) -> None:
    unknown = [word for word in envs if not choose(cases, [word], ())]
    if unknown:
        measured = ", ".join(dict.fromkeys(case.env for case in cases))
        ids = f"the ids {measured} with --quick" if quick else "ids such as cartpole or WarpTag"
        raise ParameterError(f"--envs must be parts of {ids}, got {', '.join(map(repr, unknown))}.")


def default_file(modes: Sequence[str], kind: str) -> Path:
    """Return the file of the results of some modes on a kind of device, cpu or cuda."""
    names = [name for name, alone in MODES_OF_FILES.items() if {*modes} <= alone]
    return Path(f"benchmarks/results/{[*names, 'bench'][0]}_{kind}.json")


def _require_defaults(options: dict[str, Any]) -> None:
    """Refuse options that ``--quick`` fixes."""
    defaults = inspect.signature(bench).parameters
    changed = [f"--{name}" for name in FIXED if options[name] != defaults[name].default]
    if changed:
        raise ParameterError(f"expected --quick without --{', --'.join(FIXED)}, which it sets; got {', '.join(changed)}.")
