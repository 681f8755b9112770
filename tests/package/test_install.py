"""Three ways to use the package: wheel (through an sdist), editable install, checkout on the path."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

from gpu_vecenv._checkout import MAPPED
from gpu_vecenv.backend.compiler import LEVELS, cpu_level, object_name
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.backend.trainer_programs import HOST_PROGRAMS, PROGRAMS
from tests.parity.trajectory import trajectory_hash

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "constraints.txt")
KEPT += ("tools", "gpu_vecenv", "envs", "adapters")

USE = """
import gpu_vecenv, gpu_vecenv.adapters, gymnasium
from gpu_vecenv.backend import cpu
from gpu_vecenv.envs.tag.spec import SPEC
env = gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", array="numpy", num_runners=8)
obs, _ = env.reset(seed=0)
env.step(env.action_space.sample())
print(gpu_vecenv.__file__, SPEC.kernel, cpu.load_kernels(SPEC)._name, *obs.shape, sep="\\n")
"""


@cache
def dependencies() -> tempfile.TemporaryDirectory[str]:
    """Folder with links to every installed package except this one."""
    folder = tempfile.TemporaryDirectory(prefix="dependencies")
    for path in (Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")):
        for found in path.iterdir():
            link = Path(folder.name) / found.name
            if "gpu_vecenv" not in found.name and found.suffix != ".pth" and not link.exists():
                link.symlink_to(found)
    return folder


def python(code: str, cwd: Path, setup: str = "", **environment: str) -> list[str]:
    """Run code in an interpreter that finds all dependencies but no installed gpu_vecenv; return the lines that it prints."""
    start = f"import sys, site; sys.path.append({dependencies().name!r}); {setup}\n"
    command = [sys.executable, "-I", "-S", "-c", start + code]
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def no_compiler(tmp_path: Path) -> dict[str, str]:
    """Environment variables that allow prebuilt kernels only: no compiler, an empty cache."""
    return {"CXX": "/nonexistent/c++", "GPU_VECENV_CACHE_DIR": str(tmp_path / "cache")}


def build(hook: str, tree: Path, out: Path) -> Path:
    """Call a hook of the build back end in ``tree`` as pip would, without isolation."""
    out.mkdir()
    code = f"import build_backend; print(build_backend.{hook}({str(out)!r}))"
    return out / python(code, tree, f"sys.path.insert(0, {str(tree / 'tools' / 'packaging')!r})")[-1]


def reuse_objects(tree: Path) -> None:
    """Copy compiled kernels of this checkout to a tree, except those of one env and of one program, which a build must compile.

    Compiling all of them takes minutes. Their names hold a hash of all that they depend on, so a build replaces outdated ones.
    """
    for path in (ROOT / "gpu_vecenv" / "_prebuilt").glob("*.so"):
        if not path.name.startswith(("cartpole-", "draw-")):
            (tree / "gpu_vecenv" / "_prebuilt").mkdir(exist_ok=True)
            shutil.copy(path, tree / "gpu_vecenv" / "_prebuilt")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """Return a copy of the repository, with some of its compiled kernels."""
    tree = tmp_path_factory.mktemp("checkout")
    ignore = shutil.ignore_patterns("__pycache__", "_prebuilt", "*.egg-info")
    for name in KEPT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, tree / name)
    reuse_objects(tree)
    return tree


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory) -> Path:
    """Return the wheel built from the sdist built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(build("build_sdist", checkout, folder / "sdist")) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(folder / "tree")
    (tree,) = (folder / "tree").iterdir()
    reuse_objects(tree)
    return build("build_wheel", tree, folder / "dist")


@pytest.mark.in_ci
def test_the_wheel_fits_every_python_and_installs_one_package(wheel):
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"gpu_vecenv-0.1.0-py3-none-{platform}.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"gpu_vecenv", "gpu_vecenv-0.1.0.dist-info"}
    for needed in ("py.typed", "kernels/target/cuda.h", "kernels/policy/draw.cu", "envs/tag/tag.cu", "envs/tag/README.md",
                   "cli/templates/grid/hooks.cu.in",
                   "train/runner/trainer.py", "envs/mountain_car/valley.h", "envs/covid/data/history.npz",
                   "envs/covid/data/calibration.json", "envs/covid/data/LICENSES.md",
                   "envs/catalysis/data/landscapes.npz", "envs/catalysis/data/configurations.json",
                   "envs/catalysis/data/LICENSES.md", "envs/rice/data/rice_params.json",
                   "envs/rice/data/LICENSES.md"):  # fmt: skip
        assert f"gpu_vecenv/{needed}" in names
    kernels = [name for name in names if name.startswith("gpu_vecenv/_prebuilt/")]
    envs = [name for name in names if name.endswith("/spec.py") and "/envs/" in name]
    assert len(kernels) == 2 * (len(envs) + len(PROGRAMS)) + 3 * len(HOST_PROGRAMS)  # for kinds of x86-64


@pytest.mark.in_ci
def test_the_page_states_the_size_of_the_wheel(wheel):
    """Kernels differ by compiler, so that the size may differ by a tenth."""
    page = (ROOT / "docs" / "design" / "packaging.md").read_text()
    parts = re.search(r"The wheel has ([\d.]+) MB\. ([\d.]+) MB of them are kernels, and ([\d.]+) MB are the data", page)
    installed = re.search(r"Installed it takes ([\d.]+) MB", page)
    entries = zipfile.ZipFile(wheel).infolist()
    sizes = [
        wheel.stat().st_size,
        sum(entry.compress_size for entry in entries if "/_prebuilt/" in entry.filename),
        sum(entry.compress_size for entry in entries if "/data/" in entry.filename),
        sum(entry.file_size for entry in entries),
    ]
    assert [float(number) * 1e6 for number in (*parts.groups(), *installed.groups())] == pytest.approx(sizes, rel=0.1)


@pytest.mark.in_ci
def test_wheel_runs_without_a_compiler(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    setup = f"sys.path.insert(0, {str(tmp_path / 'site')!r})"
    ours, spec, kernel, *shape = python(USE, tmp_path, setup, **no_compiler(tmp_path))
    package = tmp_path / "site" / "gpu_vecenv"
    assert (Path(ours).parent, Path(spec).parent) == (package, package / "envs" / "tag")
    assert Path(kernel).parent == package / "_prebuilt"
    assert shape == ["2", "13", "71"]


@pytest.mark.in_ci
@pytest.mark.parametrize("level", LEVELS[LEVELS.index(cpu_level()) :])
@pytest.mark.parametrize("case", ["cartpole", "pendulum", "grid tag", "tag, small worlds"])
def test_kernels_of_the_wheel_give_the_same_bits(wheel, tmp_path, case, level):
    """Kernels for every x86-64 processor, and kernels for processors with AVX2 and FMA."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    shipped = tmp_path / "gpu_vecenv" / "_prebuilt"

    def backend(layout):
        return CpuBackend(layout, shipped / object_name(layout.spec, level), threads=1)

    assert trajectory_hash(case, 60, backend) == trajectory_hash(case, 60)


@pytest.mark.in_ci
def test_editable_install_runs_from_the_checkout_without_a_compiler(checkout, tmp_path):
    stale = checkout / "gpu_vecenv" / "_prebuilt" / "tag-x86-64-0123456789abcdef.so"
    stale.parent.mkdir(exist_ok=True)
    stale.touch()
    zipfile.ZipFile(build("build_editable", checkout, tmp_path / "dist")).extractall(tmp_path / "site")
    setup = f"site.addsitedir({str(tmp_path / 'site')!r})"
    ours, spec, kernel, *_ = python(USE, tmp_path, setup, **no_compiler(tmp_path))
    assert Path(ours).parent == checkout / ".editable" / "gpu_vecenv"  # what the path has must be a package for type checkers
    assert Path(spec).resolve().parent == checkout / "envs" / "tag"
    assert Path(kernel).resolve().parent == checkout / "gpu_vecenv" / "_prebuilt"
    assert not stale.exists()


def test_a_checkout_on_the_path_works(checkout, tmp_path):
    setup = f"sys.path.insert(0, {str(checkout)!r})"
    ours, spec, _, *shape = python(USE, tmp_path, setup, GPU_VECENV_CACHE_DIR=str(tmp_path))
    assert Path(ours).parent == checkout / "gpu_vecenv"
    assert Path(spec).parent == checkout / "envs" / "tag"
    assert shape == ["2", "13", "71"]


EDITABLE = """
import importlib.util
class Editable:  # as those that setuptools installs, it comes after all places on the path
    def find_spec(name, path=None, target=None):
        folder = {{"gpu_vecenv": "gpu_vecenv", "gpu_vecenv.envs": "envs", "gpu_vecenv.adapters": "adapters"}}.get(name)
        return folder and importlib.util.spec_from_file_location(name, {root!r} + "/" + folder + "/__init__.py")
sys.meta_path.append(Editable)
"""


@pytest.mark.parametrize("module", ["envs.tag.spec", "adapters"])
def test_parts_of_two_checkouts_are_refused_with_both_folders(tmp_path, module):
    """One checkout is on the path, another is installed as editable."""
    for name in ("gpu_vecenv", *MAPPED):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("_prebuilt", "__pycache__", *MAPPED))
    (tmp_path / "link").symlink_to(ROOT)
    for path, mixed in ((tmp_path, True), (ROOT, False), (tmp_path / "link", False), (tmp_path / "nothing", False)):
        code = f"sys.path.insert(0, {str(path)!r}){EDITABLE.format(root=str(ROOT))}"
        code += f"try:\n    import gpu_vecenv.{module}\nexcept ImportError as error:\n    print(repr(error))"
        said = python(code, tmp_path)
        if not mixed:
            assert said == []
            continue
        folder = module.partition(".")[0]
        assert said[0].startswith("CheckoutError(") and len(said) == 1
        assert f"gpu_vecenv is imported from {tmp_path}/gpu_vecenv, and gpu_vecenv.{folder} from {ROOT}/{folder}," in said[0]


@pytest.mark.slow
def test_the_build_requires_ziglang_only_without_a_compiler(checkout, tmp_path):
    code = "import build_backend as b; print(b.get_requires_for_build_wheel(), b.get_requires_for_build_editable())"
    setup = f"sys.path.insert(0, {str(checkout / 'tools' / 'packaging')!r})"
    assert python(code, checkout, setup)[-1] == "[] []"
    without = setup + "; sys.modules['ziglang'] = None"
    assert python(code, checkout, without, PATH=str(tmp_path), CXX="")[-1] == "['ziglang'] ['ziglang']"


def test_build_imports_no_torch(checkout):
    modules = "'torch' in sys.modules, 'gpu_vecenv.envs.tag.spec' in sys.modules"
    code = f"import build_backend; build_backend._bundled_specs(); print({modules})"
    assert python(code, checkout, f"sys.path.insert(0, {str(checkout / 'tools' / 'packaging')!r})") == ["False True"]
