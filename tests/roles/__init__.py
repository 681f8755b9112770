"""Test envs with roles and masks, registered as a user registers envs of another package."""

import gymnasium

IDS = {"Town-v0": "town", "Harvest-v0": "harvest", "Pot-v0": "shared", "Choir-v0": "choir"}
"""Modules of the test envs by id."""

for _id, _module in IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(_id, vector_entry_point=f"tests.roles.{_module}:make_vec")
