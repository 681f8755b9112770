"""Nested dicts of arrays, as envs with roles return them; a single array is a tree too."""

import numpy as np


def map_tree(function, *trees):
    """Apply a function to the arrays at each place of trees of one form."""
    if isinstance(trees[0], dict):
        assert all(tree.keys() == trees[0].keys() for tree in trees), [list(tree) for tree in trees]
        return {name: map_tree(function, *(tree[name] for tree in trees)) for name in trees[0]}
    return function(*trees)


def leaves(tree):
    """Arrays of a tree, in the order of sorted names."""
    return [leaf for name in sorted(tree) for leaf in leaves(tree[name])] if isinstance(tree, dict) else [tree]


def _host(array):
    return np.array(array.cpu().numpy() if hasattr(array, "cpu") else array.get() if hasattr(array, "get") else array)


def to_host(tree):
    """The same tree with NumPy arrays, which share no memory with arrays that an env may overwrite."""
    return map_tree(_host, tree)


def assert_trees_equal(left, right, where=""):
    """Assert that two trees have the same form and the same bits; NaN equals NaN."""
    if isinstance(left, dict) or isinstance(right, dict):
        assert left.keys() == right.keys(), where
        for name in left:
            assert_trees_equal(left[name], right[name], f"{where} {name}")
    else:
        assert left.dtype == right.dtype, where
        np.testing.assert_array_equal(left, right, err_msg=where)
