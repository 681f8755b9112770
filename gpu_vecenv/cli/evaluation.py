"""The command ``eval``: mean returns of policies, of one run or of several."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.cli.key_value import Settings, help_option, require_within
from gpu_vecenv.cli.who_plays import who_plays
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train.runner.build import import_modules
from gpu_vecenv.train.runner.evaluation import evaluate, game_of
from gpu_vecenv.train.runner.measure import Evaluation


def eval_run(
    run: tyro.conf.Positional[Annotated[str | None, help_option("policies of other runs alone", "[RUN]")]] = None,
    episodes: int = 64,
    seed: int = 1,
    seeds: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    policy: Annotated[Settings, help_option("as in training", "ROLE=WHO ...")] = (),
    env: Annotated[Settings, help_option("as in training", "KEY=VALUE ...")] = (),
    max_steps: Annotated[int | None, help_option("10,000, or the env's time limit if it is longer", "INT")] = None,
    json: Annotated[tuple[str, ...] | None, help_option("text", "[FILE]")] = None,
    record: Annotated[Path | None, help_option("none", "FILE")] = None,
    threads: Annotated[int | None, help_option("the run's", "INT")] = None,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Play episodes with the policies of a run, or of several runs, and print mean returns, lengths and metrics.

    Example: gpu-vecenv eval runs/tag --episodes 16 --policy runner=random

    Args:
        run: the run's folder, a checkpoint file, or an env id.
        episodes: number of worlds, each played for one episode with each seed.
        seed: first seed of worlds and sampling.
        seeds: number of seeds: seed, seed + 1 and so on. Intervals are those of all episodes.
        device: auto, cpu or cuda:0.
        deterministic: take the likeliest actions instead of draws.
        policy: roles with another policy than in training; WHO is random, a scripted policy of the env such as chase, a policy of
            the run, or FOLDER[:POLICY][@best|@newest]. A folder alone means its policy of that role. Without RUN all roles are
            named, and the env is that of the first folder.
        env: parameters of the env that differ from those of the run.
        max_steps: most steps of an episode; longer ones end the command with an error.
        json: write the results as JSON, with the returns of each episode, to a file, or without a name to standard output.
        record: file .npz for seeds, actions and returns, which gpu-vecenv verify plays again to the same bits on any device.
        threads: CPU threads of torch.
        modules: modules that register the run's env and networks, to import first; a checkpoint alone imports none.
    """
    import_modules(modules)
    require_within("--seeds", seeds, 1)
    file = _json_file(json)
    target, policy_map, changes = who_plays(run, policy, env, threads, device)
    changes["seed"] = seed
    played = {**changes, "seeds": seeds, **({} if record is None else {"record": record})}
    result = evaluate(target, episodes, policy_map, deterministic, progress=True, max_steps=max_steps, **played)
    if record is not None:
        print(f"record: {record}, {record.stat().st_size:,} bytes; gpu-vecenv verify {record} plays it again")
    if file is None:
        print("\n".join(_lines(result)))
        return
    config = game_of(target, policy_map, None, changes).config
    content = {"env_id": config.env_id, "env_kwargs": config.env_kwargs, "run": run, "policies": policy_map, "seed": seed}
    _write({**content, "seeds": seeds, "deterministic": deterministic, **vars(result)}, file)


def _json_file(words: tuple[str, ...] | None) -> str | None:
    """Return the file for results, "-" for standard output; None for text."""
    if words is None:
        return None
    if len(words) > 1:
        raise ParameterError(f"--json: expected at most one file, got {' '.join(words)}.")
    return words[0] if words else "-"


def _lines(result: Evaluation) -> Iterator[str]:
    """Yield the results as text."""
    yield f"{result.episodes} episodes of {result.mean_length:.1f} steps"
    for role, survival in result.mean_survival.items():
        if math.isnan(survival):
            yield f"{role}: no agent took part"
            continue
        mean, half = result.mean_return[role], result.return_interval[role]
        interval = "" if math.isnan(half) else f" +- {half:.3g}"
        yield f"{role}: return {mean:.3f}{interval}, alive for {survival:.1f} steps, {result.mean_exits[role]:.2f} left early"
    for name, mean in result.mean_metrics.items():
        unit = result.metric_units[name]
        yield f"{name}: {mean:.6g}{'' if unit == '-' else f' {unit}'}" if not math.isnan(mean) else f"{name}: never recorded"


def _write(content: Mapping[str, Any], file: str) -> None:
    """Write JSON, with null for NaN, to a file or to standard output."""
    text = json.dumps(_without_nan(content), indent=1) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    with atomic_file(Path(file)) as partial:
        Path(partial).write_text(text, "utf-8")
    print(f"results: {file}")


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nan(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(x) for x in value]
    return None if isinstance(value, float) and math.isnan(value) else value
