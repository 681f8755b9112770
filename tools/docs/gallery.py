"""Makes the animated previews of docs/gallery.md: random and trained play of each env, side by side, under the same seed.

    python tools/docs/gallery.py                     # all envs
    python tools/docs/gallery.py cartpole            # one env, by the name of its folder
    python tools/docs/gallery.py tag --run runs/tag  # one env, with the policies of a run

Policies are trained on the CPU, each within minutes; only Tag's need a GPU. Their runs are kept in runs/gallery; delete a run to
train it again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from PIL import Image

from gpu_vecenv.render.side_by_side import side_by_side
from gpu_vecenv.render.style import make_style
from gpu_vecenv.render.worlds import WorldRenderers
from gpu_vecenv.train import Trainer
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import play

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures" / "gallery"
RUNS = ROOT / "runs" / "gallery"
HOLD_MS = 1_200
"""How long the last frame stays, in milliseconds."""

TAG_RUN = ROOT / "examples" / "tag_dodge.yaml"
GRID_TAG = TrainConfig("WarpGridTag-v0", total_steps=1_500_000, env_kwargs={"grid_length": 20, "num_taggers": 4})
"""On a board of this size players meet often, so that policies learn within a minute."""

FORAGING = TrainConfig("WarpForaging-8x8-2p-2f-coop-v3")


RWARE = TrainConfig("WarpRware-tiny-2ag-easy-v2", total_steps=2_000_000)
"""With two requests for each robot, policies learn within ten minutes."""


@dataclass(frozen=True)
class Preview:
    """Settings of one preview.

    Args:
        config: The run that trains the policies, unless a run is given.
        fps: Frames in a second.
        frames: Most frames.
        every: Steps between frames.
        seed: Seed of the world; the same for random and trained play. It was chosen because both end as most games do.
        scale: Factor on the size of the env's frames.
        quality: Quality of the WebP, 0 to 100; None stores the pictures without loss, which takes less if few pixels change.
        device: Device that trains the policies.
    """

    config: TrainConfig
    fps: int
    frames: int = 110
    every: int = 1
    seed: int = 1
    scale: float = 0.5
    quality: int | None = 60
    device: str = "cpu"


def particles(env_id: str, total_steps: int = 400_000) -> Preview:
    """Preview of a particle env: an episode of 25 steps."""
    return Preview(TrainConfig(env_id, total_steps=total_steps), fps=6, scale=0.65, quality=None)


PREVIEWS = {
    "tag": Preview(TrainConfig.from_yaml(TAG_RUN), fps=25, frames=201, seed=12, scale=0.52, quality=50, device="cuda:0"),
    "grid_tag": Preview(GRID_TAG, fps=14, frames=70, seed=7, quality=80),
    "covid": Preview(TrainConfig("WarpCovid-v0"), fps=6, frames=31, every=18, scale=0.57, quality=None),
    "catalysis": Preview(TrainConfig("WarpCatalysis-v0"), fps=12, frames=66, scale=0.54, quality=None),
    "rice": Preview(TrainConfig("WarpRice-v0"), fps=4, scale=0.57, quality=None),
    "recall": Preview(TrainConfig("WarpRecall-v0"), fps=12, frames=66, seed=3, quality=None),
    "foraging": Preview(FORAGING, fps=8, frames=36, seed=1, quality=None),
    "rware": Preview(RWARE, fps=20, quality=None),
    "simple": particles("WarpSimple-v3", total_steps=200_000),
    "simple_spread": particles("WarpSimpleSpread-v3", total_steps=1_000_000),
    "simple_tag": particles("WarpSimpleTag-v3"),
    "simple_reference": particles("WarpSimpleReference-v3"),
    "simple_speaker_listener": particles("WarpSimpleSpeakerListener-v4"),
    "simple_adversary": particles("WarpSimpleAdversary-v3"),
    "simple_push": particles("WarpSimplePush-v3"),
    "simple_crypto": particles("WarpSimpleCrypto-v3"),
    "simple_world_comm": particles("WarpSimpleWorldComm-v3"),
    "cartpole": Preview(TrainConfig("WarpCartPole-v1"), fps=25, every=2),
    "acrobot": Preview(TrainConfig("WarpAcrobot-v1"), fps=15, frames=80),
    "mountain_car": Preview(TrainConfig("WarpMountainCar-v0"), fps=13, frames=63, every=2),
    "mountain_car_continuous": Preview(TrainConfig("WarpMountainCarContinuous-v0"), fps=13, frames=63, every=2),
    "pendulum": Preview(TrainConfig("WarpPendulum-v1"), fps=20, frames=90),
}
"""Previews by the folder of the env."""


def trained_run(folder: str, preview: Preview) -> Path:
    """Return the run that a preview shows; it is trained if it does not exist."""
    run = RUNS / folder
    if not (run / "checkpoint").is_dir():
        trainer = Trainer(replace(preview.config, device=preview.device, out=str(run), seed=0))
        trainer.train()
        trainer.close()
    return run


def pictures(run: Path, preview: Preview) -> Iterator[np.ndarray]:
    """Yield the pictures of a preview, uint8 (H, W, 3)."""
    style = make_style("dark", preview.scale)
    env = make_env(replace(saved_config(run, load_checkpoint(run)), device="cpu"), num_worlds=1)
    left, right = (WorldRenderers(env.env_spec, env.params, 1, style) for _ in range(2))
    random = dict.fromkeys(env.role_counts, "random")
    env.close()

    def scenes(renderers: WorldRenderers, policies: dict[str, str] | None) -> Iterator[np.ndarray]:
        # All states are drawn, because trails need them; the last one is always shown.
        scene, shown = None, 0
        for step, state in enumerate(play(run, 1, policies, seed=preview.seed, device="cpu")):
            (scene,) = renderers.scenes({name: array[None] for name, array in state.items()})
            if step % preview.every == 0:
                yield scene
                shown += 1
            if shown == preview.frames:
                return
        if scene is not None:
            yield scene

    return side_by_side(scenes(left, random), scenes(right, None), ("random", "trained"), left.legend, style)


def write(folder: str, run: Path | None = None) -> Path:
    """Write the preview of the env in `folder`, an animated WebP, and return its path; `run` has the policies, if given."""
    preview = PREVIEWS[folder]
    shown = pictures(trained_run(folder, preview) if run is None else run, preview)
    frames = [Image.fromarray(picture) for picture in shown]
    durations = [round(1000 / preview.fps)] * (len(frames) - 1) + [HOLD_MS]
    FIGURES.mkdir(parents=True, exist_ok=True)
    path = FIGURES / f"{folder}.webp"
    loss = {"lossless": True} if preview.quality is None else {"quality": preview.quality}
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, method=4, **loss)
    print(f"{path.relative_to(ROOT)}: {len(frames)} frames, {sum(durations) / 1000:.1f} s, {path.stat().st_size / 1000:.0f} kB")
    return path


def main(names: tyro.conf.Positional[tuple[str, ...]] = (), run: Path | None = None) -> None:
    """Write previews.

    Args:
        names: Folders of envs; all by default.
        run: Folder of a run that has the policies of the one env that is named.
    """
    if unknown := sorted({*names} - {*PREVIEWS}):
        sys.exit(f"no env has the folder {', '.join(unknown)}; expected some of {', '.join(PREVIEWS)}")
    if run is not None and len(names) != 1:
        sys.exit("--run has the policies of one env: name its folder, such as gallery.py tag --run runs/tag")
    for name in names or PREVIEWS:
        write(name, run)


if __name__ == "__main__":
    tyro.cli(main)
