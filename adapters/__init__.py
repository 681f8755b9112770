"""Adapters to reinforcement-learning libraries, one file for each library."""
