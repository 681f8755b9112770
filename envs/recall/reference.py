"""Recall in slow, readable NumPy: the rules of README.md in this folder, one world at a time.

Tests compare the kernel with it. It is written from the rules, not from the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class RecallReference:
    """One episode after another of cue, wait and question.

    Args:
        params: resolved parameters of WarpRecall-v0, by name.

    Attributes:
        cue: the cue of this episode.
        choice: action of the last step, None before the first.
        t: steps taken in this episode.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._cues, self._delay = params["num_cues"], params["delay"]
        self.reset(0)

    def reset(self, cue: int) -> np.ndarray:
        """Start an episode with a cue; returns the observation, float32 (num_cues + 1,)."""
        self.cue, self.t = cue, 0
        self.choice: int | None = None
        return self.observe()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world, with the names of the spec and ``t``."""
        self.cue, self.t = int(state["cue"]), int(state["t"])
        self.choice = int(state["choice"]) if state["choice"] >= 0 else None

    def get_state(self) -> dict[str, Any]:
        """Return the state under the names of the spec."""
        return {"cue": self.cue, "choice": -1 if self.choice is None else self.choice, "t": self.t}

    def observe(self) -> np.ndarray:
        """Observation of the present state, float32 (num_cues + 1,): the cue at the start, and the question from ``delay`` on."""
        cue = np.eye(self._cues)[self.cue] if self.t == 0 else np.zeros(self._cues)
        question = float(self.t >= self._delay)
        return np.append(cue, question).astype(np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Choose a cue.

        Returns:
            obs: float32 (num_cues + 1,), after the step.
            reward: 1 if the observation before asked and the action is the cue, else 0.
            terminated: the observation before asked.
            truncated: never.
        """
        asked = self.observe()[-1] == 1
        self.choice = action
        self.t += 1
        return self.observe(), float(asked and action == self.cue), bool(asked), False
