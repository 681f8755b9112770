"""Whisper against its reference: flags of groups of entries that have no effect in the next step."""

import re
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv import Role
from gpu_vecenv.errors import SpecError
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.devices import DEVICES
from tests.roles.cases import on_device, state
from tests.roles.whisper import ALIKE, SPEC, Whisper

N = 4


def make(by_role=True, **options):
    env_id = "Whisper-v0" if by_role else "WhisperAlike-v0"
    defaults = {"device": "cpu", "array": "numpy", "max_episode_steps": 5}
    return gymnasium.make_vec(env_id, num_worlds=N, **{**defaults, **options}).unwrapped


def of_role(tree):
    """The arrays of whisperers."""
    return tree["whisperer"] if isinstance(tree, dict) else tree


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("by_role", [True, False], ids=["by role", "alike"])
def test_flags_are_those_of_the_reference(by_role, mode, device):
    env, generator = make(by_role, autoreset_mode=mode, device=device), np.random.default_rng(0)
    (obs, info), ends = env.reset(seed=2), 0
    worlds = [Whisper(int(secret), 2, True) for secret in state(env)["secret"]]
    waits = np.zeros(N, bool)
    for _ in range(23):
        effects = of_role(info["action_effects"])
        assert effects.dtype == bool and effects.shape == (N, 2, 2)
        for w, world in enumerate(worlds):
            assert waits[w] or (effects[w] == world.effects()).all()
        spoken = generator.integers(0, [3, 4, 5], (N, 2, 3))
        actions = {"whisperer": spoken, "listener": np.ones((N, 1), int)} if by_role else spoken
        obs, _, _, truncated, info = env.step(on_device(actions, env))
        rewards = [np.zeros(2) if waits[w] else world.step(spoken[w]) for w, world in enumerate(worlds)]
        np.testing.assert_array_equal(info["agent_reward"][:, :2], rewards)
        done = truncated & ~waits
        ends += done.sum()
        if mode == "same_step":
            final = of_role(info["final_action_effects"])
            for w in np.flatnonzero(done):
                assert (final[w] == worlds[w].effects()).all()
        restart = done if mode == "same_step" else waits
        if mode == "disabled" and (restart := truncated).any():
            obs, info = env.reset(options={"reset_mask": restart})
        secrets = state(env)["secret"]
        for w in np.flatnonzero(restart):
            worlds[w] = Whisper(int(secrets[w]), 2, True)
        waits = done if mode == "next_step" else np.zeros(N, bool)
        for w in np.flatnonzero(~waits):
            np.testing.assert_array_equal(of_role(obs)[w, :, 0], worlds[w].heard)
    assert ends > N


def test_parameters_decide_if_there_are_flags():
    env = make(noise=False)
    _, info = env.reset(seed=0)
    assert "action_effects" not in info and env.layout.groups[0].limited == ()
    loud, quiet = (make(quiet=quiet).layout.groups[0] for quiet in (0, 1))
    assert loud.limited == quiet.limited == (0, 1, 2) and (loud.masked, quiet.masked) == ((), (2,))
    assert quiet.limited_choices == [3, 4, 5] and (quiet.num_choices, quiet.num_effects) == (5, 2)
    assert ", with flags of effect" in make()._repr_html_() and ", with masks and flags of effect" in make(quiet=1)._repr_html_()


def test_flags_of_a_state_that_was_set():
    """They are those that the step before gave; reading them changes nothing."""
    env = make()
    env.reset(seed=0)
    *_, info = env.step({"whisperer": np.zeros((N, 2, 3), int), "listener": np.zeros((N, 1), int)})
    state_now, expected = env.get_state(), info["action_effects"]["whisperer"].copy()
    env.reset(seed=1)
    env.set_state(state_now)
    for _ in range(2):
        flags = env.action_effects()
        assert list(flags) == ["whisperer"] and np.array_equal(flags["whisperer"], expected) and not expected.any()
    plain = make(noise=False)
    plain.reset(seed=0)
    assert plain.action_effects() is None


def test_flags_are_written_to_slabs_of_the_caller():
    env = make(array="torch")
    _, info = env.reset(seed=0)
    first = info["action_effects"]["whisperer"].clone()
    slabs = {
        "obs": {"whisperer": torch.zeros(4, N, 2, 3), "listener": torch.zeros(4, N, 1, 1)},
        "action_effects": {"whisperer": torch.zeros(4, N, 2, 2, dtype=torch.bool)},
    }
    env.bind(**slabs)
    bound = slabs["action_effects"]["whisperer"]
    assert torch.equal(bound[0], first)
    for t in range(3):
        *_, info = env.step({"whisperer": torch.zeros(N, 2, 3, dtype=torch.int32), "listener": torch.zeros(N, 1).int()})
        assert info["action_effects"]["whisperer"].data_ptr() == bound[t + 1].data_ptr()
    assert bound[:, 0, 0].tolist() == [[True, True], [False, False], [False, True], [True, True]]


BOX = Box(-1, 1, (2,), np.float32)
DICT = "effects must be a dict from names to numbers of entries, each in one group, got "


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        ({"a": (0, 1), "b": (1,)}, DICT),
        ({"a": ()}, DICT),
        ({"a": (0.5,)}, DICT),
        ({"": (0,)}, DICT),
        ({1: (0,)}, DICT),
        ({"a": 0}, DICT),
        ("message", DICT),
        (lambda p: [("a", 0)], DICT),
        ({"a": (3,)}, "effects 'a' of whisperer must lie in 0..2 and have choices, got 3 for MultiDiscrete"),
        (lambda p: {"a": (-1,)}, "effects 'a' of whisperer must lie in 0..2 and have choices, got -1"),
        (lambda p: 1 / 0, "effects must return without an error, got ZeroDivisionError"),
    ],
)
def test_wrong_groups_are_refused(effects, said):
    first, *others = SPEC.roles
    with pytest.raises(SpecError, match=re.escape(said)):
        GpuVectorEnv(replace(SPEC, roles=(replace(first, effects=effects), *others)), 2, device="cpu")


def test_entries_of_a_box_have_no_flags_and_roles_alike_have_the_same():
    first, *others = SPEC.roles
    with pytest.raises(SpecError, match="effects 'a' of whisperer must lie in 0..-1 and have choices"):
        roles = (replace(first, action=lambda p: BOX, masked=(), effects={"a": (0,)}), *others)
        GpuVectorEnv(replace(SPEC, roles=roles), 2, device="cpu")
    with pytest.raises(SpecError, match="the same masked entries and effects"):
        replace(ALIKE, roles=(*ALIKE.roles, Role("other", 1)))


def test_groups_of_a_role_are_hashable_and_keep_their_order():
    role = Role("a", 1, action=lambda p: MultiDiscrete([2, 2, 2]), effects={"late": range(1, 3), "early": [0]})
    assert role.effects == (("late", (1, 2)), ("early", (0,))) and hash(role) == hash(replace(role))
