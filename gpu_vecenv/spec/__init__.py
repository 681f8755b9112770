"""Spec of an env, and the memory layout, kernel header and docs that are generated from it."""
