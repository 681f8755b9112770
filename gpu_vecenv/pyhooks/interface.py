"""Objects that hooks in Python can name: the world, its agents, their actions and rows, and draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Row:
    """A row of observations or of a mask: ``me.obs[3] = x``. It is written, not read."""

    def __setitem__(self, k: Any, value: Any) -> None:
        """Write feature k, an f32; of a mask, the choice k, a bool."""
        raise NotImplementedError


class Action:
    """The action of an agent. An entry that is no choice acts as 0 and is counted, as one that is NaN."""

    def index(self, entry: Any = 0) -> Any:
        """Return the choice of an entry, an i32 from 0 on."""
        raise NotImplementedError

    def indices(self) -> tuple[Any, ...]:
        """Return the choices of all entries: ``move, zap = me.action.indices()``."""
        raise NotImplementedError

    def value(self, entry: Any = 0) -> Any:
        """Return a number of a continuous action, an f32, not clipped."""
        raise NotImplementedError


class Draw:
    """Four random words of a world, an episode, a step, a purpose and an agent. The same arguments give the same words."""

    def uniform(self, k: int = 0) -> Any:
        """Return an f32 from 0 to 1, without 1, of word k from 0 to 3."""
        raise NotImplementedError

    def below(self, n: Any, k: int = 0) -> Any:
        """Return an i32 from 0 to n - 1, of word k from 0 to 3."""
        raise NotImplementedError


class Agent:
    """An agent, in a phase ``for me in w.agents`` or by number, ``w.role.tagger[0]``; a type of parameters of helpers.

    A field of the state with the shape ``("num_agents",)``, or with that of the agent's role, is a number of the agent:
    ``me.speed``. A field with further axes is an array of it: ``me.memory[2]``. Agents of others may be read, not written.

    Attributes:
        index: number in the world, i32.
        in_role: number in the role, i32.
        reward: reward of the step, f32; ``env_step`` writes that of every agent.
        action: what the agent does in this step.
        obs: row of observations, in ``env_observe``; ``me.obs = [x, y]`` writes a whole row of fixed length.
        mask: row of the mask, in ``env_observe``, if the role has one; bools.
        effects: row of flags of effect, in ``env_observe``, if the role has them; bools.
    """

    index: Any
    in_role: Any
    reward: Any
    action: Action
    obs: Any
    mask: Any
    effects: Any


class Agents:
    """Agents of the world or of a role. ``for me in w.role.tagger`` is a phase, in which each agent is the work of one lane."""

    def count(self) -> Any:
        """Return the number of agents, an i32."""
        raise NotImplementedError

    def __getitem__(self, k: Any) -> Agent:
        """Return agent k, from 0 on."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Agent]:
        """Start a phase; in a phase, under ``if w.once`` and in helpers, go through all agents one after the other."""
        raise NotImplementedError

    def shared(self) -> Any:
        """Return the shared part of the observations of a role, a ``Row``, in ``env_observe``."""
        raise NotImplementedError


class World:
    """The world that hooks work on, their only argument.

    A hook is a sequence of phases, ``for me in w.agents``, and of blocks ``if w.once``. Lanes run a phase at the same time, each
    for some agents; Python's order of phases holds, because barriers are placed where one needs the results of another.

    Attributes:
        state: numbers and arrays of the state by name, as in the spec.
        at: elements of arrays of the state by one index for each axis, ``w.at.cells[y, x]``.
        params: parameters and constants by name; those by world have the value of the world. A float64 is read as f32.
        sizes: sizes by name, such as ``w.sizes.num_features``, i32.
        tables: tables by name, ``w.tables.maps[k]``.
        options: options of the last reset by name, f32.
        scratch: arrays that the spec declares with ``Scratch``, shared by the lanes of a world for one step, and their lengths:
            ``w.scratch.grown[k]`` and ``w.scratch.grown_room``.
        agents: all agents.
        role: agents by role, ``w.role.tagger``.
        record: metrics of the episode: ``w.record.eaten(x)``.
        t: steps of the episode, the present one included, i32.
        once: true in one lane: ``if w.once:`` is for work of the world.
    """

    state: Any
    at: Any
    params: Any
    sizes: Any
    tables: Any
    options: Any
    scratch: Any
    agents: Agents
    role: Any
    record: Any
    t: Any
    once: bool

    def each(self, n: Any) -> Iterator[Any]:
        """Start a phase over the numbers 0 to n - 1, such as cells of a grid: ``for cell in w.each(CELLS)``."""
        raise NotImplementedError

    def pairs(self, agents: Agents, others: Any = None) -> Iterator[tuple[Agent, Any]]:
        """Start a phase over pairs, which writes features of the first agent's row: ``for me, it in w.pairs(w.agents)``.

        ``others`` is another range, or ``w.each(n)``; by default the same one.
        """
        raise NotImplementedError

    def draw(self, purpose: int, agent: Any = 0) -> Draw:
        """Draw random words. Purposes, from 0 on, keep the draws of one env apart."""
        raise NotImplementedError

    def count(self, elements: Any, test: Callable[[Any], Any]) -> Any:
        """Count agents, or numbers of ``w.each(n)``, for which a test holds: ``w.count(w.agents, lambda it: it.ate != 0)``."""
        raise NotImplementedError

    def any(self, elements: Any, test: Callable[[Any], Any]) -> Any:
        """Return whether a test holds for any agent, or any number of ``w.each(n)``."""
        raise NotImplementedError

    def sum(self, elements: Any, *values: Callable[[Any], Any]) -> Any:
        """Add f32s of agents, or of numbers of ``w.each(n)``, in an order that does not depend on the number of lanes.

        Several lambdas give several sums at once: ``food, wood = w.sum(w.agents, lambda it: it.food, lambda it: it.wood)``.
        """
        raise NotImplementedError

    def terminate(self, condition: Any) -> None:
        """Set, under ``if w.once``, whether the rules end the episode in this step."""
        raise NotImplementedError

    def truncate(self, condition: Any) -> None:
        """Set, under ``if w.once``, whether a limit ends the episode in this step."""
        raise NotImplementedError

    def truncate_at(self, limit: Any) -> None:
        """Set, under ``if w.once``, whether a time limit ends the episode in this step; 0 is no limit."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Wait for all lanes. The translator places barriers where they are needed, so hooks need not call this."""
        raise NotImplementedError
