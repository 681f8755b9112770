"""Finds where numbers of a run became infinite or NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from torch import Tensor

from gpu_vecenv.train.algorithms.contract import Algorithm
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.storage.policy_rows import PolicyRows


def describe_nonfinite(name: str, policy: Policy, rows: PolicyRows, algorithm: Algorithm | None) -> str:
    """Return a text about the first number of a rollout that is not finite, in the order of steps. It reads the device.

    Args:
        name: name of the policy.
        policy: the policy.
        rows: its rows; the rollout must not have advanced.
        algorithm: its algorithm; None for a policy that does not learn.
    """
    largest = math.inf if algorithm is None else algorithm.largest
    samples = rows.samples()
    world, agent = rows.world_and_agent()
    obs = samples.obs if isinstance(samples.obs, dict) else {"": samples.obs}
    slabs: list[tuple[str, Tensor]] = [(f"observation{part and f' ({part})'}", x[:-1]) for part, x in obs.items()]
    slabs += [("action", samples.action.float()), ("reward", samples.reward), ("log-probability", samples.log_prob)]
    earliest: tuple[int, str] | None = None
    for what, slab in slabs:
        if what == "log-probability" and earliest is not None:
            break  # after the first rollout it depends on statistics of all observations
        bad = ~slab.isfinite() | (slab.abs() > largest) if what.startswith("observation") else ~slab.isfinite()
        axes = min(samples.valid.dim(), slab.dim()) if what != "observation (shared)" else 2
        bad = bad.flatten(axes).any(-1) if bad.dim() > axes else bad
        bad = bad & (samples.valid if axes == samples.valid.dim() else samples.valid.any(-1))
        if bad.any():
            place = bad.nonzero()[0].tolist()
            index = tuple(place[1:])
            who = world[index].flatten()[0].item(), agent[index].flatten()[0].item()
            if earliest is None or place[0] < earliest[0]:
                where = f"{what} of world {who[0]}, agent {who[1]} in step {place[0]} of the rollout"
                earliest = place[0], f"{where} is {_excess(slab[tuple(place)], largest)}"
    # Weights come first, because actions depend on them, and statistics last, because they depend on observations.
    if weights := _not_finite(dict(policy.named_parameters())):
        return f"policy {name!r}: weights {weights} are not finite"
    if earliest is not None:
        return f"policy {name!r}: {earliest[1]}"
    if statistics := _not_finite(policy.state_dict()):
        return f"policy {name!r}: {statistics} are not finite"
    if state := _of_algorithm(algorithm):
        return f"policy {name!r}: {state}"
    return f"policy {name!r}: the gradient is not finite, although observations, actions, rewards and weights are"


def describe_nonfinite_state(name: str, policy: Policy, algorithm: Algorithm | None) -> str:
    """Return a text about a policy and an algorithm that are not finite, without a look at the rollout. It reads the device."""
    nonfinite = _not_finite(policy.state_dict())
    nonfinite_values = f"{nonfinite} are not finite" if nonfinite else _of_algorithm(algorithm)
    return f"policy {name!r}: {nonfinite_values or 'a gradient is not finite'}"


def _of_algorithm(algorithm: Algorithm | None) -> str:
    """Return a text about numbers of an algorithm's state that are not finite; empty if all are."""
    nonfinite = "" if algorithm is None else _not_finite(dict(_tensors(algorithm.state_dict())))
    return nonfinite and f"{nonfinite} of the algorithm's state are not finite"


def _tensors(state: object, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in dicts and lists of a state, each with its path, such as ``critic/weight``."""
    if isinstance(state, Tensor):
        yield path, state
    parts = state.items() if isinstance(state, Mapping) else enumerate(state) if isinstance(state, list | tuple) else ()
    for key, part in parts:
        yield from _tensors(part, f"{path}/{key}" if path else str(key))


def _excess(values: Tensor, largest: float) -> str:
    """Return a text about the numbers of a row that are too large or not finite."""
    if not values.isfinite().all():
        return "not finite"
    return (
        f"{values.abs().max().item():g}, and fused kernels compute with numbers up to {largest:,.0f}: "
        "normalise observations, or choose kernels='torch'"
    )


def _not_finite(tensors: Mapping[str, Tensor]) -> str:
    """Return the names of up to three tensors that are not finite; empty if all are."""
    names = [name for name, x in tensors.items() if x.is_floating_point() and not x.isfinite().all()]
    return ", ".join(names[:3])
