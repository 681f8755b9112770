"""A few steps on a GPU, to be run under compute-sanitizer: ``python short_run.py ID STEPS NAME=VALUE ...``.

``fault=overrun`` or ``fault=race`` plants a fault that the tool must find.
"""

import ast
import sys
from typing import Any

import gymnasium
import torch

import gpu_vecenv  # noqa: F401
import tests.roles  # noqa: F401
from gpu_vecenv.backend import cuda
from tests.sanitize.faults import ON_GPU
from tests.trees import map_tree


def plant(fault: str) -> None:
    """Make the CUDA back end compile a kernel with a planted fault."""
    _, piece, wrong, _ = ON_GPU[fault]
    right = cuda.kernel_source

    def faulty(*given: object) -> str:
        text = right(*given)
        assert text.count(piece) == 1
        return text.replace(piece, wrong)

    cuda.kernel_source = faulty


def sampled(env: gymnasium.vector.VectorEnv) -> Any:
    """Random actions on the GPU; by role if the env has roles."""
    sample = env.action_space.sample()
    return map_tree(lambda a: torch.as_tensor(a).to(torch.float32 if a.dtype.kind == "f" else torch.int32).cuda(),
                    dict(sample) if isinstance(sample, dict) else sample)  # fmt: skip


def main(env_id: str, steps: str, *options: str) -> None:
    """Reset, make random steps and rollouts, end episodes, reset some worlds, observe."""
    given = dict(option.split("=") for option in options)
    if "fault" in given:
        plant(given.pop("fault"))
    given = {name: ast.literal_eval(value) for name, value in given.items()}
    env = gymnasium.make_vec(env_id, device="cuda:0", array="torch", **given)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(int(steps)):
        env.step(sampled(env))
    env.unwrapped.rollout(env.unwrapped.rollout(num_steps=5)[4]["actions"])
    half = torch.arange(env.num_envs) < max(1, env.num_envs // 2)
    env.reset(options={"reset_mask": half})
    env.unwrapped.observe()
    torch.cuda.synchronize()
    env.close()
    print("ran")


if __name__ == "__main__":
    main(*sys.argv[1:])
