"""Rows by policy, and the texts of errors."""

import random

import numpy as np
import pytest

from gpu_vecenv.train import PolicyMapError
from gpu_vecenv.train.storage.policy_map import Members, assign_members, assign_rows, trainable_policies, with_changes

ROLES = {"tagger": slice(0, 10), "runner": slice(10, 30), "referee": slice(30, 32)}


def test_each_role_has_its_own_policy_by_default():
    assert assign_rows(ROLES, None) == {name: [rows] for name, rows in ROLES.items()}


def test_neighbouring_roles_of_one_policy_are_joined():
    shared = assign_rows(ROLES, {"tagger": "all", "runner": "all", "referee": "all"})
    assert shared == {"all": [slice(0, 32)]}
    split = assign_rows(ROLES, {"tagger": "a", "runner": "random", "referee": "a"})
    assert split == {"a": [slice(0, 10), slice(30, 32)], "random": [slice(10, 30)]}


@pytest.mark.parametrize(
    ("policy_map", "text"),
    [
        ({"tager": "a"}, r"expected roles out of \['tagger', 'runner', 'referee'\], got unknown \['tager'\]"),
        ({"tagger": "a", "runner": "b"}, r"a policy for every role .* got none for \['referee'\]"),
        (
            {"tagger": "", "runner": "b", "referee": "b"},
            r"policy_map\['tagger'\]: expected a non-empty .* got ''",
        ),
        ({"tagger": 3, "runner": "b", "referee": "b"}, r"policy_map\['tagger'\]: .* got 3"),
    ],
)
def test_invalid_maps_raise_errors_that_say_what_was_expected(policy_map, text):
    with pytest.raises(PolicyMapError, match=text):
        assign_rows(ROLES, policy_map)


def test_frozen_and_random_policies_are_not_trained():
    assignment = assign_rows(ROLES, {"tagger": "a", "runner": "b", "referee": "random"})
    assert trainable_policies(assignment, ("b",)) == ["a"]
    with pytest.raises(PolicyMapError, match=r"frozen: expected policies out of .* got unknown \['c'\]"):
        trainable_policies(assignment, ("c",))
    with pytest.raises(PolicyMapError, match="at least one policy to train"):
        trainable_policies(assignment, ("a", "b"))


COUNTS = {"tagger": 5, "runner": 10, "referee": 1}


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


def test_members_have_their_rows_of_the_agents_view():
    worlds, start = 4, 20
    rows = np.arange(start, start + worlds * 10).reshape(worlds, 10)  # (world, agent of the role)
    got = Members("runner", 3, 7).rows(slice(start, start + worlds * 10), 10)
    np.testing.assert_array_equal(got, rows[:, 3:7].ravel())


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
