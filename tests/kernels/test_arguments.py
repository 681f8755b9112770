"""Arguments of kernels: C reads what Python writes, and arrays that do not fit are refused before a launch."""

import ctypes
import re
from pathlib import Path

import pytest
import torch

from gpu_vecenv.backend import programs
from gpu_vecenv.backend.compiler import LEVELS, compile_object
from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.source import KERNEL_FOLDER, Program, arguments, kernel_source
from gpu_vecenv.backend.trainer_programs import CUDA_PROGRAMS, PROGRAMS
from gpu_vecenv.errors import ArrayTypeError, DeviceError, ShapeError, SpecError
from gpu_vecenv.spec.arguments import Array, Nested, Number, Struct, arrays, numbers

CPU = torch.device("cpu")
PAIR = Struct("GvPair", Number("scale", "float32"), Array("values", "float32", "2"), Number("unread", "int32"))
ARGS = arguments(
    Array("seen", "int32", "*teams", written=True),
    Nested("pairs", PAIR, (2,)),
    Number("count", "int32"),
    Number("wide", "int64"),
    Array("flag", "bool", "1"),
    Array("table", "float64", "count + 1, 3", strided=True),
    Array("copied", "float32", "6", written=True),
)
PROGRAM = Program("copies", Path(__file__).with_name("arguments.cu"), ARGS, prebuilt=False)


class Lanes:
    """Launches of a build on three lanes."""

    def __init__(self, folder):
        built = compile_object(PROGRAM, LEVELS[-1], folder / "lanes.so", ("-DGV_LANES=3", "-pthread"))
        self.library = ctypes.CDLL(str(built))

    def launch(self, name, args, teams, small, shared_bytes):
        getattr(self.library, name)(ctypes.byref(args), 0, teams)


@pytest.mark.parametrize("target", ["host", "lanes"])
def test_kernels_read_the_members_and_their_number_among_the_teams(target, tmp_path, monkeypatch):
    if target == "lanes":
        lanes = Lanes(tmp_path)
        monkeypatch.setattr(programs, "launches", lambda program, device: lanes)
    seen, copied, values = torch.zeros(5, dtype=torch.int32), torch.zeros(6), torch.tensor([3.5, -4.0])
    call = Call(PROGRAM, CPU, seen=seen, count=7, wide=2**40, flag=torch.tensor([True]), copied=copied)
    call.args.pairs[0].scale, call.args.pairs[1].values = 0.5, values.data_ptr()
    call.launch("gv_copy_members", 5)
    assert seen.tolist() == [5, 1005, 2005, 3005, 4005]
    assert copied.tolist() == [3.5, -4.0, 0.5, 2.0**40, 7.0, 1.0]
    call.launch("gv_copy_members", 0)
    assert seen.tolist() == [5, 1005, 2005, 3005, 4005]


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        ({"copied": torch.zeros(6, dtype=torch.float64)}, ArrayTypeError, "copied must be torch.float32, got torch.float64"),
        ({"seen": torch.zeros(6)}, ArrayTypeError, "seen must be torch.int32, got torch.float32"),
        ({"copied": torch.zeros(5)}, ShapeError, r"copied must have 6 numbers, \[6\], got shape \(5,\)"),
        ({"copied": torch.zeros(12)[::2]}, ShapeError, r"copied must be contiguous, got strides \(2,\)"),
        ({"copied": torch.zeros(6, device="meta")}, DeviceError, "copied must be on cpu, got meta"),
        ({"count": 3, "table": torch.zeros(3, 3).double()}, ShapeError, r"table must have 12 numbers, \[count \+ 1, 3\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_leave_the_address(members, error, message):
    call = Call(PROGRAM, CPU)
    with pytest.raises(error, match=f"copies: {message}"):
        call.set(**members)
    assert [getattr(call.args, name) for name in members if name in ARGS.arrays] == [None]


def test_sizes_are_those_of_numbers_that_the_struct_holds():
    call = Call(PROGRAM, CPU, count=3)
    table = torch.zeros(3, 8, dtype=torch.float64).t()[::2]  # as the members of a struct may tell
    call.set(table=table)
    assert call.args.table == table.data_ptr()
    call.set(table=None)
    assert call.args.table is None
    with pytest.raises(ShapeError):
        call.set(count=2, table=table)


def test_members_of_members_are_checked():
    program = Program("nested", PROGRAM.kernel, arguments(Nested("pair", PAIR)))
    call = Call(program, CPU, pair={"scale": 2.0, "values": torch.zeros(2)})
    assert call.args.pair.scale == 2.0 and call.args.pair.values
    with pytest.raises(ShapeError, match=r"nested: pair.values must have 2 numbers"):
        call.set(pair={"values": torch.zeros(3)})


def test_names_that_are_no_members_are_refused():
    with pytest.raises(AttributeError):
        Call(PROGRAM, CPU, sean=3)
    with pytest.raises(SpecError, match=r"'x'.*\['rows'\]"):
        Struct("GvWrong", Array("x", "float32", "rows, 2"), *numbers("int32", "columns"))


def test_members_of_one_form_are_declared_together():
    assert arrays("bool", "rows", "a", "b", written=True)[1] == Array("b", "bool", "rows", written=True)


@pytest.mark.parametrize("program", (*PROGRAMS, *CUDA_PROGRAMS), ids=lambda program: program.kernel.stem)
def test_no_kernel_of_the_trainer_has_parts_of_an_env(program):
    text = "".join(re.split(r"(?m)^#line", kernel_source(program)))
    own = program.kernel.read_text()
    assert not re.search(r"struct GvArgs \{", own) and text.count("struct GvArgs {") == 1
    assert not re.search(r"team\.world|GvTeam|invalid_actions|num_worlds", own)


def test_no_header_of_the_learner_has_parts_of_an_env():
    for path in (*(KERNEL_FOLDER / "learner").glob("*.h"), *(KERNEL_FOLDER / "policy").glob("*.h")):
        assert not re.search(r"team\.world|GvTeam|invalid_actions|num_worlds", path.read_text()), path
