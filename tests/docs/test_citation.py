"""CITATION.cff follows version 1.2.0 of the Citation File Format, and agrees with the package."""

import tomllib
from pathlib import Path

import yaml

import gpu_vecenv

ROOT = Path(__file__).resolve().parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_it_has_the_keys_that_the_format_requires_and_no_unknown_ones():
    """https://github.com/citation-file-format/citation-file-format/blob/1.2.0/schema-guide.md."""
    assert {"authors", "cff-version", "message", "title"} <= CITATION.keys()
    assert CITATION.keys() <= {"authors", "cff-version", "keywords", "license", "message", "title", "type", "version"}
    assert CITATION["cff-version"] == "1.2.0" and CITATION["type"] == "software"
    assert all(isinstance(CITATION[key], str) for key in ("message", "title", "version", "license"))


def test_it_agrees_with_the_package():
    assert CITATION["authors"] == PROJECT["authors"]
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["version"] == gpu_vecenv.__version__
    assert CITATION["title"].startswith(PROJECT["name"])
