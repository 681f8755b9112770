"""Ids of envs that files name. A file must not decide which code runs, so no module is imported for it."""

from __future__ import annotations

import sys

import gymnasium

from gpu_vecenv.errors import RecordingError


def id_without_import(env_id: str) -> str:
    """Return the registered id of a file's env, without its module unless that is imported.

    Raises:
        RecordingError: the id is unknown here.
    """
    module, _, name = env_id.rpartition(":")
    if module in sys.modules:
        return env_id
    if name not in gymnasium.registry:
        needs = f"its module {module!r}" if module else "the module that registers it"
        what = repr(env_id) if env_id else "an env without an id"
        raise RecordingError(
            f"expected a registered env, got {what}: import {needs} first, on the command line with --modules, or give env_spec"
        )
    return name
