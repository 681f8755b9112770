"""``TorchRLEnv`` of envs whose roles have spaces of their own, a shared part or masks."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.data import Bounded, Categorical, MultiCategorical
from torchrl.envs import ActionMask, Compose, TransformedEnv
from torchrl.envs.utils import check_env_specs, check_marl_grouping

from gpu_vecenv.adapters.torchrl import TorchRLEnv
from gpu_vecenv.errors import ActionError
from tests.adapters import role_cases
from tests.adapters.role_cases import CASES, by_role, last_of_episode, vector_env
from tests.devices import DEVICES

works, limit = (lambda what, mark=mark: mark("TorchRL", what) for mark in (pytest.mark.works, pytest.mark.limit))


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    role_cases.register(monkeypatch, tmp_path)


def make(name, num_worlds=4, **options):
    env_id, params = CASES[name]
    return TorchRLEnv(env_id, num_worlds, **{"device": "cpu", **params, **options})


def masked_roles(env):
    """Prefixes of the keys of masked roles: ``(role,)``, or ``()`` where keys have no role."""
    return [key[:-1] if isinstance(key, tuple) else () for key in env.observation_spec.keys(True, True) if "action_mask" in key]


def with_masks(env):
    """The env with one ActionMask for each masked role."""
    masks = [ActionMask((*role, "action"), (*role, "action_mask")) for role in masked_roles(env)]
    return TransformedEnv(env, Compose(*masks))


def forbidden(data, role):
    """Number of actions of a role whose first entry its masks forbid; no other entry of these envs has a mask."""
    mask, action = data[(*role, "action_mask")], data[(*role, "action")]
    return int((~mask.gather(-1, action.reshape(*mask.shape[:-1], -1)[..., :1])).sum())


@works("roles with spaces of their own, shared parts and masks pass check_env_specs")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_data_match_the_specs(name, categorical, device):
    length = next(key for key in ("max_episode_steps", "episode_length") if key in CASES[name][1])
    options = {"device": device, "categorical_actions": categorical, length: 2}
    check_env_specs(make(name, 3, **options), break_when_any_done="both")
    check_env_specs(with_masks(make(name, 3, **options)), seed=0)
    env = make(name, 3, **options)
    if env.group_map:
        check_marl_grouping(env.group_map, env.agent_names)
    assert all(leaf.device == torch.device(device) for leaf in env.rollout(3).values(True, True))


def test_each_role_has_the_specs_of_its_spaces():
    town, pot, harvest = make("town"), make("pot"), make("harvest")
    assert town.group_map == {"citizen": [f"citizen_{i}" for i in range(4)], "mayor": ["mayor_0"]}
    actions = town.full_action_spec["citizen", "action"], town.full_action_spec["mayor", "action"]
    assert isinstance(actions[0], Categorical) and actions[0].shape == (4, 4)
    assert isinstance(actions[1], Bounded) and actions[1].shape == (4, 1, 2)
    assert town.observation_spec["citizen", "observation"].shape == (4, 4, 4)
    assert town.observation_spec["mayor", "observation"].shape == (4, 1, 5)
    assert masked_roles(town) == [("citizen",)] and town.observation_spec["citizen", "action_mask"].shape == (4, 4, 3)
    assert pot.observation_spec["player", "observation"].shape == (4, 3, 3)
    assert masked_roles(harvest) == [("red",), ("blue",)]
    assert isinstance(harvest.full_action_spec["red", "action"], MultiCategorical)
    assert harvest.observation_spec["red", "action_mask"].shape == (4, 2, 7)
    assert masked_roles(make("one agent")) == [()] and not make("one agent").group_map
    assert make("one agent of a role").group_map == {"guesser": ["guesser_0"]}


@works("action masks, with one ActionMask for each role")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_a_rollout_of_random_actions_within_the_masks_equals_the_steps_of_the_vector_env(name, device):
    env, plain = with_masks(make(name, 5, device=device)), vector_env(name, 5)
    env.set_seed(11)
    torch.manual_seed(0)
    data = env.rollout(40, break_when_any_done=False).cpu()
    obs, info = plain.reset(seed=11)
    groups = {role: group for group in plain.layout.groups for role in ([group.role] if group.role else plain.role_counts)}
    keys = {role: (role,) if env.group_map else () for role in groups}
    for t, now in enumerate(data.unbind(1)):
        compare(now, keys, groups, by_role(plain, obs), by_role(plain, info["action_mask"]), t)
        joint = {role: now[(*key, "action")].numpy() for role, key in keys.items()}
        if not plain.layout.by_role:
            joint = np.concatenate(list(joint.values()), axis=1) if env.group_map else joint["agent"]
        obs, reward, terminated, truncated, info = plain.step(joint)
        final = last_of_episode(plain, obs, info, "final_obs")
        compare(now["next"], keys, groups, final, last_of_episode(plain, info["action_mask"], info, "final_action_mask"), t)
        for role, values in by_role(plain, info.get("agent_reward", reward)).items():
            got = now[("next", *keys[role], "reward")].numpy()
            assert got.tobytes() == values.tobytes() and got.shape == ((*values.shape, 1) if env.group_map else (5, 1))
        for flag, values in (("terminated", terminated), ("truncated", truncated)):
            assert now["next", flag].squeeze(-1).numpy().tolist() == values.tolist()
    assert data["next", "done"].sum() > 10
    for role in masked_roles(env):
        assert forbidden(data, role) == 0 and not data[(*role, "action_mask")].all()


def compare(data, keys, groups, obs, masks, t):
    """Assert that observations and masks of a step have the bits of arrays by role."""
    for role, key in keys.items():
        assert data[(*key, "observation")].numpy().tobytes() == obs[role].tobytes(), (t, role)
        mask = data.get((*key, "action_mask"), None)
        assert (mask is None) == (role not in masks), role
        if mask is not None:
            parts = dict(enumerate(mask.split(groups[role].choices, dim=-1)))
            given = torch.cat([parts.pop(entry) for entry in groups[role].masked], dim=-1)
            assert given.numpy().tobytes() == masks[role].tobytes(), (t, role)
            assert all(part.all() for part in parts.values())


def test_random_actions_without_the_transform_do_not_heed_masks():
    torch.manual_seed(0)
    data = make("town").rollout(30, break_when_any_done=False)
    assert forbidden(data, ("citizen",)) > 10


def collected(name, policy=None):
    """Data of a collector, [W, T]."""
    env = with_masks(make(name, 6))
    collector = Collector(env, policy(env) if policy else None, frames_per_batch=6 * 40, total_frames=6 * 40)
    (data,) = collector
    collector.shutdown()
    assert data["citizen", "observation"].shape == (6, 40, 4, 4) and not data["citizen", "action_mask"].all()
    return data


@works("a collector whose random actions heed masks, with policy=env.rand_action")
def test_a_collector_heeds_masks():
    assert forbidden(collected("town", lambda env: env.rand_action), ("citizen",)) == 0


@limit("a Collector without a policy does not heed masks, because it clones the action spec; use policy=env.rand_action")
def test_a_collector_without_a_policy_does_not_heed_masks():
    assert forbidden(collected("town"), ("citizen",)) > 10


@pytest.mark.filterwarnings("ignore:A partial `'_reset'` key")
@pytest.mark.parametrize("name", CASES)
def test_a_partial_reset_keeps_the_masks_of_other_worlds(name):
    env = make(name)
    torch.manual_seed(0)
    env.set_seed(0)
    state = env.reset()
    for _ in range(3):
        state = env.step_mdp(env.step(env.rand_action(state)))

    def reset(worlds):
        return env.reset(TensorDict({"_reset": torch.tensor(worlds).unsqueeze(1)}, [4]).update(state.clone()))

    none, some = reset([False] * 4), reset([True, False, False, True])
    for role in masked_roles(env):
        for key in ("observation", "action_mask"):
            assert none[(*role, key)].equal(state[(*role, key)])
            assert some[(*role, key)][1:3].equal(state[(*role, key)][1:3])
        assert not some[(*role, "observation")][::3].equal(state[(*role, "observation")][::3])


def test_an_empty_reset_gives_the_masks_of_a_new_state():
    env = with_masks(make("town"))
    state = env.reset()
    env.base_env.vector_env.set_state({"idle_until": np.full((4, 4), 9, np.int32)})
    env.reset(state.set("_reset", torch.zeros(4, 1, dtype=torch.bool)))
    assert env.rand_action(TensorDict(batch_size=[4]))["citizen", "action"].eq(0).all()


def test_an_action_out_of_range_raises_an_error_that_names_the_role():
    env = make("town")
    state = env.rand_action(env.reset())
    with pytest.raises(ActionError, match=r"citizen.*0..2, got 3"):
        env.step(state.set(("citizen", "action"), torch.full((4, 4), 3)))
