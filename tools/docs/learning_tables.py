"""Writes what algorithms learn into their pages, from results of ``benchmarks``; ``--check`` only says if a page is stale.

A case is shown if it was run, so no page holds a number without a measurement. The page of PQN also has the ids with a preset.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))
import learning  # noqa: E402
import memory  # noqa: E402
import off_policy_sb3  # noqa: E402
from against_sb3 import LIBRARIES, OURS, SB3  # noqa: E402

from gpu_vecenv.train.config import PRESETS, PQNConfig  # noqa: E402
from gpu_vecenv.train.run_folder.intervals import mean_interval  # noqa: E402
from tools.docs.generated import short_commit, table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/learning_tables.py"
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"

Row = dict[str, Any]


def interval(numbers: Sequence[float], form: str = ".1f") -> str:
    """Return a mean with its 95 % interval over seeds, which one number has not."""
    mean, half = mean_interval(numbers)
    return format(mean, form) if math.isnan(half) else f"{mean:{form}} ± {half:{form}}"


def results_of(name: str, key: str) -> dict[str, Row]:
    """Return the rows of a file of results by case, those with a finished run; none without a file."""
    path = RESULTS / f"{name}.json"
    rows = json.loads(path.read_text())[key] if path.exists() else {}
    return {case: row for case, row in rows.items() if any("error" not in run for run in row["runs"])}


def of_algorithm(name: str, algorithm: str) -> dict[str, Row]:
    """Return the rows of an algorithm in a file of ``learning.py``."""
    return {case: row for case, row in results_of(name, "envs").items() if algorithm in row["hyperparameters"]}


def returns(rows: dict[str, Row]) -> str:
    """Return the table of games of one role: likeliest and random actions, and how many seeds reach the target."""
    lines = []
    for case, row in rows.items():
        runs = learning.finished(row)
        if len(learning.roles_of(runs[0])) > 1:
            continue
        (role,), target = learning.roles_of(runs[0]), learning.TARGETS.get(case)
        likeliest = [run["likeliest"]["mean_return"][role] for run in runs]
        random = [learning.match(run, role)[role] for run in runs]
        form = ".2f" if max(map(abs, likeliest)) < 10 else ".1f"
        reached = "–" if target is None else f"{sum(x >= target for x in likeliest)} of {len(runs)}"
        aim = "–" if target is None else f"{target:g}"
        lines.append([f"`{case}`", str(len(runs)), interval(likeliest, form), interval(random, form), aim, reached])
    header = ["case", "seeds", "likeliest actions", "random actions", "target", "seeds that reach it"]
    return table(header, lines) if lines else ""


def matches(rows: dict[str, Row]) -> str:
    """Return the table of games of several roles: each role trained and at random, against the same opponents.

    Beside them stands a scripted policy of the role, if the env has one and it was played: against random opponents, because no
    trained ones are kept.
    """
    path, lines = RESULTS / "scripted.json", []
    scripted = json.loads(path.read_text())["cases"] if path.exists() else {}
    for case, row in rows.items():
        runs = learning.finished(row)
        roles = learning.roles_of(runs[0])
        for role in roles if len(roles) > 1 else ():
            for opponents in ("random", "trained"):
                others = [other for other in roles if other != role and opponents == "random"]
                trained = [learning.match(run, *others)[role] for run in runs]
                random = [learning.match(run, role, *others)[role] for run in runs]
                above = sum(a > b for a, b in zip(trained, random, strict=True))
                rule = scripted.get(case, {}).get(role) if opponents == "random" else None
                by_rule = "–" if rule is None else f"`{rule['policy']}`: {interval(rule['returns'], '.2f')}"
                cells = [interval(trained, ".2f"), interval(random, ".2f"), by_rule, f"{above} of {len(runs)}"]
                lines.append([f"`{case}`", f"{role}s", opponents, *cells])
    header = ["case", "role", "opponents", "trained", "at random", "scripted", "seeds above random"]
    note = "Scripted policies come with the env and never learn; `python benchmarks/scripted.py` plays them."
    return joined(table(header, lines), note if any(case in scripted for case in rows) else "") if lines else ""


def beside_sb3(algorithm: str) -> str:
    """Return the table of an algorithm beside Stable-Baselines3's; empty without results."""
    row = results_of("off_policy_sb3", "cases").get(algorithm)
    if row is None:
        return ""
    lines = []
    for library in LIBRARIES:
        runs = [run for run in row["runs"] if run["library"] == library]
        if runs:
            likeliest = [run["likeliest"] for run in runs]
            reached = f"{sum(x >= off_policy_sb3.TARGET for x in likeliest)} of {len(runs)}"
            lines.append([library, str(len(runs)), interval([run["area"] for run in runs]), interval(likeliest), reached])
    header = ["library", "seeds", "mean return over training", "likeliest actions afterwards"]
    parts = [table([*header, f"seeds at {off_policy_sb3.TARGET:g} or more"], lines).strip()]
    if found := row.get("comparison"):
        low, high = found["bootstrap_95"]
        verdict = "equivalent" if found["equivalent"] else "not shown to be equivalent"
        parts.append(
            f"The mean return over training is the area under the curve, divided by the steps. {OURS} minus {SB3} is "
            f"{found['difference']:.1f}, 95 % interval by bootstrap {low:.1f} to {high:.1f}; with the margin {row['margin']:.1f} "
            f"two one-sided tests give p = {found['p_value']:.2g}: {verdict}."
        )
    return "\n\n".join(parts)


def sources(rows: Iterable[Row], command: str) -> str:
    """Return the command and the machines of rows, each machine once."""
    facts = [each["machine"] for row in rows for each in (row, *row["runs"]) if "machine" in each]
    kinds = dict.fromkeys(
        f"{each.get('gpu', each['cpu'])}, PyTorch {each['torch']}, commit {short_commit(each['commit'])}, {each['date']}"
        for each in facts
    )
    return f"Measured with `{command}` on {'; '.join(kinds)}." if facts else ""


def learned_by(rows: Iterable[str]) -> str:
    """Return the command that runs cases of ``learning.py``."""
    return f"python benchmarks/learning.py --cases {shlex.join(rows)}".replace("'", '"')


def picture(name: str, text: str, page: Path) -> str:
    """Return the line of a picture in ``docs/figures``; empty if there is none."""
    path = DOCS / "figures" / f"{name}.png"
    up = "../" * (len(page.relative_to(DOCS).parts) - 1)
    return f"![{text}]({up}figures/{name}.png)" if path.exists() else ""


def joined(*parts: str) -> str:
    """Return parts with empty lines between them; without any that nothing was measured."""
    return "\n\n".join(part.strip() for part in parts if part) or "Not measured yet."


INTERVALS = "Means over seeds, with 95 % intervals by Student's t where there are several.\n"


def off_policy_block(algorithm: str) -> str:
    """Return the block of SAC, TD3 or DDPG."""
    rows, page = of_algorithm("learning_off_policy", algorithm), DOCS / "algorithms" / f"{algorithm}.md"
    beside = beside_sb3(algorithm)
    both = results_of("off_policy_sb3", "cases")
    return joined(
        INTERVALS if rows else "",
        returns(rows),
        matches(rows),
        picture("learning_off_policy", "Returns in training, mean and interval over seeds", page) if rows else "",
        sources(rows.values(), learned_by(rows)),
        f"**Beside {SB3}**, on Pendulum with 8 worlds and equal options, 8 gradient steps for 8 transitions:" if beside else "",
        beside,
        picture("off_policy_sb3", f"Returns in training beside {SB3}, mean and interval over seeds", page) if beside else "",
        sources([both[algorithm]], "python benchmarks/off_policy_sb3.py") if beside else "",
    )


def pqn_presets() -> str:
    """Return the table of the ids that have a preset for PQN, by what it learns."""
    ids: dict[str, list[str]] = {"none": [], "vdn": []}
    for env_id, preset in PRESETS.items():
        if isinstance(options := preset.of("pqn").options, PQNConfig):
            ids[options.mixing].append(f"`{env_id}`")
    learned = {"none": "values of single agents", "vdn": "sums over teams, PQN-VDN"}
    return table(["preset for", "ids"], [[learned[mixing], ", ".join(each)] for mixing, each in ids.items()])


def pqn_block() -> str:
    """Return the block of PQN."""
    rows = of_algorithm("learning_pqn", "pqn")
    shown = picture("learning_pqn", "Returns of PQN in training, mean and interval over seeds", DOCS / "algorithms" / "pqn.md")
    command = sources(rows.values(), learned_by(rows))
    return joined(INTERVALS if rows else "", returns(rows), matches(rows), shown if rows else "", command)


def ppo_block() -> str:
    """Return the block of PPO with the presets."""
    rows, page = results_of("learning", "envs"), DOCS / "ppo-details.md"
    beside = areas_beside_sb3()
    return joined(
        returns(rows),
        matches(rows),
        sources(rows.values(), "python benchmarks/learning.py"),
        picture("learning", "Returns in training with the presets, mean and interval over seeds", page) if rows else "",
        f"**Beside {SB3}**, at equal options, by two one-sided tests of the areas under the curves:" if beside else "",
        beside,
        picture("against_sb3", f"Returns in training beside {SB3}, mean and interval over seeds", page) if beside else "",
    )


def areas_beside_sb3() -> str:
    """Return the table of PPO's areas under the curves beside Stable-Baselines3's, with their test; empty without results."""
    lines, rows = [], results_of("against_sb3", "cases")
    for row in rows.values():
        if found := row.get("comparison"):
            seeds = sum(run["library"] == OURS for run in row["runs"])
            low, high = found["bootstrap_95"]
            means = [f"{found['mean_area'][library]:.1f}" for library in (OURS, SB3)]
            verdict = "equivalent" if found["equivalent"] else "not shown to be equivalent"
            test = [f"{found['difference']:.1f}, {low:.1f} to {high:.1f}", f"{row['margin']:.1f}", f"{found['p_value']:.2g}"]
            lines.append([f"`{row['settings']['env_id']}`", str(seeds), *means, *test, verdict])
    header = ["env", "seeds", OURS, SB3, "difference, 95 % interval", "margin", "p", "areas are"]
    return joined(table(header, lines), sources(rows.values(), "python benchmarks/against_sb3.py")) if lines else ""


def memory_block() -> str:
    """Return the block of networks with a memory."""
    rows, lines = results_of("memory", "envs"), []
    for env in memory.ENVS:
        for way, share in memory.shares({"envs": rows}, env).items():
            values = memory.means(rows[f"{env}: {way}"])
            form = ".2f" if env == "Recall" else ".1f"
            of_range = "–" if math.isnan(share) else f"{share:.2f}"
            lines.append([env, way, str(len(values)), interval([float(x) for x in values], form), of_range])
    header = ["environment", "network", "seeds", "mean return", "share of the range"]
    note = (
        "The share is 0 for random actions and 1 for the network that observes all, or in Recall for right answers alone. "
        f"Stated beforehand: from {memory.ENOUGH:g} on, a memory reaches the full observation."
    )
    shown = picture("memory", "Returns in training with and without a memory, mean and interval over seeds", MEMORY)
    command = sources(rows.values(), "python benchmarks/memory.py")
    return joined(*((INTERVALS, table(header, lines), note, shown, command) if lines else ()))


def critic_block() -> str:
    """Return the block of central critics."""
    rows, lines = results_of("central_critic", "cases"), []
    for case, row in rows.items():
        area, afterwards, explained = (row["intervals"][name] for name in ("area", "evaluation", "explained_variance"))
        found = [x.get(name) for x in (area, afterwards) for name in ("mean", "difference")]
        lines.append([case, str(len(row["runs"])), *map(shown_interval, [*found, explained["mean"]])])
    header = ["critic", "seeds", "return over training", "minus IPPO", "return afterwards", "minus IPPO", "explained variance"]
    note = "Differences from IPPO are those of runs with the same seed. Intervals are 95 % by Student's t over seeds."
    shown = picture("central_critic", "Returns of MAPPO and IPPO in training, mean and interval over seeds", CRITIC)
    command = sources(rows.values(), "python benchmarks/central_critic.py")
    return joined(*((table(header, lines), note, shown, command) if lines else ()))


def shown_interval(numbers: Sequence[float | None] | None) -> str:
    """Return a mean and half the width of its interval, as results store them; a dash for none."""
    if numbers is None or numbers[0] is None:
        return "–"
    mean, half = numbers
    return f"{mean:.2f}" if half is None else f"{mean:.2f} ± {half:.2f}"


MEMORY, CRITIC = DOCS / "learn" / "memory.md", DOCS / "learn" / "central-critic.md"
PQN = DOCS / "algorithms" / "pqn.md"
LEARNED: dict[Path, Callable[[], str]] = {
    DOCS / "ppo-details.md": ppo_block,
    PQN: pqn_block,
    **{DOCS / "algorithms" / f"{name}.md": (lambda name=name: off_policy_block(name)) for name in off_policy_sb3.NOISE},
    MEMORY: memory_block,
    CRITIC: critic_block,
}
"""Function that writes the block ``learned`` of each page."""
BLOCKS = [(PQN, "presets", pqn_presets), *((page, "learned", block) for page, block in LEARNED.items())]
"""Page, name and function of each block."""


def main(arguments: list[str]) -> int:
    """Update the pages, or only say which are out of date; returns the exit status."""
    found = [
        update_page(page, with_block(page.read_text(), name, COMMAND, block()), arguments) for page, name, block in BLOCKS
    ]
    return max(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
