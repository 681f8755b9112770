"""The built-in recurrent network: one memory, a GRU or an LSTM, whose units an actor and a critic read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.policies.contract import Observation, wide
from gpu_vecenv.train.policies.host_memory import are_by_kernels, remember
from gpu_vecenv.train.policies.networks import FeedForward, NetworkSpec


class Memory(nn.Module):
    """A recurrent layer of H units, with torch's equations and order of gates; sigma is the logistic function.

    Each gate has its rows of ``weight_ih`` (G H, F), ``weight_hh`` (G H, H) and two biases (G H,). Below, ``i`` and ``h`` are the
    rows of a gate in ``weight_ih x + bias_ih`` and ``weight_hh h + bias_hh``, and all products of gates are by element.

    Weights of each gate are orthogonal at the start, and biases are zero but for the ``bias_ih`` of the gate that keeps the
    state, which is 1, so that a new memory keeps most of its state from step to step (Jozefowicz et al. 2015, section 4).
    """

    gates: int
    """G."""
    keeps: int
    """Number of the gate that keeps the state."""
    state_shape: tuple[int, ...]
    """Shape of the state of a row."""
    weight_ih: nn.Parameter
    weight_hh: nn.Parameter

    def __init__(self, spec: NetworkSpec, size: int, generator: torch.Generator):
        """Make the weights.

        Args:
            spec: what it reads; observations of several axes are flattened.
            size: H.
            generator: source of the weights, a CPU generator.
        """
        super().__init__()
        self.size, self.parts, self.axes = size, list(spec.parts), len(spec.observation.shape)
        options: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
        for name, features in (("weight_ih", sum(spec.parts)), ("weight_hh", size)):
            weight = torch.empty(self.gates * size, features, **options)
            for gate in weight.split(size):
                nn.init.orthogonal_(gate, generator=generator)
            setattr(self, name, nn.Parameter(weight))
        self.bias_ih, self.bias_hh = (nn.Parameter(torch.zeros(self.gates * size, **options)) for _ in range(2))
        with torch.no_grad():
            self.bias_ih.split(size)[self.keeps].fill_(1.0)

    def read(self, obs: Observation) -> Tensor:
        """Return ``weight_ih x + bias_ih``, float32 (..., B, G H) or (..., B, a, G H); a shared part is read once a world."""
        if isinstance(obs, Tensor):
            return nn.functional.linear(obs.flatten(-self.axes), self.weight_ih, self.bias_ih)
        shared_weight, own_weight = self.weight_ih.split(self.parts, dim=1)
        by_world = nn.functional.linear(obs["shared"], shared_weight, self.bias_ih)
        return by_world.unsqueeze(-2) + nn.functional.linear(obs["own"], own_weight)

    def step(self, read: Tensor, state: Tensor) -> Tensor:
        """Return the state after a step, (B[, a], *state_shape), of what was read in it and of the state before it."""
        raise NotImplementedError

    def units(self, state: Tensor) -> Tensor:
        """Return the units that other layers read, (..., H), of states."""
        raise NotImplementedError

    def sequence(self, obs: Observation, state: Tensor, episode_end: Tensor) -> Tensor:
        """Return the states after each of L steps, see ``NetworkSpec``. Only the recurrent products wait for each other."""
        of_steps, states = self.read(obs), []
        if are_by_kernels(of_steps, state, self.weight_hh, self.bias_hh):
            return remember(of_steps, state, episode_end, self.weight_hh, self.bias_hh)
        for read, ends in zip(of_steps.unbind(), episode_end.unbind(), strict=True):
            after = self.step(read, state)
            states.append(after)
            state = torch.where(wide(ends, after), 0.0, after)
        return torch.stack(states)


class Gru(Memory):
    """Gated recurrent unit (Cho et al. 2014, arXiv 1406.1078), in the form of ``torch.nn.GRUCell``. Its state is h, (H,).

    ``r = sigma(i_r + h_r)``, ``z = sigma(i_z + h_z)``, ``n = tanh(i_n + r h_n)``, ``h' = (1 - z) n + z h``. The paper multiplies
    h by r before the product.
    """

    gates, keeps = 3, 1

    def __init__(self, spec: NetworkSpec, size: int, generator: torch.Generator):
        """See ``Memory``; gates are in the order r, z, n."""
        super().__init__(spec, size, generator)
        self.state_shape = (size,)

    def step(self, read: Tensor, state: Tensor) -> Tensor:
        """See ``Memory.step()``."""
        recurrent = nn.functional.linear(state, self.weight_hh, self.bias_hh)
        read_gates, read_new = read.split([2 * self.size, self.size], dim=-1)
        gates, new = recurrent.split([2 * self.size, self.size], dim=-1)
        r, z = torch.sigmoid(read_gates + gates).chunk(2, dim=-1)
        n = torch.tanh(torch.addcmul(read_new, r, new))
        return torch.lerp(n, state, z)

    def units(self, state: Tensor) -> Tensor:
        """See ``Memory.units()``."""
        return state


class Lstm(Memory):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), in the form of ``torch.nn.LSTMCell``.

    ``i = sigma(i_i + h_i)``, ``f = sigma(i_f + h_f)``, ``g = tanh(i_g + h_g)``, ``o = sigma(i_o + h_o)``, ``c' = f c + i g``,
    ``h' = o tanh(c')``. The forget gate f is that of Gers et al. 2000. Its state is (h, c), (2, H).
    """

    gates, keeps = 4, 1

    def __init__(self, spec: NetworkSpec, size: int, generator: torch.Generator):
        """See ``Memory``; gates are in the order i, f, g, o."""
        super().__init__(spec, size, generator)
        self.state_shape = (2, size)

    def step(self, read: Tensor, state: Tensor) -> Tensor:
        """See ``Memory.step()``."""
        h, c = state.unbind(-2)
        i, f, g, o = (read + nn.functional.linear(h, self.weight_hh, self.bias_hh)).chunk(4, dim=-1)
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(g))
        return torch.stack((torch.sigmoid(o) * torch.tanh(c), c), dim=-2)

    def units(self, state: Tensor) -> Tensor:
        """See ``Memory.units()``."""
        return state[..., 0, :]


MEMORIES = {"gru": Gru, "lstm": Lstm}
"""Memories by the name of ``NetworkConfig.memory``."""


class Recurrent(FeedForward):
    """An actor and a critic that read the units of one memory, which reads the observation.

    The layers after the memory are those of the feed-forward network; with ``shared_trunk`` hidden layers are shared, too.

    Attributes:
        state_shape: (H,) of a GRU and (2, H) of an LSTM, see ``NetworkSpec``.
    """

    def __init__(self, spec: NetworkSpec, config: NetworkConfig, generator: torch.Generator):
        """Build the layers; see ``FeedForward``."""
        units = Box(-np.inf, np.inf, (config.memory_size,), np.float32)
        super().__init__(replace(spec, observation=units, shared=None), config, generator)
        self.memory = MEMORIES[str(config.memory)](spec, config.memory_size, generator)
        self.state_shape = self.memory.state_shape

    def forward(self, obs: Observation, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Return outputs, value and the state after the step, see ``NetworkSpec``."""
        after = self._remember(obs, state)
        return *super().forward(self.memory.units(after)), after

    def actor(self, obs: Observation, state: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Return outputs and the state after the step."""
        after = self._remember(obs, state)
        return super().actor(self.memory.units(after)), after

    def critic(self, obs: Observation, *arguments: Tensor) -> Tensor:  # type: ignore[override]
        """Return the value alone; ``arguments`` are the inputs of the critic, if it has any, and the state."""
        *inputs, state = arguments
        return super().critic(self.memory.units(self._remember(obs, state)), *inputs)

    def sequence(self, obs: Observation, *arguments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs, values and states after each of L steps, see ``NetworkSpec``.

        Args:
            obs: observations of L steps.
            arguments: the inputs of the critic, if it has any, the state, and ``episode_end``.
        """
        *inputs, state, episode_end = arguments
        states = self.memory.sequence(obs, state, episode_end)
        units = self.memory.units(states)
        if inputs:
            return super().actor(units), super().critic(units, *inputs), states
        return *super().forward(units), states

    def _remember(self, obs: Observation, state: Tensor) -> Tensor:
        return self.memory.step(self.memory.read(obs), state)
