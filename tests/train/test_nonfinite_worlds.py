"""A run that an env stops with a NaN names role, world and step, and leaves the world for ``gpu-vecenv replay``."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import gpu_vecenv
from gpu_vecenv import EnvSpec, Field, GpuVectorEnv, Role
from gpu_vecenv.cli.main import main
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.errors import NonFiniteError

KERNEL = """#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) me.taken = 0;
}
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        me.taken += me.action.index() == 2;
        const float zero = (float)(me.taken / LIMIT);  // 0 until an agent has taken its LIMIT-th coin
        me.reward = me.index == 3 ? 1.0f + zero / (1.0f - zero) * 0.0f : 1.0f;
    }
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {(float)me.taken, OBSERVED};
}
"""
REWARD, OBSERVATION = "0.0f", "me.index == 3 && me.taken >= LIMIT ? 1.0f / (float)(me.taken - me.taken) : 0.0f"


@pytest.fixture
def run(tmp_path):
    """A function that returns a run whose env goes wrong in the third iteration."""

    def made(observed, **more):
        kernel = tmp_path / "coins.cu"
        text = KERNEL.replace("OBSERVED", observed)
        kernel.write_text((text if observed == REWARD else text.replace("me.index == 3 ? 1.0f", "me.index == 9 ? 1.0f"))
                          .replace("LIMIT", "14"))  # fmt: skip
        spec = EnvSpec(
            name="Coins-v0", kernel=kernel, roles=(Role("red", 2), Role("blue", 2)), params=(),
            state=(Field("taken", "int32", ("num_agents",), "coins"),),
            observation=lambda params: Box(-np.inf, np.inf, (2,), np.float32), action=lambda params: Discrete(3),
        )  # fmt: skip
        gymnasium.register("Coins-v0", vector_entry_point=partial(GpuVectorEnv, spec))
        config = TrainConfig("Coins-v0", num_envs=3, total_steps=3 * 10 * 8, device="cpu", seed=4,
                             ppo=PPOConfig(num_steps=10, num_epochs=1, num_minibatches=1),
                             network=NetworkConfig(hidden_sizes=(8,)), **more)  # fmt: skip
        return Trainer(config, quiet=True)

    yield made
    gymnasium.registry.pop("Coins-v0", None)


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 4])
@pytest.mark.parametrize(("observed", "what"), [(REWARD, "reward"), (OBSERVATION, r"observation\[1\]")])
def test_the_world_of_a_run_is_made_again(observed, what, in_flight, run, tmp_path, capsys):
    trainer = run(observed, out=str(tmp_path / "run"))
    trainer.pipeline.most = in_flight
    said = (
        rf"^iteration [345]: policy 'blue': .*; world \d \(seed 4, id \d, episode 0\), \d+ steps after step \d0: {what} of "
        r"agent 3 \(blue 1\) is (-?nan|inf); gpu-vecenv replay "
    )
    with pytest.raises(NonFiniteError, match=said) as caught:
        trainer.train()
    trainer.close()
    world = gpu_vecenv.read_recording(caught.value.file).parts[0]
    steps = list(gpu_vecenv.replay(caught.value.file))
    assert len(steps) == len(world.actions[""]) and world.state["t"][0] % 10 == 0
    name = "agent_reward" if observed == REWARD else "obs"
    assert [bool(np.isfinite(step.outputs[name]).all()) for step in steps] == [True] * (len(steps) - 1) + [False]
    taken = world.state["taken"][0, 3] + (world.actions[""][:, 0, 3] == 2).sum()  # counted without the env
    assert taken == 14 and world.actions[""][-1, 0, 3] == 2
    assert main(["replay", caught.value.file]) == 0
    assert "the same bits as recorded on cpu" in capsys.readouterr().out


def test_a_run_without_a_folder_says_why_there_is_no_file(run):
    trainer = run(REWARD)
    with pytest.raises(NonFiniteError, match="no file of the world, because the run has no folder with checkpoints") as caught:
        trainer.train()
    assert caught.value.file is None
    trainer.close()
