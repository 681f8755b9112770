"""Recorded trajectories of RICE-N: states and actions in the form of the env, and the errors of replays."""

from dataclasses import dataclass

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401
from tests.trees import to_host

N = 27
FLOATS = {
    "capital": "capital", "labor": "labor", "technology": "production_factor", "intensity": "intensity",
    "balance": "current_balance", "mitigation_cost": "mitigation_cost", "production": "production",
    "gross_output": "gross_output", "consumption": "consumption", "utility": "utility",
}  # fmt: skip
LEVELS = {"savings": "savings", "mitigation": "mitigation_rate", "export_limit": "max_export_limit",
          "minimum_mitigation": "minimum_mitigation_rate"}  # fmt: skip
PAIRS = {"promises": "promised_mitigation_rate", "requests": "requested_mitigation_rate"}
PHYSICAL = ("temperature", "carbon", "capital", "labor", "technology", "intensity", "production", "gross_output", "damages",
            "mitigation_cost")  # fmt: skip


def states(z):
    """The states of a trajectory, as fields of the env with the leading axis time."""

    def level(name):
        return np.rint(z[f"state_{name}"].astype(np.float64) * int(z["num_levels"])).astype(np.uint8)

    times = len(z["actions"]) + 1
    found = {field: z[f"state_{name}_all_regions"] for field, name in FLOATS.items()}
    found |= {"minimum_mitigation": np.zeros((times, N), np.uint8), "t": np.arange(times, dtype=np.int32)}
    found |= {field: level(f"{name}_all_regions") for field, name in LEVELS.items() if f"state_{name}_all_regions" in z}
    found |= {"temperature": z["state_global_temperature"], "carbon": z["state_global_carbon_mass"]}
    found |= {"period": z["state_activity_timestep"].ravel().astype(np.int32)}
    found |= {"damages": np.ascontiguousarray(z["state_damages_all_regions"][:, 0]), "tariffs": level("tariffs")}
    if bool(z["negotiation_on"]):
        pairs = {field: level(name) for field, name in PAIRS.items()}
        pairs["decisions"] = (z["state_proposal_decisions"] > 0.5).astype(np.uint8)
        found |= {field: values[:, None] for field, values in pairs.items()}  # the axis of rounds
    return found


@dataclass
class Replay:
    """Results of some steps, with the leading axis time."""

    obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    mask: np.ndarray | None
    state: dict[str, np.ndarray]


def make(z, worlds, **options):
    given = {"num_discrete_action_levels": int(z["num_levels"]), "negotiation_on": bool(z["negotiation_on"])}
    defaults = {"autoreset_mode": "disabled", "device": "cpu", "array": "numpy"}
    return gymnasium.make_vec("WarpRice-v0", num_envs=worlds, **{**defaults, **given, **options}).unwrapped


def acting(env, actions):
    """Actions (worlds, 27, entries) in the form of the env."""
    import torch

    actions = np.ascontiguousarray(actions, np.int32)
    actions = actions if env.array == "numpy" else torch.as_tensor(actions, device=env.device)
    return {"region": actions} if env.layout.by_role else actions


def rows(obs):
    """Observations as whole rows, (worlds, 27, features)."""
    if not isinstance(obs, dict):
        return obs
    shared, own = obs["region"]["shared"], obs["region"]["own"]
    repeated = np.broadcast_to(shared[:, None], (*own.shape[:2], shared.shape[-1]))
    return np.concatenate([own[..., :N], repeated, own[..., N:]], -1)


def results(env, out):
    """Results of a step of all worlds."""
    obs, _, terminated, _, info = (to_host(part) for part in out)
    mask = info.get("action_mask")
    return Replay(rows(obs), info["agent_reward"], terminated, mask["region"] if isinstance(mask, dict) else mask,
                  to_host(env.get_state()))  # fmt: skip


def forced(z, **options):
    """Single steps, each from a recorded state: one world for each time."""
    import torch

    times = len(z["actions"])
    env = make(z, times, **options)
    env.reset(seed=0)
    given = {name: np.ascontiguousarray(values[:times]) for name, values in states(z).items()}
    env.set_state(given if env.array == "numpy" else {k: torch.as_tensor(v, device=env.device) for k, v in given.items()})
    return results(env, env.step(acting(env, z["actions"])))


def free(z, **options):
    """One episode from the start."""
    env = make(z, 1, **options)
    env.reset(seed=0)
    steps = [results(env, env.step(acting(env, action[None]))) for action in z["actions"]]
    state = {name: np.concatenate([step.state[name] for step in steps]) for name in steps[0].state}
    mask = None if steps[0].mask is None else np.concatenate([step.mask for step in steps])
    obs, reward, terminated = (np.concatenate([getattr(s, name) for s in steps]) for name in ("obs", "reward", "terminated"))
    return Replay(obs, reward, terminated, mask, state)


def check(z, replay, free_running):
    """Assert that a replay has the recorded results, within the errors of float32."""
    mild = not free_running and "mild" in str(z["name"])
    np.testing.assert_array_equal(replay.terminated, z["dones"].astype(bool))
    assert (replay.mask is not None) == bool(z["negotiation_on"])
    if replay.mask is not None:
        np.testing.assert_array_equal(replay.mask, z["action_mask_mitigation"][1:].astype(bool))
    np.testing.assert_allclose(replay.reward, z["rewards"], rtol=0, atol=1e-6 if mild else 3e-4)
    at = z["obs_at"]  # times whose observations are recorded
    seen = replay.obs[at[at > 0] - 1]
    np.testing.assert_allclose(seen, z["obs"][at > 0], rtol=0, atol=3e-4)
    np.testing.assert_array_equal(seen[..., :N], z["obs"][at > 0][..., :N])
    for name, values in states(z).items():
        found, wanted = replay.state[name], values[1:]
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(found, wanted, err_msg=name)
        elif name in PHYSICAL:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=0, err_msg=name)
    np.testing.assert_allclose(replay.state["balance"], states(z)["balance"][1:], rtol=0, atol=0.5 if free_running else 1e-4)
    consumption = states(z)["consumption"][1:]
    np.testing.assert_allclose(replay.state["consumption"], consumption, rtol=0, atol=3e-3 if free_running else 3e-4)
