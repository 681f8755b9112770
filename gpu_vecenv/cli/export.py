"""The command ``export``: a file of a run's policy for use without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option


def export(
    run: tyro.conf.Positional[Annotated[str, help_option("", "RUN")]],
    file: tyro.conf.Positional[Path],
    policy: Annotated[str | None, help_option("the run's only policy", "NAME")] = None,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Write a policy of a run as a program of torch.export, an ONNX model or a TorchScript program.

    The program has the normalisation of observations and the scale of actions inside. It returns the likeliest action and the
    logits, or mean and deviation, for any number of observations.

    The program of a policy with a memory also takes its state and returns the new one. It does not know where episodes begin: the
    caller gives zeros before the first step of each episode, and else the state that the step before returned.

    Example: gpu-vecenv export runs/tag runner.onnx --policy runner

    Args:
        run: the run's folder, or a checkpoint file.
        file: file to write, .pt2, .onnx or .pt; .onnx needs the extra export.
        policy: name of the policy.
        modules: modules that register the run's env and networks, to import first; a checkpoint alone imports none.
    """
    from gpu_vecenv.train.runner.build import import_modules
    from gpu_vecenv.train.runner.export import export_with_text

    import_modules(modules)
    path, text = export_with_text(run, file, policy)
    print(f"policy: {path}\n{text}")
