"""Names, shapes and dtypes of the arrays that a step writes, and their places in what callers get."""

from __future__ import annotations

from typing import Any

from gpu_vecenv.vector.outputs.views import View

BOOL = ("agent_alive", "terminated", "truncated", "finished")
"""Results of dtype bool, with those of ``OF_ACTIONS``; the others are float32."""

OF_ACTIONS = ("action_mask", "action_effects")
"""Flags about the next actions that come with each observation: allowed choices, and groups of entries with an effect."""


class Results:
    """Arrays of one step of an env.

    Names are those of the argument struct without ``out_``; names of arrays by role begin with the role.

    Args:
        view: shapes.
        same_step: True in same-step mode, in which final observations are written.

    Attributes:
        shapes: shapes by name: ``obs``, ``reward``, ``terminated``, ``truncated``, ``finished``, and ``final_obs``,
            ``agent_alive``, ``agent_reward``, ``action_mask``, ``action_effects`` and others if the env has them.
        kept: names of the arrays that the next call reads: observations, masks and flags of effect.
        actions: shape and dtype of the random actions of one step, by name, one for each group.
        public: index into the arrays of a step by public name; by role, and by metric for ``episode``, in nested dicts.
        info: the same for each key of ``info``.
        nested: True if results hold dicts.
        returned: the same for the five values that a step returns.
        returned_by_reset: the same for the observations and the ``info`` that a reset returns.
        actions_by_role: index of each role's actions; 0 if arrays are not by role.
    """

    def __init__(self, view: View, same_step: bool) -> None:
        layout = view.layout
        observed = _observed(view, "")
        self.carried = tuple(observed)
        self.shapes: dict[str, tuple[int, ...]] = {self.carried[0]: observed[self.carried[0]]}
        self.shapes |= {name: (view.num_envs,) for name in ("reward", "terminated", "truncated", "finished")}
        self.shapes |= observed | (_observed(view, "final_") if same_step else {})
        if layout.num_agents > 1:
            self.shapes["agent_alive"] = view.lead
            if not view.flat:
                self.shapes["agent_reward"] = view.lead
        self.shapes |= {f"episode_{metric.name}": (view.num_envs,) for metric in layout.spec.metrics}
        self.actions = {
            f"{group.prefix}actions": (view.group_lead(group) + (group.action.shape or ()), group.action_dtype)
            for group in layout.groups
        }
        self.actions_by_role = {group.role: index for index, group in enumerate(layout.groups)} if layout.by_role else 0
        self.indices = {name: index for index, name in enumerate(self.shapes)}
        self.indices.setdefault("agent_reward", self.indices["reward"])  # one array in a flat view
        self.public = self._public(view)
        finished = self.indices["finished"]
        self.info: dict[str, Any] = {"_final_obs": finished} if same_step else {}
        of_agents = ("agent_alive", "agent_reward") if layout.num_agents > 1 else ()
        names = ["final_obs", *(f"final_{name}" for name in OF_ACTIONS), *of_agents]
        self.info |= {name: self.public[name] for name in (*names, *OF_ACTIONS) if name in self.public}
        if layout.spec.metrics:
            self.info |= {"episode": self.public["episode"], "_episode": finished}
        self.nested = layout.by_role or bool(layout.spec.metrics)
        self.returned = [*(self.public[name] for name in ("obs", "reward", "terminated", "truncated")), self.info]
        self.returned_by_reset = [self.public["obs"], {name: place for name, place in self.info.items() if name in OF_ACTIONS}]

    def _public(self, view: View) -> dict[str, Any]:
        """Return the places of the arrays that callers may bind."""
        public: dict[str, Any] = {name: self.indices[name] for name in ("reward", *BOOL, "agent_reward") if name in self.indices}
        for final in ("", "final_"):
            for array in ("obs", *OF_ACTIONS):
                by_role = {}
                for group in view.layout.groups:
                    own_part, shared = (self.indices.get(f"{group.prefix}{final}{part}{array}") for part in ("", "shared_"))
                    if own_part is not None:
                        by_role[group.role] = own_part if shared is None else {"shared": shared, "own": own_part}
                if by_role:
                    public[f"{final}{array}"] = by_role if view.layout.by_role else by_role[""]
        if metrics := view.layout.spec.metrics:
            public["episode"] = {metric.name: self.indices[f"episode_{metric.name}"] for metric in metrics}
        return public


def dtype_of(name: str) -> str:
    """Dtype of a result by its name."""
    return "bool" if name in BOOL or name.endswith(OF_ACTIONS) else "float32"


def previous_member(name: str) -> str:
    """Struct member for the previous array of a result, such as ``previous_obs`` of ``obs``."""
    array = next(array for array in ("shared_obs", *OF_ACTIONS, "obs") if name.endswith(array))
    return f"{name.removesuffix(array)}previous_{array}"


def _observed(view: View, final: str) -> dict[str, tuple[int, ...]]:
    """Shapes of observations, shared parts, masks and flags of effect; ``final`` is empty, or ``final_`` for those of ends."""
    shapes: dict[str, tuple[int, ...]] = {}
    for group in view.layout.groups:
        lead, prefix = view.group_lead(group), f"{group.prefix}{final}"
        shapes[f"{prefix}obs"] = lead + group.observation.shape
        if group.shared is not None:
            shapes[f"{prefix}shared_obs"] = (view.num_worlds, *group.shared.shape)
        if group.masked:
            shapes[f"{prefix}action_mask"] = (*lead, group.num_choices)
        if group.effects:
            shapes[f"{prefix}action_effects"] = (*lead, group.num_effects)
    return shapes
