"""Updates of a policy from its rows of a rollout."""
