"""What the multi-agent particle environments share: physics, parts of their specs, the slow reference, and pictures."""
