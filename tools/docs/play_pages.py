"""Pages of the site that play: those of ``gpu-vecenv page`` for the shipped envs, which the site's build writes.

    python tools/docs/play_pages.py tag runs/tag   # stores the policies of a run for the page of an env
    python tools/docs/play_pages.py FOLDER         # writes all pages to a folder

Envs have the names of their folders. Policies are stored in docs/policies, at most 100 KB each. Agents of an env without a file
act at random.

The runs of Tag are longer than those of other envs, so that visitors meet skilled players. Taggers of Tag catch 21 of 100 trained
runners, and those of gridworld Tag need 27 steps for a trained runner and 15 for a random one:

    gpu-vecenv train --config examples/tag_dodge.yaml --device cpu --num-envs 32 --total-steps 1800000 --out runs/tag
        # stopped after 1,126,400 steps; the rest took this schedule:
    gpu-vecenv train --resume --total-steps 1400000 --schedule-steps 1400000 --out runs/tag
    gpu-vecenv train WarpGridTag-v0 --env grid_length=20 use_full_observation=True --num-envs 256 --total-steps 4000000
        --device cpu --out runs/grid_tag

The network of catalysis is small, because its page holds a surface of 36 KB:

    gpu-vecenv train WarpCatalysis-v0 --network hidden_sizes=24,24 --device cpu --out runs/catalysis
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from gpu_vecenv.registration import IDS
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.runner.evaluation import game_of
from gpu_vecenv.train.runner.page import PageContent, PageOptions, content_of, everyone_random, write_content

ROOT = Path(__file__).resolve().parents[2]
POLICIES = ROOT / "docs" / "policies"
MAX_BYTES = 100_000

OPTIONS = {
    "tag": PageOptions(role="runner", worlds=9),
    "simple_tag": PageOptions(role="agent", rate=8),
    "cartpole": PageOptions(rate=30),
    "catalysis": PageOptions(rate=8, worlds=9),
    "pendulum": PageOptions(rate=20),
    "mountain_car": PageOptions(rate=30),
    "mountain_car_continuous": PageOptions(rate=30),
    "grid_tag": PageOptions(role="runner", rate=6),
    "foraging": PageOptions(rate=4),
    "rice": PageOptions(rate=2, worlds=4),
    "covid": PageOptions(rate=4, worlds=4),
}
"""Options of pages by folder."""


def envs() -> dict[str, str]:
    """Return the ids of the envs by folder."""
    from gpu_vecenv.testing.subject import Subject

    return {Subject(env_id).layout().spec.kernel.parent.name: env_id for env_id in IDS}


def write_page(name: str, env_id: str, folder: Path) -> int:
    """Write the page of an env, and return its bytes."""
    stored = POLICIES / f"{name}.npz"
    if stored.is_file():
        content = PageContent.read(stored)
    else:
        config = TrainConfig(env_id, device="cpu", policy_map=everyone_random(TrainConfig(env_id, device="cpu")))
        content = content_of(game_of(config, None, None, {}))
    return write_content(content, folder / f"{name}.html", OPTIONS.get(name, PageOptions())).num_bytes


def write_pages(folder: Path) -> Iterator[str]:
    """Write the pages of all envs, and yield their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = envs()
    with ProcessPoolExecutor(2) as processes:
        for name, _ in zip(names, processes.map(write_page, names, names.values(), [folder] * len(names)), strict=True):
            yield name


def store(name: str, run: str) -> Path:
    """Store the policies of a run for the page of an env.

    Raises:
        ConfigError: the file would be too large.
    """
    path = POLICIES / f"{name}.npz"
    path.parent.mkdir(exist_ok=True)
    content_of(game_of(run, None, None, {"device": "cpu"})).write(path)
    if (size := path.stat().st_size) > MAX_BYTES:
        path.unlink()
        raise ConfigError(f"{name}: expected policies of at most {MAX_BYTES:,} bytes, got {size:,}")
    return path


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(store(*sys.argv[1:]))
    else:
        for page in write_pages(Path(sys.argv[1])):
            print(page, flush=True)
