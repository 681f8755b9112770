"""Catalysis against recorded trajectories of the authors' CPU classes (tests/golden/README.md)."""

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.envs.catalysis.reference import CatalysisReference
from gpu_vecenv.envs.catalysis.spec import SPEC, landscape
from tests.devices import DEVICES
from tests.envs.catalysis_cases import CONFIGURATIONS, half_ulp, recordings

RECORDINGS = recordings()
ROUNDING = 1e-6  # of observations, absolute


def test_recordings_hold_every_configuration():
    assert {name.partition("/")[0] for name in RECORDINGS} == set(CONFIGURATIONS)
    assert len(RECORDINGS) == 38 and sum(name.endswith("z_walk") for name in RECORDINGS) == 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_kernel_matches_the_recordings(name, device):
    """Positions and ends are exact, and the reward is the recorded one in float64, rounded once."""
    data = RECORDINGS[name]
    env = gymnasium.make_vec("WarpCatalysis-v0", num_envs=2, device=device, array="numpy", autoreset_mode="disabled",
                             configuration=name.partition("/")[0])  # fmt: skip
    obs, _ = env.reset(seed=0)
    np.testing.assert_allclose(obs[1], data["obs"][0], atol=ROUNDING, rtol=0)
    width = data["position"].shape[1]
    for t, action in enumerate(data["actions"]):
        obs, reward, terminated, truncated, info = env.step(np.stack([action, action]))
        state = env.unwrapped.get_state("position", "position2")
        cells = np.concatenate([state["position"][:, :3], state["position2"][:, :3]], axis=1)
        np.testing.assert_array_equal(cells[:, :width], [data["position"][t + 1]] * 2)
        np.testing.assert_allclose(obs, [data["obs"][t + 1]] * 2, atol=ROUNDING, rtol=0)
        assert (np.abs(reward.astype(np.float64) - data["rewards"][t]) <= half_ulp(data["rewards"][t])).all()
        arrived = (data["position"][t + 1] == env.unwrapped.params["final_state"]).all()
        assert terminated.tolist() == [arrived] * 2 and (terminated | truncated).tolist() == [data["dones"][t]] * 2
    env.close()


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_reference_matches_the_recordings(name):
    data, params = RECORDINGS[name], SPEC.resolve({"configuration": name.partition("/")[0]})
    reference = CatalysisReference(params, landscape(params))
    np.testing.assert_allclose(reference.reset(), data["obs"][0], atol=ROUNDING, rtol=0)
    for t, action in enumerate(data["actions"].tolist()):
        obs, reward, terminated, truncated = reference.step(action)
        assert reference.position == data["position"][t + 1].tolist()
        np.testing.assert_allclose(obs, data["obs"][t + 1], atol=ROUNDING, rtol=0)
        assert reward == pytest.approx(data["rewards"][t], abs=1e-12)
        assert (terminated or truncated) == data["dones"][t]
