"""The live view of a run: it records rollouts of the worlds that a page waits for, and gives them to the page's server.

A page gets the state before a rollout, its actions, and the state after it. It makes the steps itself, by the same kernels, and
compares its last state with the one sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from gpu_vecenv.backend.wasm import wasm_module
from gpu_vecenv.render.style import THEMES
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import Params
from gpu_vecenv.train.runner.live_copies import HostCopy, WorldCopies, copy_to_host
from gpu_vecenv.train.runner.live_curves import LiveCurves
from gpu_vecenv.train.runner.live_decisions import Followed, Programs
from gpu_vecenv.train.runner.run_state import RunState
from gpu_vecenv.vector.outputs.views import View
from gpu_vecenv.web.live import LiveServer, Wish
from gpu_vecenv.web.shown import plan_of_worlds

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

STEPS = 16
"""Steps of an excerpt, at least: short rollouts are recorded one after the other."""

SHARE = 0.003
"""Largest share of the run's time that excerpts take."""

THEMES_JSON = {name: palette._asdict() for name, palette in THEMES.items()}
"""Colours of pictures by theme."""

BYTES_PER_S = 5e9
"""Speed of copies to the host at which their time is counted; buses of GPUs are faster."""


@dataclass
class Pool:
    """The reset pool of a run at some time."""

    number: int
    """Counts the pools of the run from 1 on; the first one may be empty."""
    fields: dict[str, Any]
    """``ResetPool.arrays``, which no one changes."""
    copy: HostCopy | None = None


@dataclass
class Rollout:
    """Copies of one rollout."""

    iteration: int
    start: HostCopy
    weights: HostCopy | None
    actions: HostCopy | None = None
    end: HostCopy | None = None
    inputs: HostCopy | None = None

    @property
    def copies(self) -> list[HostCopy]:
        """The copies that there are."""
        return [each for each in (self.start, self.weights, self.actions, self.end, self.inputs) if each is not None]


@dataclass
class Excerpt:
    """Consecutive rollouts of the worlds of a wish, for the page that waits for them."""

    wish: Wish
    plan: int
    """Counts the parameters of the run from 1 on."""
    params: Params
    pool: Pool
    worlds: WorldCopies
    followed: Followed | None
    rollouts: list[Rollout] = field(default_factory=list)
    complete: bool = False


class LiveView:
    """Records rollouts for a page, in calls before and after the launch of an iteration and at its end.

    Attributes:
        curves: sink of the run's metrics.
        server: server of the page.
    """

    def __init__(self, env_id: str, env: GpuVectorEnv, parts: RunState, port: int, out: str | None) -> None:
        """Compile the kernels for pages and start the server.

        Args:
            env_id: id of the env.
            env: env of the run, or of this process of several.
            parts: state of the run.
            port: port of this machine; 0 takes a free one.
            out: folder of the run; None without one.

        Raises:
            MissingExtraError: packages of the extra "web" are missing.
            CompileError: the kernels do not compile.
            ParameterError: the port is taken or not allowed.
        """
        self._view: View = env.worlds.view
        self._env, self._parts, self._programs = env, parts, Programs(parts.policies)
        self._on_gpu = torch.device(env.device).type == "cuda"
        self._params, self._plan, self._pool = self._view.layout.params, 1, Pool(1, env.worlds.pool.arrays)
        self._excerpt: Excerpt | None = None
        self._next, self._seconds = 0.0, 0.0
        self.curves = LiveCurves()
        about = {"env": env_id, "out": out, "num_worlds": env.num_worlds, **_agents_of(self._view.layout), "themes": THEMES_JSON}
        self.server = LiveServer(about, wasm_module(self._view.layout.spec), self.curves.after, port)

    def close(self) -> None:
        """End the server."""
        self.server.close()

    # ---- calls of a launch ----------------------------------------------------------------------------------------------------

    def before(self, number: int) -> None:
        """Begin to record an iteration that is launched next, if a page waits.

        Args:
            number: number of the iteration in the run, from 0.
        """
        if self._excerpt is None and self.server.wish is None:
            return
        start = time.thread_time()
        if self._excerpt is None and time.monotonic() >= self._next:
            self._begin(self.server.wish)
        excerpt = self._excerpt
        if excerpt is not None and not excerpt.complete:
            if self._view.layout.params is not excerpt.params or self._env.worlds.pool.arrays is not excerpt.pool.fields:
                excerpt.complete = True  # its rollouts so far have one plan and one pool
            else:
                weights = None if excerpt.followed is None else excerpt.followed.before()
                excerpt.rollouts.append(Rollout(number + 1, excerpt.worlds.before(), weights))
        self._seconds += time.thread_time() - start

    def after(self) -> None:
        """Record what the iteration that was launched last has done."""
        excerpt = self._excerpt
        if excerpt is None or excerpt.complete:
            return
        start = time.thread_time()
        rollout = excerpt.rollouts[-1]
        rollout.actions, rollout.end = excerpt.worlds.after()
        rollout.inputs = None if excerpt.followed is None else excerpt.followed.after()
        excerpt.complete = len(excerpt.rollouts) * self._parts.num_steps >= STEPS
        self._seconds += time.thread_time() - start

    def finished(self, number: int) -> None:
        """Give the page an excerpt whose last iteration is done.

        Args:
            number: number of the iteration that the device has done, from 0.
        """
        excerpt = self._excerpt
        if excerpt is None or not excerpt.complete or excerpt.rollouts[-1].iteration > number + 1:
            return
        start, self._excerpt = time.thread_time(), None
        self.server.give(excerpt.wish, lambda plan, pool: self._message(excerpt, plan, pool))
        seconds = self._seconds + time.thread_time() - start  # of this thread alone: waits for a processor are no work
        seconds += self._bus_seconds([copy for rollout in excerpt.rollouts for copy in rollout.copies])
        self._next, self._seconds = time.monotonic() + seconds / SHARE, 0.0

    def _bus_seconds(self, copies: Sequence[HostCopy]) -> float:
        """Return the time that the device works at copies, which the host does not see; 0 on the CPU."""
        return sum(copy.block.numel() for copy in copies) / BYTES_PER_S if self._on_gpu else 0.0

    def _begin(self, wish: Wish | None) -> None:
        if wish is None:
            return
        layout, env = self._view.layout, self._env
        if layout.params is not self._params:
            self._params, self._plan = layout.params, self._plan + 1
        if env.worlds.pool.arrays is not self._pool.fields:
            self._pool = Pool(self._pool.number + 1, env.worlds.pool.arrays)
        if self._pool.fields and self._pool.copy is None:
            device = torch.device(env.device)
            self._pool.copy = copy_to_host({k: torch.as_tensor(x, device=device) for k, x in self._pool.fields.items()})
            self._seconds += self._bus_seconds([self._pool.copy])
        followed = None
        if wish.agent is not None:
            followed = Followed(self._parts.rows, self._parts.policies, *wish.agent)
            if followed.policy not in self._programs:
                followed = None
        worlds = WorldCopies(env, self._parts.rollout, wish.worlds)
        self._excerpt = Excerpt(wish, self._plan, self._params, self._pool, worlds, followed)

    # ---- in a thread of the server --------------------------------------------------------------------------------------------

    def _message(self, excerpt: Excerpt, plan: int, pool: int) -> bytes:
        """Return an excerpt for a page: the length of a JSON text, the text, and the arrays whose bytes it lists.

        Args:
            excerpt: the excerpt.
            plan: number of the plan that the page has.
            pool: number of the pool that the page has.
        """
        parts: list[bytes] = []
        head: dict[str, Any] = {"plan": excerpt.plan, "pool": excerpt.pool.number, "rollouts": []}
        if plan != excerpt.plan:
            head["newPlan"] = plan_of_worlds(self._view, excerpt.params, excerpt.wish.worlds)
        if pool != excerpt.pool.number:
            head["newPool"] = list(excerpt.pool.fields)
            if excerpt.pool.copy is not None:
                parts += [x.numpy().tobytes() for x in excerpt.pool.copy.tensors().values()]
        for rollout in excerpt.rollouts:
            assert rollout.actions is not None and rollout.end is not None  # the excerpt is complete
            of_rollout: dict[str, Any] = {"iteration": rollout.iteration, "steps": self._parts.num_steps}
            parts += [rollout.start.tobytes(), rollout.actions.tobytes(), rollout.end.tobytes()]
            if excerpt.followed is not None and rollout.weights is not None and rollout.inputs is not None:
                kind, distribution = self._programs.distributions(excerpt.followed, rollout.weights, rollout.inputs)
                of_rollout["decisions"] = {"policy": excerpt.followed.policy, "kind": kind}
                parts.append(distribution.float().contiguous().numpy().tobytes())
            head["rollouts"].append(of_rollout)
        text = json.dumps({**head, "bytes": [len(part) for part in parts]}).encode()
        return b"".join((len(text).to_bytes(4, "little"), text, *parts))


def _agents_of(layout: Layout) -> dict[str, Any]:
    """Return the agents of a world and their actions, for a page."""
    groups = {group.role: group for group in layout.groups}
    roles = []
    for name, count in layout.role_counts.items():
        group = groups.get(name) or groups[""]
        roles.append({"name": name, "count": count, "choices": group.choices, "entries": group.num_entries})
    return {"num_agents": layout.num_agents, "by_role": layout.by_role, "roles": roles}
