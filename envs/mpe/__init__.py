"""Shared parts of the multi-agent particle environments: physics, parts of specs, the slow reference, and pictures."""
