"""Crypto in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld


class SimpleCryptoReference(ParticleWorld):
    """Eve, Bob and Alice. Arguments and attributes: see the base class."""

    def bodies(self) -> list[Body]:
        """Return Eve, Bob and Alice."""
        return [Body(name, moves=False, words=4) for name in ("eve", "bob", "alice")]

    def row(self, i: int) -> list[Any]:
        """Of Eve: what Alice said. Of Bob: the key, and that. Of Alice: the message and the key."""
        message, key = np.eye(4)[self.goal], np.eye(4)[self.key]
        return [[self.comm[2]], [key, self.comm[2]], [message, key]][i]

    def rewards(self) -> list[float]:
        """Minus Eve's error to Eve; Eve's error minus Bob's to the others. The error of nothing said is 0."""
        errors = [float(((said - np.eye(4)[self.goal]) ** 2).sum()) if said.any() else 0.0 for said in self.comm]
        return [-errors[0], errors[0] - errors[1], errors[0] - errors[1]]
