"""Trains the regions of WarpRice-v0 without and with negotiation, and compares both with random play under the same masks.

It takes some minutes on a CPU. Agreements mask low rates of mitigation, so that the world warms less even if all play at random.
"""

from typing import Any

from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer, evaluate

OUT = "runs/rice"
# A period has three steps with negotiation, so rollouts are three times as long and the discount of a step is smaller.
NEGOTIATION = PPOConfig(num_steps=60, num_minibatches=8, learning_rate=5e-3, gamma=0.99, clip_value=False, entropy_coef=0.0)
RUNS: dict[bool, dict[str, Any]] = {False: {}, True: {"num_envs": 4, "total_steps": 14_400, "ppo": NEGOTIATION}}
"""Options beside those of the env's preset, by whether regions negotiate."""


def main(**options: Any) -> None:
    """Train both runs, whose options ``options`` change, and print a line for trained and one for random play of each."""
    lines = ["negotiation  play     return  warming, K  gross output, trillion USD/year, all periods"]
    for negotiates, run in RUNS.items():
        out = f"{OUT}-{'with' if negotiates else 'without'}"
        params = {"negotiation_on": negotiates}
        Trainer(TrainConfig("WarpRice-v0", env_kwargs=params, out=out, **{**run, **options})).train()
        for play, policies in (("trained", None), ("random", {"region": "random"})):
            result = evaluate(out, 8, policy_map=policies)
            words = f"{'yes' if negotiates else 'no':11}  {play:7}  {result.mean_return['region']:6.2f}"
            warming, output = (result.mean_metrics[name] for name in ("temperature_rise", "gross_output"))
            lines.append(f"{words}  {warming:10.2f}  {output:,.0f}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
