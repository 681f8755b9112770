"""A few steps on a GPU, for running under compute-sanitizer: ``python short_run.py ID STEPS NAME=VALUE ...``."""

import ast
import sys

import gymnasium
import torch

import gpu_vecenv  # noqa: F401


def main(env_id: str, steps: str, *options: str) -> None:
    """Reset, step with random actions, end episodes, reset a part, look."""
    given = {name: ast.literal_eval(value) for name, _, value in (option.partition("=") for option in options)}
    env = gymnasium.make_vec(env_id, device="cuda:0", array="torch", **given)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(int(steps)):
        env.step(torch.as_tensor(env.action_space.sample(), dtype=torch.int32).cuda())
    half = torch.arange(env.num_envs) < max(1, env.num_envs // 2)
    env.reset(options={"reset_mask": half})
    env.unwrapped.observe()
    torch.cuda.synchronize()
    env.close()
    print("ran")


if __name__ == "__main__":
    main(*sys.argv[1:])
