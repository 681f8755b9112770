"""A short PPO in plain PyTorch on this package's env: the speed of a loop that is written by hand, in one CUDA graph on a GPU.

It has what PPO needs: a rollout, generalised advantages, clipped losses of actions and values, an entropy bonus and a clipped
gradient. It has no statistics, no schedules and no masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_vecenv.bench.cases import CARTPOLE
from gpu_vecenv.bench.subject import Subject
from gpu_vecenv.bench.timing import Local

if TYPE_CHECKING:
    from torch import Tensor

    from gpu_vecenv.bench.settings import Setting

NAME, DISTRIBUTION = "PyTorch", "torch"
GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, MAX_NORM = 0.99, 0.95, 0.2, 0.01, 0.5, 0.5
WARM_UP = 3


def ways(case: Setting, device: str) -> list[dict[str, Any]]:
    """CartPole's iterations, captured on a GPU; goals are left out."""
    if case.env != CARTPOLE or hasattr(case, "goal"):
        return []
    ppo = case.ppo
    shape = {"steps": ppo.num_steps, "epochs": ppo.num_epochs, "minibatches": ppo.num_minibatches, "rate": ppo.learning_rate}
    path = "eager loop" if device == "cpu" else "loop in a graph"
    return [{"path": path, "device": device, "num_envs": case.worlds, "hidden": list(case.network.hidden_sizes), **shape}]


def make(path: str, device: str, num_envs: int, hidden: list[int], **shape: Any) -> Subject:
    """Iterations of the loop; a call is one of them."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    if path == "eager loop":
        loop = Loop(device, num_envs, hidden, **shape)
        loop()
        return Subject(Local(loop, device), loop.steps, close=loop.env.close)
    torch.cuda.set_device(device)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        loop = Loop(device, num_envs, hidden, **shape)
        for _ in range(WARM_UP):
            loop()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            loop()

    def close(alive: Any = (graph, loop)) -> None:  # the graph reads the loop's tensors until it is freed
        loop.env.close()

    return Subject(Local(graph.replay, device), loop.steps, {}, close)


class Loop:
    """An env, an actor, a critic and an optimiser; a call is a rollout and its update."""

    def __init__(
        self, device: str, num_envs: int, hidden: list[int], steps: int, epochs: int, minibatches: int, rate: float
    ) -> None:  # fmt: skip
        import gymnasium
        import torch

        import gpu_vecenv  # noqa: F401

        self.steps, self.epochs, self.minibatches = steps, epochs, minibatches
        env: Any = gymnasium.make_vec(CARTPOLE, num_worlds=num_envs, device=device).unwrapped
        env.reset(seed=0)
        self.actor, self.critic = (_network([4, *hidden, outputs]).to(device) for outputs in (2, 1))
        self.weights = [*self.actor.parameters(), *self.critic.parameters()]
        self.adam = torch.optim.Adam(self.weights, rate, eps=1e-5, fused=True, capturable=device != "cpu")
        self.obs = torch.zeros(steps + 1, num_envs, 4, device=device)
        self.reward = torch.zeros(steps, num_envs, device=device)
        self.done = torch.zeros(2, steps, num_envs, dtype=torch.bool, device=device)
        self.actions = torch.zeros(steps, num_envs, dtype=torch.int64, device=device)
        self.env = env
        env.bind(obs=self.obs, reward=self.reward, terminated=self.done[0], truncated=self.done[1])

    def __call__(self) -> None:
        """Collect a rollout and learn from it."""
        import torch

        with torch.no_grad():
            self.env.rewind()
            for t in range(self.steps):
                likely = self.actor(self.obs[t]).softmax(-1)[:, 1]
                self.actions[t] = torch.rand_like(likely) < likely
                self.env.step(self.actions[t])
            before = self._log_probability(self.actor(self.obs[:-1]), self.actions)
            values = self.critic(self.obs)[..., 0]
            advantages = self._advantages(values)
            rows = (self.obs[:-1].flatten(0, 1), self.actions, before, values[:-1], advantages)
            flat = [rows[0], *(array.flatten() for array in rows[1:])]
        for _ in range(self.epochs):
            order = torch.rand(len(flat[0]), device=self.obs.device).argsort()
            for places in order.chunk(self.minibatches):
                self._learn(*(array[places] for array in flat))

    def _advantages(self, values: Tensor) -> Tensor:
        """Generalised advantages (steps, worlds). Ends of episodes by the time limit count as ends, too."""
        import torch

        advantages, after = torch.zeros_like(self.reward), torch.zeros_like(values[0])
        goes_on = (~self.done.any(0)).float()
        for t in reversed(range(self.steps)):
            error = self.reward[t] + GAMMA * goes_on[t] * values[t + 1] - values[t]
            after = error + GAMMA * LAMBDA * goes_on[t] * after
            advantages[t] = after
        return advantages

    def _learn(self, obs: Tensor, actions: Tensor, before: Tensor, old: Tensor, advantages: Tensor) -> None:
        """Take a step of the optimiser."""
        import torch

        logits, value = self.actor(obs), self.critic(obs)[:, 0]
        ratio = (self._log_probability(logits, actions) - before).exp()
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy_loss = -torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
        near, target = old + (value - old).clamp(-CLIP, CLIP), advantages + old
        value_loss = 0.5 * torch.max((value - target) ** 2, (near - target) ** 2).mean()
        logs = logits.log_softmax(-1)
        entropy = -(logs.exp() * logs).sum(-1).mean()
        self.adam.zero_grad()
        (policy_loss + VALUE * value_loss - ENTROPY * entropy).backward()
        torch.nn.utils.clip_grad_norm_(self.weights, MAX_NORM)
        self.adam.step()

    @staticmethod
    def _log_probability(logits: Tensor, actions: Tensor) -> Tensor:
        return logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]


def _network(sizes: list[int]) -> Any:
    """Layers with tanh between them and orthogonal weights."""
    from torch import nn

    layers: list[nn.Module] = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        layer = nn.Linear(before, after)
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])
