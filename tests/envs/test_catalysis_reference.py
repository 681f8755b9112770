"""The kernel of catalysis against the slow reference, on landscapes of random energies; parameters that are refused."""

import hashlib

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.envs.catalysis.reference import CatalysisReference
from gpu_vecenv.envs.catalysis.spec import LANDSCAPES, SPEC, bundled_landscape, configurations, landscape
from gpu_vecenv.errors import ParameterError
from tests.devices import DEVICES
from tests.envs.catalysis_cases import CONFIGURATIONS, half_ulp, random_params

ROUNDING = 5e-7  # of observations and heights, relative to numbers up to 10


def make(num_envs=1, device="cpu", **params):
    return gymnasium.make_vec("WarpCatalysis-v0", num_envs=num_envs, device=device, array="numpy", **params)


def random_actions(params, shape, generator):
    moves = generator.integers(0, 6, shape)
    return np.stack([generator.integers(0, 2, shape), moves], axis=-1) if len(params["initial_state"]) == 6 else moves


def compare(params, steps, device, generator, worlds=5):
    """Compare episodes of every world with the reference; returns the ends seen: arrivals, time limits, moves out of the slab."""
    env = make(worlds, device, **params)
    resolved = env.unwrapped.params
    references = [CatalysisReference(resolved, landscape(resolved)) for _ in range(worlds)]
    obs, _ = env.reset(seed=0)
    np.testing.assert_allclose(obs, [reference.observe() for reference in references], atol=ROUNDING)
    ends = np.zeros(3, int)
    for actions in random_actions(resolved, (steps, worlds), generator):
        obs, reward, terminated, truncated, info = env.step(actions)
        cells = env.unwrapped.get_state("position", "position2")
        for w, reference in enumerate(references):
            outside = reference.is_outside
            seen, paid, arrived, late = reference.step(actions[w].tolist())
            assert abs(float(reward[w]) - paid) <= half_ulp(paid)
            assert (terminated[w], truncated[w]) == (arrived, late)
            ends += (arrived, late, outside())
            if arrived or late:
                np.testing.assert_allclose(info["final_obs"][w], seen, atol=ROUNDING)
                np.testing.assert_allclose(info["episode"]["barrier"][w], reference.barrier, rtol=1e-6)
                assert info["episode"]["arrived"][w] == arrived
                seen = reference.reset()
            np.testing.assert_allclose(obs[w], seen, atol=ROUNDING)
            position = [*cells["position"][w, :3], *cells["position2"][w, :3]][: len(reference.position)]
            assert position == reference.position
            assert env.single_observation_space.contains(obs[w])
    env.close()
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_random_landscapes_match_the_reference(device):
    ends = np.zeros(3, int)
    for seed in range(24):
        generator = np.random.default_rng(seed)
        ends += compare(random_params(generator), 40, device, generator)
    assert ends.min() > 20


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_configurations_match_the_reference(name, device):
    compare({"configuration": name, "episode_length": 25}, 60, device, np.random.default_rng(1), worlds=2)


@pytest.mark.parametrize("device", DEVICES)
def test_an_undone_move_on_the_target_still_arrives(device):
    """Only a state that the caller sets leads there."""
    env = make(1, device, episode_length=9)
    target = env.unwrapped.params["final_state"]
    edge = [*target[:2], 47]
    env.close()
    env = make(1, device, final_state=edge, autoreset_mode="disabled")
    env.reset(seed=0)
    env.unwrapped.set_state({"position": np.uint8([[*edge, 0]])})
    _, reward, terminated, _, info = env.step(np.array([4]))
    assert reward == 29 and terminated
    np.testing.assert_array_equal(env.unwrapped.get_state("position")["position"], [[*edge, 0]])
    env.close()


@pytest.mark.parametrize("device", DEVICES)
def test_a_coordinate_after_its_axis_acts_as_the_last_one(device):
    env = make(2, device, configuration="gas1", autoreset_mode="disabled")
    env.reset(seed=0)
    env.unwrapped.set_state({"position": np.uint8([[49, 49, 40, 0], [19, 17, 40, 0]])})
    obs, reward, *_ = env.step(np.array([1, 1]))
    np.testing.assert_array_equal(obs[0], obs[1])
    assert reward[0] == reward[1]
    np.testing.assert_array_equal(env.unwrapped.get_state("position")["position"], [[18, 17, 40, 0]] * 2)
    env.close()


def test_energies_below_the_start_do_not_lower_the_barrier():
    """Every cell on the shortest path of gas1 has a lower energy than the start."""
    env = make(configuration="gas1")
    env.reset(seed=0)
    for move in (0, 0, 5, 5, 5, 5, 5, 2):
        _, _, terminated, _, info = env.step(np.array([move]))
    assert terminated and info["episode"]["barrier"] == 0 and info["episode"]["arrived"] == 1


@pytest.mark.parametrize("device", DEVICES)
def test_one_index_is_atom_and_move(device):
    generator = np.random.default_rng(0)
    pairs = random_actions(SPEC.resolve({"configuration": "check_two_atom_b"}), (60, 4), generator)
    env, flat = (make(4, device, configuration="check_two_atom_b", flatten_actions=x) for x in (False, True))
    assert flat.single_action_space.n == 12
    env.reset(seed=0)
    flat.reset(seed=0)
    for pair in pairs:
        outs = env.step(pair), flat.step(6 * pair[:, 0] + pair[:, 1])
        for one, other in zip(*(out[:4] for out in outs), strict=True):
            np.testing.assert_array_equal(one, other)
    assert make(1, device, flatten_actions=True).single_action_space.n == 6  # of one atom, already one index


def test_an_episode_outside_the_slab_has_the_barrier_of_its_start():
    env = make(configuration="diffusion2d_relaxed", episode_length=3)
    env.reset(seed=0)
    for _ in range(3):
        _, reward, _, truncated, info = env.step(np.array([4]))
        assert reward == -1
    assert truncated and info["episode"]["barrier"] == 0 and info["episode"]["arrived"] == 0


BAD = [
    ({"configuration": "moon"}, "configuration must be one of 'diffusion2d'.*got 'moon'"),
    ({"configuration": ["surface"]}, r"configuration must be one of .*got \['surface'\]"),
    ({"landscape": "moon"}, "landscape must be one of 'base'.*got 'moon'"),
    ({"landscape": "diffusion"}, r"landscape must have the shape \(20, 18, 20\) by nx, ny, z_slab_lower .*got \(20, 18, 10\)"),
    ({"landscape": np.full((20, 18, 20), np.nan)}, "landscape must hold finite energies"),
    ({"landscape": None}, "landscape must be energies, or the name of a landscape, got None"),
    ({"initial_state": (1, 2)}, r"initial_state must be 3 whole numbers x, y, z, or 6 for two atoms, got \(1, 2\)"),
    ({"initial_state": (1, 2, 30.5)}, "initial_state must be 3 whole numbers"),
    ({"final_state": "here"}, "final_state must be 3 whole numbers"),
    ({"final_state": (5, 16, np.nan)}, "final_state must be 3 whole numbers"),
    ({"initial_state": (1, 2, 3)}, r"initial_state must be in the slab, from \(0, 0, 28\) to \(19, 17, 47\), got \(1, 2, 3\)"),
    ({"final_state": (20, 16, 38)}, "final_state must be in the slab"),
    ({"final_state": (3, 6, 30)}, "final_state must be another cell than initial_state"),
    ({"final_state": (5, 16, 38, 1, 1, 38)}, "final_state must have 3 numbers as initial_state, got 6"),
    ({"z_slab_lower": 48}, "z_slab_upper must be from z_slab_lower . 1 to nz, 49 to 50, got 48"),
    ({"nz": 40}, "z_slab_upper must be from z_slab_lower . 1 to nz, 29 to 40, got 48"),
    ({"nx": 256}, "nx must be .*255"),
    ({"max_denergy": 0}, "max_denergy must be"),
    ({"min_reward": 0.5}, "min_reward must be"),
    ({"episode_length": 0}, "episode_length must be"),
]


@pytest.mark.parametrize(("params", "message"), BAD, ids=lambda value: str(value)[:40])
def test_parameters_that_make_no_env_are_refused_by_name(params, message):
    with pytest.raises(ParameterError, match=f"^WarpCatalysis-v0: {message}"):
        SPEC.resolve(params)


def test_a_landscape_may_be_any_array_and_cells_any_whole_numbers():
    import torch

    energies = np.random.default_rng(0).uniform(0, 1, (20, 18, 20))
    env = make(landscape=torch.tensor(energies), initial_state=np.array([1.0, 2.0, 30.0]), ienergy=0.0, max_denergy=2.0)
    env.reset(seed=0)
    _, reward, *_ = env.step(np.array([0]))
    np.testing.assert_allclose(reward, -energies[2, 2, 2] / 2, rtol=1e-6)


def test_the_single_env_plays_an_episode():
    env = gymnasium.make("WarpCatalysis-v0", configuration="gas1")
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    for move in (0, 0, 5, 5, 5, 5, 5, 2):
        obs, reward, terminated, truncated, info = env.step(move)
    assert terminated and not truncated and reward > 29
    env = gymnasium.make("WarpCatalysis-v0", configuration="two_atom_diffusion")
    assert env.reset(seed=0)[0].shape == (8,) and env.step(np.array([1, 0]))[0][3] == 5 / 8


AUTHORS = {
    "base": "528128d8f1dc883c", "double": "ea23ef24b7207306", "diffusion": "a08ca3cd836b4f66",
    "diffusion_relax": "c94851b1d9496835", "two_atom": "a3444b198e3160d1",
}  # fmt: skip
"""First digits of the SHA-256 of the authors' tables as float64."""


@pytest.mark.parametrize("name", LANDSCAPES)
def test_landscapes_have_the_bits_of_the_authors_tables(name):
    assert hashlib.sha256(bundled_landscape(name).tobytes()).hexdigest()[:16] == AUTHORS[name]


def test_the_double_grid_interpolates_the_base_grid():
    """Even cells are those of the base grid; every other cell is the mean of its two neighbours along each odd axis."""
    params = {name: SPEC.resolve({"configuration": name}) for name in ("surface", "surface_double_grids")}
    base, fine = (landscape(p) for p in params.values())
    np.testing.assert_array_equal(fine[::2, ::2, ::2], base)
    for axis in range(3):
        along = np.moveaxis(fine, axis, 0)
        np.testing.assert_allclose(along[1::2], (along[:-2:2] + along[2::2]) / 2, atol=1e-12)
    assert configurations()["surface_double_grids"]["landscape"] == "double"
