"""Soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905), for numbers and for choices."""

from gpu_vecenv.train.algorithms.contract import Algorithm, Setup
from gpu_vecenv.train.algorithms.sac.choices import ChoicesSAC
from gpu_vecenv.train.algorithms.sac.sac import SAC
from gpu_vecenv.train.config import SACConfig
from gpu_vecenv.train.policies.actor import ActorPolicy


def make_sac(policy: ActorPolicy, options: SACConfig, setup: Setup) -> Algorithm:
    """Return the algorithm for the actions of a policy."""
    return (SAC if setup.rows.group.continuous else ChoicesSAC)(policy, options, setup)
