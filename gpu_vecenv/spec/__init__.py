"""The spec of an env, and what is made from it: memory layout, kernel header, docs."""
