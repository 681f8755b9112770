"""Worlds that Node steps, by kernels in WebAssembly and the script of pages, give the bits of the usual build."""

import contextlib
import dataclasses
import json

import gymnasium
import numpy as np
import pytest

from gpu_vecenv import testing
from gpu_vecenv.backend import cache, wasm
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.errors import DeviceError, MissingExtraError
from gpu_vecenv.testing.run import at
from gpu_vecenv.testing.subject import action_table
from gpu_vecenv.web import node_worlds
from gpu_vecenv.web.node_worlds import NodeWorlds
from tests.parity.trajectory import CASES, RECORD, STEPS, digest_of
from tests.trees import assert_trees_equal, leaves

MAX_MODULE = 60_000
"""Bytes of an env's kernels, so that a page loads fast."""


@contextlib.contextmanager
def both(case, spec=None):
    """An env on the CPU, and its worlds in Node with the kernels of ``spec``, by default those of the env."""
    name, params = CASES[case]
    with contextlib.closing(gymnasium.make_vec(name, **{"device": "cpu", **params, "array": "numpy"}).unwrapped) as env:
        module = wasm.wasm_module(spec or env.env_spec)
        assert len(module) <= MAX_MODULE
        with contextlib.closing(NodeWorlds(env.worlds.view, module)) as worlds:
            yield env, worlds


IN_CI = (
    "cartpole",
    "recall",
    "foraging",
    "grid tag",
    "tag, small worlds",
    "catalysis",
    "rice",
    "robot warehouse",
    "spread",
    "covid",
)
"""Cases that CI compares: one of each kind of env. All others are slow."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.in_ci if case in IN_CI else pytest.mark.slow) for case in CASES]
)
def test_the_bits_are_the_recorded_ones(case):
    steps = STEPS.get(case, 1000)
    with both(case) as (env, worlds):
        digest, _ = digest_of(worlds, action_table(env, steps, 11))
        assert digest == json.loads(RECORD.read_text())[case]
        assert worlds.num_invalid() == 0


@pytest.mark.in_ci
def test_one_changed_token_of_a_kernel_changes_the_hash(tmp_path):
    text, changed = SPEC.kernel.read_text(), tmp_path / "cartpole.cu"
    assert text.count("s.x += ") == 1
    changed.write_text(text.replace("s.x += ", "s.x -= "))
    with both("cartpole", dataclasses.replace(SPEC, kernel=changed)) as (env, worlds):
        digest, _ = digest_of(worlds, action_table(env, 1000, 11))
    assert digest != json.loads(RECORD.read_text())["cartpole"]


def assert_equal(one, two):
    """Compare the bits of trees, or of tuples of trees."""
    assert_trees_equal(*(tree if isinstance(tree, dict | np.ndarray) else dict(enumerate(tree)) for tree in (one, two)))


OTHER_CALLS = ("cartpole", "tag, small worlds", "harvest", "mountain car")
"""Cases of rollouts, copies and pools: packs of worlds, agents that leave, roles with masks, parameters by world."""


@pytest.mark.in_ci
@pytest.mark.parametrize("case", OTHER_CALLS)
def test_rollouts_copies_pools_and_masked_resets(case):
    with both(case) as (env, worlds):
        num_worlds = env.num_worlds
        for one in (env, worlds):
            one.reset(seed=5)
        for num_steps in (40, 7, 40):
            *expected, info = env.rollout(num_steps=num_steps)
            *found, info_found = worlds.rollout(num_steps)
            ended = info.pop("_final_obs")
            assert_equal(expected, found)
            assert_equal(info.pop("actions"), info_found.pop("actions"))
            assert_equal([array[ended] for array in leaves(info["final_obs"])],
                         [array[ended] for array in leaves(info_found["final_obs"])])  # fmt: skip
            assert_equal(env.get_state(), worlds.get_state())
        source, target = np.arange(num_worlds)[:3], np.arange(num_worlds)[1:4]
        env.copy_worlds(source, target)
        worlds.copy_worlds(source, target)
        assert_equal(env.get_state(), worlds.get_state())
        states = env.draw_start_states(16, seed=9)
        mask = np.arange(num_worlds) % 3 == 0
        env.set_reset_pool(states)
        worlds.set_reset_pool(states)
        assert_equal(env.reset(options={"reset_mask": mask}), worlds.reset(None, mask))
        assert_equal(env.get_state(), worlds.get_state())
        assert (env.get_state()["pool_entry"][mask] >= 0).all()
        table = action_table(env, 60, 3)
        for t in range(60):
            assert_equal(env.step(at(table, t))[:4], worlds.step(at(table, t))[:4])
        assert_equal(env.reset(seed=8, options={"reset_mask": mask}), worlds.reset(8, mask))
        assert_equal(env.rollout(num_steps=30)[:4], worlds.rollout(30)[:4])


@pytest.mark.in_ci
def test_the_check_of_an_env_passes_and_names_a_difference(monkeypatch):
    subject = testing.Subject("WarpGridTag-v0", {"num_taggers": 4}, num_steps=20)
    assert testing.check_wasm(subject) == "20 steps in Node"
    step = NodeWorlds.step
    monkeypatch.setattr(NodeWorlds, "step", lambda self, actions: step(self, 0 * actions))
    with pytest.raises(testing.CheckError, match=r"^step 1, world 0, .*; in WebAssembly\.$"):
        testing.check_wasm(subject)


@pytest.mark.in_ci
def test_kernels_are_compiled_once_and_a_damaged_file_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    compiled = []
    monkeypatch.setattr(wasm, "compile_text", lambda *given: compiled.append(given) or b"a module")
    assert wasm.wasm_module(SPEC) == wasm.wasm_module(SPEC) == b"a module" and len(compiled) == 1
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"another" + file.read_bytes())
    assert wasm.wasm_module(SPEC) == b"a module" and len(compiled) == 2


def test_without_the_extra_its_name_is_in_the_error(monkeypatch):
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'WebAssembly need the extra "web": pip install'):
        wasm.wasm_module(SPEC)
    monkeypatch.setattr(node_worlds, "find_node", lambda: None)
    with pytest.raises(testing.NotRunError, match='worlds in Node need the extra "web"'):
        testing.check_wasm(testing.Subject("WarpCartPole-v1"))


@pytest.mark.in_ci
def test_a_process_that_ends_is_an_error_with_its_words():
    with both("cartpole") as (_, worlds):
        worlds.reset(1)
        with pytest.raises(DeviceError, match=r"(?s)CartPole.*: Node ended with status 1:.*RangeError"):
            worlds.step(np.zeros(65, np.int32))
