"""The command ``new``: a package with a small env that is checked, trained and drawn at once, to be changed step by step."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import runpy
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Annotated

import gymnasium
import tyro

from gpu_vecenv.cli.key_value import help_option
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.names import is_c_name
from gpu_vecenv.train.config.checks import whole

TEMPLATES = Path(__file__).with_name("templates")
EACH, END = "%each role", "%end"
"""Lines of a template between which the text is repeated for each role."""

DEFAULT_ROLES = {"walker": 4}

Texts = Mapping[str, str]

LINE = {
    "sentence": "agents run along a line, and each is rewarded for being near the flag of its role.",
    "rules": "A world has a line from 0 to 1. Agents and a flag for each role start at random places. In each step an agent "
             "moves by $move_rule, and does not leave the line. Its reward is minus its distance from the flag. An agent "
             "observes its place, and how far the flag is to the right. An episode lasts `max_episode_steps` steps.",
}  # fmt: skip
KINDS: dict[str, Texts] = {
    "discrete": {
        **LINE, "folder": "line", "space": "Box, Discrete", "action_space": "Discrete(3)",
        "move_cpp": "(float)(me.action.index() - 1)", "move_python": "f32(me.action.index() - 1)",
        "move_reference": "np.reshape(actions, -1) - 1", "convert": "Agent, World, clamp, f32",
        "move_rule": "`stride` to the left (action 0), not at all (1), or to the right (2)",
    },
    "continuous": {
        **LINE, "folder": "line", "space": "Box", "action_space": "Box(-1, 1, (1,), np.float32)",
        "move_cpp": "gv_clamp(me.action.value(), -1.0f, 1.0f)", "move_python": "clamp(me.action.value(), -1.0, 1.0)",
        "move_reference": "np.clip(np.reshape(actions, -1), -1, 1)", "convert": "Agent, World, clamp, f32",
        "move_rule": "`stride` times its action, a number from -1 to 1",
    },
    "grid": {
        "folder": "grid",
        "sentence": "agents walk on a grid, and each is rewarded for being near the flag of its role.",
        "rules": "A world has `size` times `size` cells. Agents and a flag for each role start in random cells. In each step an "
                 "agent stays (action 0) or moves by one cell: x + 1, x - 1, y + 1, y - 1 (actions 1 to 4). It does not leave "
                 "the grid. Its reward is minus the number of steps to the flag, divided by the largest coordinate. An agent "
                 "observes its cell and the way to the flag, divided alike. An episode lasts `max_episode_steps` steps.",
    },
}  # fmt: skip
"""Texts of the templates by kind of env."""


def new(
    name: tyro.conf.Positional[Annotated[str, help_option("", "NAME")]],
    grid: bool = False,
    continuous: bool = False,
    roles: Annotated[str, help_option("walker:4", "NAME:COUNT,...")] = "",
    python: bool = False,
) -> None:
    """Write a package with an env of your own in a new folder. It can be installed, checked, trained and drawn at once.

    Example: gpu-vecenv new forage --grid --roles gatherer:6,guard:2

    The env is a small one: agents find a flag. The package has spec, hooks, a reference in NumPy, a test, a renderer, options of
    training, a README and a file for CI. Change them step by step into your env; gpu-vecenv check says if it is right.

    Args:
        name: name of the folder and of the module, such as forage, which registers Forage-v0.
        grid: cells of a grid and five moves, in place of a line and three moves.
        continuous: moves of any length, in place of three moves.
        roles: roles and the numbers of their agents.
        python: hooks in Python, in place of C++.
    """
    if grid and continuous:
        raise ParameterError("--grid: expected it or --continuous, got both.")
    counts = parse_roles(roles) if roles else DEFAULT_ROLES
    folder = Path(name)
    require_name(name)
    if os.path.lexists(folder):
        raise ParameterError(f"{name}: expected a name that no file or folder has here, got one that exists.")
    kind = "grid" if grid else "continuous" if continuous else "discrete"
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=f".{name}-") as partial:  # the folder appears whole, or not at all
        for path, text in package_files(name, kind, counts, python):
            (Path(partial) / "made" / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(partial) / "made" / path).write_text(text)
        runpy.run_path(str(Path(partial) / "made" / "src" / name / "spec.py"))  # refuses names that a spec may not have
        shutil.move(Path(partial) / "made", folder)
    module = f"{name}:{env_id(name)}"
    print(f"{env_id(name)} is in {folder}/. Next:")
    print(f"  pip install -e {folder}\n  gpu-vecenv check {module}\n  gpu-vecenv train {module} --out runs/{name}")


def env_id(name: str) -> str:
    """Return the id of an env by the name of its module: ``my_env`` registers ``MyEnv-v0``."""
    return f"{title_of(name)}-v0"


def title_of(name: str) -> str:
    """Return a name in the form of a class."""
    return "".join(part.capitalize() for part in name.split("_"))


def require_name(name: str) -> None:
    """Raise ParameterError for a name that a module may not have, or that another one has."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        expected = "a name of lower-case letters, digits and single underscores, such as my_env"
        raise ParameterError(f"expected {expected}, got {name!r}.")
    if not os.path.lexists(name) and importlib.util.find_spec(name) is not None:
        raise ParameterError(f"{name}: expected the name of a new module, got one that is installed.")
    if env_id(name) in gymnasium.registry:
        raise ParameterError(f"{name}: expected a name whose id is new, got {env_id(name)}, which Gymnasium has.")


def parse_roles(text: str) -> dict[str, int]:
    """Return roles and the numbers of their agents from ``NAME:COUNT,...``.

    Raises:
        ParameterError: another form, a name that no role may have, a name twice, or a number outside of 1 to 1000.
    """
    counts: dict[str, int] = {}
    for part in text.split(","):
        role, _, number = part.partition(":")
        count = whole(number)
        if not isinstance(count, int) or not 1 <= count <= 1000:
            raise ParameterError(f"--roles: expected NAME:COUNT,... with numbers from 1 to 1000, got {part!r}.")
        if not re.fullmatch("[a-z][a-z0-9_]*", role) or not is_c_name(role) or keyword.iskeyword(role):
            raise ParameterError(f"--roles: expected names of lower-case letters, digits and underscores, got {role!r}.")
        if role in counts:
            raise ParameterError(f"--roles: expected each role once, got {role!r} twice.")
        counts[role] = count
    return counts


def package_files(name: str, kind: str, roles: Mapping[str, int], python: bool) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of a package."""
    title = title_of(name)
    hooks = "hooks.py" if python else f"{name}.cu"
    texts = {
        **KINDS[kind], "name": name, "title": title, "Title": title, "id": env_id(name), "module": f"{name}:{env_id(name)}",
        "hooks": hooks,
    }  # fmt: skip
    texts["Sentence"] = texts["sentence"][0].upper() + texts["sentence"][1:]
    texts["rules"] = Template(texts["rules"]).safe_substitute(texts)
    of_env, package, source = TEMPLATES / texts["folder"], TEMPLATES / "package", f"src/{name}"
    files = {
        "pyproject.toml": package / "pyproject.toml.in",
        "README.md": package / "README.md.in",
        ".github/workflows/test.yml": package / "ci.yml.in",
        f"tests/test_{name}.py": package / "test.py.in",
        f"{source}/__init__.py": package / "__init__.py.in",
        f"{source}/preset.py": package / "preset.py.in",
        f"{source}/{hooks}": of_env / ("hooks.py.in" if python else "hooks.cu.in"),
        **{f"{source}/{file}": of_env / f"{file}.in" for file in ("spec.py", "reference.py", "render.py")},
    }
    by_role = [of_role(role, number, roles) for number, role in enumerate(roles)]
    for path, template in files.items():
        yield path, filled(template.read_text(), texts, by_role)


def of_role(role: str, number: int, roles: Mapping[str, int]) -> Texts:
    """Return the texts of a template that differ between roles. The only role of an env is all of its agents."""
    alone = len(roles) == 1
    return {
        "role": role, "count": str(roles[role]), "number": str(number), "agents": "w.agents" if alone else f"w.role.{role}",
        "flag": "flag" if alone else f"{role}_flag",
    }  # fmt: skip


def filled(template: str, texts: Texts, by_role: Sequence[Texts]) -> str:
    """Return a template with its names replaced, and the lines between ``%each role`` and ``%end`` once for each role."""
    lines: list[str] = []
    repeated: list[str] | None = None
    for line in template.splitlines():
        if line == EACH:
            repeated = []
        elif line == END and repeated is not None:
            block = "\n".join(repeated)
            lines += [Template(block).substitute(texts, **of) for of in by_role]
            repeated = None
        elif repeated is not None:
            repeated.append(line)
        else:
            lines.append(Template(line).substitute(texts))
    return "\n".join([*lines, ""])
