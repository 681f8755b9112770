"""States of all processes in one checkpoint: that of the first process, and what differs from it in each of the others."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.train.processes.group import Processes

OTHERS = "processes"
"""Key of a checkpoint with the states of the other processes: for each one, its tensors that differ, by path."""

Path = tuple[str, ...]


def whole_state(processes: Processes, state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the content of a checkpoint of all processes in the first one; None in the others.

    Args:
        processes: the processes, which all call this.
        state: state of this process.

    Raises:
        LostRankError: a process is gone.
    """
    tensors = {path: tensor.detach().cpu() for path, tensor in _tensors(state)}
    digests = {"/".join(path): _digest(tensor) for path, tensor in tensors.items()}
    of_first = processes.from_first(lambda: digests)
    differing = {path: x for path, x in tensors.items() if of_first.get("/".join(path)) != digests["/".join(path)]}
    content = io.BytesIO()
    torch.save({"/".join(path): x.clone() for path, x in differing.items()}, content)
    received = processes.to_first(content.getvalue())
    if not processes.is_first:
        return None
    further = [torch.load(io.BytesIO(each), weights_only=True, map_location="cpu") for each in received[1:]]
    return {**state, OTHERS: further}


def num_states(state: Mapping[str, Any]) -> int:
    """Return the number of processes that wrote a checkpoint."""
    further = state.get(OTHERS, [])
    return 1 + (len(further) if isinstance(further, list) else 0)


def state_of(state: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return the state of one process in a checkpoint of as many as now."""
    further = state.get(OTHERS, [])
    first = {name: value for name, value in state.items() if name != OTHERS}
    return first if rank == 0 else _replaced(first, further[rank - 1], ())


def _replaced(state: Any, differing: Mapping[str, Tensor], path: Path) -> Any:
    if isinstance(state, dict):
        return {name: _replaced(value, differing, (*path, str(name))) for name, value in state.items()}
    return differing.get("/".join(path), state)


def _tensors(state: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """Yield the tensors of a state with their paths."""
    if isinstance(state, Tensor):
        yield path, state
    elif isinstance(state, dict):
        for name, value in state.items():
            yield from _tensors(value, (*path, str(name)))


def _digest(tensor: Tensor) -> str:
    """Return a text that tells whether tensors have the same bits."""
    digest = hashlib.blake2b(f"{tensor.dtype} {tuple(tensor.shape)} ".encode(), digest_size=16)
    if tensor.numel():
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
