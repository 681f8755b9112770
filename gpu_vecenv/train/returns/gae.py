"""Advantages of a rollout's transitions."""

from __future__ import annotations

from torch import Tensor

from gpu_vecenv.train.returns.masks import TransitionMasks
from gpu_vecenv.train.returns.scan import Advantages, advantages


def gae(
    reward: Tensor,
    value: Tensor,
    final_value: Tensor | None,
    masks: TransitionMasks,
    gamma: float,
    gae_lambda: float,
    reward_scale: Tensor | None = None,
) -> Advantages:
    """Generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438).

    The value that follows a step is V(s_{t+1}) inside an episode and 0 after a terminal step. A time limit is no terminal state
    of the task, so the value goes on after it (Pardo et al. 2018, arXiv 1712.00378).

    Args:
        reward: float32 (T, ...).
        value: float32 (T + 1, ...), V(s_t), values of the rollout's observations, in order of time.
        final_value: float32 (T, ...), values of the final observations; only entries that timed out count.
            None treats a time limit as a terminal state.
        masks: masks of the same rows.
        gamma: discount per step.
        gae_lambda: decay of the trace.
        reward_scale: float32 (), factor of the rewards, which are then clipped to [-MAX_REWARD, MAX_REWARD]; None leaves them.

    Returns:
        Advantages, and targets and values for the update, without gradients; 0 for transitions that are not valid, whose
        arguments may hold anything.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    return advantages(reward, value, final_value, masks[:3], gamma, gamma * gae_lambda, reward_scale)
