"""Envs around a vector env: rows of one role, statistics, normalisation, transforms."""
