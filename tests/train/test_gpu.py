"""Training on a GPU: iterations never wait for the device, and a resumed run is exact."""

import dataclasses

import pytest
import role_envs  # noqa: F401  (registers Town-v0 and Pairs-v0)
import torch
from ways import WAYS

from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer, evaluate, load_checkpoint
from gpu_vecenv.train.config import SMALL_TAG

pytestmark = pytest.mark.gpu


def by_role(env_id, **policy_map):
    """A run of an env by role; without a map each role has a policy of its own."""
    return TrainConfig(env_id, num_envs=64, env_kwargs={"max_episode_steps": 40}, ppo=PPOConfig(), policy_map=policy_map or None)


CONFIGS = {
    "tag": SMALL_TAG,
    "town": by_role("Town-v0"),
    "random": by_role("Town-v0", citizen="random", mayor="mayor"),
    "pairs": by_role("Pairs-v0"),
    "one policy": by_role("Pairs-v0", left="one", right="one"),
}
RUNS = [("tag", False), *((name, True) for name in CONFIGS)]


@pytest.fixture(params=RUNS, ids=[f"{name}{' bootstrap' * bootstrap}" for name, bootstrap in RUNS])
def config(request):
    name, bootstrap = request.param
    ppo = dataclasses.replace(CONFIGS[name].ppo, num_steps=30, bootstrap_at_time_limit=bootstrap)
    return dataclasses.replace(CONFIGS[name], device="cuda:0", total_steps=64 * 30 * 6, ppo=ppo)


@pytest.mark.parametrize("way", ["eager", "graph", "fused"])
def test_an_iteration_never_waits_for_the_gpu(config, way):
    trainer = Trainer(dataclasses.replace(config, **WAYS[way]), quiet=True)
    trainer.train(iterations=1 if way == "eager" else 4)  # libraries load, memory pools fill, and the graph is captured
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):  # past the end of an episode
            trainer.launch()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_an_interrupted_run_equals_an_uninterrupted_one(config, tmp_path):
    whole = Trainer(config, quiet=True)
    whole.train()
    first = Trainer(config, quiet=True)
    first.train(iterations=4)
    second = Trainer.resume(first.save(tmp_path / "half.pt"), quiet=True)
    second.train()
    a, b = (load_checkpoint(t.save(tmp_path / f"{i}.pt")) for i, t in enumerate((whole, second)))
    for part in ("policies", "episodes"):
        for name, x in flatten(a[part]).items():
            assert torch.equal(x, flatten(b[part])[name]), name
    for name, x in a["collector"]["env"].items():
        torch.testing.assert_close(x, b["collector"]["env"][name], rtol=0, atol=0, equal_nan=True)  # metrics may be NaN


@pytest.mark.parametrize(("before", "after"), [("cuda:0", "cpu"), ("cpu", "cuda:0")])
def test_a_run_can_be_resumed_on_another_kind_of_device(config, tmp_path, before, after):
    first = Trainer(dataclasses.replace(config, device=before), quiet=True)
    first.train(iterations=1)
    second = Trainer.resume(first.save(tmp_path / "run.pt"), quiet=True, device=after)
    second.train(iterations=1)
    assert second.iteration == 2


def flatten(x):
    nested = {k: flatten(v) if isinstance(v, dict) else {"": v} for k, v in x.items()}
    return {f"{k}/{n}": v for k, inner in nested.items() for n, v in inner.items()}


def test_a_checkpoint_from_the_gpu_can_be_evaluated_on_the_cpu(config, tmp_path):
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=1)
    result = evaluate(trainer.save(tmp_path / "run.pt"), episodes=4, device="cpu")
    assert result.mean_length <= 100.0
