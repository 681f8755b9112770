"""How runners of Tag spread over the square, and how many are caught: ``python benchmarks/tag_crowding.py runs/tag``.

The square has 5 x 5 cells of 4 % of its area each. After each step of an episode the cell with the most runners in the game is
the fullest, in each world separately. Its share is the number of its runners divided by that of all in the game. The mean is over
the steps in which a world has runners, and then over worlds, each with one episode; and also over the last quarter of the steps,
because runners start at random places. Few runners are never spread evenly, so the table has the share of as many runners at
random places in these steps beside it.

Trained, random and scripted taggers play against trained, random and scripted runners from the same starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from torch import Tensor

from gpu_vecenv.train.run_folder.intervals import mean_interval
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import evaluation_seed, game_of
from gpu_vecenv.train.runner.torch_settings import torch_threads

CELLS = 5
"""Cells along a side of the square; one has 4 % of its area."""
TRAINED = "trained"
PAIRS = (
    (TRAINED, TRAINED),
    (TRAINED, "random"),
    (TRAINED, "flee"),
    ("random", TRAINED),
    ("random", "random"),
    ("chase", TRAINED),
    ("chase", "random"),
)
"""Taggers and runners of each match."""


@dataclass(frozen=True)
class Crowding:
    """Means over the episodes of a match."""

    taggers: str
    """Policy of the taggers: trained, random or a scripted one."""
    runners: str
    """Policy of the runners, as of the taggers."""
    caught: float
    """Runners that were tagged."""
    caught_interval: float
    """Half the width of its 95 % interval."""
    share: float
    """Share of the runners in the game that are in the fullest cell."""
    share_interval: float
    """Half the width of its 95 % interval."""
    late: float
    """The share in the last quarter of the steps; NaN without runners."""
    even: float
    """The same of as many runners at random places."""


def fullest_share(x: Tensor, y: Tensor, free: Tensor, side: float) -> Tensor:
    """Return the share of the runners in the game that are in the fullest cell.

    Args:
        x: positions in x, (N, runners).
        y: positions in y, (N, runners).
        free: runners in the game, bool (N, runners).
        side: length of a side of the square.

    Returns:
        float32 (N,); NaN without a runner.
    """
    column, row = ((place / side * CELLS).long().clamp(max=CELLS - 1) for place in (x, y))
    counts = torch.zeros(len(x), CELLS * CELLS, device=x.device).scatter_add_(1, column * CELLS + row, free.float())
    return counts.amax(1) / free.sum(1)


def match(run: str | Path, taggers: str, runners: str, worlds: int, device: str = "auto") -> Crowding:
    """Play one episode in each world.

    Args:
        run: folder of a run of Tag.
        taggers: ``trained``, ``random`` or ``chase``.
        runners: ``trained``, ``random`` or ``flee``.
        worlds: number of worlds, which have the same starts in every match.
        device: ``auto``, ``cpu`` or ``cuda:0``.
    """
    changes = {role: name for role, name in (("tagger", taggers), ("runner", runners)) if name != TRAINED}
    game = game_of(run, changes, None, {"device": device})
    # Without autoreset a world stays as its episode ended.
    with closing(make_env(game.config, worlds, "disabled")) as env, torch_threads(game.config.threads), torch.no_grad():
        players = game.players(env, all_loaded=False)
        players.collector.reset(evaluation_seed(game.config.seed))
        generator = torch.Generator(env.device).manual_seed(game.config.seed)
        first, side = env.role_counts["tagger"], float(env.params["grid_length"])
        shares, evens = [], []
        for _ in range(int(env.params["episode_length"])):
            players.step(deterministic=False)
            state = env.get_state()
            x, y, free = state["loc_x"][:, first:], state["loc_y"][:, first:], state["alive"][:, first:] > 0
            shares.append(fullest_share(x, y, free, side))
            places = torch.rand(2, *x.shape, generator=generator, device=x.device)
            evens.append(fullest_share(*places, free, 1.0))
        caught = mean_interval((~free).sum(1).double().tolist())
        by_world = torch.stack(shares).nanmean(0)
        share = mean_interval(by_world[~by_world.isnan()].double().tolist())
        late, even = (torch.stack(each[-len(each) // 4 :]).nanmean(0).nanmean().item() for each in (shares, evens))
    return Crowding(taggers, runners, *caught, *share, late, even)


def crowding(run: str | Path, worlds: int, device: str = "auto", pairs: Any = PAIRS) -> list[Crowding]:
    """Play all matches of a run; see ``match()``."""
    return [match(run, taggers, runners, worlds, device) for taggers, runners in pairs]


def table(results: Mapping[str, list[Crowding]]) -> str:
    """Return a Markdown table of the matches of each run."""
    lines = ["| run | taggers | runners | caught | share in the fullest 4 % | in the last quarter | at random places |"]
    lines.append("|---|---|---|---|---|---|---|")
    for run, matches in results.items():
        for each in matches:
            caught, share = f"{each.caught:.1f} ± {each.caught_interval:.1f}", f"{each.share:.1%} ± {each.share_interval:.1%}"
            lines.append(f"| {run} | {each.taggers} | {each.runners} | {caught} | {share} | {each.late:.1%} | {each.even:.1%} |")
    return "\n".join(lines)


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    worlds: int = 100,
    device: str = "auto",
    out: Annotated[Path | None, tyro.conf.arg(help="JSON file of the results")] = None,
) -> None:
    """Play the matches of runs of Tag and print a table.

    Args:
        runs: folders of runs.
        worlds: episodes of a match.
        device: auto, cpu or cuda:0.
        out: see its help.
    """
    if not runs:
        sys.exit("usage: tag_crowding.py RUN ...")
    results = {str(run): crowding(run, worlds, device) for run in runs}
    print(table(results))
    if out is not None:
        out.write_text(json.dumps({run: [asdict(each) for each in matches] for run, matches in results.items()}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
