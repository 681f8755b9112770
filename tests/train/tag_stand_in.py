"""Vector env in plain torch with two roles, agents that leave, and both kinds of ends.

It keeps the vector env's contract (agents view, bind, rewind, state round trip, same-step reset), so that the trainer's
tests do not depend on kernels. The rules are simple: an agent's action moves its x, which gives its reward; runners leave
when their x passes 1.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from gpu_vecenv.spec.roles import Group, Role

NUM_FEATURES = 4
LIMIT = 7


class TagStandIn(gymnasium.vector.VectorEnv):
    """Two catchers and three runners a world, with MultiDiscrete([3, 2]) actions."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    changed_params = {}

    def __init__(self, num_envs=1, num_worlds=2, autoreset_mode="same_step", **unused):
        self.num_worlds, self.num_agents, self.device = num_worlds, 5, "cpu"
        self.num_envs = num_worlds * self.num_agents
        self.role_counts = {"catcher": 2, "runner": 3}
        self.role_rows = {
            "catcher": slice(0, 2 * num_worlds),
            "runner": slice(2 * num_worlds, 5 * num_worlds),
        }
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (NUM_FEATURES,), np.float32)
        self.single_action_space = spaces.MultiDiscrete([3, 2])
        group = Group("", "", self.num_agents, self.single_observation_space, self.single_action_space)
        self.layout = SimpleNamespace(groups=(group,), state=())
        # The folder of this file has no render.py.
        roles = (Role("catcher", 2), Role("runner", 3, leaving="past the line"))
        self.env_spec = SimpleNamespace(kernel=Path(__file__), limit_is_rule=True, alive="alive", roles=roles, metrics=())
        counters = {name: torch.zeros(num_worlds, dtype=torch.int32) for name in ("world_id", "episode", "t")}
        fields = {"seed": torch.zeros(num_worlds, dtype=torch.int64), **counters, "alive": torch.ones(num_worlds, 5)}
        self.worlds = SimpleNamespace(state=SimpleNamespace(fields=fields), outputs=self)
        self.autoreset_mode = autoreset_mode
        self.rollout, self.slot, self.pool = None, 0, {}

    def set_params(self, **params):
        assert not params

    def bind(self, **slabs):
        self.rollout, self.slot = slabs, 0

    def move_to(self, slot):
        self.slot = slot

    def rewind(self):
        self.rollout["obs"][0].copy_(self.rollout["obs"][self.slot])
        self.slot = 0

    def rows(self, x):
        """(W, A, ...) to (R, ...), ordered by role."""
        return torch.cat([x[:, :2].flatten(0, 1), x[:, 2:].flatten(0, 1)])

    def by_world(self, x):
        """(R, ...) to (W, A, ...)."""
        catchers, runners = x.split([2 * self.num_worlds, 3 * self.num_worlds])
        shape = x.shape[1:]
        parts = (catchers.reshape(self.num_worlds, 2, *shape), runners.reshape(self.num_worlds, 3, *shape))
        return torch.cat(parts, dim=1)

    def reset(self, seed=None, options=None):
        w = self.num_worlds
        self.x = torch.zeros(w, 5)
        self.alive = torch.ones(w, 5, dtype=torch.bool)
        self.t, self.episode = torch.zeros(w), torch.arange(w).float() + float((seed or 0) % 1000)  # exact in float32
        self.slot = 0
        self._start(torch.ones(w, dtype=torch.bool))
        self._count(int(seed or 0))
        obs = self.rows(self._obs())
        if self.rollout is not None:
            self.rollout["obs"][0].copy_(obs)
        return obs, {}

    def _start(self, worlds):
        agents = torch.arange(5.0)
        fresh = torch.sin(self.episode.unsqueeze(1) * 1.7 + agents * 2.3)
        if self.pool:
            fresh = self.pool["x"][self.episode.long() % len(self.pool["x"])]
        self.x[worlds], self.alive[worlds], self.t[worlds] = fresh[worlds], True, 0.0

    def _count(self, seed=None):
        """Write what draws of actions depend on, and who is alive."""
        fields = self.worlds.state.fields
        if seed is not None:
            fields["seed"].fill_(seed % 2**63)
            fields["world_id"].copy_(torch.arange(self.num_worlds))
        for name in ("episode", "t", "alive"):
            fields[name].copy_(getattr(self, name))

    def _obs(self):
        t = self.t.unsqueeze(1).expand_as(self.x)
        mean = self.x.mean(1, keepdim=True).expand_as(self.x)
        return torch.stack([self.x, mean, torch.sin(t), t / LIMIT], dim=-1) * self.alive.unsqueeze(-1)

    def step(self, actions):
        move = self.by_world(actions.float())
        before = self.alive.clone()
        self.t += 1
        self.x += (0.2 * (move[..., 0] - 0.8) + 0.1 * move[..., 1] * torch.sin(self.t).unsqueeze(1)) * before
        self.alive[:, 2:] &= self.x[:, 2:] < 1.0
        died = (before & ~self.alive).float()
        reward = self.x * 0.1 * before - died
        terminated, truncated = ~self.alive[:, 2:].any(1), self.t >= LIMIT
        final, alive = self._obs(), self.alive.clone()
        ended = terminated | truncated
        if self.autoreset_mode == "same_step":
            self.episode[ended] += self.num_worlds
            self._start(ended)
        self._count()
        expand = lambda flag: flag.unsqueeze(1).expand(-1, 5)  # noqa: E731
        out = {
            "obs": self._obs(),
            "reward": reward,
            "terminated": expand(terminated),
            "truncated": expand(truncated),
            "final_obs": torch.where(ended[:, None, None], final, torch.nan),
            "agent_alive": alive,
        }
        out = {name: self.rows(x) for name, x in out.items()}
        if self.rollout is not None:
            for name, slab in self.rollout.items():
                slab[self.slot + (name == "obs")].copy_(out[name])
            self.slot += 1
        info = {"final_obs": out["final_obs"], "agent_alive": out["agent_alive"]}
        return out["obs"], out["reward"], out["terminated"], out["truncated"], info

    def get_reset_pool(self):
        return {name: values.clone() for name, values in self.pool.items()}

    def set_reset_pool(self, states):
        """Take a pool with the field x, (entries, 5)."""
        if states is not None and list(states) != ["x"]:
            raise ValueError(f"expected the field x, got {list(states)}")
        self.pool = states or {}

    def get_state(self):
        own = {name: getattr(self, name).clone() for name in ("x", "alive", "t", "episode")}
        return {**own, "seed": self.worlds.state.fields["seed"].clone()}

    def set_state(self, state):
        for name, value in state.items():
            if name == "seed":
                self.worlds.state.fields["seed"].copy_(value)
            else:
                getattr(self, name).copy_(value)
        self._count()


gymnasium.register("TagStandIn-v0", vector_entry_point=TagStandIn)
