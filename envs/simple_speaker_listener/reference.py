"""Speaker and listener in slow, readable NumPy: the rules of README.md in this folder, one world at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.envs.mpe.slow_world import Body, ParticleWorld, distance


class SimpleSpeakerListenerReference(ParticleWorld):
    """A speaker, a listener and three landmarks. Arguments and attributes: see the base class."""

    def bodies(self) -> list[Body]:
        """Return the speaker, then the listener."""
        return [Body("speaker", 0.075, moves=False, words=3), Body("listener", 0.075)]

    def row(self, i: int) -> list[Any]:
        """Return the goal's colour for the speaker, and velocity, landmarks and the last word for the listener."""
        if i == 0:
            return [0.15 + 0.5 * np.eye(3)[self.goal]]
        return [self.vel[i], self.landmarks - self.pos[i], self.comm]

    def rewards(self) -> list[float]:
        """Minus the squared distance of the listener from the goal, to both."""
        return [-(distance(self.pos[1], self.landmarks[self.goal]) ** 2)] * 2
