"""Releases: wheels for two machines, lines of the page "Install", workflows that only a maintainer can start."""

import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import gpu_vecenv
from gpu_vecenv.backend.compiler import LEVELS_OF
from gpu_vecenv.backend.trainer_programs import HOST_PROGRAMS, PROGRAMS
from tests.package.test_install import checkout, python  # noqa: F401  (a fixture)
from tests.parity.trajectory import CASES

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
SET_UP = f"sys.path.insert(0, {str(ROOT / 'tools' / 'packaging')!r}); import build_backend as b"
AARCH64 = 183
"""Number of the machine in the header of an ELF file, bytes 18 and 19."""


def test_a_wheel_for_a_machine_is_compiled_by_zig_and_fits_old_systems(tmp_path):
    code = "print(b.get_requires_for_build_wheel({'machine': 'aarch64'}), b._for_platform({'machine': 'aarch64'}))"
    assert python(code, tmp_path, SET_UP)[-1:] == ["['ziglang'] {'--build-option': ['--plat-name=manylinux_2_17_aarch64']}"]


def test_a_machine_without_kernels_is_refused(tmp_path):
    code = "try:\n    b.build_wheel('x', {'machine': 'riscv64'})\nexcept ValueError as error:\n    print(error)"
    assert python(code, tmp_path, SET_UP) == ["machine must be one of x86_64, aarch64, got 'riscv64'."]


@pytest.mark.in_ci
@pytest.mark.parametrize("script", ["aarch64.sh", "try_wheel.sh"])
def test_a_script_compares_every_recorded_trajectory(script):
    (words,) = re.findall(r"pytest (.*test_same_bits.*)", (ROOT / "tools" / "packaging" / script).read_text())
    words = shlex.split(words.replace('"$@"', ""))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *words, "-n", "0"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.count("::test_the_bits_are_the_recorded_ones[") == len(CASES), done.stdout + done.stderr


@pytest.mark.slow
def test_a_wheel_for_aarch64_holds_kernels_for_it_alone(checkout, tmp_path):  # noqa: F811
    code = f"import build_backend as b; print(b.build_wheel({str(tmp_path)!r}, {{'machine': 'aarch64'}}))"
    name = python(code, checkout, f"sys.path.insert(0, {str(checkout / 'tools' / 'packaging')!r})")[-1]
    wheel = zipfile.ZipFile(tmp_path / name)
    kernels = [path for path in wheel.namelist() if path.startswith("gpu_vecenv/_prebuilt/")]
    envs = [path for path in wheel.namelist() if path.endswith("/spec.py") and "/envs/" in path]
    assert name.endswith("-manylinux_2_17_aarch64.whl")
    assert len(kernels) == len(LEVELS_OF["aarch64"]) * (len(envs) + len(PROGRAMS) + len(HOST_PROGRAMS))
    assert {int.from_bytes(wheel.read(path)[18:20], "little") for path in kernels} == {AARCH64}


def test_the_page_installs_the_wheel_of_this_version():
    page = (ROOT / "docs" / "learn" / "install.md").read_text()
    (name,) = re.findall(r'pip install "\./(gpu_vecenv-.*\.whl)\[train\]"', page)
    assert name == f"gpu_vecenv-{gpu_vecenv.__version__}-py3-none-manylinux_2_17_x86_64.whl"


def steps(job):
    return [step.get("run", step.get("uses", "")) for step in job["steps"]]


def test_the_workflow_of_changes_runs_every_check_and_the_oldest_versions():
    jobs = WORKFLOWS["ci"]["jobs"]
    assert ".ci/run" in steps(jobs["checks"])
    assert "tools/packaging/oldest.sh" in steps(jobs["oldest"])


def test_only_a_maintainer_publishes():
    """YAML 1.1 reads the key ``on`` as True."""
    release, site = WORKFLOWS["release"], WORKFLOWS["site"]
    assert set(release[True]) == set(site[True]) == {"workflow_dispatch"}
    assert release[True]["workflow_dispatch"]["inputs"]["publish"]["default"] is False
    may_write = {name: job.get("permissions") for name, job in release["jobs"].items() if "permissions" in job}
    assert list(may_write) == ["publish"] and release["permissions"] == {"contents": "read"}
    publish = release["jobs"]["publish"]
    assert (publish["if"], publish["needs"], publish["environment"]) == ("inputs.publish", "test", "release")
    assert may_write["publish"]["id-token"] == "write"
    assert any(step.startswith("actions/attest-build-provenance@") for step in steps(publish))
    machines = {each["machine"] for each in release["jobs"]["test"]["strategy"]["matrix"]["include"]}
    assert machines == set(LEVELS_OF)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_stores_no_secret_and_calls_scripts_that_exist(workflow):
    text = (ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text()
    assert "secrets." not in text
    for script in re.findall(r"(?:tools/\S+\.sh|\.ci/run)", text):
        assert os.access(ROOT / script, os.X_OK), script


def test_issue_forms_have_fields():
    forms = [yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")]
    forms = [form for form in forms if "blank_issues_enabled" not in form]
    assert len(forms) == 3
    for form in forms:
        assert form["name"] and form["description"] and len({field["id"] for field in form["body"]}) == len(form["body"])
