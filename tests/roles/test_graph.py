"""Graphs of steps of envs with roles and masks on a GPU, and rollouts that never wait for the device."""

import numpy as np
import pytest

from gpu_vecenv.vector.env.graph import capture_steps
from tests.roles.cases import CASES, at, on_device, random_actions, results, started, state, stepped
from tests.trees import assert_trees_equal, leaves, map_tree, to_host

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
STEPS = 16


def make(case, **options):
    return started(case, **{"device": "cuda:0", "array": "torch", **options})


def seen(tree):
    """Names of what agents observe before a step."""
    return [name for name in ("obs", "action_mask", "action_effects") if name in tree]


def assert_slabs_hold(outputs, expected, first):
    """Assert that the slabs of a graph hold the results of single steps, after the first observation and masks."""
    held = to_host(outputs)
    for name in seen(held):
        assert_trees_equal(at(held[name], 0), first[name], name)
        assert_trees_equal(at(held[name], slice(1, None)), expected[name], name)
    for name in ("reward", "terminated", "truncated"):
        assert_trees_equal(held[name], expected[name], name)
    ended = expected["_final_obs"]
    for name in [f"final_{name}" for name in seen(held)]:
        for slab, values in zip(leaves(held[name]), leaves(expected[name]), strict=True):
            np.testing.assert_array_equal(slab[ended], values[ended], err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_a_graph_with_given_actions_equals_single_steps(case):
    env, single = make(case), started(case)
    out = results(env.step(on_device(at(random_actions(env, 1), 0), env)))
    single.step(at(random_actions(single, 1), 0))
    captured = capture_steps(env, STEPS)
    for turn in range(3):
        actions = random_actions(env, STEPS, seed=turn)
        map_tree(lambda to, values: to.copy_(torch.as_tensor(values)), captured.actions, actions)
        captured.replay()
        expected = stepped(single, actions)
        assert_slabs_hold(captured.outputs, expected, out)
        out = at({name: expected[name] for name in seen(expected)}, -1)
    assert_trees_equal(state(env), state(single))


@pytest.mark.parametrize("case", ["town", "harvest", "pot"])
def test_a_policy_gets_observations_and_masks(case):
    """It chooses the last allowed choice of each agent that has a mask, and otherwise the first choice or 0.5."""

    def policy(obs, masks):
        def last(mask):
            return mask.shape[-1] - 1 - mask.flip(-1).to(torch.int64).argmax(-1)

        if case == "harvest":
            move = last(masks)
            return torch.stack([move, torch.zeros_like(move)], -1)
        if case == "town":
            mayor = torch.full((*obs["mayor"].shape[:2], 2), 0.5, device=obs["mayor"].device)
            return {"citizen": last(masks["citizen"]), "mayor": mayor}
        return {"player": last(masks["player"]), "judge": torch.zeros_like(obs["judge"][..., 0], dtype=torch.int64)}

    env, single = make(case), make(case)
    obs, info = single.reset(seed=3)
    captured = capture_steps(env, STEPS, policy)
    for _ in range(2):
        first, outs = to_host({"obs": obs, **info}), []
        captured.replay()
        for _ in range(STEPS):
            out = single.step(policy(obs, info["action_mask"]))
            outs.append(results(out))
            obs, info = out[0], out[4]
        assert_slabs_hold(captured.outputs, map_tree(lambda *arrays: np.stack(arrays), *outs), first)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_rollout_never_waits_for_the_device(case, copy):
    env = make(case, copy=copy)
    actions = map_tree(torch.clone, env.rollout(num_steps=10)[4]["actions"])
    torch.cuda.set_sync_debug_mode("error")
    try:
        env.rollout(actions)
        env.rollout(map_tree(lambda array: array[0], actions), num_steps=10)
        env.rollout(num_steps=10)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("case", CASES)
def test_each_replay_of_a_captured_rollout_continues_the_last(case):
    env, single = make(case, copy=False), started(case)
    env.rollout(num_steps=STEPS)
    single.rollout(num_steps=STEPS)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        out = env.rollout(num_steps=STEPS)
    torch.cuda.current_stream().wait_stream(side)
    for _ in range(2):
        graph.replay()
        assert_trees_equal(results(out), results(single.rollout(num_steps=STEPS)))
    assert_trees_equal(state(env), state(single))
