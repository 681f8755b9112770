"""The page of names for hooks in C++ is that of the present headers, complete, and its examples compile."""

import re

import pytest

from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.world_header import AGENT_NAMES
from gpu_vecenv.testing.nvrtc import compile_ptx
from tests.kernels.test_world import messages
from tools.docs import kernel_page

INTERNAL = {
    "GvWorldCalls": {"a", "team"},
    "GvWorld": {"GvWorld"},
    "GvDrawn": set(),
    "GvAgentAction": {"given_index", "given_value", "checked_index", "checked_value"},
    "GvAgents": {"at", "of_lane", "begin", "end", "row_of", "rows_in_memory", "is_gathered", "rows_gathered", "copy_out",
                 "in_row", "num_entries", "num_choices", "num_effects"},  # fmt: skip
}
"""Methods that the package calls, and sizes like another one on the page."""


def test_the_page_is_up_to_date():
    assert kernel_page.main(["--check"]) == 0, f"run {kernel_page.COMMAND}"


@pytest.mark.parametrize("struct", INTERNAL)
def test_every_method_is_on_the_page(struct):
    methods = set(re.findall(r"GV_METHOD [^(]*?[\s&*](\w+)\(", kernel_page.struct_text(struct, kernel_page.headers())))
    named = {name["name"].rpartition(".")[2] for name in kernel_page.NAMES if name["of"] == struct}
    assert methods - INTERNAL[struct] <= named and not named & INTERNAL[struct]


@pytest.mark.parametrize("member", AGENT_NAMES)
def test_what_agents_of_every_env_have_is_on_the_page(member):
    assert any(f"{name['name']}.".startswith(f"me.{member}.") for name in kernel_page.NAMES)


def test_names_stand_once_and_are_used_in_their_examples():
    names = [name["name"] for name in kernel_page.NAMES]
    assert len({*names}) == len(names)
    for name in kernel_page.NAMES:
        assert re.search(rf"\b{name['name'].rpartition('.')[2]}\b", name["code"]), name["name"]


@pytest.fixture
def spec(tmp_path):
    kernel = tmp_path / "examples.cu"
    kernel.write_text(kernel_page.example_kernel())
    return kernel_page.example_spec(kernel)


def test_the_examples_compile_for_the_cpu(spec):
    assert messages(kernel_source(spec)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 90])
def test_the_examples_compile_for_gpus(spec, arch):
    assert "gv_step" in compile_ptx(spec, arch, module=0)


def test_an_example_that_does_not_compile_is_named(spec):
    spec.kernel.write_text(kernel_page.example_kernel().replace("w.state.day == 365", "w.state.year == 1"))
    assert "example of w.truncate" in messages(kernel_source(spec))


def test_a_name_that_no_header_declares_is_refused():
    with pytest.raises(ValueError, match="expected a declaration of w.wait in GvWorldCalls"):
        kernel_page.declared({"name": "w.wait", "of": "GvWorldCalls"}, kernel_page.headers())
