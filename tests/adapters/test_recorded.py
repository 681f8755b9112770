"""The support table has a row for each claim of the tests."""

import json
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[2] / "benchmarks/results/adapter_support.json"


def test_every_claim_of_the_collected_tests_is_recorded(request):
    recorded = json.loads(SUPPORT.read_text())
    kinds, items = ("works", "limit"), request.session.items
    claims = {(mark.args, kind) for kind in kinds for item in items for mark in item.iter_markers(kind)}
    missing = [(library, kind, text) for (library, text), kind in claims if text not in recorded.get(library, {}).get(kind, [])]
    assert missing == [], "pytest tests/adapters --record-support benchmarks/results/adapter_support.json records them"
