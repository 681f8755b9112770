"""Interface of ``TorchRLEnv``: specs, groups, batch size, seeds, actions, errors."""

import importlib
import subprocess
import sys

import gymnasium
import pytest
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from torchrl.data import Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot
from torchrl.envs import SerialEnv
from torchrl.envs.utils import check_env_specs, check_marl_grouping
from torchrl.record import PixelRenderTransform

from gpu_vecenv.adapters.torchrl import TorchRLEnv
from gpu_vecenv.errors import ActionError, ClosedError, DeviceError, MissingExtraError, ParameterError, SequenceError
from gpu_vecenv.registration import IDS as REGISTERED
from gpu_vecenv.variants import VARIANTS
from tests.devices import DEVICES
from tests.ids import marked

works, limit = (lambda what, mark=mark: mark("TorchRL", what) for mark in (pytest.mark.works, pytest.mark.limit))

# Episodes end within the three steps that check_env_specs makes.
IDS = {
    "WarpTag-v0": {"num_taggers": 2, "num_runners": 3, "episode_length": 2},
    "WarpGridTag-v0": {"num_taggers": 3, "episode_length": 2},
    "WarpCovid-v0": {"episode_length": 2},
    "WarpCatalysis-v0": {"episode_length": 2},
    "WarpRice-v0": {"negotiation_on": True},
    "WarpCartPole-v1": {"max_episode_steps": 2},
    "WarpAcrobot-v1": {"max_episode_steps": 2},
    "WarpMountainCar-v0": {"max_episode_steps": 2},
    "WarpMountainCarContinuous-v0": {"max_episode_steps": 2},
    "WarpPendulum-v1": {"max_episode_steps": 2},
    "WarpRecall-v0": {"delay": 2},
    "WarpForaging-v3": {"max_episode_steps": 2},
    "WarpRware-v2": {"max_steps": 2},
    **{name: {"max_cycles": 2} for name in REGISTERED if name.startswith("WarpSimple")},
}
TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 30, "tagging_distance": 0.15}


def tag(num_worlds=4, **options):
    return TorchRLEnv("WarpTag-v0", num_worlds, **{"device": "cpu", **TAG, **options})


def cartpole(num_worlds=4, **options):
    return TorchRLEnv("WarpCartPole-v1", num_worlds, **{"device": "cpu", **options})


def assert_same(left, right):
    """Assert that two tensordicts hold the same bits under the same keys."""
    names = set(left.keys(True, True))
    assert names == set(right.keys(True, True))
    for name in names:
        torch.testing.assert_close(left[name], right[name], rtol=0, atol=0, equal_nan=True, msg=str(name))


def test_every_registered_id_is_tested():
    assert set(IDS) == {env_id for env_id in gymnasium.registry if env_id.startswith("Warp")} - set(VARIANTS)


@works("every id passes check_env_specs, with indices and with one-hot actions")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("env_id", [marked(name) for name in IDS])
def test_data_match_the_specs(env_id, categorical, device):
    env = TorchRLEnv(env_id, 3, device=device, categorical_actions=categorical, **IDS[env_id])
    check_env_specs(env, break_when_any_done="both")
    check_env_specs(env, seed=0)
    assert all(leaf.device == torch.device(device) for leaf in env.rollout(3).values(True, True))


@pytest.mark.parametrize("kind", ["flatten_actions", "continuous_actions", "use_full_observation"])
def test_data_of_tags_variants_match_the_specs(kind):
    check_env_specs(tag(3, **{kind: True}), break_when_any_done="both")


@works("roles as groups, with a mask of agents in the game")
def test_roles_are_groups():
    env = tag()
    assert env.group_map == {"tagger": ["tagger_0", "tagger_1"], "runner": ["runner_0", "runner_1", "runner_2"]}
    check_marl_grouping(env.group_map, env.agent_names)
    data = env.rollout(5, break_when_any_done=False)
    features = env.vector_env.single_observation_space.shape[-1]
    for role, agents in (("tagger", 2), ("runner", 3)):
        assert data[role].batch_size == (4, 5, agents) == data["next", role].batch_size
        assert data[role, "observation"].shape == (4, 5, agents, features)
        assert data[role, "action"].shape == (4, 5, agents, 2)
        assert data["next", role, "reward"].shape == (4, 5, agents, 1)
        assert data["next", role, "mask"].shape == (4, 5, agents)
    assert {name for name in data["next"].keys(True, True) if "done" in name} == {"done"}
    assert env.done_keys == ["done", "terminated", "truncated"] and env.reset_keys == ["_reset"]


@works("worlds of one agent, with plain keys")
def test_one_agent_has_plain_keys():
    env = cartpole()
    data = env.rollout(5, break_when_any_done=False)
    assert env.group_map == {} and env.agent_names == []
    assert set(data["next"].keys(True, True)) == {"observation", "reward", "done", "terminated", "truncated"}
    assert data["observation"].shape == (4, 5, 4) and data["action"].shape == (4, 5)
    assert data["next", "reward"].shape == (4, 5, 1)


@works("a batch size equal to the number of worlds; stacks of envs")
@pytest.mark.parametrize("make", [tag, cartpole])
@pytest.mark.parametrize("num_worlds", [1, 5])
def test_batch_size_is_the_number_of_worlds(make, num_worlds):
    env = make(num_worlds)
    assert env.batch_size == (num_worlds,) and env.reset().batch_size == (num_worlds,)
    assert env.rollout(3, break_when_any_done=False).batch_size == (num_worlds, 3)
    stack = SerialEnv(2, lambda: make(num_worlds))
    assert stack.rollout(40, break_when_any_done=False).batch_size == (2, num_worlds, 40)
    stack.close()


@works("seeds")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [tag, cartpole])
def test_a_seed_repeats_an_episode(make, device):
    def run(env, seed):
        torch.manual_seed(0)  # seeds the random actions
        env.set_seed(seed)
        return env.rollout(20, break_when_any_done=False)

    env = make(device=device)
    first = run(env, 3)
    assert_same(run(env, 3), first)
    assert_same(run(make(device=device), 3), first)
    leaf = ("tagger", "observation") if make is tag else "observation"
    assert not run(env, 4)[leaf].equal(first[leaf])
    assert not first[leaf][0, 0].equal(first[leaf][1, 0])  # worlds start in different states


def test_a_seed_is_used_by_the_next_reset_only():
    env, other = cartpole(), cartpole()
    env.set_seed(7)
    other.set_seed(7)
    first, second = env.reset()["observation"], env.reset()["observation"]
    assert not first.equal(second)
    assert other.reset()["observation"].equal(first) and other.reset()["observation"].equal(second)


@pytest.mark.parametrize(
    ("env_id", "options", "kinds"),
    [
        ("WarpCartPole-v1", {}, (Categorical, OneHot)),
        ("WarpTag-v0", TAG, (MultiCategorical, MultiOneHot)),
        ("WarpTag-v0", {**TAG, "flatten_actions": True}, (Categorical, OneHot)),
        ("WarpPendulum-v1", {}, (Bounded, Bounded)),
    ],
)
def test_one_hot_actions_give_the_same_results_as_indices(env_id, options, kinds):
    envs = [TorchRLEnv(env_id, 3, device="cpu", categorical_actions=kind, **options) for kind in (True, False)]
    torch.manual_seed(1)
    for env in envs:
        env.set_seed(5)
    states = [env.reset() for env in envs]
    for _ in range(20):
        states[0] = envs[0].rand_action(states[0])
        for name in envs[0].action_keys:
            specs = [env.full_action_spec[name] for env in envs]
            assert type(specs[0]) is kinds[0] or type(specs[0]).__bases__ == (kinds[0],)
            index = states[0][name]
            if kinds[1] is Bounded:
                states[1][name] = index
                continue
            assert isinstance(specs[1], kinds[1]) and index.dtype == torch.int64
            space = envs[0].vector_env.env_spec.action(envs[0].vector_env.params)
            sizes = space.nvec.tolist() if kinds[0] is MultiCategorical else [int(space.n)]
            heads = index if kinds[0] is MultiCategorical else index.unsqueeze(-1)
            states[1][name] = torch.cat(
                [torch.nn.functional.one_hot(heads[..., k], size) for k, size in enumerate(sizes)], dim=-1
            ).bool()
        outcomes = [env.step(state)["next"] for env, state in zip(envs, states, strict=True)]
        assert_same(*outcomes)
        states = [env.step_mdp(state) for env, state in zip(envs, states, strict=True)]


def test_random_actions_use_every_choice():
    spec = tag(2000, num_acceleration_levels=2, num_turn_levels=4).full_action_spec["tagger", "action"]
    drawn = spec.rand()
    assert drawn.shape == (2000, 2, 2)
    assert drawn[..., 0].unique().tolist() == [0, 1, 2] and drawn[..., 1].unique().tolist() == [0, 1, 2, 3, 4]


def test_actions_reach_their_agents():
    """Actions of the roles are joined in the order of a world's agent numbers."""
    env = tag(3, num_taggers=1, num_runners=2)
    plain = gymnasium.make_vec(
        "WarpTag-v0", num_worlds=3, device="cpu", array="numpy", **{**TAG, "num_taggers": 1, "num_runners": 2}
    )
    env.set_seed(2)
    state = env.rand_action(env.reset())
    plain.reset(seed=2)
    joint = torch.stack([state["tagger", "action"][:, 0], *state["runner", "action"].unbind(1)], dim=1)
    obs = torch.as_tensor(plain.step(joint.numpy())[0])
    state = env.step(state)["next"]
    assert state["tagger", "observation"].equal(obs[:, :1]) and state["runner", "observation"].equal(obs[:, 1:])


@works("pictures, with PixelRenderTransform")
def test_pixel_render_transform_adds_pictures():
    env = cartpole(2, render_mode="rgb_array")
    data = env.append_transform(PixelRenderTransform()).rollout(3, break_when_any_done=False)
    assert data["pixels"].dtype == torch.uint8 and data["pixels"].shape[:2] == (2, 3) and data["pixels"].shape[-1] == 3
    assert data["pixels"].float().std() > 0
    blind = cartpole()
    blind.reset()
    with pytest.raises(ParameterError, match='render_mode="rgb_array"'):
        blind.render()


@limit("env.to(another device): an env cannot change its device; make it with device=")
def test_moving_an_env_to_another_device_raises_an_error():
    env = cartpole()
    assert env.to("cpu") is env
    with pytest.raises(DeviceError, match="is on cpu and cannot move; make another with device='meta'"):
        env.to("meta")


@limit("reset(set_state=True): TorchRL expects the state in the tensordict; use vector_env.set_state()")
def test_setting_a_state_by_reset_raises_an_error():
    env = cartpole()
    with pytest.raises(NotImplementedError, match="does not support deterministic resets"):
        env.reset(env.reset(), set_state=True)


def test_misuse_raises_typed_errors():
    env = cartpole()
    state = env.fake_tensordict()
    with pytest.raises(SequenceError, match="call reset"):
        env.step(state.clone())
    with pytest.raises(SequenceError, match="first reset must be of all worlds"):
        env.reset(state.clone().set("_reset", torch.tensor([True, False, False, False]).unsqueeze(1)))
    state = env.reset()
    with pytest.raises(ActionError, match="0..1, got 2"):
        env.step(state.set("action", torch.full((4,), 2)))
    env.close()
    env.close()
    with pytest.raises(ClosedError):
        env.reset()


def test_an_env_of_another_package_raises_an_error(monkeypatch):
    class Other(VectorEnv):
        metadata = {"autoreset_mode": AutoresetMode.DISABLED}

        def __init__(self, **options):
            self.num_envs = 1

    other = EnvSpec("Other-v0", vector_entry_point=Other)
    monkeypatch.setitem(gymnasium.registry, "Other-v0", other)
    with pytest.raises(ParameterError, match="this package, got 'Other-v0'"):
        TorchRLEnv("Other-v0")


def test_repr_shows_id_batch_size_and_device():
    assert repr(tag(3)) == "TorchRLEnv(WarpTag-v0, batch_size=[3], device=cpu)"


def test_without_torchrl_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensordict", None)
    monkeypatch.delitem(sys.modules, "gpu_vecenv.adapters.torchrl")
    with pytest.raises(MissingExtraError, match=r'TorchRL: pip install "gpu-vecenv\[torchrl\]"'):
        importlib.import_module("gpu_vecenv.adapters.torchrl")


def test_importing_the_package_does_not_import_torchrl():
    code = "import sys, gpu_vecenv.adapters; sys.exit('torchrl' in sys.modules or 'tensordict' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
