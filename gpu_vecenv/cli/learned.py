"""Text at the end of a run: what it learned, and which commands come next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator

from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.run_folder.matches import Match, Matches


def learned_lines(matches: Matches) -> Iterator[str]:
    """Yield a line for each comparison of trained and random agents, against random and trained others, then one a metric."""
    yield (
        f"After {matches.steps:,} steps (means over {matches.worlds} new episodes; "
        "each match starts from the same states):"
    )
    for role in matches.learning:
        opponents = [name for name in matches.learning if name != role]
        for random in (opponents, []) if opponents else ([],):
            against = " and ".join(_agents(matches, name) for name in opponents)
            against = f" against {'random' if random else 'trained'} {against}" if opponents else ""
            trained, untrained = (_result(matches, matches.match(*names), role) for names in (random, [*random, role]))
            name = _agents(matches, role)
            rules = "" if random else "".join(
                f"; {rule} {name}: {_result(matches, match, role)[1]}" for rule, match in matches.scripted(role)
            )
            yield f"  trained {name}{against}: {trained[0]}; random {name}: {untrained[1]}{rules}"
    for metric in matches.match().mean_metrics:
        means = [_number(matches.metric(metric, *names)) for names in ((), matches.learning)]
        yield f"  {metric}: {means[0]} as trained, {means[1]} at random"


def _number(mean: float | None) -> str:
    return "not recorded" if mean is None else f"{mean:.4g}"


def _agents(matches: Matches, role: str) -> str:
    """Return the name of a role, with an s if it has several agents."""
    return role if matches.roles[role].count == 1 else f"{role}s"


def _result(matches: Matches, match: Match, role: str) -> tuple[str, str]:
    """Return the result of a match in words, and its numbers alone: agents of a world that left, or else the mean return."""
    counted = {name: facts for name, facts in matches.roles.items() if facts.leaving}
    if math.isnan(match.mean_return[role]):
        return "no agent took part", "none"
    if not counted:
        return f"mean return {match.mean_return[role]:.4g}", f"{match.mean_return[role]:.4g}"
    exits = {name: f"{match.mean_exits[name]:.1f}".removesuffix(".0") for name in counted}
    words = ", ".join(f"{exits[name]} of {facts.count} {name}s {facts.leaving}" for name, facts in counted.items())
    return words, ", ".join(exits.values())


def next_lines(config: ResolvedConfig, drawn: bool, modules: Iterable[str] = ()) -> Iterator[str]:
    """Yield three commands that may come next.

    Args:
        config: options of the run.
        drawn: the env can be drawn.
        modules: modules that register what the run has; the id of the env may name one more. Empty names do not count.
    """
    folder, env_id = shlex.quote(str(config.out)), shlex.quote(config.env_id)
    names = dict.fromkeys(shlex.quote(name) for name in (config.env_id.rpartition(":")[0], *modules) if name)
    imports, steps = f" --modules {' '.join(names)}" if names else "", 2 * config.total_steps
    other = "WarpTag-v0" if config.env_id == "WarpCartPole-v1" else "WarpCartPole-v1"
    play = f"watch {folder} --worlds 4 --out {folder}/four.mp4{imports}" if drawn else f"eval {folder} --episodes 100{imports}"
    yield "Next:"
    yield f"  gpu-vecenv {play}  # {'a video of four worlds' if drawn else 'mean returns'}"
    longer = f"--total-steps {steps} --schedule-steps {steps} --out {folder}{imports}"
    yield f"  gpu-vecenv train {env_id} --resume {longer}  # twice as long"
    yield f"  gpu-vecenv train {other}  # another env; gpu-vecenv envs lists them"
