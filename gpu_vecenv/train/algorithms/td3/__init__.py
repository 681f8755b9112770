"""TD3 (Fujimoto et al. 2018, arXiv 1802.09477) and DDPG (Lillicrap et al. 2016, arXiv 1509.02971).

DDPG is TD3 with one critic, without noise of the target policy and without delay, so both are one class.
"""

from gpu_vecenv.train.algorithms.td3.td3 import TD3

__all__ = ["TD3"]
