"""Hooks that take ``(a, team)``: they are compiled and stepped for one release, with a note for their authors."""

import dataclasses
import warnings

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gpu_vecenv.backend.source import takes_old_hooks
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.fields import Field
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.vector.env import vector_env
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

OLD = """
#include "hooks.h"
GV_FN void env_reset(const GvArgs& a, const GvTeam& team) { GV_ONCE a.x[team.world] = 0.0f; }
GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_ONCE a.agent_reward[gv_row(a, team.world, 0)] = a.x[team.world] += 1.0f;
}
GV_FN void env_observe(const GvArgs& a, const GvTeam& team, float* obs) {
    GV_ONCE gv_obs_row(a, obs, team.world, 0)[0] = a.x[team.world];
}
"""


@pytest.fixture
def old(tmp_path):
    kernel = tmp_path / "counter.cu"
    kernel.write_text(OLD)
    return EnvSpec(
        name="Counter-v0", kernel=kernel, roles=(Role("agent", 1),), params=(), state=(Field("x", "float32", (), "sum of ones"),),
        observation=lambda params: Box(0, 1e6, (1,)), action=lambda params: Discrete(2),
    )  # fmt: skip


@pytest.fixture
def warnings_of(monkeypatch):
    """Return the warnings of an env's constructor up to the place where it compiles, which takes seconds."""

    class Compiles(Exception):
        pass

    def compiles(*_):
        raise Compiles

    def noted(spec):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(Compiles):
                GpuVectorEnv(spec, num_envs=2, device="cpu")
        return caught

    monkeypatch.setattr(vector_env, "make_backend", compiles)
    return noted


def test_an_env_with_old_hooks_is_noted_once(old, warnings_of):
    (warning,) = warnings_of(old)
    assert warning.category is FutureWarning and warning.filename == __file__
    for part in ("Counter-v0", "counter.cu", "GvWorld& w", "docs/learn/own-env.md"):
        assert part in str(warning.message)
    assert warnings_of(old) == []


def test_old_hooks_are_stepped(old):
    with pytest.warns(FutureWarning, match="Counter-v0"):
        env = GpuVectorEnv(old, num_envs=2, device="cpu", array="numpy")
    env.reset(seed=0)
    for count in (1.0, 2.0):
        obs, reward, *_ = env.step(np.zeros(2, np.int32))
        assert obs.tolist() == [[count]] * 2 and reward.tolist() == [count] * 2
    env.close()


def test_an_env_whose_hooks_take_the_world_is_not_noted(tmp_path, warnings_of):
    """Hooks may be in a header, too."""
    text = SPEC.kernel.read_text()
    (tmp_path / "rules.h").write_text(text)
    (tmp_path / "rules.cu").write_text('#include "rules.h"\n')
    assert warnings_of(SPEC) == []
    assert not takes_old_hooks(dataclasses.replace(SPEC, kernel=tmp_path / "rules.cu"))
