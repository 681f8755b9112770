"""Parts that SAC, TD3 and DDPG have in common: critics, and the order of an update.

Reading order: ``learner``, ``batch``, ``critics``, ``heads``, ``memory``.
"""
