"""Rows by policy, and the texts of errors."""

import random

import pytest

from gpu_vecenv.train import PolicyMapError
from gpu_vecenv.train.storage.policy_map import Members, assign_members, trainable_policies, with_changes

COUNTS = {"tagger": 5, "runner": 10, "referee": 1}


def test_frozen_and_random_policies_are_not_trained():
    policies = assign_members(COUNTS, {"tagger": "a", "runner": "b", "referee": "random"})
    assert trainable_policies(policies, ("b",)) == ["a"]
    with pytest.raises(PolicyMapError, match=r"frozen: expected policies out of .* got unknown \['c'\]"):
        trainable_policies(policies, ("c",))
    with pytest.raises(PolicyMapError, match="at least one policy to train"):
        trainable_policies(policies, ("a", "b"))


def test_ranges_of_roles_have_policies():
    assert assign_members(COUNTS, None) == {role: [Members(role, 0, count)] for role, count in COUNTS.items()}
    mapping = {"runner[6:10]": "b", "runner[0:3]": "a", "tagger": "a", "referee": "random", "runner[3:6]": "b"}
    assert assign_members(COUNTS, mapping) == {
        "a": [Members("tagger", 0, 5), Members("runner", 0, 3)],
        "b": [Members("runner", 3, 10)],
        "random": [Members("referee", 0, 1)],
    }


def test_every_agent_gets_the_policy_of_its_range():
    rng = random.Random(0)
    for _ in range(200):
        mapping, want = {}, {}
        for role, count in COUNTS.items():
            cuts = sorted({0, count, *(rng.randrange(count) for _ in range(rng.randrange(4)))})
            for lo, hi in zip(cuts, cuts[1:], strict=False):
                mapping[f"{role}[{lo}:{hi}]"] = name = rng.choice("abc")
                want.update({(role, agent): name for agent in range(lo, hi)})
        mapping = dict(rng.sample(list(mapping.items()), len(mapping)))
        found = [
            ((role, agent), name)
            for name, members in assign_members(COUNTS, mapping).items()
            for role, lo, hi in members
            for agent in range(lo, hi)
        ]
        assert len(found) == len(want) and dict(found) == want


@pytest.mark.parametrize(
    ("policy_map", "text"),
    [
        ({"tager[0:2]": "a"}, r"expected roles out of .*, or a range of one such as tagger\[0:1\], got 'tager\[0:2\]'"),
        ({3: "a"}, r"expected roles out of .* got 3"),
        ({"runner[:2]": "a"}, r"expected roles out of .* got 'runner\[:2\]'"),
        ({"runner[2:2]": "a"}, r"policy_map\['runner\[2:2\]'\]: expected a range within \[0:10\], .*, got \[2:2\]"),
        ({"runner[8:11]": "a"}, r"expected a range within \[0:10\], the agents of runner, got \[8:11\]"),
        ({"tagger": "a", "runner[0:4]": "a", "runner[3:10]": "b"}, r"got 'runner\[0:4\]' and 'runner\[3:10\]', which overlap"),
        ({"tagger": "a", "runner[0:4]": "a", "runner": "b"}, "got 'runner.*' and 'runner.*', which overlap"),
        ({"tagger": "a", "runner[0:4]": "a", "runner[6:10]": "b"}, r"every agent, got none for runner\[4:6\]"),
        ({"tagger": "a", "runner[0:4]": "a"}, r"every agent, got none for runner\[4:10\]"),
        ({"tagger[1:5]": "a", "runner": "a"}, r"every agent, got none for tagger\[0:1\]"),
        ({"tagger": "a", "runner": "b"}, "expected a policy for every role, got none for 'referee'"),
        ({"tagger": "a/b"}, r"policy_map\['tagger'\]: expected a non-empty policy name without '/', got 'a/b'"),
    ],
)
def test_ranges_that_do_not_fit_raise_errors_that_say_what_was_expected(policy_map, text):
    with pytest.raises(PolicyMapError, match=text):
        assign_members(COUNTS, policy_map)


def test_changes_replace_all_ranges_of_their_roles():
    trained = {"tagger": "a", "runner[0:4]": "b", "runner[4:10]": "c"}
    assert with_changes(trained, {"runner": "random"}) == {"tagger": "a", "runner": "random"}
    changes = {"runner[0:5]": "random", "runner[5:10]": "c"}
    assert with_changes(trained, changes) == {"tagger": "a", **changes}
    assert with_changes(trained, {}) == trained
