"""The command ``completion``: a script for tab completion in a shell."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Literal

import tyro

from gpu_vecenv.cli.main import COMMANDS
from gpu_vecenv.cli.run_options import LearningOptions, RunOptions, option_name
from gpu_vecenv.registration import IDS

WITH_IDS = ("train", "memory", "sweep", "eval", "watch", "check", "lint", "debug")
"""Commands that take the id of an env."""


def completion(shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]) -> None:
    """Print a script that completes commands, options and env ids with the tab key.

    Example: gpu-vecenv completion bash

    Args:
        shell: bash, zsh or fish.
    """
    options = {command: command_options(command) for command in COMMANDS}
    print(fish_script(options) if shell == "fish" else bash_script(options, zsh=shell == "zsh"))


def command_options(command: str) -> list[str]:
    """Return the options of a command."""
    module, name = COMMANDS[command][0].split(":")
    function = getattr(importlib.import_module(module), name)
    options = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if isinstance(parameter.default, RunOptions | LearningOptions):
            options += [option_name(field.name) for field in dataclasses.fields(parameter.default)]
        elif "Positional" not in str(parameter.annotation) and "POSITIONAL" not in str(parameter.annotation).upper():
            option = f"--{parameter.name.replace('_', '-')}"
            options += [option, f"--no-{option[2:]}"] if parameter.default is True or parameter.default is False else [option]
    return [*options, "--help"]


def bash_script(options: Mapping[str, Sequence[str]], zsh: bool = False) -> str:
    """Return the script of bash, or of zsh, which runs that of bash."""
    cases = "\n".join(f'        {command}) words="{" ".join(names)}" ;;' for command, names in options.items())
    head = "autoload -Uz bashcompinit && bashcompinit\n" if zsh else ""
    return f"""{head}_gpu_vecenv() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{' '.join(options)}" -- "$cur"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    case "${{COMP_WORDS[1]}}" in
        {'|'.join(WITH_IDS)}) words="$words {' '.join(IDS)}" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur"))
}}
complete -o filenames -F _gpu_vecenv gpu-vecenv"""


def fish_script(options: Mapping[str, Sequence[str]]) -> str:
    """Return the script of fish."""
    lines = []
    for command, (_, summary) in COMMANDS.items():
        text = summary.replace("'", "\\'")
        lines.append(f"complete -c gpu-vecenv -n __fish_use_subcommand -a {command} -d '{text}'")
        seen = f"-n '__fish_seen_subcommand_from {command}'"
        lines += [f"complete -c gpu-vecenv {seen} -l {name[2:]}" for name in options[command]]
        lines += [f"complete -c gpu-vecenv {seen} -a '{' '.join(IDS)}'"] if command in WITH_IDS else []
    return "\n".join(lines)
