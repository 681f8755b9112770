"""The worlds of a run, stepped again through the public interface, with the actions that the run took."""

import gymnasium
import numpy as np
from reference_ppo import Transitions


def doubled(x):
    """Return an array with float64 in place of float32."""
    return x.astype(np.float64) if x.dtype == np.float32 else x


class Replay:
    """A vector env of its own on the CPU, in the worlds view."""

    def __init__(self, config, fields=()):
        """Reset it as the run of a TrainConfig was; ``fields`` of the state go to the transitions."""
        self.fields = fields
        self.env = gymnasium.make_vec(
            config.env_id, num_envs=config.num_envs, device="cpu", array="numpy", **config.env_kwargs
        ).unwrapped
        obs, info = self.env.reset(seed=config.seed)
        self.obs, self.info, self.before = obs, info, self._in_game()

    def rollout(self, actions):
        """Step with the actions of each role, (T, N, a, entries); return the transitions of each role."""
        steps = {role: [] for role in actions}
        states = [self._state()]
        for t in range(len(next(iter(actions.values())))):
            obs, info, before = self.obs, self.info, self.before
            self.obs, reward, terminated, truncated, self.info = self.env.step(self._given({r: x[t] for r, x in actions.items()}))
            self.before = self._in_game()
            states.append(self._state())
            reward = self.info.get("agent_reward", reward).reshape(before.shape)
            after = np.asarray(self.info.get("agent_alive", before)).reshape(before.shape)
            ended = terminated | truncated
            for role, agents in self._agents().items():
                own, shared = self._observed(obs, role)
                final_own, final_shared = (
                    None if x is None else np.where(ended.reshape(-1, *[1] * (x.ndim - 1)), x, 0)
                    for x in self._observed(self.info["final_obs"], role)
                )
                steps[role].append({
                    "own": own, "shared": shared, "mask": self._mask(info, role), "action": actions[role][t],
                    "reward": reward[:, agents], "before": before[:, agents], "after": (after & before)[:, agents],
                    "terminated": terminated, "truncated": truncated, "final_own": final_own, "final_shared": final_shared,
                })  # fmt: skip
        state = {name: np.stack([each[name] for each in states]) for name in self.fields}
        return {role: self._transitions(role, each, state) for role, each in steps.items()}

    def _state(self):
        """Return fields of the state, float64 (N, numbers)."""
        state = self.env.get_state(*self.fields) if self.fields else {}
        return {name: x.reshape(self.env.num_worlds, -1).astype(np.float64) for name, x in state.items()}

    def _transitions(self, role, steps, state):
        """Join steps, and the observation after the last one."""
        arrays = {name: None if steps[0][name] is None else [step[name] for step in steps] for name in steps[0]}
        for name, x in zip(("own", "shared"), self._observed(self.obs, role), strict=True):
            if x is not None:
                arrays[name] = [*arrays[name], x]
        arrays["present"] = [*arrays["before"], self.before[:, self._agents()[role]]]
        return Transitions(**{name: None if x is None else doubled(np.stack(x)) for name, x in arrays.items()}, state=state)

    def _agents(self):
        """Return the agents of each role, in the order of a world's agents."""
        counts, first = self.env.role_counts, 0
        found = {}
        for role, count in counts.items():
            found[role] = slice(first, first + count)
            first += count
        return found

    def _in_game(self):
        """Return who takes part in the next step, bool (N, A)."""
        name = self.env.env_spec.alive
        if name is None:
            return np.ones((self.env.num_worlds, self.env.num_agents), bool)
        return self.env.get_state()[name].astype(bool)

    def _of_role(self, array, role):
        """Return the agents of a role in an array of each role or of all agents, with the axes (N, a) in front."""
        if isinstance(array, dict):
            return array[role]
        return array.reshape(self.env.num_worlds, self.env.num_agents, -1)[:, self._agents()[role]]

    def _observed(self, obs, role):
        """Return the observations of a role's agents, (N, a, F), and their shared part, (N, S) or None."""
        own = self._of_role(obs, role)
        own, shared = (own["own"], own["shared"]) if isinstance(own, dict) else (own, None)
        return own.copy(), None if shared is None else shared.copy()

    def _mask(self, info, role):
        """Return the mask of all choices of a role's agents; None without masks."""
        if "action_mask" not in info:
            return None
        given, first, parts = self._of_role(info["action_mask"], role), 0, []
        group = next(group for group in self.env.layout.groups if group.role in ("", role))
        for entry, size in enumerate(group.choices):
            covered = entry in group.masked
            parts.append(given[..., first : first + size] if covered else np.ones((*given.shape[:2], size), bool))
            first += size * covered
        return np.concatenate(parts, axis=-1)

    def _given(self, actions):
        """Return the actions of one step, (N, a, entries) of each role, in the form that the env takes."""
        space = self.env.action_space
        if self.env.layout.by_role:
            return {role: x.reshape(space[role].shape) for role, x in actions.items()}
        return np.concatenate(list(actions.values()), axis=1).reshape(space.shape)
