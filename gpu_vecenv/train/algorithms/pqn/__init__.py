"""PQN and PQN-VDN: Q-learning from rollouts of many worlds, without a replay buffer and target networks.

Reading order: ``pqn``, ``teams``, ``memory``.
"""
