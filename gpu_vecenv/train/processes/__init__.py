"""The processes of a run on several devices: their group, signs of life, and states.

Reading order: ``group``, ``direct``, ``late``, ``launcher``, ``join``, ``signs``, ``states``. A run in one process has no group,
and of this room it asks ``launcher`` alone.
"""
