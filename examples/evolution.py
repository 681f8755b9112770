"""Evolution strategies (Salimans et al. 2017, arXiv 1703.03864): an algorithm of your own for the trainer, in one file.

Each row of a policy acts with weights of its own: those of the policy and normal noise. After whole episodes the policy moves
along the noise of the rows with high returns. There is no gradient, no value and no minibatch. In a run of several processes all
rows of all of them are one generation.

Run ``python examples/evolution.py``; or, with this folder on PYTHONPATH,
``gpu-vecenv train WarpCartPole-v1 --algorithm evolution:evolution --evolution sigma=0.2``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import tyro
from torch import Tensor, nn

from gpu_vecenv.train import (
    Algorithm,
    AlgorithmConfig,
    ConfigError,
    NetworkConfig,
    Setup,
    TrainConfig,
    Trainer,
    register_algorithm,
    require_same_form,
)

TABLE = 1 << 20
"""Normal numbers in the table from which all noise is taken, at places that depend on the generation and on the row."""


@dataclasses.dataclass(frozen=True)
class EvolutionConfig(AlgorithmConfig):
    """Options of evolution strategies."""

    num_steps: int = 100
    """Rollout length T. A generation lasts for as many rollouts as all rows need for a whole episode."""
    sigma: float = 0.3
    """Standard deviation of the noise on the weights."""
    learning_rate: float = 1.0
    """Step along the estimated gradient of the rank of a row's return, which is between -0.5 and 0.5."""
    normalize_observations: bool = True
    """Shift and scale the observations that policies read by running statistics."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("num_steps", "sigma", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}: expected a number > 0, got {getattr(self, name)}")


class Evolution(Algorithm):
    """Moves the weights of the actor; those of the critic stay, because nothing reads them."""

    metric_names = ("generation", "fitness", "best_fitness")
    sums_over_processes = True
    of_worlds = ("scores",)

    def __init__(self, policy: Any, options: EvolutionConfig, setup: Setup) -> None:
        """Draw the first generation; the arguments are those of ``make`` in ``register_algorithm()``."""
        network, rows, device = policy.network, setup.rows.shape[0], setup.device
        plain = hasattr(network, "actor_layers") and not any(True for _ in network.trunk.parameters())
        plain = plain and not any(isinstance(layer, nn.LayerNorm) for layer in network.actor_layers)
        if setup.rows.form != "rows" or not plain or rows % 2:
            expected = "the built-in network without a trunk and without layer norms, and an even number of rows"
            raise ConfigError(f"evolution: expected {expected}, got {rows}")
        self.policy, self.options, self.layers = policy, options, network.actor_layers
        self.processes, self.count = setup.processes, setup.num_processes
        self.rank = 0 if setup.processes is None else setup.processes.rank
        self.weights = list(self.layers.parameters())
        generator = torch.Generator("cpu").manual_seed(setup.seed % 2**63)
        self.table = torch.randn(TABLE, generator=generator, dtype=torch.float32, device="cpu").to(device)
        self.generation = torch.zeros((), dtype=torch.int64, device=device)
        # Scores of each row: sum of returns of whole episodes, their number, the return so far of the present episode, and 1 if
        # that episode began with these weights.
        self.scores = torch.zeros(4, rows, dtype=torch.float32, device=device)
        self.candidates = torch.zeros(rows, sum(x.numel() for x in self.weights), dtype=torch.float32, device=device)
        self._draw()

    def actor(self) -> Evolution:
        """Return this object, which acts with the weights of the rows."""
        return self

    @torch.no_grad()
    def act(self, inputs: Any, draw: Any, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """Choose an action for every row."""
        x = self.policy.normalized(inputs.obs).flatten(1).unsqueeze(1)
        parts = iter(self.candidates.split([weight.numel() for weight in self.weights], dim=1))
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                weight = next(parts).unflatten(1, layer.weight.shape)
                x = torch.baddbmm(next(parts).unsqueeze(1), x, weight.mT)
            else:
                x = layer(x)
        chosen: tuple[Tensor, Tensor] = self.policy.choose(x.squeeze(1).float(), inputs.mask, draw, deterministic)
        return chosen

    @torch.no_grad()
    def update(self, samples: Any, scalars: tuple[Tensor, ...]) -> Tensor:
        """Add the returns of a rollout, and begin the next generation if all rows have a whole episode.

        The host does not know if they have: what must not happen is multiplied by nothing and written by ``torch.where``.
        """
        total = torch.where(samples.valid, samples.reward, 0.0).cumsum(0)
        until = torch.cat((torch.zeros_like(total[:1]), total))
        number = torch.arange(1, len(until), device=total.device).unsqueeze(1)
        first = until.gather(0, torch.where(samples.ended, number, len(total)).amin(0, keepdim=True))[0]
        last = until.gather(0, torch.where(samples.ended, number, 0).amax(0, keepdim=True))[0]
        count = samples.ended.sum(0)
        some = count > 0
        returns, episodes, present, began = self.scores
        # An episode that began with other weights does not count.
        returns += torch.where(some, last + torch.where(began > 0, present, -first), 0.0)
        episodes += torch.where(some, count - 1 + began, 0.0)
        present.copy_(torch.where(some, total[-1] - last, present + total[-1]))
        began.copy_(torch.where(some, 1.0, began))
        fitness = self._of_all(returns / episodes)
        ready = self._of_all(episodes).gt(0).all()
        metrics = torch.stack((self.generation.float(), fitness.mean(), fitness.amax()))
        ranks = self._ranks(fitness).chunk(self.count)[self.rank]
        self._step(torch.where(ready, ranks, 0.0))
        self.generation += ready
        self._draw()
        start = torch.stack((*torch.zeros_like(self.scores[:3]), samples.ended[-1].float()))
        self.scores.copy_(torch.where(ready, start, self.scores))
        return torch.where(ready, metrics, torch.nan)

    def _of_all(self, numbers: Tensor) -> Tensor:
        """Return numbers of the rows of all processes, in order of rank."""
        return numbers if self.processes is None else self.processes.gathered(numbers).flatten()

    @staticmethod
    def _ranks(fitness: Tensor) -> Tensor:
        """Return ranks from -0.5 to 0.5; equal numbers share the mean of theirs."""
        ordered = fitness.sort().values
        below, up_to = (torch.searchsorted(ordered, fitness, right=right) for right in (False, True))
        return (below + up_to - 1) / (2 * len(fitness) - 2) - 0.5

    def _noise(self) -> Tensor:
        """Return the noise of half of the rows, float32 (rows / 2, weights); the others have it with the other sign."""
        half, size = self.candidates.shape[0] // 2, self.candidates.shape[1]
        row = self.rank * half + torch.arange(half, device=self.table.device)
        return self.table.unfold(0, size, 1)[(self.generation * half * self.count + row) * 7_919 % (TABLE - size)]

    def _step(self, ranks: Tensor) -> None:
        """Move the policy along the noise of rows with high ranks."""
        plus, minus = ranks.chunk(2)
        step = (plus - minus) @ self._noise() * (self.options.learning_rate / self.options.sigma / len(ranks) / self.count)
        if self.processes is not None:
            self.processes.sum(step)
        for weight, part in zip(self.weights, step.split([weight.numel() for weight in self.weights]), strict=True):
            weight += part.view_as(weight)

    @torch.no_grad()
    def _draw(self) -> None:
        """Write the weights of all rows."""
        mean, noise = torch.cat([weight.flatten() for weight in self.weights]), self.options.sigma * self._noise()
        self.candidates.copy_(torch.cat((mean + noise, mean - noise)))

    def state_dict(self) -> dict[str, Any]:
        """Return the number of the generation and the returns so far; the noise follows from the number."""
        return {"generation": self.generation, "scores": self.scores}

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """See ``Algorithm.load_state_dict()``."""
        require_same_form(state, self.state_dict(), where)
        self.generation.copy_(state["generation"])
        self.scores.copy_(state["scores"])
        self._draw()


register_algorithm("evolution", EvolutionConfig, Evolution)


@dataclasses.dataclass
class Args:
    """Settings of the script."""

    env_id: str = "WarpCartPole-v1"
    """id of the env"""
    num_envs: int = 64
    """worlds, each with weights of its own"""
    total_steps: int = 600_000
    """steps of the run, summed over its worlds"""
    device: str = "auto"
    """"cpu" or "cuda:0" """
    seed: int = 1
    """seed of the run"""


def main(args: Args) -> dict[str, float]:
    """Train, and return the metrics of the last iteration."""
    return Trainer(TrainConfig(**vars(args), algorithm="evolution", network=NetworkConfig(hidden_sizes=(16,)))).train()


if __name__ == "__main__":
    main(tyro.cli(Args))
