"""Trains governors and planner of WarpCovid-v0, and compares them with random and scripted play; takes two minutes on a CPU."""

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.covid import scripted
from gpu_vecenv.train import TrainConfig, Trainer, evaluate

OUT = "runs/covid"


def play(scenario: str) -> tuple[float, dict[str, float]]:
    """Return the planner's welfare over a published scenario of 405 days, and the metrics of the episode."""
    env = gymnasium.make_vec("WarpCovid-v0", num_envs=1, device="cpu", array="numpy", episode_length=405)
    env.reset(seed=0)
    welfare, info = 0.0, {}
    for levels, subsidy in zip(*scripted.actions(scenario), strict=True):
        _, reward, _, _, info = env.step({"governor": levels[None], "planner": np.full((1, 1), subsidy)})
        welfare += float(reward[0])
    return welfare, {name: float(value[0]) for name, value in info["episode"].items()}


def main(**options) -> None:
    """Train with the preset of the env, which ``options`` change, and print the comparison."""
    Trainer(TrainConfig("WarpCovid-v0", out=OUT, **{"env_kwargs": {"episode_length": 405}, **options})).train()
    random = {"governor": "random", "planner": "random"}
    print("trained:", evaluate(OUT).mean_return)
    print("random: ", evaluate(OUT, policy_map=random).mean_return)
    for scenario in scripted.SCRIPTS:
        welfare, metrics = play(scenario)
        deaths, unemployed = f"{metrics['deaths']:,.0f} thousand deaths", f"{metrics['unemployed']:.1f} % unemployed"
        print(f"{scenario}: planner {welfare:.1f}, {deaths}, {unemployed}")


if __name__ == "__main__":
    main()
