"""Test envs with roles and masks, registered as a user registers envs of another package."""

import gymnasium

IDS = {"Town-v0": "town", "Harvest-v0": "harvest", "Pot-v0": "shared", "Choir-v0": "choir", "Whisper-v0": "whisper",
       "WhisperAlike-v0": "whisper"}  # fmt: skip
"""Modules of the test envs by id."""

MAKERS = {"WhisperAlike-v0": "make_alike"}
"""Functions of these modules other than ``make_vec``."""

for _id, _module in IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(_id, vector_entry_point=f"tests.roles.{_module}:{MAKERS.get(_id, 'make_vec')}")
