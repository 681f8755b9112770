"""Arguments that would have no effect, or that no call can read: each is refused by name, and the env goes on."""

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv
from gpu_vecenv import GpuVectorEnv, RoleRows
from gpu_vecenv.errors import (
    ArrayTypeError,
    ConcurrentCallError,
    DeviceError,
    GpuVecenvError,
    ParameterError,
    ShapeError,
    UnknownAttributeError,
    UnknownParameterError,
)
from tests.roles import town


def pendulum(**options):
    return gymnasium.make_vec("WarpPendulum-v1", num_envs=3, **{"device": "cpu", "array": "torch", **options})


def started(env):
    env.reset(seed=0)
    return env


def town_env(**options):
    return GpuVectorEnv(town.SPEC, num_worlds=2, device="cpu", **options)


NESTED = torch.nested.nested_tensor([torch.zeros(2, 3)], layout=torch.jagged)
UNREADABLE = [
    (torch.zeros(3, 3, 3).to_sparse(), ArrayTypeError),
    (torch.zeros(3, 3).to_sparse_csr(), ArrayTypeError),
    (NESTED, ArrayTypeError),
    (torch.nested.nested_tensor([torch.zeros(2, 3)]), ArrayTypeError),
    (torch.zeros(3, 3, 3, device="meta"), DeviceError),
    (torch.zeros(3, 3, 3, requires_grad=True), ArrayTypeError),
    (np.zeros((3, 3, 3), np.float32), ArrayTypeError),
    (torch.zeros(3, 3).expand(3, 3, 3), ShapeError),
    (torch.zeros(3, 3, 3, dtype=torch.float64), ArrayTypeError),
    (torch.zeros(()), ShapeError),
    (5, ArrayTypeError),
    (None, ArrayTypeError),
]


@pytest.mark.parametrize("slab, error", UNREADABLE, ids=[f"{i}" for i in range(len(UNREADABLE))])
def test_a_slab_that_cannot_be_written_is_refused_by_name(slab, error):
    env = started(pendulum()).unwrapped
    with pytest.raises(error, match="bound obs must"):
        env.bind(obs=slab)
    plain = isinstance(slab, torch.Tensor) and slab.layout is torch.strided and not slab.is_nested and slab.dim()
    other = slab[:2, :, 0] if plain else slab
    with pytest.raises(error, match="bound reward must"):
        env.bind(obs=torch.zeros(3, 3, 3), reward=other)
    assert env.worlds.outputs.bound_obs is None
    env.step(np.zeros((3, 1), np.float32))


def test_a_slab_with_the_shape_and_memory_of_an_ordinary_one_is_bound():
    env = started(pendulum()).unwrapped
    slab = torch.zeros(3, 3, 3)[::1].expand(3, 3, 3)
    env.bind(obs=slab)
    obs = env.step(np.zeros((3, 1), np.float32))[0]
    assert torch.equal(slab[1], obs) and obs.any()


@pytest.mark.parametrize("num_steps", [2, 4, 6])
@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_actions_of_another_number_of_steps_are_refused(array, num_steps):
    env = started(pendulum(array=array)).unwrapped
    with pytest.raises(ShapeError, match=rf"actions of {num_steps} steps must have shape \({num_steps}, 3, 1\), or \(3, 1\) for"):
        env.rollout(np.zeros((5, 3, 1), np.float32), num_steps)
    assert len(env.rollout(np.zeros((5, 3, 1), np.float32), 5)[1]) == 5


def step_rows_inside(rows):
    """RoleRows whose policy of the other role steps them."""
    made = []
    made.append(rows({"mayor": lambda obs: made[0].step(np.zeros(10, int))}))
    return made[0]


CALLS = {
    "rollout(keep_actions=5)": (lambda: started(pendulum()).rollout(None, 2, 5), ParameterError, "keep_actions must be one of"),
    "rollout(actions, keep_actions=False)": (
        lambda: started(pendulum()).rollout(torch.zeros(2, 3, 1), keep_actions=False),
        ParameterError,
        "keep_actions=False is for actions that rollout",
    ),
    "copy_worlds(diverge=5)": (
        lambda: started(pendulum()).copy_worlds([0], [1], diverge=5), ParameterError, "diverge must be one of True, False, got"),
    "call with arguments": (lambda: pendulum().call("g", 5), ParameterError, "g takes no arguments, got 5"),
    "call of render with arguments": (
        lambda: started(pendulum()).call("render", mode="human"), ParameterError, "render takes no arguments, got mode='human'"),
    "close with a keyword": (
        lambda: pendulum().close(timeout=3), UnknownParameterError, r"close\(\) takes no keywords, got timeout=3"),
    "close of a wrapper with a keyword": (
        lambda: gpu_vecenv.ClipAction(pendulum()).close(timeout=3), UnknownParameterError, "got timeout=3"),
    "close of rows with a keyword": (
        lambda: RoleRows(town_env(), "citizen").close(timeout=3), UnknownParameterError, "got timeout=3"),
    "max_episode_steps array": (
        lambda: pendulum(max_episode_steps=np.array([3, 3])), ParameterError, "max_episode_steps must be"),
    "nested seeds": (lambda: pendulum().reset(seed=NESTED), ArrayTypeError, "a seed must be dense, got a tensor nested"),
    "nested reset pool": (
        lambda: pendulum().set_reset_pool({"state": torch.nested.nested_tensor([torch.zeros(2)])}), ParameterError, "got 0"),
    "seed of a single env": (
        lambda: gymnasium.make("WarpPendulum-v1").unwrapped.reset(seed="x"), ParameterError, "a seed must be an integer"),
    "role list": (lambda: RoleRows(town_env(), ["citizen"]), ParameterError, r"Town-v0 has no role \['citizen'\]; the roles are"),
    "policy that steps its rows": (
        lambda: started(step_rows_inside(lambda others: RoleRows(town_env(), "citizen", others))).step(np.zeros(10, int)),
        ConcurrentCallError,
        "must not step the rows that they act for",
    ),
    "policy array": (
        lambda: RoleRows(town_env(), "citizen", {"mayor": np.zeros(3)}), ParameterError, r"others\['mayor'\] must be 'random'"),
    "capture_steps(5)": (lambda: gpu_vecenv.capture_steps(5, 3), ParameterError, "needs a GpuVectorEnv, got int"),
    "capture_steps(RoleRows)": (
        lambda: gpu_vecenv.capture_steps(RoleRows(town_env(), "citizen"), 3), ParameterError, "got RoleRows"),
    "capture_steps(num_steps=0)": (lambda: gpu_vecenv.capture_steps(pendulum(), 0), ParameterError, "num_steps must be"),
    "capture_steps(policy=5)": (
        lambda: gpu_vecenv.capture_steps(pendulum(), 3, 5), ParameterError, "policy must be a function or None, got 5"),
    "wrapper of None": (
        lambda: gpu_vecenv.EpisodeStatistics(None), ParameterError, "EpisodeStatistics wraps an env of this package, got None"),
    "rollout of a wrapper": (
        lambda: gpu_vecenv.NormalizeObservation(pendulum()).rollout(num_steps=3),
        UnknownAttributeError,
        "NormalizeObservation has no attribute 'rollout'; env.unwrapped.rollout works without wrappers",
    ),
    "get_attr of a wrapper": (
        lambda: gpu_vecenv.NormalizeObservation(pendulum()).get_attr("g"), UnknownAttributeError, "no attribute 'get_attr'"),
    "space of TransformObservation": (
        lambda: gpu_vecenv.TransformObservation(pendulum(), abs, 5), ParameterError, "must be a Space or None, got 5"),
    "TransformObservation to None": (
        lambda: gpu_vecenv.TransformObservation(pendulum(), lambda obs: None).reset(),
        ShapeError,
        r"func must return an array of the shape \(3, ...\), got None",
    ),
    "TransformObservation to a row": (
        lambda: gpu_vecenv.TransformObservation(pendulum(), lambda obs: obs[0, :2]).reset(), ShapeError, r"got \(2,\)"),
    "TransformReward to a sum": (
        lambda: started(gpu_vecenv.TransformReward(pendulum(), torch.sum)).step(np.zeros((3, 1), np.float32)),
        ShapeError,
        r"func must return an array of the shape \(3,\), got \(\)",
    ),
    "TransformReward to a column": (
        lambda: started(gpu_vecenv.TransformReward(pendulum(), lambda reward: reward[:, None])).step(np.zeros((3, 1))),
        ShapeError,
        r"got \(3, 1\)",
    ),
    "masks of an env without": (
        lambda: gpu_vecenv.sample_mask(5, None, 0), ParameterError, "takes an env of this package without wrappers, got int"),
    "masks by role missing": (lambda: gpu_vecenv.sample_mask(town_env(), 5, 0), ParameterError, "keys citizen, got int"),
    "masks of another shape": (
        lambda: gpu_vecenv.sample_mask(town_env(), {"citizen": np.ones((2, 3), bool)}, 0), ShapeError, r"shape \(2, 5, 3\), got"),
    "masks of no env": (
        lambda: gpu_vecenv.sample_mask(town_env(), {"citizen": np.ones((2, 5, 3), bool)}, 2), ParameterError, "2 envs, got 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_a_call_cannot_use_is_refused_by_name(name):
    call, error, message = CALLS[name]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("array", ["numpy", "torch"])
@pytest.mark.parametrize(
    "actions",
    [None, 5, "x", [[1], [1, 2]], [None] * 3, {"a": 1}, np.array([object()] * 3), np.zeros((3, 1), complex),
     np.zeros((3, 1), "M8[s]"),
     torch.zeros(3, 1).to_sparse(), NESTED, torch.zeros(3, 1, device="meta"), np.zeros((3, 2), np.float32)],
)  # fmt: skip
def test_actions_that_cannot_be_clipped_raise_typed_errors(actions, array):
    env = started(gpu_vecenv.ClipAction(pendulum(array=array)))
    with pytest.raises(GpuVecenvError, match="actions"):
        env.step(actions)
    env.step(np.full((3, 1), 9, np.float32))


def test_rows_take_every_seed_that_the_env_takes():
    rows = RoleRows(town_env(array="numpy"), "citizen")
    first = [rows.reset(seed=seed)[0].tobytes() + rows.step(np.zeros(10, int))[0].tobytes()
             for seed in (3, np.int8(3), np.array(3), torch.tensor(3))]  # fmt: skip
    assert len(set(first)) == 1


def test_rows_can_be_stepped_after_a_policy_of_another_role_failed():
    fails = [True]

    def policy(obs):
        if fails.pop():
            raise ZeroDivisionError("mayor")
        fails.append(False)
        return torch.zeros(2, 1, 2)

    rows = started(RoleRows(town_env(), "citizen", {"mayor": policy}))
    with pytest.raises(ZeroDivisionError, match="mayor"):
        rows.step(np.zeros(10, int))
    fails.append(False)
    assert len(rows.step(np.zeros(10, int))[1]) == 10
