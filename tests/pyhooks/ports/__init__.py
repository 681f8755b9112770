"""Hooks in Python of envs whose hooks are written in C++."""
