"""Options of a training run: frozen dataclasses that JSON and YAML store and restore unchanged."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config.algorithms import (
    ALGORITHMS,
    checked_options,
    grouped,
    registered,
    require_no_fields,
    with_changes,
)
from gpu_vecenv.train.config.auto_sizes import AUTO, AutoSizes
from gpu_vecenv.train.config.checks import (
    COUNT,
    FLAG,
    LONG_COUNT,
    NAME,
    NUMBER,
    THREADS,
    Check,
    check_fields,
    from_options,
    integer,
    is_dict_of,
    is_name,
    one_of,
    plain,
    require,
    suggests_names,
)
from gpu_vecenv.train.config.former import refuse_former, renamed
from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.or_dict import OrDict
from gpu_vecenv.train.config.policy import OPTIONS, PolicyConfig
from gpu_vecenv.train.config.ppo import PPOConfig
from gpu_vecenv.train.config.presets import OF_RUN, Preset, import_env, preset_of
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.vector.inputs.seeding import MAX_SEED

Kernels = Literal["auto", "torch", "fused"]
"""Values of ``TrainConfig.kernels``."""

Precision = Literal["float32", "tf32", "bfloat16", "float16"]
"""Values of ``TrainConfig.precision``."""

_AS_THE_RUN = PolicyConfig()
"""Settings of a policy without any of its own."""

CONFIG_FILE = "config.yaml"
"""Name of the file with a run's options in its folder."""


@suggests_names
@dataclass(frozen=True)
class TrainConfig:
    """One training run. Fields left None are filled from the env's preset for the algorithm, see ``Preset``.

    ``ppo``, ``network`` and ``auto_sizes`` take dicts, too, as in ``ppo={"learning_rate": 1e-3}``. What a dict leaves out is the
    preset's. Numbers of steps and other counts may be written as 1e5.
    """

    GROUPS: ClassVar[Mapping[str, type]] = {"ppo": PPOConfig, "network": NetworkConfig}
    env_id: str
    """Registered Gymnasium id, such as ``WarpTag-v0``."""
    num_envs: int | Literal["auto"] | None = None
    """Number of worlds, of all processes together. ``auto`` measures numbers of worlds, lengths of rollouts and numbers of
    minibatches before the run, and takes the fastest ones that fit; see ``find_sizes()``."""
    total_steps: int | None = None
    """Steps of the run, summed over worlds; rounded up to whole rollouts."""
    seed: int = 0
    """Seed of worlds, weights and sampling."""
    device: str = "auto"
    """``auto``, ``cpu`` or ``cuda:0``."""
    out: str | None = None
    """Folder for checkpoints, metrics and TensorBoard files; None writes nothing."""
    checkpoint_interval: int | None = None
    """Iterations between two checkpoints, beside those that a run writes every minute and at its end; None: no others."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Env parameters by their spec names; others are those of the preset, or else have the defaults of the spec."""
    policy_map: dict[str, str] | None = None
    """Role name to policy name; ``random`` acts uniformly at random. None gives each role a policy of its own.

    The key ``runner[0:10]`` names the first ten runners of each world.
    """
    frozen: tuple[str, ...] = ()
    """Policies that act but are not updated."""
    load_policies: dict[str, str] = field(default_factory=dict)
    """Policy name to a checkpoint file; the policy starts with the weights that the file holds under the same name."""
    ppo: OrDict[PPOConfig] = None  # type: ignore[assignment]
    """Hyperparameters of the update; also a dict of some of them, and others are those of the preset."""
    network: OrDict[NetworkConfig] = None  # type: ignore[assignment]
    """Shape of the networks; also a dict of some fields, and others are those of the preset."""
    threads: int = 1
    """CPU threads of torch in training, evaluation and play; the process's own number is restored afterwards.

    With 1, results are bitwise the same for any number of cores, and small networks are fastest on a busy machine.
    """
    policies: dict[str, PolicyConfig] = field(default_factory=dict)
    """Policy name to its own settings; policies without an entry have those of the run."""
    schedule_steps: int | None = None
    """Steps after which schedules are at their end, where they stay. None: ``total_steps`` of the first start of the run.

    A resumed run keeps it, so that a longer ``total_steps`` does not make rates jump.
    """
    stagger_starts: bool | None = None
    """Start the worlds at different steps of an episode, so that a rollout holds all parts of episodes."""
    evaluation_interval: int | None = None
    """Iterations between two evaluations during training; None evaluates never."""
    evaluation_episodes: int = 64
    """Episodes of an evaluation."""
    stop_at: float | None = None
    """Stop training when the mean return of ``best_of`` in an evaluation reaches this."""
    patience: int | None = None
    """Stop training after this number of evaluations in a row without a better mean return of ``best_of``."""
    best_of: str | None = None
    """Role whose mean return decides which checkpoint is best; None: the first role that learns."""
    keep_checkpoints: int = 3
    """Number of newest checkpoints that are kept, beside the best one."""
    wandb: str | None = None
    """Weights & Biases project that the metrics are sent to; None sends nothing."""
    kernels: Kernels = "auto"
    """``torch`` computes networks and losses by torch. With ``fused``, policies with built-in networks act and learn by kernels
    of their own: on the CPU in float32, and on a GPU, for PPO alone and small networks, in products with operands of 16 bits.
    Other policies do as with ``torch``.

    ``auto`` is fused with the ``precision`` float32, and otherwise torch.
    """
    graph: bool | None = None
    """Launch an iteration as one CUDA graph instead of operation by operation. None: on a GPU.

    Iterations stay without a graph if the user's code cannot be captured, or if the env has wrappers.
    """
    precision: Precision = "float32"
    """Operands of matrix products: ``float32``, ``tf32``, ``bfloat16`` or ``float16``. Sums and weights are float32.

    Lower precision is faster for wide networks on a GPU. ``tf32`` is a format of GPUs; it changes nothing on the CPU.
    """
    algorithm: str = "ppo"
    """Registered name of the algorithm that updates the policies; ``policies`` may name another one for each."""
    algorithms: dict[str, Any] = field(default_factory=dict)
    """Options of other algorithms than PPO by name, such as ``{"evolution": EvolutionConfig()}``; others are those of presets."""
    auto_sizes: OrDict[AutoSizes] = None  # type: ignore[assignment]
    """Bounds of the search for ``num_envs="auto"``; without them those of ``AutoSizes()``."""
    shards: int | None = None
    """Equal parts of the worlds, of which each minibatch takes an equal share. None: one for each process of the run.

    A run in one process with ``shards=4`` has the minibatches of one in four processes.
    """
    reward: Literal["agent", "team"] = "agent"
    """Reward that policies learn from: the agent's own, or the mean of all agents of its role. Returns are those of the env's own
    rewards."""
    executor: InitVar[Any] = None

    def __post_init__(self, executor: object) -> None:
        """Check types and ranges; ``executor`` is a former option."""
        refuse_former({} if executor is None else {"executor": executor})
        mappings = {name: value for name in _DATACLASSES if isinstance(value := getattr(self, name), Mapping)}
        if mappings:
            check_fields(self, {"env_id": RUN_CHECKS["env_id"]})
            import_env(self.env_id)  # it may register a preset
            for name, value in _built_groups(mappings, preset_of(self.env_id).on(self.device), self.algorithm).items():
                object.__setattr__(self, name, value)
        check_fields(self, RUN_CHECKS)
        object.__setattr__(self, "frozen", tuple(self.frozen))
        object.__setattr__(self, "env_kwargs", plain("env_kwargs", self.env_kwargs))
        periodic = [name for name in ("stop_at", "patience", "best_of") if getattr(self, name) is not None]
        if periodic and self.evaluation_interval is None:
            raise ConfigError(f"{periodic[0]}: expected an evaluation_interval with it, got None")
        if self.auto_sizes is not None and self.num_envs != AUTO:
            raise ConfigError(f"auto_sizes: expected num_envs={AUTO!r} with it, got {self.num_envs}")
        require_no_fields(self, self.algorithms)
        checked = {name: checked_options(name, options) for name, options in self.algorithms.items()}
        object.__setattr__(self, "algorithms", checked)
        for name in self.policies:
            self.options_of(name), self.network_of(name)

    def settings_of(self, policy: str) -> PolicyConfig:
        """Return the settings of a policy that differ from the run's."""
        return self.policies.get(policy, _AS_THE_RUN)

    def algorithm_of(self, policy: str) -> str:
        """Return the name of the algorithm that updates a policy."""
        return self.settings_of(policy).algorithm or self.algorithm

    def groups(self) -> dict[str, Any]:
        """Return the options of algorithms that are given, by the name of the algorithm."""
        return {**({} if self.ppo is None else {"ppo": self.ppo}), **self.algorithms}

    def options_of(self, policy: str) -> Any:
        """Return the options of the algorithm of a policy: the run's, with the policy's own in their place.

        Raises:
            ConfigError: the settings contradict each other; the error names the policy.
        """
        name = self.algorithm_of(policy)
        options = self.groups().get(name, {})
        with _errors_of(policy):
            return with_changes(name, checked_options(name, options), self.settings_of(policy).groups().get(name, {}))

    def network_of(self, policy: str) -> NetworkConfig:
        """Return the shape of a policy's network: the run's, with its own fields in their place.

        Raises:
            ConfigError: see ``options_of()``.
        """
        with _errors_of(policy):
            return dataclasses.replace(self.network or NetworkConfig(), **self.settings_of(policy).network)

    def num_steps(self, policies: Iterable[str]) -> int:
        """Return the steps of a rollout.

        Args:
            policies: names of the policies that learn.

        Raises:
            ConfigError: their algorithms want different numbers, or one is not registered.
        """
        steps = {name: self.options_of(name).num_steps for name in policies if registered(self.algorithm_of(name))}
        if len(set(steps.values())) > 1:
            got = ", ".join(f"{number} for {name!r}" for name, number in steps.items())
            raise ConfigError(f"num_steps: expected one number of steps for all policies of a run, got {abbreviated(got)}")
        number: int = next(iter(steps.values()))
        return number

    def to_options(self) -> dict[str, Any]:
        """Return the options as dicts, lists, text and numbers; those of each algorithm stand under its name."""
        options: dict[str, Any] = plain("options", dataclasses.asdict(self))
        for each in (options, *options["policies"].values()):
            each.update(each.pop("algorithms"))
        return options

    def to_json(self) -> str:
        """Return the options as one JSON object."""
        return json.dumps(self.to_options())

    def to_yaml(self) -> str:
        """Return the options as YAML."""
        from gpu_vecenv.train.config import text  # PyYAML is imported by runs with a folder or a file alone

        return text.to_yaml(self.to_options())

    def save(self, folder: str | Path) -> Path:
        """Write the options to ``config.yaml`` in a folder, and return the file's path.

        Raises:
            OSError: the file cannot be written; an earlier file is unchanged.
        """
        path = Path(folder) / CONFIG_FILE
        with atomic_file(path) as partial:
            partial.write_text(self.to_yaml(), "utf-8")
        return path

    @classmethod
    def from_json(cls, content: str) -> TrainConfig:
        """Rebuild the options from ``to_json()``. No module is imported.

        Raises:
            ConfigError: an option is unknown, of another type or out of range.
            ValueError, RecursionError: the text is no JSON.
        """
        return cls._built(renamed(json.loads(content)))

    @classmethod
    def from_yaml(cls, path: str | Path) -> TrainConfig:
        """Read the options from a YAML file. Fields of algorithms and ``network`` that it leaves out are those of the preset.

        A file has at most 32 MiB and 1,000,000 values, where names are values and an alias counts as all that it repeats. Plain
        words and numbers that YAML 1.1 reads as something else than they say need quotes: yes, off, 010, 1:30, 2020-01-01.

        Raises:
            ConfigError: the file is no YAML or beyond a limit, or an option is unknown, of another type or out of range.
            OSError: the file cannot be read.
        """
        return cls._of_file(path, cls.from_options)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> TrainConfig:
        """Build the options from dicts. Fields of algorithms and ``network`` that are left out are those of the preset.

        The module of an id such as ``module:MyEnv-v0`` is imported, because it may register a preset.

        So is that of an algorithm such as ``module:name``.

        Raises:
            ConfigError: an option is unknown, of another type or out of range.
        """
        if isinstance(options, Mapping):
            import_env(options.get("env_id"))
            if isinstance(named := options.get("algorithm"), str):
                import_env(named)
                options = {**options, "algorithm": named.rpartition(":")[2]}
        return cls._built(options)

    @classmethod
    def of_run(cls, folder: str | Path) -> TrainConfig:
        """Read the options in a run's folder. No module is imported, because a run's file must not decide which code runs.

        Raises:
            ConfigError, OSError: see ``from_yaml()``.
        """
        path = Path(folder) / CONFIG_FILE
        return cls._of_file(path, lambda options: cls._built(renamed(options)))

    @classmethod
    def _of_file(cls, path: str | Path, build: Callable[[Mapping[str, Any]], TrainConfig]) -> TrainConfig:
        options = read_yaml(path)
        try:
            return build(options)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def _built(cls, options: Mapping[str, Any]) -> TrainConfig:
        """Build the options with the preset of what is imported already."""
        good = isinstance(options, Mapping) and is_name(options.get("env_id"))
        require(good, "options", "a mapping with an env_id", options)
        preset = preset_of(options["env_id"]).on(options.get("device", cls.device))
        built = grouped(options, cls)
        built |= _built_groups(built, preset, built.get("algorithm", cls.algorithm))
        if isinstance(groups := built.get("algorithms"), Mapping):
            built["algorithms"] = {name: _options(name, fields, preset) for name, fields in groups.items()}
        if isinstance(built.get("policies"), Mapping):
            of_run = (built.get("algorithm"),)
            built["policies"] = {name: _policy(name, settings, of_run) for name, settings in built["policies"].items()}
        refuse_former(built)
        return from_options(cls, built)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Return the options in a YAML file as dicts, unchecked.

    Raises:
        ConfigError: the file is no YAML, holds no options by name, or is larger than ``config/text.py`` allows.
        OSError: the file cannot be read.
    """
    from gpu_vecenv.train.config import text

    try:
        return text.from_yaml(text.read_bytes(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


_DATACLASSES = ("ppo", "network", "auto_sizes")
"""Options that are dataclasses, and may be given as mappings."""


def _built_groups(options: Mapping[str, Any], preset: Preset, algorithm: object) -> dict[str, Any]:
    """Return the dataclasses of those of ``_DATACLASSES`` that are mappings; fields that these leave out are the preset's."""
    built: dict[str, Any] = {}
    if isinstance(ppo := options.get("ppo"), Mapping):
        built["ppo"] = from_options(PPOConfig, {**vars(preset.ppo), **ppo})
    if isinstance(network := options.get("network"), Mapping):
        known = algorithm if isinstance(algorithm, str) else ""  # a value of another type is refused with the other options
        built["network"] = from_options(NetworkConfig, {**vars(preset.of(known).network), **network})
    if isinstance(bounds := options.get("auto_sizes"), Mapping):
        built["auto_sizes"] = from_options(AutoSizes, bounds)
    return built


def _options(algorithm: str, options: object, preset: Preset) -> object:
    """Return the options of an algorithm; those that a mapping leaves out are the preset's."""
    if not isinstance(options, Mapping) or algorithm not in ALGORITHMS:
        return options
    return from_options(ALGORITHMS[algorithm].config_class, {**preset.options_of(algorithm), **options})


def _policy(name: object, settings: object, of_run: Iterable[object]) -> object:
    if not isinstance(settings, Mapping):
        return settings
    with _errors_of(name):
        return from_options(PolicyConfig, grouped(settings, PolicyConfig, of_run))


@contextlib.contextmanager
def _errors_of(policy: object) -> Iterator[None]:
    """Name a policy in errors of its settings."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"policies[{abbreviated(policy)}]: {error}") from error


def _is_env_id(value: object) -> bool:
    if not is_name(value):
        return False
    module, colon, name = str(value).rpartition(":")
    return name != "" and (module != "" or not colon) and ":" not in module


def _instance(kind: type) -> Check:
    return Check(lambda value: isinstance(value, kind), f"a {kind.__name__}")


RUN_CHECKS: Mapping[str, Check] = {
    "env_id": Check(_is_env_id, "a registered id, such as WarpTag-v0 or module:Env-v0"),
    "num_envs": Check(
        lambda value: value is None or COUNT.test(value) or (isinstance(value, str) and value == AUTO),
        f"{COUNT.expected}, {AUTO!r} or None",
        is_count=True,
    ),
    "auto_sizes": _instance(AutoSizes).or_none(),
    "shards": COUNT.or_none(),
    "total_steps": LONG_COUNT.or_none(),
    "seed": integer(0, MAX_SEED)._replace(expected="an integer from 0 to 2**64 - 1"),
    "device": Check(is_name, "auto, cpu, cuda or cuda:N"),
    "out": Check(is_name, "a folder's path as a str").or_none(),
    "checkpoint_interval": LONG_COUNT.or_none(),
    "env_kwargs": Check(lambda value: is_dict_of(lambda _: True, value), "a dict with str keys"),
    "policy_map": Check(lambda value: is_dict_of(is_name, value), "a dict of role and policy names").or_none(),
    "frozen": Check(
        lambda value: isinstance(value, tuple | list) and all(is_name(name) for name in value), "a tuple of policy names"
    ),
    "load_policies": Check(lambda value: is_dict_of(is_name, value), "a dict of policy names and checkpoint paths"),
    "ppo": _instance(PPOConfig).or_none(),
    "network": _instance(NetworkConfig).or_none(),
    "threads": THREADS,
    "policies": Check(
        lambda value: is_dict_of(lambda config: isinstance(config, PolicyConfig), value),
        "a dict of policy names and PolicyConfigs",
    ),
    "schedule_steps": LONG_COUNT.or_none(),
    "stagger_starts": Check(lambda value: isinstance(value, bool), "True or False").or_none(),
    "evaluation_interval": LONG_COUNT.or_none(),
    "evaluation_episodes": COUNT,
    "stop_at": NUMBER.or_none(),
    "patience": LONG_COUNT.or_none(),
    "best_of": NAME.or_none(),
    "keep_checkpoints": COUNT,
    "wandb": NAME.or_none(),
    "algorithm": NAME,
    "algorithms": OPTIONS,
    "kernels": one_of("auto", "torch", "fused"),
    "graph": FLAG.or_none(),
    "reward": one_of("agent", "team"),
    "precision": one_of("float32", "tf32", "bfloat16", "float16"),
}


@dataclass(frozen=True)
class ResolvedConfig(TrainConfig):
    """Options of a run after ``resolve()`` has replaced None in the fields of a preset."""

    num_envs: int = 1
    total_steps: int = 1
    ppo: PPOConfig = field(default_factory=PPOConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    schedule_steps: int = 1
    stagger_starts: bool = False


def resolve_new(config: TrainConfig) -> ResolvedConfig:
    """Return ``resolve(config)`` for options that a caller gave, so the module of the env id is imported first."""
    import_env(config.env_id)
    return resolve(config)


def resolve(config: TrainConfig) -> ResolvedConfig:
    """Return ``config`` with what it leaves out: values of presets, and ``schedule_steps`` from ``total_steps``.

    Worlds, steps, networks and starts are those of the run's algorithm, options those of each algorithm.

    Raises:
        ConfigError: the sizes are still to be found.
    """
    if config.num_envs == AUTO:
        raise ConfigError(f"num_envs: expected a number here, got {AUTO!r}; find_sizes(config).config has one")
    preset = preset_of(config.env_id).on(config.device)
    of_algorithm = preset.of(config.algorithm)
    filled = {**vars(config), **{name: getattr(of_algorithm, name) for name in OF_RUN if getattr(config, name) is None}}
    filled["ppo"] = preset.ppo if config.ppo is None else config.ppo
    filled["env_kwargs"] = preset.env_params(config.env_kwargs)
    used = {config.algorithm, *(each.algorithm for each in config.policies.values() if each.algorithm)} - {"ppo"}
    usual = {name: preset.options_of(name) for name in sorted(used) if name in ALGORITHMS}
    filled["algorithms"] = usual | config.algorithms
    if config.network is None:
        filled["policies"] = {name: _with_network(each, preset, of_algorithm.network) for name, each in config.policies.items()}
    if config.schedule_steps is None:
        filled["schedule_steps"] = filled["total_steps"]
    return ResolvedConfig(**filled)


def _with_network(policy: PolicyConfig, preset: Preset, of_run: NetworkConfig | None) -> PolicyConfig:
    """Return the settings of a policy, with the network that its algorithm has where that of the run's differs."""
    if policy.algorithm is None:
        return policy
    usual = vars(preset.of(policy.algorithm).network).items()
    differing = {name: value for name, value in usual if value != getattr(of_run, name)}
    return dataclasses.replace(policy, network={**differing, **policy.network})
