"""Recorded trajectories of catalysis, and random landscapes for it."""

from pathlib import Path

import numpy as np

from gpu_vecenv.envs.catalysis.spec import configurations

GOLDEN = Path(__file__).parents[1] / "golden" / "catalysis_all_configs_s3xx.npz"


def recordings():
    """Arrays of each trajectory, by its name ``CONFIGURATION/TRAJECTORY``; actions as the env takes them."""
    with np.load(GOLDEN) as archive:
        data = dict(archive)
    found = {}
    for key, value in data.items():
        name, _, array = key.rpartition("/")
        found.setdefault(name, {})[array] = value
    for arrays in found.values():
        arrays["actions"] = arrays["actions"].astype(np.int32)
        if arrays["position"].shape[1] == 6:
            arrays["actions"] = np.stack(divmod(arrays["actions"], 6), axis=1)
    return found


def half_ulp(reward):
    """Half the distance between neighbouring float32 numbers at a reward, float64; for halves of the smallest, the smallest."""
    return np.spacing(np.abs(np.asarray(reward)).astype(np.float32)).astype(np.float64) / 2


def random_params(generator):
    """Parameters with a landscape of their own: one atom in a 2-D or a 3-D task, or two atoms; the slab may touch an end of z."""
    size = [int(n) for n in generator.integers(2, 7, 3)]
    low = int(generator.integers(0, size[2]))
    high = int(generator.integers(low + 1, size[2] + 1))
    atoms = int(generator.choice([1, 2]))
    shape = (size[0], size[1], high - low)

    def cell(z=None):
        x, y, drawn = (int(generator.integers(*ends)) for ends in ((size[0],), (size[1],), (low, high)))
        return [x, y, drawn if z is None else z]

    start, target = [], []
    for _ in range(atoms):
        here = cell()
        there = cell(here[2] if generator.random() < 0.5 else None)
        while there == here:
            there = cell(here[2])
        start, target = start + here, target + there
    energies = generator.normal(0, 3, shape * atoms)
    return {
        "landscape": energies, "initial_state": start, "final_state": target, "nx": size[0], "ny": size[1], "nz": size[2],
        "z_slab_lower": low, "z_slab_upper": high, "ienergy": float(generator.normal()), "max_denergy": generator.uniform(0.5, 5),
        "min_reward": generator.uniform(-1.5, 0), "terminate_reward": generator.uniform(0, 20),
        "episode_length": int(generator.integers(1, 30)),
    }  # fmt: skip


CONFIGURATIONS = tuple(configurations())
