"""A rollout: what the env writes, and which rows each policy owns."""
