"""Options of a run, and presets of them."""
