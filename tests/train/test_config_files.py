"""Options from strangers: files and values of any kind give a run's options unchanged, or a short ConfigError, soon."""

import dataclasses
import random

import numpy as np
import pytest
import torch
import yaml
from test_damage import damaged

from gpu_vecenv.train import ConfigError, NetworkConfig, PolicyConfig, PPOConfig, TrainConfig
from gpu_vecenv.train.config import text
from tests.marks import slow_but

BEGIN = "env_id: WarpCartPole-v1\n"
MOST_LETTERS = 1000
"""A message is shorter. The longest one lists all options."""


def doubling(levels, what="[x, x]", how="[{0}, {0}]"):
    """YAML in which each of some values repeats the previous one twice."""
    lines = [f"  a0: &a0 {what}"] + [f"  a{k}: &a{k} {how.format(f'*a{k - 1}')}" for k in range(1, levels)]
    return BEGIN + "env_kwargs:\n" + "\n".join(lines) + "\n"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (doubling(60), r"line 20, column 20: expected at most 1,000,000 values, an alias counted as all that it repeats"),
        (doubling(60, "{x: 1}", "{{<<: [{0}, {0}]}}"), "expected at most 1,000,000 values"),
        (f"[{doubling(60)[len(BEGIN) :]}", "expected YAML, got "),
        (BEGIN + "env_kwargs: &a {x: *a}\n", r"line 2, column 20: .* an alias of something complete, got \*a inside"),
        (BEGIN + "".join(f"k{k}: 1\n" for k in range(20_000)), "TrainConfig option: expected one of .*, got 'k0'"),
        (BEGIN + "frozen: " + "[" * 200_000, "expected YAML, got "),
        (BEGIN + f"x: *{'a' * 100_000}", "expected YAML, got found undefined alias"),
    ],
    ids=["aliases", "merges", "no yaml", "an alias inside itself", "names", "depth", "a long name"],
)
def test_files_that_grow_raise_an_error_that_names_the_limit(tmp_path, content, expected):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(ConfigError, match=expected) as caught:
        TrainConfig.from_yaml(tmp_path / "run.yaml")
    assert len(str(caught.value)) < MOST_LETTERS


@pytest.mark.timeout(60)
def test_a_file_without_an_end_is_not_read():
    with pytest.raises(ConfigError, match="/dev/zero: expected a file of at most 33,554,432 bytes, got more"):
        TrainConfig.from_yaml("/dev/zero")


def values_in(value):
    """Number of values and names, counted in what YAML's own loader makes of a file."""
    if isinstance(value, dict):
        return 1 + sum(1 + values_in(x) for x in value.values())
    return 1 + sum(map(values_in, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("content", [doubling(6), doubling(3, "{a: [1, {b: 2}], c: null}"), BEGIN])
def test_an_alias_counts_as_all_that_it_repeats(monkeypatch, content):
    count = values_in(yaml.safe_load(content))
    monkeypatch.setattr(text, "MAX_VALUES", count)
    assert text.from_yaml(content) == yaml.safe_load(content)
    monkeypatch.setattr(text, "MAX_VALUES", count - 1)
    with pytest.raises(ConfigError, match=f"expected at most {count - 1} values"):
        text.from_yaml(content)


def test_a_name_may_stand_in_a_mapping_and_in_one_that_it_merges():
    content = BEGIN + "env_kwargs: {deep: {b: &b {<<: &c {a: 1}, a: 2}}, d: {<<: *b, e: 3}}"
    assert text.from_yaml(content)["env_kwargs"] == {"deep": {"b": {"a": 2}}, "d": {"a": 2, "e": 3}}


OTHER_IN_YAML = [
    "yes", "No", "on", "OFF", "010", "-07", "1:30", "1:30.5", "2020-01-01", "2001-99-99", "2001-12-14t21:59:43.10-25:00", "0x_",
    "1e999", "=", "!!bool x", "!!timestamp x", "!!int ''", "!!int x", "!!float x", "!!null x", "!!binary aGk=", "!!set {a, b}",
    "!!omap [a: 1]", "!!pairs [a: 1]", "!!python/name:os.system ''", "!x y",
]  # fmt: skip
"""Values that YAML 1.1 reads as something else than their text says, or that it cannot read."""


@pytest.mark.parametrize("value", OTHER_IN_YAML)
def test_values_that_yaml_reads_as_something_else_are_refused_with_their_place(value):
    for content in (f"env_kwargs: {{x: 1,\n  y: {value}}}", f"env_kwargs: {{x: [\n     {value}]}}"):
        with pytest.raises(ConfigError, match="^line 2, column [68]: expected "):
            text.from_yaml(content)
    if not value.startswith("!"):
        assert text.from_yaml(f"x: '{value}'") == {"x": value}
        assert text.from_yaml(text.to_yaml({"x": value})) == {"x": value}


PLAIN = {
    "true": True, "False": False, "~": None, "null": None, "": None, "0x1F": 31, "0b11": 3, "-5": -5, "1_000": 1000,
    "+1.5e3": 1500.0, ".5": 0.5, "-.inf": float("-inf"), "!!str 5": "5", "!!float 5": 5.0, "a b": "a b", "'5'": "5",
    "0o17": "0o17",
}  # fmt: skip


@pytest.mark.parametrize("value", PLAIN)
def test_other_values_are_what_they_say(value):
    read = text.from_yaml(f"x: {value}")["x"]
    assert read == PLAIN[value] and type(read) is type(PLAIN[value])


@pytest.mark.parametrize("path", [5, None, "a\0b", [1]])
def test_what_is_no_path_raises_an_error(path):
    with pytest.raises(ConfigError, match="expected the path of a YAML file, got "):
        TrainConfig.from_yaml(path)


SCALARS = [
    *OTHER_IN_YAML, *PLAIN, "'", '"a\\u202eb"', "\U0001f600", "9" * 5000, "0x" + "f" * 5000, "1e" + "9" * 100, "*unk", "&a",
    "<<: x", "*a0", "|\n  x", "{{}}", "? [a]", "%", "@", "`", "a" * 5000, ".nan", "7", "0.5", "agent", "random", "[8, 8]",
]  # fmt: skip
NAMES = [f.name for kind in (TrainConfig, PPOConfig, NetworkConfig, PolicyConfig) for f in dataclasses.fields(kind)]


def random_value(rng, depth=3):
    kind = rng.random()
    if depth == 0 or kind < 0.6:
        return rng.choice(SCALARS)
    anchor = rng.choice(("", "", "&a0 "))
    values = [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if kind < 0.8:
        return f"{anchor}[{', '.join(values)}]"
    return f"{anchor}{{{', '.join(f'{rng.choice([*NAMES, *SCALARS])}: {value}' for value in values)}}}"


def random_file(rng):
    """Bytes of a file: options with random values, or those of a run, damaged now and then."""
    if rng.random() < 0.5:
        lines = [f"{rng.choice(NAMES)}: {random_value(rng)}\n" for _ in range(rng.randint(1, 2))]
        content = rng.choice((BEGIN, BEGIN, "")) + "".join(lines)
    else:
        content = TrainConfig("WarpTag-v0", ppo=PPOConfig(), network=NetworkConfig(), frozen=("a",)).to_yaml()
        if rng.random() < 0.5:
            name, value = rng.choice(content.split("\n")[:-1]).partition(":")[::2]
            content = content.replace(f"{name}:{value}", f"{name}: {random_value(rng)}", 1)
    data = content.encode()
    return damaged(data, rng) if rng.random() < 0.3 else data


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_random_files_raise_errors_or_give_options_that_are_stored_unchanged(tmp_path, count):
    rng, path = random.Random(count), tmp_path / "run.yaml"
    accepted = 0
    for _ in range(count):
        path.write_bytes(content := random_file(rng))
        try:
            config = TrainConfig.from_yaml(path)
        except ConfigError as error:
            assert len(str(error)) < MOST_LETTERS, content
            continue
        accepted += 1
        stored = TrainConfig.from_yaml(config.save(tmp_path))
        assert repr(stored) == repr(TrainConfig.from_json(config.to_json())) == repr(config), content  # NaN equals nothing
    assert 0.02 * count < accepted < 0.9 * count


def test_an_algorithm_of_thousands_of_digits_raises_a_short_error(tmp_path):
    (tmp_path / "run.yaml").write_text(f"{BEGIN}algorithm: 0x{'f' * 5000}\nnetwork: {{}}\n")
    with pytest.raises(ConfigError, match="algorithm: expected ") as caught:
        TrainConfig.from_yaml(tmp_path / "run.yaml")
    assert len(str(caught.value)) < MOST_LETTERS


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no text")


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


VALUES = [
    None, True, -1, 0, 2**31, 2**64, 10**400, 10**5000, -(10**5000), 1.5, float("nan"), float("inf"), 1e308, "", "x", "\0",
    "\ud800", "a" * 100_000, b"x", [], [1], ["x"], [0] * 10**6, ("x",), {}, {"x": 1}, {1: 2}, {10**5000: 1}, {"x": 10**5000},
    {"": 1}, {"x"}, {"x": "\ud800"}, {"\ud800": 1}, {"x": deep(70)}, object(), Unprintable(), [Unprintable()],
    {"x": Unprintable()}, np.float64("nan"), np.int64(3), np.bool_(True), np.array([1, 2]), np.array([10**400], object),
    np.longdouble(2), np.datetime64("2001"), torch.tensor(3), torch.zeros(2), 1 + 2j, range(3), deep(100_000), PPOConfig(),
    NetworkConfig(), type, ...,
]  # fmt: skip


@pytest.mark.parametrize("kind", slow_but([NetworkConfig], [TrainConfig, PPOConfig, NetworkConfig, PolicyConfig]))
def test_values_of_any_kind_raise_short_errors_or_are_stored_unchanged(kind):
    required = {"env_id": "A"} if kind is TrainConfig else {}
    for name in (f.name for f in dataclasses.fields(kind)):
        for value in VALUES:
            try:
                config = kind(**{**required, name: value})
            except ConfigError as error:
                assert len(str(error)) < MOST_LETTERS
                continue
            if kind is TrainConfig:
                stored = text.from_yaml(config.to_yaml())
                assert repr(TrainConfig.from_options(stored)) == repr(TrainConfig.from_json(config.to_json())) == repr(config)


def test_policies_with_names_of_any_kind_raise_short_errors():
    for name in VALUES:
        if getattr(type(name), "__hash__", None) is not None and name != "x":
            for own in ({}, {"ppo": 5}, 5):
                with pytest.raises(ConfigError) as caught:
                    TrainConfig.from_options({"env_id": "A", "policies": {name: own}, "patience": 5})
                assert len(str(caught.value)) < MOST_LETTERS
