"""A rollout: the slabs that env and collector fill, the rows of each policy, and its replay buffer."""
