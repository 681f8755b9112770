"""A window of pygame in which a player steers an agent of one world among policies."""

from __future__ import annotations

import contextlib
import importlib.util
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_vecenv.errors import MissingExtraError, ParameterError
from gpu_vecenv.render.canvas import find_renderer
from gpu_vecenv.render.expressions import Now
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.policies.contract import Draw, Inputs
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import Game
from gpu_vecenv.train.runner.torch_settings import torch_threads
from gpu_vecenv.web.page_data import controls_of, renderer_kind, roles_of

END_MS = 900
"""Milliseconds for which the end of an episode is shown."""


class Player:
    """The agent that the player steers: its controls, and the direction that is held.

    Args:
        layout: the env.
        role: role of the agent, which is its first one; None for the first role with controls.

    Raises:
        ParameterError: the env has no such role with controls.
    """

    def __init__(self, layout: Layout, role: str | None) -> None:
        kind = renderer_kind(layout)
        controls = controls_of(layout, None if kind is None else kind(layout.params))
        name = next(iter(controls), None) if role is None else role
        if name is None or name not in controls:
            raise ParameterError(f"role: expected one whose agents have controls, {list(controls)}, got {role!r}.")
        (facts,) = (each for each in roles_of(layout) if each["name"] == name)
        self.number: int = facts["number"]
        self.right, self.up, self.press = 0, 0, 0
        self._controls, self._group = controls[name], layout.groups[facts["group"]]

    def action(self, state: dict[str, np.ndarray]) -> list[float] | None:
        """Return the first entries of the action in a state of the world; None to leave it to the policy."""
        if not (self._controls["rests"] or self.right or self.up or self.press):
            return None
        player_input = np.array([self.right, self.up, self.number, self.press], np.float64)
        entries: list[float] = []
        for entry, json in enumerate(self._controls["entries"]):
            count = 1 if self._group.continuous else self._group.choices[entry]
            scores = np.broadcast_to(Now({**state, "held": player_input}, {0: np.arange(count)}).value(json), count)
            entries.append(float(scores[0]) if self._group.continuous else int(np.argmax(scores)))
        return entries


class Steered:
    """Acts as a policy does, but for the agent of the player."""

    def __init__(self, policy: Any, player: Player) -> None:
        self._policy, self._player = policy, player
        self.state: dict[str, np.ndarray] = {}

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, ...]:
        """See ``Policy.act()``."""
        action, *further = self._policy.act(inputs, draw, deterministic)
        entries = self._player.action(self.state)
        if entries is not None:
            row = draw.agent == self._player.number
            if action.dim() == row.dim():
                action[row] = entries[0]
            else:
                action[row, : len(entries)] = torch.tensor(entries, dtype=action.dtype, device=action.device)
        return (action, *further)


def play_in_window(game: Game, role: str | None, seed: int, rate: int, most_steps: int | None = None) -> int:
    """Play in a window until it is closed, and return the number of steps.

    Args:
        game: env and policies.
        role: role of the agent that arrow keys or W A S D steer, and E as its controls say.
        seed: seed of the first episode; later ones have the next seeds.
        rate: steps a second.
        most_steps: steps after which the window closes; None for any number.

    Raises:
        MissingExtraError: pygame is missing.
        ParameterError: the env cannot be drawn, or has no controls for the role.
    """
    if importlib.util.find_spec("pygame") is None:
        raise MissingExtraError('a window needs pygame: pip install "gpu-vecenv[human]".')
    import pygame

    with contextlib.closing(make_env(game.config, 1, "disabled")) as env, torch_threads(game.config.threads):
        player, renderer = Player(env.layout, role), find_renderer(env.env_spec.kernel.parent)(env.layout.params)
        players, steps = game.players(env, False), 0
        steered: list[Any] = [Steered(policy, player) for policy, _ in players.collector.step_views]
        views = [views for _, views in players.collector.step_views]
        players.collector.step_views = [*zip(steered, views, strict=True)]
        pygame.display.init()  # no sound
        try:
            window, clock, ended = None, pygame.time.Clock(), True
            while most_steps is None or steps < most_steps:
                if ended:
                    players.collector.reset(seed)
                    seed, ended = seed + 1, False
                state = {name: np.asarray(values)[0] for name, values in env.get_state().items()}
                frame = renderer.frame(state)
                if window is None:
                    window = pygame.display.set_mode((frame.shape[1], frame.shape[0]))
                    pygame.display.set_caption(env.env_spec.name)
                pygame.surfarray.blit_array(window, frame.swapaxes(0, 1))
                pygame.display.flip()
                if any(event.type == pygame.QUIT for event in pygame.event.get()):
                    break
                player.right, player.up, player.press = held_keys(pygame)
                for one in steered:
                    one.state = state
                rollout = players.step(False)
                steps, ended = steps + 1, bool((rollout.terminated | rollout.truncated).any())
                clock.tick(rate)
                if ended:
                    pygame.time.wait(END_MS)
        finally:
            pygame.quit()
    return steps


def held_keys(pygame: Any) -> tuple[int, int, int]:
    """Return the direction of the keys that are held, right and up, -1 to 1; and 1 if E is."""
    keys = pygame.key.get_pressed()

    def any_of(*names: int) -> int:
        return int(any(keys[name] for name in names))

    right = any_of(pygame.K_RIGHT, pygame.K_d) - any_of(pygame.K_LEFT, pygame.K_a)
    return right, any_of(pygame.K_UP, pygame.K_w) - any_of(pygame.K_DOWN, pygame.K_s), any_of(pygame.K_e)
