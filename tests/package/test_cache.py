"""The folder of compiled kernels: reuse of kernels, and errors if the folder or a kernel in it cannot be used."""

import errno
import os
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import platformdirs
import pytest

from gpu_vecenv.backend import cache, compiler
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.errors import CompileError
from tests.package.episodes import episode, in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def entry(folder: Path) -> Path:
    (found,) = folder.glob("*.so")
    return found


@pytest.fixture
def no_user_folder(monkeypatch):
    """Imitate a user without HOME and without an entry in the system's list of users."""

    def unknown(*args, **options):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("GPU_VECENV_CACHE_DIR")
    monkeypatch.setattr(platformdirs, "user_cache_dir", unknown)
    cache._temporary_dir.cache_clear()
    yield
    cache._temporary_dir.cache_clear()


def test_a_kernel_is_compiled_once(stand_in):
    first = in_child(episode)
    assert in_child(episode) == first == episode()
    assert stand_in.count("compiled") == 1


@pytest.mark.parametrize("kind", ["release", "quick"])
def test_a_prebuilt_kernel_needs_neither_a_folder_nor_a_compiler(
    kind, stand_in, no_user_folder, monkeypatch, tmp_path, compiled_once
):
    monkeypatch.setenv("GPU_VECENV_KERNELS", kind)
    shipped = tmp_path / compiler.object_name(SPEC, compiler.cpu_level())
    shipped.write_bytes(compiled_once.read_bytes())
    monkeypatch.setattr(compiler, "PREBUILT", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        episode()
    assert stand_in.log.read_text() == ""


def test_the_version_of_a_compiler_is_queried_once(stand_in):
    episode()
    episode()
    assert stand_in.count("asked") == 1


def test_another_version_of_the_compiler_compiles_again(stand_in, tmp_path, compiled_once):
    episode()
    stand_in.set_version("two", compiled_once)
    compiler.version.cache_clear()
    episode()
    assert stand_in.count("compiled") == len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize("command", ["/nonexistent/c++", "false", "'unclosed"])
def test_a_cached_kernel_is_used_after_its_compiler_is_gone(stand_in, monkeypatch, command):
    expected = episode()
    monkeypatch.setenv("CXX", command)
    assert in_child(episode) == expected


def test_a_kernel_under_another_name_is_not_loaded(stand_in, tmp_path):
    episode()
    good = entry(tmp_path / "cache")
    good.rename(good.with_name("other.so"))
    with pytest.raises(OSError, match="damaged"):
        cache.load(good.with_name("other.so"))


def change_owner(path, monkeypatch):
    if os.geteuid() == 0:
        os.chown(path, 65534, -1)
    else:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)


def replace_by_link(path, monkeypatch):
    path.symlink_to(path.rename(path.with_suffix(".elsewhere")))


@pytest.mark.parametrize("change", [
    change_owner, lambda path, _: path.chmod(0o646), lambda path, _: path.chmod(0o664), replace_by_link,
])  # fmt: skip
def test_a_kernel_that_another_user_may_have_put_there_is_not_loaded(stand_in, monkeypatch, tmp_path, change):
    in_child(episode)
    found = entry(tmp_path / "cache")
    change(found, monkeypatch)
    with pytest.raises(OSError, match="another user|other users|symbolic links"):
        cache.load(found)


def test_a_kernel_that_others_may_write_is_compiled_again(stand_in, tmp_path):
    expected = in_child(episode)
    entry(tmp_path / "cache").chmod(0o666)
    assert in_child(episode) == expected
    assert stand_in.count("compiled") == 2
    assert entry(tmp_path / "cache").stat().st_mode & 0o022 == 0


def test_a_link_or_a_pipe_in_place_of_a_kernel_is_replaced_and_not_followed(stand_in, tmp_path):
    expected = in_child(episode)
    place, precious = entry(tmp_path / "cache"), tmp_path / "precious"
    precious.write_text("precious")
    for target in (precious, tmp_path / "nowhere"):
        place.unlink()
        place.symlink_to(target)
        assert in_child(episode) == expected
        assert stat.S_ISREG(place.lstat().st_mode)
    assert precious.read_text() == "precious" and not (tmp_path / "nowhere").exists()
    place.unlink()
    os.mkfifo(place)
    assert in_child(episode) == expected


def test_a_folder_in_place_of_a_kernel_raises_an_error_and_stays(stand_in, tmp_path):
    in_child(episode)
    place = entry(tmp_path / "cache")
    place.unlink()
    (place / "precious").mkdir(parents=True)
    with pytest.raises(CompileError, match="cannot be stored.*GPU_VECENV_CACHE_DIR"):
        episode()
    assert list((tmp_path / "cache").rglob("*")) == [place, place / "precious"]


@pytest.mark.parametrize("folder", ["/proc/none", "/dev/null/none", __file__])
def test_a_cache_folder_that_cannot_be_made_raises_an_error(stand_in, monkeypatch, folder):
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", folder)
    with pytest.raises(CompileError, match="compiled kernels cannot be stored.*GPU_VECENV_CACHE_DIR"):
        episode()


def test_a_full_disk_raises_an_error_and_leaves_no_file(stand_in, monkeypatch, tmp_path):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CompileError, match="No space left.*GPU_VECENV_CACHE_DIR"):
        episode()
    assert list((tmp_path / "cache").iterdir()) == []


def test_unfinished_files_of_killed_processes_are_removed(stand_in, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    old, young, foreign = (folder / name for name in ("a.12345678.partial.so", "b.12345678.partial.so", "film.partial.gif"))
    for path in (old, young, foreign):
        path.touch()
    for path in (old, foreign):
        os.utime(path, (time.time() - 7200,) * 2)
    episode()
    assert not old.exists() and young.exists() and foreign.exists()


def test_a_user_without_a_home_gets_a_temporary_folder_and_one_warning(stand_in, no_user_folder):
    with pytest.warns(UserWarning, match="until this process ends. Set GPU_VECENV_CACHE_DIR") as seen:
        episode()
        episode()
    assert len(seen) == 1 and stand_in.count("compiled") == 1
    assert stat.S_IMODE(cache.cache_dir().stat().st_mode) == 0o700


@pytest.mark.parametrize("named", ["~/.cache/gpu_vecenv", "/proc/none"])
def test_a_home_that_cannot_be_written_gives_no_lasting_folder(named, tmp_path, monkeypatch):
    """Older versions of platformdirs return such folders for a user without a home, or whose home does not exist."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPU_VECENV_CACHE_DIR", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: named)
    assert cache.lasting_dir() is None
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_is_removed_by_its_process_and_not_by_forks(tmp_path):
    code = """
import os
from gpu_vecenv.backend.cache import cache_dir
folder = cache_dir()
if os.fork() == 0:
    raise SystemExit
os.wait()
print(folder, folder.is_dir())
"""
    environment = {**os.environ, "HOME": "/proc/none", "TMPDIR": str(tmp_path)}
    for name in ("GPU_VECENV_CACHE_DIR", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    folder, there = done.stdout.split()
    assert Path(folder).parent == tmp_path and there == "True" and list(tmp_path.iterdir()) == []


def two_libraries(folder: Path) -> list[Path]:
    paths = []
    for number in (1, 2):
        source, built = folder / f"{number}.c", folder / f"{number}.built"
        source.write_text(f'extern "C" int number() {{ return {number}; }}')
        command = [*(compiler.find_compiler() or []), *compiler.FLAGS, "-O0", str(source), "-o", str(built)]
        subprocess.run(["sh", "-c", '"$@"', "sh", *command, "-fvisibility=default"], check=True)
        paths.append(folder / f"{number}.so")
        cache.store(paths[-1], built.read_bytes())
    return paths


def test_a_reused_file_descriptor_does_not_load_another_kernel(tmp_path):
    """A kernel is loaded by the path of its file descriptor, and the dynamic loader opens a path only once.

    A daemon that closes the descriptor frees its number for the next kernel.
    """
    one, two = two_libraries(tmp_path)

    def load_both():
        before = set(cache._names)
        first = cache.load(one).number()
        (name,) = cache._names - before
        os.close(int(Path(name).name))
        return first, cache.load(two).number()

    assert in_child(load_both) == (1, 2)


def test_the_file_that_was_checked_is_the_file_that_is_loaded(tmp_path, monkeypatch):
    """Another file replaces the kernel between the check and the load."""
    one, two = two_libraries(tmp_path)

    def load_while_replaced():
        checked = cache._checked

        def check_then_replace(file, path):
            data = checked(file, path)
            os.replace(two, one)
            return data

        cache._checked = check_then_replace
        return cache.load(one).number()

    assert in_child(load_while_replaced) == 1
