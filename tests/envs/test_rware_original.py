"""The robot warehouse beside the package ``rware``: single steps from many states, and a policy that acts there.

They need the extra ``originals``. The variable RWARE_STATES sets the states of a configuration.
"""

import os

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.rware.spec import SPEC
from gpu_vecenv.train import Run, TrainConfig, Trainer
from tests.envs.rware_original import CONFIGURATIONS, compare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STATES = int(os.environ.get("RWARE_STATES", "10000"))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_step_from_each_state_is_the_originals(name):
    pytest.importorskip("rware")
    tally = compare(name, STATES)
    assert not tally.differing, tally.differing[:5]
    assert (tally.counts["deliveries"] > 0) == (SPEC.resolve(CONFIGURATIONS[name])["request_queue_size"] > 0)
    print(f"{STATES} states: {tally.counts}")


def test_a_policy_trained_here_delivers_in_the_original(tmp_path):
    """After 800,000 steps a policy brings several times as many shelves as random play, in both."""
    gym_ids = pytest.importorskip("rware") and gymnasium.registry
    config = TrainConfig("WarpRware-tiny-2ag-easy-v2", total_steps=800_000, device="cpu", out=str(tmp_path / "run"))
    Trainer(config, quiet=True).train()
    run = Run(tmp_path / "run")
    policy, original = run.policy("agent"), gymnasium.make(gym_ids["rware-tiny-2ag-easy-v2"]).unwrapped
    generator = np.random.default_rng(0)

    def mean_return(choose, episodes):
        total = 0.0
        for episode in range(episodes):
            obs, done = original.reset(seed=episode)[0], False
            while not done:
                obs, rewards, done, *_ = original.step(choose(np.stack(obs)))
                total += sum(rewards)
        return total / episodes / 2

    trained = mean_return(lambda obs: policy.act(obs)[0].tolist(), 10)
    random = mean_return(lambda obs: generator.integers(0, 5, 2).tolist(), 10)
    here = run.evaluate(64).mean_return["agent"]
    print(f"deliveries of a robot: {trained:.2f} in the original, {here:.2f} here, {random:.2f} at random")
    assert trained > 5 * random + 1
    assert abs(trained - here) < 0.35 * here
