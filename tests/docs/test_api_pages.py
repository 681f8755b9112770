"""The API pages name what is public, and nothing that does not exist."""

import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import gpu_vecenv.train
from gpu_vecenv import errors, pool, rendering, single_env, spec, stats, vector_env, video

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "api").glob("*.md"))
NAMED = [name for page in PAGES for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
PUBLIC = [getattr(gpu_vecenv.train, name) for name in gpu_vecenv.train.__all__]
PUBLIC += [errors.GpuVecenvError, pool.join_states, single_env.SingleEnv, spec.EnvSpec, stats.EpisodeStatistics]
PUBLIC += [vector_env.GpuVectorEnv, rendering.tile, video.write_video]


def shown(name):
    """What a directive shows: an object, or what a module defines."""
    found = pkgutil.resolve_name(name)
    return [o for o in vars(found).values() if getattr(o, "__module__", "") == name] if isinstance(found, ModuleType) else [found]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_everything_public_is_shown(thing):
    assert thing in [found for name in NAMED for found in shown(name)]


@pytest.mark.parametrize("name", NAMED)
def test_what_is_shown_has_a_docstring(name):
    assert all(found.__doc__ for found in shown(name))
