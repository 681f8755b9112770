"""Measurements of the command ``bench``: speeds, floors and peers, as JSON for tables and plots."""
