"""Adapters to reinforcement-learning libraries, a file each."""
