"""Policies: networks, and distributions over actions."""
