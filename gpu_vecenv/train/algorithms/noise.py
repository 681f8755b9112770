"""Random numbers of updates, drawn from counters by the kernels of ``kernels/learner/noise.cu``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import NOISE
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.layout import MAX_ENTRIES
from gpu_vecenv.train.config.checks import MAX_INT
from gpu_vecenv.train.run_folder.checkpoint import require_same_form

TILE = NOISE.macros["TILE"]


class Noise:
    """Random numbers for the updates of an algorithm, with the same bits on every device.

    A number is a function of the seed, of how many draws came before, of its row and of its entry. The host reads nothing, so a
    CUDA graph can record draws, and each replay has new numbers. Objects with equal seeds draw equal numbers.
    """

    def __init__(self, seed: int, rows: int, device: torch.device | str):
        """Begin with draw 0.

        Args:
            seed: any integer, of which 64 bits count, such as ``Setup.seed``.
            rows: B, rows of each draw, such as the size of a minibatch.
            device: device of the numbers.

        Raises:
            ParameterError: ``rows`` is out of range.
        """
        _require_within("rows", rows, MAX_INT)
        self.seed, self.rows, self.device = int(seed) % 2**64, rows, torch.device(device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        self._kept: tuple[Tensor, Call] | None = None  # an array that was given, and the call that fills it

    def normal(self, k: int, out: Tensor | None = None) -> Tensor:
        """Return standard normal numbers, float32 (B, k).

        Args:
            k: numbers of a row.
            out: contiguous array to write to and to return; None: a new one.

        Raises:
            ParameterError: ``k`` is below 1 or above 1,024.
            ShapeError, ArrayTypeError, DeviceError: ``out`` has another form.
        """
        return self._draw("gv_noise_normal", k, torch.float32, out=out)

    def uniform(self, k: int) -> Tensor:
        """Return uniform numbers in [0, 1), float32 (B, k), multiples of 2^-24; for errors see ``normal()``."""
        return self._draw("gv_noise_uniform", k, torch.float32)

    def integers(self, high: int | Tensor) -> Tensor:
        """Return integers from 0 to ``high - 1`` with equal probabilities, int64 (B,).

        Args:
            high: 1 to 2^31 - 1, or an int64 tensor () on the device, such as the number of transitions in a replay buffer; 0 in
                it gives zeros.

        Raises:
            ParameterError: an integer out of range.
            ShapeError, ArrayTypeError, DeviceError: a tensor of another form.
        """
        if not isinstance(high, Tensor):
            _require_within("high", high, MAX_INT)
            high = torch.full((), high, dtype=torch.int64, device=self.device)
        return self._draw("gv_noise_integers", 1, torch.int64, high).squeeze(1)

    def _draw(
        self, name: str, entries: int, dtype: torch.dtype, high: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Run a kernel, and count the draw."""
        _require_within("k", entries, MAX_ENTRIES)
        array = torch.empty(self.rows, entries, dtype=dtype, device=self.device) if out is None else out
        if self._kept is not None and self._kept[0] is out and self._kept[1].args.entries == entries:
            call = self._kept[1]
        else:
            if array.dtype != dtype:
                raise ArrayTypeError(f"out: expected numbers of {dtype}, got {array.dtype}")
            if array.numel() != self.rows * entries:
                raise ShapeError(f"out: expected {self.rows * entries} numbers, got an array of shape {tuple(array.shape)}")
            call = Call(
                NOISE, self.count.device, count=self.count, high=high, rows=self.rows, entries=entries, seed=self.seed, out=array
            )  # fmt: skip
            self._kept = self._kept if out is None else (out, call)
        call.launch(name, -(-array.numel() // TILE), array.numel())
        self.count += 1
        return array

    def state_dict(self) -> dict[str, Any]:
        """Return the number of draws."""
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """Restore what ``state_dict()`` returned; ``where`` names the state in errors.

        Raises:
            CheckpointError: the state has another form.
        """
        require_same_form(state, self.state_dict(), where)
        self.count.copy_(state["count"])


def _require_within(name: str, value: object, high: int) -> None:
    """Raise ParameterError unless a value is an integer from 1 to ``high``."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= high:
        raise ParameterError(f"Noise: {name} must be an integer from 1 to {high:,}, got {value!r}.")
