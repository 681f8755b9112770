"""PPO for discrete actions in JAX, in one file, in the style of PureJaxRL.

Proximal Policy Optimization (Schulman et al. 2017, arXiv:1707.06347) with generalised advantages (Schulman et al. 2015,
arXiv:1506.02438). When the time limit ends an episode, the value of the final observation replaces the rewards to come.
``python examples/jax_ppo.py`` solves CartPole: the env steps between compiled calls, and its arrays stay on the device. With
``--inside-jit``, rollout and update are one compiled program, which calls the env through the host.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import tyro

import gpu_vecenv  # noqa: F401  registers the ids
from gpu_vecenv.adapters.jax import jittable


@dataclass(frozen=True)
class Args:
    """Settings of the training."""

    env_id: str = "WarpCartPole-v1"
    """an id with discrete actions and one agent"""
    num_envs: int = 64
    """number of worlds"""
    total_steps: int = 200_000
    """steps of all worlds together"""
    device: str = "auto"
    """"auto", "cpu" or "cuda:0" """
    seed: int = 1
    """seed of worlds, weights and sampling"""
    inside_jit: bool = False
    """make rollout and update one compiled program"""

    num_steps: int = 64
    """steps of every world in a rollout"""
    num_epochs: int = 4
    """epochs, each a pass over the rollout"""
    num_minibatches: int = 8
    """minibatches of an epoch, one update each"""
    learning_rate: float = 2.5e-3
    """learning rate at the start; falls to 0 linearly"""
    gamma: float = 0.99
    """discount per step"""
    gae_lambda: float = 0.95
    """decay of generalised advantage estimation"""
    clip: float = 0.2
    """probability ratios are clipped to [1 - clip, 1 + clip]"""
    entropy_weight: float = 0.005
    """weight of the entropy bonus"""
    value_weight: float = 0.5
    """weight of the value loss"""
    max_grad_norm: float = 0.5
    """longer gradients are scaled down to this norm"""


def network(key: Any, inputs: int, outputs: int, last_gain: float) -> list[tuple[Any, Any]]:
    """Make weights and biases of a network with two hidden layers; weights are orthogonal."""
    sizes, gains = (inputs, 64, 64, outputs), (2**0.5, 2**0.5, last_gain)
    layers = zip(jax.random.split(key, 3), sizes[:-1], sizes[1:], gains, strict=True)
    orthogonal = jax.nn.initializers.orthogonal
    return [(orthogonal(gain)(one, (rows, columns)), jnp.zeros(columns)) for one, rows, columns, gain in layers]


def apply(layers: list[tuple[Any, Any]], inputs: Any) -> Any:
    """Return the outputs of a network."""
    for weights, bias in layers[:-1]:
        inputs = jnp.tanh(inputs @ weights + bias)
    weights, bias = layers[-1]
    return inputs @ weights + bias


def value_of(params: Any, obs: Any) -> Any:
    """Return the expected discounted return."""
    return apply(params["critic"], obs)[..., 0]


def log_prob_of(logits: Any, actions: Any) -> Any:
    """Return the log-probability of actions."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], -1)[..., 0]


@jax.jit
def act(params: Any, key: Any, obs: Any) -> tuple[Any, dict[str, Any]]:
    """Draw actions. Returns the next key, and what the update needs to know of them."""
    key, now = jax.random.split(key)
    logits = apply(params["actor"], obs)
    actions = jax.random.categorical(now, logits)
    return key, {"obs": obs, "action": actions, "log_prob": log_prob_of(logits, actions), "value": value_of(params, obs)}


@jax.jit
def stacked(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the arrays of T steps with T as leading axis."""
    return jax.tree.map(lambda *arrays: jnp.stack(arrays), *steps)


def outcome(results: Any) -> dict[str, Any]:
    """Return what the update needs to know of a step."""
    _, reward, terminated, truncated, info = results
    return {"reward": reward, "terminated": terminated, "truncated": truncated, "final_obs": info["final_obs"]}


def advantages_of(args: Args, params: Any, batch: dict[str, Any], last_obs: Any) -> Any:
    """Return generalised advantages, (T, N)."""
    timed_out = batch["truncated"] & ~batch["terminated"]
    continues = 1.0 - (batch["terminated"] | batch["truncated"])
    rewards = batch["reward"] + args.gamma * jnp.where(timed_out, value_of(params, batch["final_obs"]), 0)

    def back(carry: Any, step: Any) -> Any:
        next_value, advantage = carry
        reward, going, value = step
        error = reward + args.gamma * going * next_value - value
        advantage = error + args.gamma * args.gae_lambda * going * advantage
        return (value, advantage), advantage

    start = value_of(params, last_obs), jnp.zeros_like(last_obs[:, 0])
    return jax.lax.scan(back, start, (rewards, continues, batch["value"]), reverse=True)[1]


def loss_of(params: Any, args: Args, minibatch: dict[str, Any]) -> Any:
    """Return PPO's loss of a minibatch."""
    logits, raw = apply(params["actor"], minibatch["obs"]), minibatch["advantage"]
    advantage = (raw - raw.mean()) / (raw.std() + 1e-8)
    ratio = jnp.exp(log_prob_of(logits, minibatch["action"]) - minibatch["log_prob"])
    policy_loss = -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - args.clip, 1 + args.clip) * advantage).mean()
    value_loss = 0.5 * jnp.square(value_of(params, minibatch["obs"]) - minibatch["target"]).mean()
    entropy = -(jax.nn.softmax(logits) * jax.nn.log_softmax(logits)).sum(-1).mean()
    return policy_loss + args.value_weight * value_loss - args.entropy_weight * entropy


def adam(args: Args, state: dict[str, Any], gradients: Any, rate: Any) -> dict[str, Any]:
    """Return parameters and moments after one step of Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
    norm = jnp.sqrt(sum(jnp.square(one).sum() for one in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda one: one * jnp.minimum(1, args.max_grad_norm / (norm + 1e-6)), gradients)
    count = state["count"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state["square"], gradients)

    def moved(parameter: Any, m: Any, s: Any) -> Any:
        return parameter - rate * (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.999**count)) + 1e-5)

    params = jax.tree.map(moved, state["params"], mean, square)
    return {"params": params, "mean": mean, "square": square, "count": count}


@jax.jit
def episodes_of(running: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
    """Return the returns so far of episodes in progress, and number and sum of returns of the episodes that ended."""

    def forward(carry: Any, step: Any) -> Any:
        running, count, total = carry
        reward, over = step
        running = running + reward
        return (running * ~over, count + over.sum(), total + (running * over).sum()), None

    steps = batch["reward"], batch["terminated"] | batch["truncated"]
    (running, count, total), _ = jax.lax.scan(forward, (running, 0, 0.0), steps)
    return running, (count, total)


@partial(jax.jit, static_argnums=0)
def update(args: Args, state: dict[str, Any], key: Any, batch: dict[str, Any], last_obs: Any, rate: Any) -> tuple[Any, Any]:
    """Train on a rollout, arrays (T, N, ...). Returns the next key and the state after the update."""
    advantages = advantages_of(args, state["params"], batch, last_obs)
    rows = {name: batch[name] for name in ("obs", "action", "log_prob")}
    rows |= {"advantage": advantages, "target": advantages + batch["value"]}
    rows = {name: array.reshape(-1, *array.shape[2:]) for name, array in rows.items()}
    size = args.num_steps * args.num_envs

    def epoch(carry: Any, _: None) -> Any:
        key, state = carry
        key, now = jax.random.split(key)
        order = jax.random.permutation(now, size).reshape(args.num_minibatches, -1)

        def minibatch(state: Any, chosen: Any) -> Any:
            gradients = jax.grad(loss_of)(state["params"], args, {name: array[chosen] for name, array in rows.items()})
            return adam(args, state, gradients, rate), None

        return (key, jax.lax.scan(minibatch, state, order)[0]), None

    return jax.lax.scan(epoch, (key, state), None, args.num_epochs)[0]


def train(args: Args) -> dict[str, float]:
    """Train from scratch.

    Returns:
        ``mean_return`` of the episodes that ended in the last fifth of the training, and ``rows_per_second``, steps of worlds in
        a second of training, without the first iteration, which compiles.
    """
    env = gymnasium.make_vec(
        args.env_id, num_envs=args.num_envs, device=args.device, array="numpy" if args.inside_jit else "jax"
    ).unwrapped
    key = jax.random.key(args.seed)
    key, actor, critic = jax.random.split(key, 3)
    features, choices = env.single_observation_space.shape[0], int(env.single_action_space.n)
    params = {"actor": network(actor, features, choices, 0.01), "critic": network(critic, features, 1, 1.0)}
    zeros = jax.tree.map(jnp.zeros_like, params)
    env_step = jittable(env)[1] if args.inside_jit else env.step
    state: dict[str, Any] = {"params": params, "mean": zeros, "square": zeros, "count": jnp.int32(0)}

    def outside(state: Any, key: Any, obs: Any, running: Any, rate: Any) -> Any:
        """One iteration; steps of the env lie between compiled calls."""
        steps = []
        for _ in range(args.num_steps):
            key, chosen = act(state["params"], key, obs)
            results = env_step(chosen["action"])
            steps.append({**chosen, **outcome(results)})
            obs = results[0]
        batch = stacked(steps)
        running, episodes = episodes_of(running, batch)
        key, state = update(args, state, key, batch, obs, rate)
        return state, key, obs, running, episodes

    @jax.jit
    def inside(state: Any, key: Any, obs: Any, running: Any, rate: Any) -> Any:
        """One iteration; the compiled program calls the env."""

        def step(carry: Any, _: None) -> Any:
            key, obs = carry
            key, chosen = act(state["params"], key, obs)
            results = env_step(chosen["action"])
            return (key, results[0]), {**chosen, **outcome(results)}

        (key, obs), batch = jax.lax.scan(step, (key, obs), None, args.num_steps)
        running, episodes = episodes_of(running, batch)
        key, state = update(args, state, key, batch, obs, rate)
        return state, key, obs, running, episodes

    iterate = inside if args.inside_jit else outside
    obs, running = jnp.asarray(env.reset(seed=args.seed)[0]), jnp.zeros(args.num_envs)
    num_iterations = max(2, args.total_steps // (args.num_steps * args.num_envs))
    ended = []
    for iteration in range(num_iterations):
        rate = jnp.float32(args.learning_rate * (1 - iteration / num_iterations))
        state, key, obs, running, episodes = iterate(state, key, obs, running, rate)
        ended.append(episodes)
        if iteration == 0:
            jax.block_until_ready(state)
            started = time.perf_counter()
    jax.block_until_ready(state)
    seconds = time.perf_counter() - started
    env.close()
    last = ended[-max(1, num_iterations // 5) :]
    count, total = (float(sum(values)) for values in zip(*last, strict=True))
    return {
        "mean_return": total / max(1.0, count),
        "rows_per_second": (num_iterations - 1) * args.num_steps * args.num_envs / seconds,
    }


if __name__ == "__main__":
    print(train(tyro.cli(Args)))
