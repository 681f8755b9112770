"""Rollouts, resets and collectors of ``TorchRLEnv``, compared with the vector env stepped directly."""

import gymnasium
import pytest
import torch
from tensordict import TensorDict
from torchrl.collectors import AsyncCollector, Collector, MultiSyncCollector
from torchrl.envs import GymWrapper, RewardSum, StepCounter, TransformedEnv

import gpu_vecenv  # noqa: F401
from gpu_vecenv.adapters.torchrl import TorchRLEnv
from tests.adapters.test_torchrl import TAG, assert_same, cartpole, tag
from tests.devices import DEVICES

works = lambda what: pytest.mark.works("TorchRL", what)  # noqa: E731

ENVS = {
    "tag": ("WarpTag-v0", {**TAG, "episode_length": 9, "tagging_distance": 0.4}),
    "grid tag": ("WarpGridTag-v0", {"episode_length": 8, "grid_length": 4}),
    "cartpole": ("WarpCartPole-v1", {"max_episode_steps": 14}),
    "pendulum": ("WarpPendulum-v1", {"max_episode_steps": 6}),
}


def joint(data, env, key):
    """Values of a key for all agents in the order of a world, [W, (T,) A, ...]; with one agent [W, (T,) ...]."""
    if not env.group_map:
        return data[key]
    return torch.cat([data[role, key] for role in env.group_map], dim=data.batch_dims)


def replay(name, num_worlds, seed, actions):
    """Results of a vector env in same-step mode for the same actions [W, T, ...]: a list of dicts of NumPy arrays."""
    env_id, params = ENVS[name]
    env = gymnasium.make_vec(env_id, num_worlds=num_worlds, device="cpu", array="numpy", autoreset_mode="same_step", **params)
    obs, _ = env.reset(seed=seed)
    steps = []
    for action in actions.unbind(1):
        before = obs
        obs, reward, terminated, truncated, info = env.step(action.numpy())
        after = obs.copy()
        after[info["_final_obs"]] = info["final_obs"][info["_final_obs"]]
        steps.append(
            {
                "observation": before,
                "next": after,
                "reward": info.get("agent_reward", reward),
                "terminated": terminated,
                "truncated": truncated,
                "mask": info.get("agent_alive"),
            }
        )
    return steps


@works("rollouts with resets in between, with the true last observation of each episode")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ENVS)
def test_a_rollout_equals_the_steps_of_the_vector_env(name, device):
    """Compares after the whole rollout, so that a step that overwrites earlier results is found."""
    env_id, params = ENVS[name]
    env = TorchRLEnv(env_id, 5, device=device, **params)
    env.set_seed(11)
    torch.manual_seed(0)
    data = env.rollout(60, break_when_any_done=False).cpu()
    steps = replay(name, 5, 11, joint(data, env, "action"))
    ends = 0
    for t, expected in enumerate(steps):
        now = data[:, t]
        assert joint(now, env, "observation").numpy().tobytes() == expected["observation"].tobytes(), t
        assert joint(now["next"], env, "observation").numpy().tobytes() == expected["next"].tobytes(), t
        assert joint(now["next"], env, "reward").squeeze(-1).numpy().tobytes() == expected["reward"].tobytes(), t
        for flag in ("terminated", "truncated"):
            assert (now["next", flag].squeeze(-1).numpy() == expected[flag]).all(), t
            assert not now[flag].any()
        assert now["next", "done"].equal(now["next", "terminated"] | now["next", "truncated"])
        if env.group_map:
            assert (joint(now["next"], env, "mask").numpy() == expected["mask"]).all(), t
            if t:
                kept = joint(data[:, t - 1]["next"], env, "mask") | data[:, t - 1]["next", "done"]
                assert joint(now, env, "mask").equal(kept)  # after a reset all agents are in the game
        ends += int(now["next", "done"].sum())
    assert ends > 10
    if name == "tag":
        assert not joint(data, env, "mask").all() and data["next", "terminated"].any() and data["next", "truncated"].any()


@pytest.mark.parametrize("make", [tag, cartpole])
def test_returned_tensors_are_never_written_again(make):
    env = make()
    state = env.reset()
    kept, copies = [], []
    for _ in range(40):
        done_step, state = env.step_and_maybe_reset(env.rand_action(state))
        kept.append(done_step)
        copies.append(done_step.clone())
    for held, copy in zip(kept, copies, strict=True):
        assert_same(held, copy)


@works("partial resets")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ENVS)
def test_a_mask_resets_its_worlds_only(name, device):
    env_id, params = ENVS[name]
    env = TorchRLEnv(env_id, 4, device=device, **params)
    plain = gymnasium.make_vec(env_id, num_worlds=4, device="cpu", array="numpy", autoreset_mode="disabled", **params)
    env.set_seed(3)
    plain.reset(seed=3)
    state, mask = env.reset(), torch.tensor([True, False, False, True], device=device)
    for _ in range(3):
        state = env.rand_action(state)
        plain.step(joint(state, env, "action").cpu().numpy())
        state = env.step_mdp(env.step(state))
    before = state.clone()
    after = env.reset(state.clone().set("_reset", mask.unsqueeze(-1)))
    obs, _ = plain.reset(options={"reset_mask": mask.cpu().numpy()})
    assert joint(after, env, "observation").cpu().numpy().tobytes() == obs.tobytes()
    assert_same(after[~mask].exclude("action", *((role, "action") for role in env.group_map)),
                before[~mask].exclude("action", *((role, "action") for role in env.group_map)))  # fmt: skip
    assert not joint(after, env, "observation")[mask].equal(joint(before, env, "observation")[mask])
    assert not after["done"][mask].any()
    if env.group_map:
        assert joint(after, env, "mask")[mask].all()
    action = env.rand_action(after)
    expected = plain.step(joint(action, env, "action").cpu().numpy())[0]
    assert joint(env.step(action)["next"], env, "observation").cpu().numpy().tobytes() == expected.tobytes()


def test_an_empty_mask_resets_nothing_and_a_full_mask_resets_all():
    env = cartpole()
    state = env.reset()
    none = env.reset(TensorDict({"_reset": torch.zeros(4, 1, dtype=torch.bool)}, [4]).update(state))
    assert none["observation"].equal(state["observation"])
    every = env.reset(TensorDict({"_reset": torch.ones(4, 1, dtype=torch.bool)}, [4]).update(state))
    assert not (every["observation"] == state["observation"]).any(1).any()


@pytest.mark.filterwarnings("ignore:A partial `'_reset'` key")
def test_a_partial_reset_keeps_finished_worlds_and_caught_agents():
    """This also holds if the tensordict passed to ``reset`` contains only the mask."""

    def steps(state, count):
        for _ in range(count):
            state = env.step_mdp(env.step(env.rand_action(state)))
        return state

    def reset(*worlds):
        mask = torch.zeros(6, 1, dtype=torch.bool)
        mask[list(worlds)] = True
        return env.reset(TensorDict({"_reset": mask}, [6]))

    env = tag(6, episode_length=9, tagging_distance=0.25)
    env.set_seed(0)
    torch.manual_seed(0)
    state = steps(env.reset(), 6)
    reset(0, 1, 2)
    state = steps(state, 3)
    over, left = state["truncated"].squeeze(-1), ~state["runner", "mask"]
    assert over.tolist() == [False] * 3 + [True] * 3 and left[[1, 2, 4, 5]].any(1).sum() > 1
    after = reset(0, 3)
    assert after["truncated"].squeeze(-1).tolist() == [False] * 4 + [True] * 2
    assert env._reset(TensorDict({"_reset": torch.zeros(6, 1).bool()}, [6]))["runner", "mask"].equal(
        ~left | torch.tensor([1, 0, 0, 1, 0, 0]).bool().unsqueeze(1)
    )


def test_finished_worlds_wait_for_the_others():
    env = cartpole(8)
    env.set_seed(1)
    torch.manual_seed(1)
    data = env.rollout(500, break_when_all_done=True)
    done = data["next", "done"].squeeze(-1)
    assert done[:, -1].all() and not done[:, -2].all()
    lengths = (~done).sum(1) + 1
    assert len(lengths.unique()) > 2
    torch.manual_seed(1)
    env.set_seed(1)
    alone = env.rollout(500, break_when_any_done=False)
    for world, length in enumerate(lengths.tolist()):
        assert data["observation"][world, :length].equal(alone["observation"][world, :length])
        assert (data["next", "observation"][world, length - 1 :] == data["next", "observation"][world, length - 1]).all()


@works("transforms that end episodes or count them: StepCounter, RewardSum")
def test_transforms_may_end_episodes():
    """A time limit of TorchRL's own resets worlds whose episodes go on in the env."""
    env = TransformedEnv(cartpole(), StepCounter(max_steps=5))
    data = env.rollout(23, break_when_any_done=False)
    ended = data["next", "truncated"].squeeze(-1)
    assert ended[:, [4, 9, 14, 19]].all() and ended.sum() == 16
    assert (data["observation"][:, [0, 5, 10, 15, 20]].abs() <= 0.05).all()  # a start of CartPole
    assert (data["next", "observation"][:, [4, 9, 14, 19]].abs() > 0.05).any(-1).all()

    env = tag()
    env = TransformedEnv(
        env, RewardSum(in_keys=[(role, "reward") for role in env.group_map],
                       out_keys=[(role, "episode_reward") for role in env.group_map]))  # fmt: skip
    data = env.rollout(40, break_when_any_done=False)
    for role in ("tagger", "runner"):
        total = torch.zeros(4, data[role].shape[-1], 1)
        for t in range(40):
            total = total + data["next", role, "reward"][:, t]
            assert data["next", role, "episode_reward"][:, t].equal(total)
            total = total * ~data["next", "done"][:, t].unsqueeze(-1)


@works("Collector")
@pytest.mark.parametrize("make", [tag, cartpole])
def test_a_collector_continues_where_its_last_batch_stopped(make):
    def batches():
        torch.manual_seed(0)
        env = make(3)
        env.set_seed(9)
        collector = Collector(env, None, frames_per_batch=60, total_frames=180)
        held = [data.clone() for data in collector]
        collector.shutdown()
        return held

    first, second, third = batches()
    for again, once in zip(batches(), (first, second, third), strict=True):
        assert_same(again, once)
    leaf = ("runner", "observation") if make is tag else "observation"
    for before, after in ((first, second), (second, third)):
        assert after.shape == (3, 20)
        going = ~before["next", "done"][:, -1].squeeze(-1)
        assert after[leaf][going, 0].equal(before["next"][leaf][going, -1])
    ids = torch.cat([data["collector", "traj_ids"] for data in (first, second, third)], 1)
    done = torch.cat([data["next", "done"] for data in (first, second, third)], 1).squeeze(-1)
    assert ((ids[:, 1:] != ids[:, :-1]) == done[:, :-1]).all() and done.any()


@works("TorchRL's GymWrapper, with autoreset_mode='disabled'")
@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_torchrls_own_wrapper_gives_the_same_results(array):
    options = {"device": "cpu", "array": array, "autoreset_mode": "disabled", "max_episode_steps": 6}
    env = gymnasium.make_vec("WarpPendulum-v1", num_envs=4, **options)
    wrapped = GymWrapper(env)
    wrapped.set_seed(1)  # set_seed() resets
    data = wrapped.rollout(15, break_when_any_done=False)
    env.reset(seed=1)
    env.reset()
    for t in range(15):
        obs, *_, truncated, _ = env.step(data["action"][:, t])
        assert data["next", "observation"][:, t].equal(torch.as_tensor(obs))
        assert (data["next", "done"][:, t, 0] == torch.as_tensor(truncated)).all() and truncated.all() == (t in (5, 11))
        if truncated.all():
            env.reset()


@pytest.mark.limit("TorchRL", "TorchRL's GymWrapper in the default mode: it checks rows of final_obs without an ended episode")
def test_torchrls_own_wrapper_checks_rows_without_content():
    class Spoilt(gymnasium.vector.VectorWrapper):
        autoreset_mode = gymnasium.vector.AutoresetMode.SAME_STEP

        def step(self, actions):
            out = super().step(actions)
            out[4]["final_obs"][~out[4]["_final_obs"]] = float("nan")
            return out

    env = Spoilt(gymnasium.make_vec("WarpPendulum-v1", num_envs=4, device="cpu", max_episode_steps=6))
    with pytest.raises(AssertionError, match="spec check failed"):
        GymWrapper(env).rollout(7, break_when_any_done=False)


@pytest.mark.limit("TorchRL", "TorchRL's GymWrapper on a GPU in the disabled mode: it reads the reset mask as a NumPy array")
def test_torchrls_own_wrapper_reads_masks_on_the_host(monkeypatch):
    """Every tensor raises the error that ``numpy()`` raises for a tensor on a GPU."""

    def refuse(tensor):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    options = {"array": "torch", "autoreset_mode": "disabled", "max_episode_steps": 6}
    wrapped = GymWrapper(gymnasium.make_vec("WarpPendulum-v1", num_envs=4, device="cpu", **options))
    data = wrapped.reset()
    data["_reset"] = torch.tensor([[True], [False], [True], [False]])
    monkeypatch.setattr(torch.Tensor, "numpy", refuse)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy") as caught:
        wrapped.reset(data)
    assert caught.traceback[-2].path.name == "gym.py"  # raised in TorchRL's code


@pytest.mark.slow
@works("AsyncCollector and MultiSyncCollector, with an env in each process")
@pytest.mark.parametrize("make_collector", [
    lambda env: AsyncCollector(env, None, frames_per_batch=60, total_frames=120),
    lambda env: MultiSyncCollector([env, env], None, frames_per_batch=60, total_frames=120),
])  # fmt: skip
def test_collectors_in_other_processes_deliver_all_frames(make_collector):
    collector = make_collector(lambda: tag(3))
    try:
        frames = 0
        for data in collector:
            frames += data.numel()
            assert data["runner", "observation"].isfinite().all() and data["runner"].shape[-1] == 3
        assert frames == 120
    finally:
        collector.shutdown()


@pytest.mark.gpu
@works("steps on the GPU without waiting for it")
@pytest.mark.parametrize("name", ENVS)
def test_a_step_does_not_wait_for_the_device(name):
    env_id, params = ENVS[name]
    env = TorchRLEnv(env_id, 64, device="cuda:0", **params)
    state = env.step(env.rand_action(env.reset()))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            state = env.step(state.exclude("next"))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(leaf.is_cuda for leaf in state.values(True, True))
