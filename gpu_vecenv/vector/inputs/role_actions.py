"""Actions of an env whose arrays are by role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.backend.base import Backend
from gpu_vecenv.errors import ShapeError
from gpu_vecenv.vector.inputs.actions import ActionReader, KernelActions, Take
from gpu_vecenv.vector.outputs.tree import require_roles
from gpu_vecenv.vector.outputs.views import View


class RoleActions:
    """Turns a mapping from role to actions into arrays on the env's device.

    Args:
        readers: the reader of each role, in the order of the roles.
    """

    def __init__(self, readers: Mapping[str, ActionReader]) -> None:
        self._readers = dict(readers)

    def read(self, actions: Any, lead: tuple[int, ...] = ()) -> list[KernelActions]:
        """Return what ``ActionReader.read`` returns for the actions of each role.

        Raises:
            ParameterError: not a mapping with the roles of the env.
            ShapeError, ArrayTypeError, DeviceError, ActionError: as ``ActionReader.read``; the message names the role.
        """
        by_role = require_roles("actions", actions, self._readers)
        return [reader.read(by_role[role], lead) for role, reader in self._readers.items()]

    def lead(self, actions: Any, num_steps: int) -> tuple[int, ...]:
        """Return the leading axes of a rollout's actions, which all roles have in common; see ``ActionReader.lead``.

        Raises:
            ParameterError: not a mapping with the roles of the env.
            ShapeError: a shape does not give the number of steps, or roles differ.
        """
        by_role = require_roles("actions", actions, self._readers)
        leads = {role: reader.lead(by_role[role], num_steps) for role, reader in self._readers.items()}
        if len(set(leads.values())) > 1:
            steps = ", ".join(f"{role} {lead[0] if lead else 'one step'}" for role, lead in leads.items())
            raise ShapeError(f"actions of all roles must have the same number of steps, got {steps}.")
        return next(iter(leads.values()))

    def strides(self, read: list[KernelActions]) -> tuple[int, ...]:
        """Return the bytes of the actions of one step, of each role."""
        return tuple(reader.strides(one)[0] for reader, one in zip(self._readers.values(), read, strict=True))

    @property
    def drawn(self) -> list[KernelActions]:
        """Placeholders for actions that a rollout draws."""
        return [reader.drawn for reader in self._readers.values()]


def action_reader(view: View, backend: Backend, warn: bool, take: Take | None = None) -> ActionReader | RoleActions:
    """Return the reader of an env's actions; see ``ActionReader`` for the arguments."""
    if not view.layout.by_role:
        return ActionReader(view.layout.groups[0].action, view.lead, backend, warn, take=take)
    return RoleActions(
        {
            group.role: ActionReader(group.action, view.group_lead(group), backend, warn, f"actions of {group.role}", take)
            for group in view.layout.groups
        }
    )
