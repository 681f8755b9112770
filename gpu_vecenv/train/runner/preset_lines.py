"""Lines of a new run about its preset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.config.algorithms import registered
from gpu_vecenv.train.config.presets import OF_RUN, preset_of


def preset_lines(config: ResolvedConfig, policies: Iterable[str]) -> Iterator[str]:
    """Yield lines that say where the options of a new run come from, and which ones are others.

    PPO has a line if its preset depends on the device, and each other algorithm has one.

    Args:
        config: options of the run.
        policies: names of the policies that learn.
    """
    preset, by_algorithm = preset_of(config.env_id), dict[str, list[str]]()
    for policy in policies:
        by_algorithm.setdefault(config.algorithm_of(policy), []).append(policy)
    for algorithm, names in by_algorithm.items():
        usual = f"those of its preset for {config.env_id}"
        if algorithm == "ppo":
            if preset.cpu is None:
                continue
            usual += f" on {'the CPU' if config.device == 'cpu' else 'a GPU'}"
        elif algorithm not in preset.algorithms:
            usual = f"its defaults, as {config.env_id} has no preset for it"
        differing = _differing(config, algorithm, names)
        yield f"{algorithm}: options are {usual}" + (f", but for {', '.join(differing)}" if differing else "")


def _differing(config: ResolvedConfig, algorithm: str, policies: Iterable[str]) -> list[str]:
    """Return the names of options that differ from those of a run of the algorithm that gives none."""
    usual = preset_of(config.env_id).on(config.device).of(algorithm)
    expected = usual.options or registered(algorithm).config_class()
    of_run = [name for name in OF_RUN if name != "network"] if algorithm == config.algorithm else []
    names = [name for name in of_run if getattr(config, name) != getattr(usual, name)]
    for policy in policies:
        network = vars(config.network_of(policy)).items()
        names += [f"network.{name}" for name, value in network if value != getattr(usual.network, name)]
        names += [name for name, value in vars(config.options_of(policy)).items() if value != getattr(expected, name)]
    return list(dict.fromkeys(names))
