"""Code of the user that a trainer takes beside its options, and that no checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from torch import nn

from gpu_vecenv.train.runner.opponents import Opponent
from gpu_vecenv.vector.env.reward import RewardFunction


class UsersCode(TypedDict, total=False):
    """Keywords of ``Trainer`` and ``Trainer.resume()`` for code of the user."""

    networks: Mapping[str, nn.Module] | None
    """Policy name to the user's network, for policies whose network is not built from the options. A checkpoint stores its
    weights alone, so ``resume()`` takes the networks again."""
    opponents: Mapping[str, Opponent] | None
    """Role, or a range of one, to what acts for it and does not learn: ``random``, a scripted policy of the env by its name, a
    policy of another run as ``FOLDER[:POLICY][@best|@newest]``, or a function, see ``FunctionPolicy``. A folder alone means its
    policy of that role. A checkpoint stores weights and names, so ``resume()`` takes functions again, and nothing else."""
    reward: RewardFunction | None
    """Function that changes the rewards that policies learn from; ``Shaping`` says what it gets and returns. Returns and
    evaluations are those of the env's own rewards. ``resume()`` takes it again."""
