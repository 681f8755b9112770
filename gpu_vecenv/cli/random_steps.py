"""Random steps of an env, in the process that ``gpu-vecenv debug`` starts: ``python -m gpu_vecenv.cli.random_steps JSON``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.errors import HookFault, NonFiniteError
from gpu_vecenv.train.runner.build import make_vec


def main(
    env_id: str, params: Mapping[str, Any], num_worlds: int, steps: int, seed: int, device: str, writes_worlds: bool = True
) -> int:
    """Step worlds with random actions.

    Returns:
        0, or 1 after a fault of a hook or a number that is not finite, which is printed in one line. With ``writes_worlds`` the
        line names a file of the world; its steps are made again to find it.
    """
    env = make_vec(env_id, params, {"num_worlds": num_worlds, "device": device, "debug": writes_worlds})
    env.action_space.seed(seed)
    try:
        env.reset(seed=seed)
        for _ in range(steps):
            env.step(env.action_space.sample())
    except (HookFault, NonFiniteError) as error:
        print(f"gpu-vecenv debug: {error}", file=sys.stderr)
        return 1
    finally:
        env.close()
    print(f"{env_id}: {steps} random steps of {num_worlds} worlds on {device}, no fault")
    return 0


if __name__ == "__main__":
    sys.exit(main(**json.loads(sys.argv[1])))
