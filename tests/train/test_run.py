"""A run in the hands of its user: policies that act on arrays of any kind, its env, options, results and video."""

import numpy as np
import pytest
import torch
import wrapped_ids  # noqa: F401  (registers NormalTag-v0)

from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.train import (
    ConfigError,
    NetworkConfig,
    PPOConfig,
    Run,
    TrainConfig,
    Trainer,
    evaluate,
    load_checkpoint,
)

GAME = {"num_taggers": 2, "num_runners": 3, "episode_length": 8}


def trained(out, env_id="WarpTag-v0", **options):
    options = {"env_kwargs": GAME} | options
    config = TrainConfig(env_id, num_envs=4, total_steps=64, device="cpu", out=str(out), ppo=PPOConfig(num_steps=8), **options)
    with_out = Trainer(config, quiet=True)
    with_out.train()
    with_out.env.close()
    return Run(out)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "tag", evaluation_interval=2, evaluation_episodes=2)


def test_options_metrics_and_env_are_those_of_the_run(run):
    assert run.config.env_kwargs["num_runners"] == 3 and run.config.num_envs == 4
    assert [line["iteration"] for line in run.metrics] == [1, 2]
    env = run.make_env(num_worlds=5, device="cpu")
    assert env.num_worlds == 5 and env.params["episode_length"] == 8 and env.view == "worlds"
    env = run.make_env(2, device="cpu", view="agents", array="numpy", num_runners=6)
    assert env.num_envs == 16 and env.array == "numpy"


def test_the_likeliest_actions_are_those_of_evaluations_on_rows_and_on_worlds(run):
    env, policy = run.make_env(3, device="cpu"), run.policy("runner")
    obs, _ = env.reset(seed=0)
    runners = obs[:, 2:]
    by_world, state = policy.act(runners, deterministic=True)
    by_row, _ = policy.act(runners.reshape(9, -1), deterministic=True)
    module = policy.module
    logits = module.network.actor(module.obs_norm.forward(runners.reshape(9, -1)))
    likeliest = torch.stack([part.argmax(1) for part in logits.split(module.choices, 1)], 1)
    assert state is None and by_world.shape == (3, 3, 2) and by_world.dtype == torch.int32
    assert torch.equal(by_row.long(), likeliest) and torch.equal(by_world.reshape(9, 2), by_row)
    single, _ = policy.act(runners[1, 2], deterministic=True)
    assert torch.equal(single, by_world[1, 2])


def test_arrays_come_back_in_their_kind(run):
    policy = run.policy("runner")
    obs = np.zeros((4, *policy.observation_space.shape))  # float64, as NumPy makes them
    actions, _ = policy.act(obs, deterministic=True)
    assert isinstance(actions, np.ndarray) and actions.dtype == np.int32
    assert np.array_equal(actions, policy.act(torch.from_numpy(obs), deterministic=True)[0].numpy())
    with pytest.raises(ArrayTypeError, match="obs must be an array of torch, numpy, cupy, jax, got str"):
        policy.act("obs")
    with pytest.raises(ShapeError, match=r"obs of 'runner' must end with \(\d+,\), got \(3,\)"):
        policy.act(np.zeros(3))
    with pytest.raises(ConfigError, match="mask: expected None, as actions of 'runner' have no mask"):
        policy.act(obs, mask=np.ones((4, 2), bool))
    with pytest.raises(ConfigError, match="state: expected None"):
        policy.act(obs, state=np.ones((4, 2)))


def test_draws_depend_on_the_seed_and_differ_from_step_to_step_and_from_row_to_row(run):
    obs = torch.zeros(64, *run.policy("runner").observation_space.shape)
    first, second = (run.policy("runner", seed=seed) for seed in (0, 1))
    drawn, again = first.act(obs)[0], first.act(obs)[0]
    assert torch.equal(drawn, run.policy("runner").act(obs)[0])
    assert not torch.equal(drawn, again) and not torch.equal(drawn, second.act(obs)[0])
    assert len(drawn.unique(dim=0)) > 4


def test_a_policy_is_taken_by_name_and_from_the_best_checkpoint(run):
    with pytest.raises(ConfigError, match=r"Run.policy: expected the name of one of the run's policies \['tagger', 'runner'\]"):
        run.policy()
    weights = {best: run.policy("tagger", best=best).module.state_dict() for best in (False, True)}
    for best, file in ((True, "best.pt"), (False, "iteration-00000002.pt")):
        stored = load_checkpoint(run.folder / "checkpoint" / file)["policies"]["tagger"]
        assert all(torch.equal(weights[best][name], x) for name, x in stored.items())


def test_a_policy_with_a_state_goes_on_from_it(tmp_path):
    run = trained(tmp_path / "run", network=NetworkConfig(memory="gru", memory_size=8, hidden_sizes=()))
    policy = run.policy("runner", seed=0)
    obs = torch.rand(5, *policy.observation_space.shape)
    _, state = policy.act(obs)
    _, again = policy.act(obs, state=state)
    assert state.shape == (5, 8) and not torch.equal(state, again)
    assert torch.equal(policy.act(obs)[1], state)
    rows = policy.act(obs.view(1, 5, -1), state=state.view(1, 5, 8))[1]
    assert torch.allclose(rows, again.view(1, 5, 8), atol=1e-6)


def test_a_policy_that_reads_numbers_of_agents_gets_them_in_order(tmp_path):
    policy = trained(tmp_path / "run", network=NetworkConfig(agent_ids=True)).policy("runner")
    obs = torch.rand(2, 3, *policy.observation_space.shape)
    ordered = policy.act(obs, deterministic=True)[0]
    numbers = torch.tensor([[2, 3, 4]] * 2)
    assert torch.equal(ordered, policy.act(obs, agent=numbers, deterministic=True)[0])
    with pytest.raises(ConfigError, match="agent: expected the number of each row's agent"):
        policy.act(obs[:, :2])


def test_box_actions_are_in_the_units_of_the_env(tmp_path):
    policy = trained(tmp_path / "run", "WarpPendulum-v1", env_kwargs={}).policy()
    actions, _ = policy.act(np.zeros((3, 3), np.float32), deterministic=True)
    mean = policy.module.network.actor(policy.module.obs_norm.forward(torch.zeros(3, 3)))
    assert actions.shape == (3, 1) and np.allclose(actions, 2 * mean.detach().numpy(), atol=1e-6)


def test_statistics_of_wrappers_are_those_of_the_run_and_stay(tmp_path):
    run = trained(tmp_path / "run", "NormalTag-v0")
    with pytest.raises(ConfigError, match='make_env: expected view="agents" for NormalTag-v0, which has wrappers'):
        run.make_env(2, device="cpu")
    env = run.make_env(2, device="cpu", view="agents")
    first, second = (env.reset(seed=0)[0] for _ in range(2))
    raw, _ = env.unwrapped.reset(seed=0)
    assert torch.equal(first, second) and not torch.allclose(first, raw)
    moments = Trainer.resume(run.folder, quiet=True).env.wrappers["0 NormalizeObservation"].obs_rms
    mean, variance = (torch.as_tensor(x).float() for x in (moments.mean, moments.var))
    assert torch.allclose(first, (raw - mean) / torch.sqrt(variance + 1e-8), atol=1e-4)


def test_the_run_is_evaluated_and_filmed(run):
    result = run.evaluate(4, device="cpu")
    assert result == evaluate(run.folder, 4, device="cpu")
    assert run.watch(device="cpu", max_frames=2) == run.folder / "watch.mp4"


@pytest.mark.gpu
def test_arrays_of_the_gpu_come_back_in_their_kind_on_their_device(run):
    cupy = pytest.importorskip("cupy")
    policy, on_cpu = run.policy("runner"), run.policy("runner", device="cpu")
    obs = torch.rand(6, *policy.observation_space.shape)
    expected = on_cpu.act(obs, deterministic=True)[0]
    assert policy.device.type == "cuda"
    on_gpu = policy.act(obs.cuda(), deterministic=True)[0]
    assert on_gpu.device.type == "cuda" and torch.equal(on_gpu.cpu(), expected)
    of_cupy = policy.act(cupy.asarray(obs.numpy()), deterministic=True)[0]
    assert isinstance(of_cupy, cupy.ndarray) and np.array_equal(of_cupy.get(), expected.numpy())
    assert torch.equal(policy.act(obs, deterministic=True)[0], expected)
