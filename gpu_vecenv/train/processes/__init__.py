"""The processes of a run on several devices: their group, signs of life, and states.

Reading order: ``group``, ``direct``, ``late``, ``join``, ``signs``, ``states``. A run in one process has no group, and nothing of
this room runs.
"""
