"""The linear recurrence behind advantages, discounted returns and sums of episodes, in log2(T) steps instead of T."""

from __future__ import annotations

import torch
from torch import Tensor


def scan(b: Tensor, a: Tensor, reverse: bool = False, initial: Tensor | None = None) -> Tensor:
    """Return y with ``y_t = b_t + a_t y_{t-1}``, or with ``y_t = b_t + a_t y_{t+1}`` if ``reverse``.

    An entry of ``a`` that is 0 starts a new segment: nothing passes it, not even NaN or infinity. The order of operations
    depends on T alone.

    Source: recursive doubling, Hillis and Steele 1986, for a first-order recurrence as in Kogge and Stone 1973. It takes six
    elementwise operations for each doubling, 44 for T = 128. ``torch.cumsum`` cannot restart at a cut, and its divisions by
    powers of a discount overflow; a scan in blocks takes about 2 sqrt(T) rounds; torch's ``associative_scan`` is not public
    and dispatches 96 operations for T = 128 unless it is compiled.

    Args:
        b: float32 (T, ...).
        a: float32, as ``b`` or with axes of length 1 after T.
        reverse: run from the last step to the first.
        initial: float32 (...), the value before the first step; after the last one if ``reverse``. None is 0.

    Returns:
        float32 (T, ...).
    """
    y, decay = b.clone(), a.clone()
    first = -1 if reverse else 0
    if initial is not None:
        y[first] = _follow(y[first], decay[first], initial)
    span = 1
    while span < len(y):
        # Before this round y_t holds the terms of `span` steps, and decay_t is the product of a over these steps.
        late, early = slice(span, None), slice(None, -span)
        here, before = (early, late) if reverse else (late, early)
        y[here] = _follow(y[here], decay[here], y[before])
        decay[here] = decay[here] * decay[before]
        span *= 2
    return y


def continues(ended: Tensor) -> Tensor:
    """Return ``a`` of a scan that sums within episodes: 0 in the first step of an episode, 1 in later ones.

    Args:
        ended: bool (T, ...), the episode ends with the step.

    Returns:
        float32 (T, ...). Row 0 is 1, because ``initial`` of the scan is 0 if an episode starts there.
    """
    return torch.cat((torch.ones_like(ended[:1]), ~ended[:-1])).float()


def _follow(b: Tensor, a: Tensor, y: Tensor) -> Tensor:
    """Return ``b + a * y``, and exactly ``b`` where ``a`` is 0, whatever ``y`` holds."""
    return torch.where(a == 0.0, b, torch.addcmul(b, a, y))
