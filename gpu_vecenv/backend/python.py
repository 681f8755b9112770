"""Back end of ``device="python"``: the compiled protocol steps worlds, and Python runs their hooks, for pdb and with checks."""

from __future__ import annotations

import ctypes
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend.build_kind import RELEASE, build_kind
from gpu_vecenv.backend.cpu import CpuBackend, load_kernels
from gpu_vecenv.backend.source import read_text
from gpu_vecenv.errors import HookFault, ParameterError
from gpu_vecenv.pyhooks import names
from gpu_vecenv.pyhooks.checked import Checked, Trace
from gpu_vecenv.pyhooks.interpreted import InterpretedAgents, InterpretedWorld, Numbers, Place
from gpu_vecenv.pyhooks.source import HOOKS
from gpu_vecenv.pyhooks.transform import load_hooks
from gpu_vecenv.pyhooks.translate import translator_of
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.roles import Role

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
FIXED = """#include "world.h"
#include "lib/as_python.h"
#include "lib/powers.h"
static thread_local void (*gv_python_hook)(gv_i32 hook, const GvArgs* a, const GvTeam* team, const GvObs* obs) = nullptr;
GV_EXPORT void gv_python_set(void (*hook)(gv_i32, const GvArgs*, const GvTeam*, const GvObs*)) { gv_python_hook = hook; }
GV_EXPORT gv_i32 gv_python_world(const GvArgs*, const GvTeam* team) { return team->world; }
GV_EXPORT gv_i64 gv_python_row(const GvArgs* a, const GvTeam* team, gv_i32 agent) { return gv_row(*a, team->world, agent); }
GV_EXPORT void gv_python_draw(const GvArgs* a, const GvTeam* team, gv_u32 purpose, gv_u32 agent, gv_u32* words) {
    const GvDraw draw = gv_draw(*a, *team, purpose, agent);
    for (gv_i32 k = 0; k < 4; ++k) words[k] = draw.word[k];
}
"""
HOOK = "GV_FN void {0}(GvWorld& w) {{ gv_python_hook({1}, &w.a, &w.team, nullptr); }}\n"
OBSERVE = "GV_FN void {0}(GvWorld& w) {{ gv_python_hook({1}, &w.a, &w.team, &w.agents.in.obs); }}\n"
SCRATCH = """GV_EXPORT gv_u64 gv_python_scratch_{0}(const GvArgs* a, const GvTeam* team) {{
    return (gv_u64)GvWorldScratch(*a, *team).{0};
}}
GV_EXPORT gv_i32 gv_python_scratch_{0}_room(const GvArgs* a, const GvTeam* team) {{
    return GvWorldScratch(*a, *team).{0}_room;
}}
"""
FUNCTIONS = {**names.FUNCTIONS, "sin": 1, "cos": 1}


def callbacks(spec: EnvSpec, hooks: set[str]) -> str:
    """Return the text of a kernel whose hooks call Python, and of functions that Python calls."""
    parts = [FIXED]
    for name, count in FUNCTIONS.items():
        parameters = ", ".join(f"float {letter}" for letter in "xyz"[:count])
        kernel = f"gv_{name}_of" if name in ("sin", "cos") else f"gv_{name}"
        parts.append(f"GV_EXPORT float gv_python_{name}({parameters}) {{ return {kernel}({', '.join('xyz'[:count])}); }}\n")
    for metric in spec.metrics:
        parts.append(f"GV_EXPORT void gv_python_record_{metric.name}(const GvArgs* a, const GvTeam* team, float value) "
                     f"{{ gv_record_{metric.name}(*a, *team, value); }}\n")  # fmt: skip
    parts += [SCRATCH.format(array.name) for array in (spec.scratch if isinstance(spec.scratch, tuple) else ())]
    for role in spec.groups:
        parts += _actions(role) + _rows(role)
    for number, name in enumerate(HOOKS):
        if name in hooks:
            parts.append((OBSERVE if name.startswith("env_observe") else HOOK).format(name, number))
    return "".join(parts)


def _actions(role: Role) -> list[str]:
    """Functions that read the action of agent i of a group."""
    p, takes = role.prefix, "const GvArgs* a, const GvTeam* team, gv_i32 i, gv_i32 entry"
    if role.name:
        action = f"gv_{role.name}_action(*a, team->world, i)"
        index, value = f"gv_action_index(*a, {action}, entry, n)", f"gv_action_value(*a, {action}, entry)"
    else:
        row = "gv_row(*a, team->world, i)"
        index = f"gv_action_index(*a, {row}, entry, gv_num_entries(*a), n)"
        value = f"gv_action_value(*a, {row}, entry, gv_num_entries(*a))"
    return [
        f"GV_EXPORT gv_i32 gv_python_{p}index({takes}) {{ const gv_i32 n = a->{p}action_choices[entry]; return {index}; }}\n",
        f"GV_EXPORT float gv_python_{p}value({takes}) {{ return {value}; }}\n",
    ]


def _rows(role: Role) -> list[str]:
    """Functions that return the addresses of rows."""
    p, takes = role.prefix, "const GvArgs* a, const GvTeam* team, const GvObs* obs, gv_i32 i"
    present = {"obs": True, "mask": role.masked, "effects": role.effects, "shared": role.shared}
    functions = []
    for kind in [kind for kind, exists in present.items() if exists]:
        at = f"gv_{p}{kind}(*a, *obs, team->world, i)" if role.name else f"gv_{kind}_row(*a, *obs, team->world, i)"
        at = f"gv_{p}shared(*a, *obs, team->world)" if kind == "shared" else at
        functions.append(f"GV_EXPORT gv_u64 gv_python_{p}{kind}({takes}) {{ (void)i; return (gv_u64){at}; }}\n")
    return functions


class PythonBackend(CpuBackend):
    """Kernels whose hooks run in Python, one world and one lane after the other. An error of a hook leaves the call of the env.

    Raises:
        ParameterError: the hooks are not written in Python.
        HookError: the hooks would not compile.
        CompileError: as for ``CpuBackend``.
    """

    def __init__(self, layout: Layout) -> None:
        spec = layout.spec
        if spec.kernel.suffix != ".py":
            raise ParameterError(f'{spec.name}: device="python" runs hooks in Python, and the hooks of this env are '
                                 f'{spec.kernel.name}.')  # fmt: skip
        self._translator = translator_of(spec, spec.kernel, read_text(spec.name, spec.kernel))
        file = self._translator.file
        hooks = [name for name in HOOKS if name in file.functions]
        kind = build_kind()
        with tempfile.TemporaryDirectory(prefix="gpu_vecenv-") as folder:
            source = Path(folder) / f"{spec.kernel.stem}.callbacks.cu"
            source.write_text(callbacks(spec, set(hooks)))
            library = load_kernels(replace(spec, kernel=source), RELEASE if kind.debug else kind)  # Python checks the hooks
        super().__init__(layout, library, threads=1)
        self._library, self._layout, self._path = library, layout, str(spec.kernel)
        self._load_functions()
        self._world: InterpretedWorld | None = None
        self._scratch: dict[str, Checked] | None = None
        self._error: BaseException | None = None
        self._callback = CALLBACK(self._call)
        of_the_world: dict[str, Callable[..., Any]] = {
            ".barrier": lambda: self._present().barrier(),
            ".first": lambda: self._present().first(),
            ".serial": self._serial,
            ".untraced": self._untraced,
        }
        used = {*hooks, *self._translator.written} & set(file.functions)
        self._hooks = load_hooks(file, used, self._translator.barriers, of_the_world)

    def _load_functions(self) -> None:
        for name, count in FUNCTIONS.items():
            function = getattr(self._library, f"gv_python_{name}")
            function.argtypes, function.restype = (ctypes.c_float,) * count, ctypes.c_float
            names.library[name] = function

    def _present(self) -> InterpretedWorld:
        if self._world is None:
            raise HookFault("no hook runs.")
        return self._world

    @staticmethod
    def _serial(elements: Any) -> Iterator[Any]:
        """Go through elements in one lane."""
        if isinstance(elements, InterpretedAgents | Numbers):
            return (elements[k] for k in range(int(elements.count())))
        return iter(elements)

    def _untraced(self, shown: Any) -> None:
        trace = self._present().trace
        trace.quiet = True
        try:
            shown()
        finally:
            trace.quiet = False

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Run a kernel over all worlds. The first error of a hook ends the work of Python and is raised at the end."""
        self._library.gv_python_set(self._callback)
        self._error = None
        super().launch(name, args, num_worlds)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _call(self, hook: int, a: int, team: int, obs: int | None) -> None:
        """Run a hook on one world. C cannot raise, so an error waits for the end of the launch."""
        if self._error is not None:
            return
        try:
            self._run(HOOKS[hook], a, team, obs)
        except BaseException as error:
            self._error = error
        finally:
            self._world = None

    def _run(self, hook: str, a: int, team: int, obs: int | None) -> None:
        dtype = self._layout.dtype
        memory: Any = (ctypes.c_char * dtype.itemsize).from_address(a)
        args = np.frombuffer(memory, dtype)[0]
        world = self._library.gv_python_world(ctypes.c_void_p(a), ctypes.c_void_p(team))
        place = Place(self._library, a, team, obs, args, world)
        trace = Trace(self._path)
        earlier_scratch = self._scratch if hook in ("env_observe_step", "env_settle") else None
        self._world = InterpretedWorld(self._layout, self._translator.words, place, trace, hook, earlier_scratch)
        with np.errstate(over="raise", divide="ignore", invalid="ignore", under="ignore"), self._placed(hook):
            self._hooks[hook](self._world)
            missing = self._world.missing()
            if missing:
                line = self._translator.file.functions[hook].lineno
                raise self._fault(line, hook, f"it ends without writing {missing}")
        self._scratch = self._world.scratch_arrays

    @contextmanager
    def _placed(self, hook: str) -> Iterator[None]:
        """Raise what a check finds as HookFault with the file, the line and the function."""
        try:
            yield
        except (ArithmeticError, IndexError, ValueError, AttributeError, TypeError) as error:
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._path]
            line, function = (frames[-1].lineno, frames[-1].name) if frames else (1, hook)
            function = hook if function == "<lambda>" else function
            what = str(error)
            if isinstance(error, FloatingPointError):
                what = f"overflow: {what.removeprefix('overflow encountered in ')} gives a number that 32 bits do not hold"
            raise self._fault(line, function, what) from error

    def _fault(self, line: int | None, function: str, what: str) -> HookFault:
        """Return the error of a hook with its place, as debug builds of hooks in C++ have it."""
        world = self._present()
        agent = "" if world.trace.agent is None else f", agent {world.trace.agent}"
        place = f"step {world.t}, world {world.place.world}{agent}"
        return HookFault(f"{self._path}:{line}: {function}: {what}; {place}.")
