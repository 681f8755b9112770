"""Rows by policy, and the texts of errors."""

import pytest

from gpu_vecenv.train import PolicyMapError
from gpu_vecenv.train.storage.policy_map import assign_rows, trainable_policies

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
