"""Presets: options that work for the bundled envs. They replace what a run leaves out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.ppo import PPOConfig


@dataclass(frozen=True)
class Preset:
    """Values of the ``TrainConfig`` fields that a run leaves None."""

    num_envs: int = 64
    """Number of worlds."""
    total_steps: int = 500_000
    """Steps of the run, summed over worlds."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Hyperparameters of the update."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of the networks."""
    stagger_starts: bool = False
    """Start the worlds at different steps of an episode."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Env parameters, or functions of those that the run gives. Each holds unless the run gives a parameter of the same name."""

    def env_params(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the env parameters of a run that gives some of them."""
        own = {name: value(given) if callable(value) else value for name, value in self.env_kwargs.items()}
        return {**own, **given}


def _neighbours(given: dict[str, Any]) -> int:
    """Return 5, or the number of agents in a smaller game of Tag. Wrong numbers of agents get their error from the env."""
    counts = given.get("num_taggers", 5), given.get("num_runners", 100)
    return max(1, min(5, sum(counts))) if all(isinstance(count, int) for count in counts) else 5


TAG_PPO = PPOConfig(
    num_steps=50,
    num_epochs=2,
    num_minibatches=8,
    learning_rate=5e-3,  # tags are rare and few transitions informative, so steps and minibatches are large
    gamma=0.97,
    entropy_coef=0.0,
)
"""Hyperparameters for both kinds of Tag."""

# Classic control starts from the hyperparameters of RL Baselines3 Zoo (github.com/DLR-RM/rl-baselines3-zoo, hyperparams/ppo.yml),
# which has 1 to 16 worlds. With more worlds, rollouts are shorter and each has about as many minibatches.
PRESETS: dict[str, Preset] = {
    # Runners learn to escape trained taggers only if they observe their own place, speed and heading, and few neighbours, each of
    # which may be a tagger. At a top speed of 1, a tagger moves 2.5 times its reach in a step, and dodging hardly helps. Three
    # choices for an entry of an action are learned faster than 21, and short episodes have more free runners in each step.
    "WarpTag-v0": Preset(
        num_envs=8,
        total_steps=50_000,
        ppo=replace(TAG_PPO, num_epochs=4, entropy_coef=0.003),
        env_kwargs={
            "extended_observation": True,
            "num_other_agents_observed": _neighbours,
            "max_speed": 0.5,
            "num_acceleration_levels": 2,
            "num_turn_levels": 2,
            "episode_length": 200,
        },
    ),
    # An agent that observes all others must first find itself among them, which small networks hardly learn. Players seldom meet
    # by chance on this board, so rollouts are large.
    "WarpGridTag-v0": Preset(
        num_envs=512,
        total_steps=5_000_000,
        ppo=replace(TAG_PPO, num_epochs=4),
        env_kwargs={"use_full_observation": False},
    ),
    # A stringency acts on infections a month later and on jobs for years, so the discount is small and rollouts are a third of an
    # episode. With gamma 0.995 and a constant rate governors become worse than random play. On a GPU 256 worlds learn more.
    "WarpCovid-v0": Preset(
        num_envs=8,
        total_steps=60_000,
        ppo=PPOConfig(
            num_steps=180,
            learning_rate=2e-3,
            gamma=0.999,
            gae_lambda=0.995,
            value_coef=1.0,
            entropy_coef=0.001,
            entropy_coef_final=0.0,
            max_grad_norm=5.0,
        ),
        stagger_starts=True,
    ),
    # Many worlds and a large rate need few iterations, which is the shortest way on a GPU.
    "WarpCartPole-v1": Preset(
        num_envs=512,
        total_steps=1_000_000,
        ppo=PPOConfig(num_steps=64, num_minibatches=4, learning_rate=4e-3, clip_value=False, entropy_coef=0.0),
    ),
    # Zoo: 16 worlds, 256 steps, gamma 0.99, lambda 0.94, 4 epochs, both normalised.
    "WarpAcrobot-v1": Preset(
        num_envs=64,
        total_steps=1_000_000,
        ppo=PPOConfig(num_steps=64, num_minibatches=16, learning_rate=1e-3, gae_lambda=0.94, entropy_coef=0.0),
    ),
    # Zoo: 16 worlds, 16 steps, gamma 0.99, lambda 0.98, 4 epochs, both normalised. An episode lasts up to 200 steps, and only the
    # goal ends it earlier. Longer rollouts and the entropy bonus help to find it.
    "WarpMountainCar-v0": Preset(
        num_envs=64,
        total_steps=2_000_000,
        ppo=PPOConfig(num_steps=64, num_minibatches=4, learning_rate=1e-3, gae_lambda=0.98, entropy_coef=0.01),
    ),
    # Zoo: 1 world, 8 steps, gamma 0.9999, lambda 0.9, 10 epochs, value weight 0.19, gradient norm 5, both normalised. It explores
    # with noise that stays over several steps (gSDE), which PPO here does not have; wide noise, a bonus for it and many worlds do
    # the same.
    "WarpMountainCarContinuous-v0": Preset(
        num_envs=64,
        total_steps=1_000_000,
        ppo=PPOConfig(
            num_steps=128,
            num_epochs=10,
            num_minibatches=8,
            learning_rate=1e-3,
            gamma=0.999,
            clip_coef=0.1,
            value_coef=0.19,
            entropy_coef=0.05,
            max_grad_norm=5.0,
        ),
        network=NetworkConfig(log_std=1.0),
    ),
    # Zoo: 4 worlds, 1,024 steps, gamma 0.9, lambda 0.95, 10 epochs of 64 minibatches, rate 1e-3. In longer runs, and
    # with a constant rate, the return falls again.
    "WarpPendulum-v1": Preset(
        num_envs=64,
        total_steps=400_000,
        ppo=PPOConfig(
            num_steps=64,
            num_epochs=10,
            num_minibatches=8,
            learning_rate=1e-3,
            clip_value=False,
            gamma=0.9,
            entropy_coef=0.0,
        ),
    ),
}
"""Presets by env id (without namespace); other envs have ``Preset()``."""


def preset_of(env_id: str) -> Preset:
    """Return the preset of an env."""
    return PRESETS.get(env_id.split("/")[-1].split(":")[-1], Preset())
