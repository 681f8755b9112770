"""The loop of a run: builds env and policies, collects, updates, evaluates."""
