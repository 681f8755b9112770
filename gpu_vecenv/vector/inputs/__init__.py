"""Input of callers: options, seeds, resets and actions, checked and converted."""
