"""Files of a run: lock, checkpoints, metrics, curves."""
