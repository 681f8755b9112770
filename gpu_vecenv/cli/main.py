"""The command ``gpu-vecenv``: imports and calls one subcommand, and prints an error of the package as one line."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import io
import itertools
import os
import sys
from collections.abc import Sequence

import gymnasium

from gpu_vecenv import __version__
from gpu_vecenv.backend.host_memory import is_out_of_memory
from gpu_vecenv.errors import GpuVecenvError, MissingExtraError, ParameterError

COMMANDS = {
    "train": ("gpu_vecenv.cli.train:train", "train policies; writes checkpoint, metrics, curves and a video"),
    "reproduce": ("gpu_vecenv.cli.reproduce:reproduce", "train a task of papers by its protocol; prints returns, writes JSON"),
    "sweep": ("gpu_vecenv.cli.sweep:sweep", "search for good options with many runs; writes the best as YAML"),
    "eval": ("gpu_vecenv.cli.evaluation:eval_run", "play episodes with policies of runs and print the means"),
    "verify": ("gpu_vecenv.cli.verify:verify_file", "play a recorded evaluation again, and confirm its returns to the bit"),
    "replay": ("gpu_vecenv.cli.replay:replay_file", "make the recorded steps of a world again, also under gdb or pdb"),
    "plot": ("gpu_vecenv.cli.train:plot", "draw the curves of a run"),
    "watch": ("gpu_vecenv.cli.watch:watch", "write a video of a run's policies, or show a run in progress"),
    "page": ("gpu_vecenv.cli.page:page", "write a web page in which an env runs, with a run's policies, and is played"),
    "play": ("gpu_vecenv.cli.play:play", "steer an agent among a run's policies, in a page or in a window"),
    "export": ("gpu_vecenv.cli.export:export", "write a policy of a run for torch.export, ONNX or TorchScript"),
    "envs": ("gpu_vecenv.cli.envs:envs", "list the env ids"),
    "new": ("gpu_vecenv.cli.new:new", "write a package with an env of your own, which trains at once"),
    "check": ("gpu_vecenv.cli.check:check", "check that an env is right, in all ways that this machine allows"),
    "lint": ("gpu_vecenv.cli.lint:lint", "look for broken rules in the text of hooks, with file and line"),
    "debug": ("gpu_vecenv.cli.debug:debug", "run an env with kernels for prints, checks of indices, gdb and sanitizers"),
    "bench": ("gpu_vecenv.cli.bench:bench", "measure the speed of envs and training; prints a table (--quick) or writes JSON"),
    "memory": ("gpu_vecenv.cli.memory:memory", "print the memory that an env, or training, takes on its device"),
    "completion": ("gpu_vecenv.cli.completion:completion", "print a script for tab completion in bash, zsh or fish"),
    "doctor": ("gpu_vecenv.cli.doctor:doctor", "check this machine, and print a remedy for each check that fails"),
}
"""Subcommand to its function and its line of help."""

EXTRA_MODULES: dict[str, tuple[str, ...]] = {
    "train": ("tyro", "rich"),
    "reproduce": ("tyro", "rich", "matplotlib"),
    "sweep": ("tyro", "rich", "optuna", "matplotlib"),
    "eval": ("tyro", "rich"),
    "verify": ("tyro", "rich"),
    "replay": ("tyro",),
    "plot": ("tyro", "matplotlib", "PIL"),
    "watch": ("tyro", "rich", "PIL"),
    "page": ("tyro", "rich", "PIL"),
    "play": ("tyro", "rich", "PIL"),
    "export": ("tyro",),
    "envs": (),
    "check": ("tyro", "rich"),
    "lint": ("tyro",),
    "new": ("tyro",),
    "debug": ("tyro",),
    "bench": ("tyro", "rich"),
    "memory": ("tyro",),
    "completion": ("tyro",),
    "doctor": (),
}
"""Modules that a subcommand needs in addition to the core. Subcommands without tyro take no options, because tyro parses them."""

FORMER_OPTIONS = {"--executor": "--kernels and --graph"}
"""Options that no longer exist, and those that took their place."""

RUN_PARTS = {"curves": ("matplotlib", "PIL"), "video": ("imageio_ffmpeg", "PIL"), "TensorBoard events": ("tensorboard",)}
"""Parts of a run's folder that are left out if one of their modules is missing."""

TRAIN_EXTRA = ("tyro", "rich", *dict.fromkeys(name for names in RUN_PARTS.values() for name in names))
"""Modules of the extra ``train``."""

words_of_command: list[str] = []
"""Words of the command line behind the subcommand that runs, for commands that start themselves in several processes."""

USAGE = "\n".join(
    ["usage: gpu-vecenv COMMAND ...", "       gpu-vecenv --version", "", "commands (COMMAND --help explains one):"]
    + [f"  {name:12}{summary}" for name, (_, summary) in COMMANDS.items()]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        arguments: command line words; those of this process by default.

    Returns:
        Exit status: 0 done; 1 ``doctor`` found no device that works, or ``check`` or ``lint`` a fault; 2 the input was wrong,
        memory ran out or an extra is missing; 130 interrupted by Ctrl-C; 141 the reader of the output closed it, as
        ``| head -1`` does.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, >&-
            setattr(sys, name, open(os.devnull, "w"))
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal's encoding may lack letters
    prefix = " ".join(["gpu-vecenv", *(word for word in words[:1] if word in COMMANDS)]) + _rank_text()
    status, failure = 0, ""
    output_error: OSError | None = None
    try:
        status = _run(words)
    except BrokenPipeError as error:
        output_error = error
    except (GpuVecenvError, gymnasium.error.Error, OSError) as error:
        failure, status = str(error), 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        failure, status = f"out of memory: {error}", 2
    except KeyboardInterrupt:
        failure, status = "interrupted", 130  # what a shell reports for SIGINT
    output_error = _flush() or output_error
    if isinstance(output_error, BrokenPipeError):
        return 141  # what a shell reports for SIGPIPE
    if failure or output_error:
        with contextlib.suppress(OSError):  # standard error may be closed
            print(f"{prefix}: {failure or output_error}", file=sys.stderr, flush=True)
    return 2 if output_error else status


def _run(words: list[str]) -> int:
    """Run the subcommand that the words name, and return its exit status."""
    if not words or words in (["-h"], ["--help"]):
        print(USAGE)
        return 0 if words else 2
    if words == ["--version"]:
        print(f"gpu-vecenv {__version__}")
        return 0
    wrong = [word for word in words if not _is_unicode(word)]
    if wrong:
        raise ParameterError(f"expected words in UTF-8, got {wrong[0]!r}.")
    command, *words = words
    words_of_command[:] = words
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(COMMANDS)}."
        raise ParameterError(f"there is no command {command!r}; {hint}")
    needed = EXTRA_MODULES[command]
    if missing := missing_modules(needed):
        extra = "sweep" if command == "sweep" else "train"
        raise MissingExtraError(f'this command needs {", ".join(missing)}: pip install "gpu-vecenv[{extra}]".')
    for option, now in FORMER_OPTIONS.items():
        if option in (word.partition("=")[0] for word in words):
            raise ParameterError(f"{option}: expected {now} in its place.")
    module, name = COMMANDS[command][0].split(":")
    function = getattr(importlib.import_module(module), name)
    if needed:
        from gpu_vecenv.cli.words import count_options, require_places, with_counts

        end = words.index("--") if "--" in words else len(words)  # behind it are words of a script
        if command not in ("export", "plot", "bench", "completion", "check", "lint"):
            names = [name.replace("_", "-") for name in inspect.signature(function).parameters]
            require_places(words[:end], [f"--{no}{name}" for name in names for no in ("", "no-")])
        words = [*with_counts(words[:end], count_options(function)), *words[end:]]
    if command in ("train", "memory", "sweep"):
        words = _algorithm_words(words)
    if needed:
        import tyro

        try:
            return int(tyro.cli(function, prog=f"gpu-vecenv {command}", args=words) or 0)
        except SystemExit as end:  # tyro exits after --help and after a wrong option
            return int(end.code or 0)
    if words in (["-h"], ["--help"]):
        print(f"usage: gpu-vecenv {command}\n\n{inspect.getdoc(function)}")
        return 0
    if words:
        raise ParameterError(f"expected no further words, got {words[0]!r}.")
    return int(function())


def _algorithm_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command with ``--NAME KEY=VALUE ...`` of an algorithm NAME as ``--algorithms NAME.KEY=VALUE ...``.

    Algorithms are this package's, and those that ``--algorithm`` and ``--policies POLICY.algorithm=NAME`` name.
    """
    from gpu_vecenv.cli.defaults import built_in

    names = set(built_in())
    for word, following in itertools.pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        if option == "--algorithm" or option.endswith(".algorithm"):
            names.add((value if equals else following).rpartition(":")[2])
    remaining, moved, group = list[str](), list[str](), ""
    for word in words:
        if word.startswith("--"):
            group = word[2:] if word[2:] in names - {"ppo"} else ""
        if not group:
            remaining.append(word)
        elif word != f"--{group}":
            moved.append(f"{group}.{word}")
    return [*remaining, "--algorithms", *moved] if moved else remaining


def _rank_text() -> str:
    """Return the rank of this process for errors, if a launcher started several; empty otherwise."""
    rank, count = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return f", rank {rank} of {count}" if rank and count not in ("", "1") else ""


def missing_modules(names: Sequence[str]) -> list[str]:
    """Return the modules that are not installed."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def _is_unicode(word: str) -> bool:
    """Return False for a word with bytes that are not UTF-8: Python makes them surrogates, which cannot be printed."""
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def _flush() -> OSError | None:
    """Write buffered output. If that fails, discard it: otherwise the interpreter would raise the error again at exit."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None
