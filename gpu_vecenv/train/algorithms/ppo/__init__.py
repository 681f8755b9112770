"""PPO (Schulman et al. 2017, arXiv 1707.06347), also of policies with a memory and with a central critic.

Reading order: ``ppo``, ``backend``, ``loss``, ``sequences``.
"""

from gpu_vecenv.train.algorithms.ppo.ppo import PPO

__all__ = ["PPO"]
