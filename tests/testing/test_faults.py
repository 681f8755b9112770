"""Each typical fault of an env, in both languages, is named by lint, the translator or a check, with its file and line."""

import pytest

from gpu_vecenv import testing
from gpu_vecenv.errors import HookError, SpecError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.lint import lint_env
from tests.debug.faulty import line_of
from tests.testing.faults import HARVEST, IN_CPP, IN_PYTHON, PARAMS, POT, TAG, planted, with_wrong_alive

CASES = [
    pytest.param(kind, fault, python, id=f"{'python' if python else 'cpp'}-{fault.env_id}-{kind}")
    for python, faults in ((False, IN_CPP), (True, IN_PYTHON))
    for kind, those in faults.items()
    for fault in those
]
OF_LINT = [case for case in CASES if case.values[1].noticed_by == "lint"]
OF_CHECKS = [case for case in CASES if case.values[1].noticed_by != "lint"]
CHECKS = {"bounds": testing.check_bounds, "python": testing.check_python_hooks, "values": testing.check_values,
          "races": testing.check_races}  # fmt: skip


def linted(spec):
    try:
        return "\n".join(lint_env(Layout(spec, spec.resolve(PARAMS[spec.name]))))
    except HookError as error:
        return str(error)


def assert_named(said, fault, spec, line):
    where = f"{spec.kernel.name}:{line or ''}" if line or fault.noticed_by == "lint" else ""
    assert any(where in told for told in said.splitlines() if fault.says in told), said


@pytest.mark.parametrize(("kind", "fault", "python"), OF_LINT)
def test_lint_names_the_line(kind, fault, python, tmp_path):
    spec, line = planted(fault, kind, python, tmp_path)
    assert_named(linted(spec), fault, spec, line)


@pytest.mark.parametrize(("kind", "fault", "python"), OF_CHECKS)
def test_the_text_of_a_fault_occurs_once_and_lint_does_not_see_it(kind, fault, python, tmp_path):
    """Otherwise the faster test would do."""
    spec, _ = planted(fault, kind, python, tmp_path)
    assert linted(spec) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fault", "python"), OF_CHECKS)
def test_a_check_names_the_fault(kind, fault, python, tmp_path):
    spec, line = planted(fault, kind, python, tmp_path)
    with pytest.raises(testing.CheckError) as raised:
        CHECKS[fault.noticed_by](testing.Subject(spec, PARAMS[fault.env_id]))
    assert_named(str(raised.value), fault, spec, line)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["in-place update", "scatter", "missing barrier"])
@pytest.mark.parametrize("number", range(3))
def test_a_race_is_named_by_the_sanitizer_too(kind, number, tmp_path):
    """The sanitizer finds what lint cannot follow, such as an access by a pointer."""
    fault = IN_CPP[kind][number]
    spec, _ = planted(fault, kind, False, tmp_path)
    with pytest.raises(testing.CheckError, match=rf"data race: \w+ of \d bytes at .*{spec.kernel.name}:\d+ in "):
        testing.check_races(testing.Subject(spec, PARAMS[fault.env_id]))


@pytest.mark.slow
def test_an_index_before_an_axis_and_inside_the_array_is_named():
    """AddressSanitizer cannot see it."""
    line = line_of("w.at.cells")
    with pytest.raises(testing.CheckError, match=rf"faulty.cu:{line}: env_step: index -1 of axis 1 \(width\) of w.state.cells"):
        testing.check_bounds(testing.Subject("tests.debug.faulty:Faulty-v0", {"fault": 1}))


@pytest.mark.parametrize("env_id", [POT, HARVEST, TAG])
def test_a_field_of_the_living_has_a_number_for_each_agent(env_id):
    spec = with_wrong_alive(env_id)
    with pytest.raises(SpecError, match=r"'in_game': shape .* one number for each agent, because alive names the field"):
        Layout(spec, spec.resolve(PARAMS[env_id]))


@pytest.mark.parametrize("env_id", [POT, HARVEST, TAG])
@pytest.mark.parametrize("faults", [IN_CPP, IN_PYTHON], ids=["cpp", "python"])
def test_every_kind_of_fault_is_planted_in_three_envs(faults, env_id):
    assert all(env_id in [fault.env_id for fault in those] for those in faults.values())
    assert set(IN_CPP) - set(IN_PYTHON) == {"missing barrier"}
