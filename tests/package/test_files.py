"""Rules for files and imports that keep the project readable."""

import ast
import io
import re
import tokenize
import tomllib
from pathlib import Path

import pytest

from gpu_vecenv.registration import IDS

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENVS = sorted(p.parent for p in (ROOT / "envs").glob("*/spec.py"))
FOLDERS = ("gpu_vecenv", "envs", "adapters", "tools", "tests", "examples", "benchmarks")
SOURCES = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".cu", ".h"))

LAYERS = ("root", "spec", "pyhooks", "backend", "render", "vector", "web", "envs", "testing", "train", "adapters", "bench", "cli")
"""Rooms from the lowest to the highest, as in CONTRIBUTING.md. The root holds errors, ids, the heartbeat,
the writer of whole files and the pause of the garbage collector."""

NOT_ALLOWED = {("bench", "adapters")}
"""Imports that are refused although the order of rooms would allow them."""

ROOMS = {
    "train": ("errors", "config", "processes", "run_folder", "returns", "policies", "storage", "algorithms", "fused", "runner"),
    "vector": ("outputs", "inputs", "worlds", "env", "wrappers"),
}
"""Rooms inside a room, from the lowest to the highest, as in CONTRIBUTING.md; ``train/errors`` is a module below the others."""


LONG_FUNCTIONS = {
    ("examples/cleanrl_ppo.py", "train"): "CleanRL's form: the algorithm in one function, read from top to bottom",
    ("examples/cleanrl_ppo_continuous_action.py", "train"): "the same",
    ("gpu_vecenv/kernels/single/rollout.h", "gv_rollout_in_registers"): "its variables are registers of one lane over all steps",
}
"""Functions of more than 60 lines of code, and why each is whole."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "gpu_vecenv" else ("gpu_vecenv", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str:
    first = module.removeprefix("gpu_vecenv").removeprefix(".").split(".")[0]
    if first == "__main__":
        return "cli"
    return first if first in LAYERS else "root"


def imported(path: Path) -> set[str]:
    """Names of our own modules that a file imports, at any place in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write the full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "gpu_vecenv"}


def test_the_layer_of_a_module():
    assert layer("gpu_vecenv") == layer("gpu_vecenv.errors") == layer("gpu_vecenv.EnvSpec") == "root"
    assert layer("gpu_vecenv.backend.cpu") == "backend"
    assert layer("gpu_vecenv.envs.tag.spec") == "envs"
    assert layer("gpu_vecenv.cli.watch.watch") == layer("gpu_vecenv.__main__") == "cli"
    assert layer("gpu_vecenv.train.runner.trainer") == "train"


@pytest.mark.parametrize("folder", ["gpu_vecenv", "envs", "adapters"])
def test_lower_rooms_do_not_import_higher_ones(folder):
    wrong = []
    for path in (ROOT / folder).rglob("*.py"):
        here = layer(module_name(path))
        for name in imported(path):
            there = layer(name)
            if LAYERS.index(there) > LAYERS.index(here) or (here, there) in NOT_ALLOWED:
                wrong.append(f"{path.relative_to(ROOT)} ({here}) imports {name} ({there})")
    # The package offers names of higher rooms and imports each at its first use.
    assert [line for line in wrong if not line.startswith("gpu_vecenv/__init__.py")] == []


def inner_room(module: str, outer: str) -> str | None:
    """Return the room inside ``outer`` that a module lies in; None for modules of other rooms and for ``outer`` itself."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["gpu_vecenv", outer] and len(parts) > 2 else None


@pytest.mark.parametrize("outer", ROOMS)
def test_rooms_inside_a_room_import_lower_ones_only(outer):
    folder, order = ROOT / "gpu_vecenv" / outer, ROOMS[outer]
    assert {p.name for p in folder.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(order) - {"errors"}
    found = [(path, inner_room(module_name(path), outer), imported(path)) for path in folder.rglob("*.py")]
    assert {room for _, room, _ in found} == {None, *order}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, here, names in found
        for name in names
        if here is not None and (there := inner_room(name, outer)) is not None
        if order.index(there) > order.index(here)
    ]
    assert wrong == []


@pytest.mark.parametrize("outer", ROOMS)
def test_rooms_inside_a_room_are_listed_in_their_order(outer):
    table = re.findall(rf"^\| `{outer}/(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert table == [room for room in ROOMS[outer] if room != "errors"]


def modules_reached(module: str, imports: dict[str, set[str]]) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    reached, new = set(), {module}
    while new:
        new = {name for importer in new for name in imports[importer]} - reached
        reached |= new
    return reached


def test_modules_of_vector_do_not_import_each_other_in_a_circle():
    """Imports for type checkers count, so each file can be read before those that use it."""
    modules = {module_name(path): imported(path) for path in (ROOT / "gpu_vecenv" / "vector").rglob("*.py")}
    imports = {
        module: {other for other in modules if any(name == other or name.startswith(f"{other}.") for name in names)}
        for module, names in modules.items()
    }
    imports = {module: {name for name in names if name.count(".") > 2} for module, names in imports.items()}  # no packages
    assert [module for module in imports if module in modules_reached(module, imports)] == []


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines of a module that are neither blank nor a comment alone."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    return {line for token in tokens if token.type not in layout for line in range(token.start[0], token.end[0] + 1)}


@pytest.mark.parametrize("folder", ["gpu_vecenv/train"])
def test_functions_have_at_most_8_parameters(folder):
    """Beside ``self`` and ``cls``."""
    wrong = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
                names = [each.arg for each in given if each is not None and each.arg not in ("self", "cls")]
                wrong += [f"{path.relative_to(ROOT)}: {node.name} has {len(names)}"] * (len(names) > 8)
    assert wrong == []


def python_lengths(text: str) -> dict[str, int]:
    """Return the length of each function of a module: its lines of code, without the docstring."""
    code, lengths = code_lines(text), {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            docs = range(first.lineno, first.end_lineno + 1) if ast.get_docstring(node) is not None else ()
            lengths[node.name] = len(code.intersection(range(node.lineno, node.end_lineno + 1)).difference(docs))
    return lengths


def kernel_lengths(text: str) -> dict[str, int]:
    """Return the length of each block of a kernel that begins and ends at the left margin, without blank lines and comments."""
    lengths, first, count = {}, "", 0
    for line in text.splitlines():
        starts = re.match(r"[A-Za-z].*[({,]$", line) is not None and not line.startswith("namespace")
        first, count = (line, 0) if starts and not first else (first, count)
        count += bool(line.strip()) and not line.lstrip().startswith("//")
        if first and line.startswith("}"):
            name = re.search(r"\w+(?=[({ ]*$|\()", first)
            lengths[name[0] if name else first], first = count, ""
    return lengths


def test_the_length_of_a_function():
    text = 'def f(\n    a,\n):\n    """Doc.\n\n    More.\n    """\n\n    # Why.\n    return """\n\n    """\n\n\ndef g(): ...\n'
    assert python_lengths(text) == {"f": 6, "g": 1}
    assert kernel_lengths("// f\nGV_FN int f(\n    int a) {\n    // Why.\n\n    return a;\n}\n") == {"f": 4}


def may_be_long(path: Path) -> bool:
    """Tell whether a file has a function of more than 60 lines, blank ones and comments included; only those are measured."""
    nodes = ast.parse(path.read_text()).body
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            nodes += node.body
    # A function inside of a function is shorter than that one.
    return any(node.end_lineno - node.lineno >= 60 for node in nodes if isinstance(node, ast.FunctionDef))


def test_no_function_is_longer_than_60_lines():
    measures = {".py": python_lengths, ".h": kernel_lengths, ".cu": kernel_lengths}
    lengths = {
        (path.relative_to(ROOT).as_posix(), name): length
        for path in SOURCES
        if path.suffix != ".py" or may_be_long(path)
        for name, length in measures[path.suffix](path.read_text()).items()
    }
    long = {place: length for place, length in lengths.items() if length > 60}
    assert {place: length for place, length in long.items() if place not in LONG_FUNCTIONS} == {}
    assert [place for place in LONG_FUNCTIONS if place not in long] == []


def test_every_folder_with_modules_is_installed():
    listed = SETTINGS["tool"]["setuptools"]["packages"]
    packages = [p.parent for folder in ("gpu_vecenv", "envs", "adapters") for p in (ROOT / folder).rglob("__init__.py")]
    assert sorted(listed) == sorted(module_name(p / "__init__.py") for p in packages)


def test_every_module_lies_in_a_package():
    folders = {p.parent for f in ("gpu_vecenv", "envs", "adapters") for p in (ROOT / f).rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").is_file()] == []


@pytest.mark.parametrize("folder", ENVS, ids=lambda folder: folder.name)
def test_every_environment_consists_of_the_same_files(folder):
    """CONTRIBUTING.md says what each file is for. Headers of kernels and data may be added, and some modules."""
    optional = {"scripted.py", "optimum.py", "opponents.py", "floor.py"}
    found = {p.name for p in folder.iterdir() if p.suffix not in (".h", "")} - optional
    kernel = f"{folder.name}.cu" if f"{folder.name}.cu" in found else "hooks.py"
    assert found == {"README.md", "__init__.py", "reference.py", "render.py", "spec.py", kernel}


@pytest.mark.parametrize("folder", [folder for folder in ENVS if (folder / "data").is_dir()], ids=lambda folder: folder.name)
def test_data_of_an_environment_have_their_origin_and_licence(folder):
    names = {p.name for p in (folder / "data").iterdir()}
    notice = (folder / "data" / "LICENSES.md").read_text()
    assert all(f"`{name}`" in notice for name in names - {"LICENSES.md"}) and len(names) > 1


def test_every_registered_environment_has_a_folder():
    modules = {options["vector_entry_point"].partition(":")[0] for options in IDS.values()}
    assert modules == {f"gpu_vecenv.envs.{folder.name}" for folder in ENVS}


def packaged_data() -> list[tuple[str, str]]:
    """Pairs of package and glob of ``pyproject.toml``, without the globs of compiled kernels, which the build makes."""
    data = SETTINGS["tool"]["setuptools"]["package-data"]
    return [(package, glob) for package, globs in data.items() for glob in globs if not glob.startswith("_prebuilt/")]


@pytest.mark.parametrize(("package", "glob"), packaged_data())
def test_every_glob_of_packaged_data_matches_a_file(package, glob):
    names = SETTINGS["tool"]["setuptools"]["packages"] if package == "*" else [package]
    folders = [ROOT / name.replace(".", "/") for name in names]
    folders += [ROOT / name.removeprefix("gpu_vecenv.").replace(".", "/") for name in names]
    assert any(path.is_file() for folder in folders for path in folder.glob(glob))


def test_every_path_in_pyproject_exists():
    build, project, tool = SETTINGS["build-system"], SETTINGS["project"], SETTINGS["tool"]
    (backend,) = build["backend-path"]
    named = [f"{backend}/{build['build-backend']}.py", project["readme"], *project["license-files"]]
    named += [*tool["setuptools"]["package-dir"].values(), *tool["pytest"]["ini_options"]["testpaths"]]
    named += re.findall(r"[\w.-]+(?:/[\w.-]+)+\.(?:py|md|toml)", (ROOT / "pyproject.toml").read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []
    globs = [*tool["codespell"]["skip"].split(","), *tool["ruff"]["lint"]["per-file-ignores"]]
    globs = [glob if "/" in glob else f"[!.]*/**/{glob}" for glob in globs]
    assert [glob for glob in globs if next(ROOT.glob(glob), None) is None] == []


def test_every_path_in_the_settings_of_pre_commit_exists():
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    scripts, patterns = re.findall(r"entry: python (\S+)", text), re.findall(r"files: (\S+)", text)
    assert scripts and [name for name in scripts if not (ROOT / name).is_file()] == []
    files = [p.relative_to(ROOT).as_posix() for folder in (*FOLDERS, "docs") for p in (ROOT / folder).rglob("*")]
    for pattern in patterns:
        alternatives = re.search(r"\((.*?)\)", pattern)
        for part in alternatives[1].split("|"):
            assert any(re.search(pattern.replace(alternatives[0], part), file) for file in files), part
