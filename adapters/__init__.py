"""Adapters to reinforcement-learning libraries, one file for each library."""

from gpu_vecenv._checkout import require_one_copy

require_one_copy(__file__)
