"""Envs with ``array="jax"`` on the CPU, and envs inside ``jax.jit``, compared with envs that hand out tensors or NumPy arrays."""

import copy
import gc
import pickle
import sys

import gymnasium
import numpy as np
import pytest

import tests.roles  # noqa: F401  # registers Town, Harvest and Pot
from gpu_vecenv import EpisodeStatistics, join_states
from gpu_vecenv.errors import ArrayTypeError, MissingExtraError, ParameterError, ShapeError
from tests.marks import slow_but
from tests.trees import assert_trees_equal, map_tree

jax = pytest.importorskip("jax")
jnp = jax.numpy

CASES = {
    "cartpole": ("WarpCartPole-v1", {"max_episode_steps": 12}),
    "tag": ("WarpTag-v0", {"num_taggers": 2, "num_runners": 3, "episode_length": 7, "tagging_distance": 0.3}),
    "pendulum": ("WarpPendulum-v1", {"max_episode_steps": 5}),
    "town": ("Town-v0", {"max_episode_steps": 7, "num_citizens": 4}),
    "pot": ("Pot-v0", {"max_episode_steps": 9}),
}


@pytest.fixture(autouse=True)
def on_the_cpu():
    with jax.default_device(jax.devices("cpu")[0]):  # even if JAX has a GPU
        yield


def make(name="cartpole", num_worlds=9, array="jax", **options):
    env_id, params = CASES[name]
    return gymnasium.make_vec(env_id, num_worlds=num_worlds, device="cpu", array=array, **{**params, **options}).unwrapped


def random_actions(env, steps):
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(steps)]


def known(results):
    """Results of a step in NumPy, with zeros where they are undefined: last observations and episodes that did not end."""
    obs, reward, terminated, truncated, info = map_tree(np.asarray, dict(enumerate(results))).values()
    ended = info.get("_final_obs", info.get("_episode"))
    for name in ("final_obs", "final_action_mask", "episode"):
        if name in info:
            info[name] = map_tree(lambda one: np.where(ended.reshape(-1, *[1] * (one.ndim - 1)), one, 0), info[name])
    return {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info}


def all_are_jax(tree):
    return all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree))


# ---- array="jax" --------------------------------------------------------------------------------------------------


@pytest.mark.works("JAX", 'array="jax": the same bits as tensors, for all kinds of spaces, roles and masks')
@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_a_torch_env(name):
    env, twin = make(name), make(name, array="torch")
    first, expected = env.reset(seed=3), twin.reset(seed=3)
    assert all_are_jax(first)
    assert_trees_equal(*(map_tree(np.asarray, dict(enumerate(out))) for out in (first, expected)))
    ends = 0
    for action in random_actions(twin, 30):
        out = env.step(map_tree(jnp.asarray, dict(action)) if isinstance(action, dict) else jnp.asarray(action))
        assert all_are_jax(out)
        assert_trees_equal(known(out), known(twin.step(action)))
        ends += int((out[2] | out[3]).sum())
    assert ends > 9
    assert_trees_equal(*(map_tree(np.asarray, one.rollout(num_steps=4)[0]) for one in (env, twin)))


@pytest.mark.works("JAX", 'array="jax": observations without a copy')
def test_jax_has_the_memory_that_the_kernel_wrote():
    env = make("tag", view="agents")
    obs, _ = env.reset(seed=0)
    for action in random_actions(env, 5):
        obs, *_ = env.step(jnp.asarray(action))
        assert obs.unsafe_buffer_pointer() == env.worlds.outputs.last_carried()[0].data_ptr()


@pytest.mark.works("JAX", 'array="jax": arrays never change, also while JAX still computes with arrays that were dropped')
def test_work_that_is_queued_reads_the_array_it_was_given():
    env, twin = make(num_worlds=2000), make(num_worlds=2000, array="numpy")
    slow = jax.jit(lambda x, y: x + 0 * (y @ y @ y @ y).sum())
    obs, expected = env.reset(seed=0)[0], twin.reset(seed=0)[0]
    heavy, seen, wanted = jnp.ones((700, 700)) / 700, [], []
    for action in random_actions(env, 15):
        seen.append(slow(obs, heavy))
        wanted.append(expected)
        obs, expected = env.step(action)[0], twin.step(action)[0]
    gc.collect()
    for left, right in zip(seen, wanted, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.works("JAX", 'array="jax": observations donated to a compiled function')
def test_donated_observations_do_not_change_the_env():
    env, twin = make(), make(array="numpy")
    donate = jax.jit(lambda x: x * 0 + 9, donate_argnums=0)
    obs, _ = env.reset(seed=0)
    twin.reset(seed=0)
    for action in random_actions(env, 20):
        donate(obs).block_until_ready()
        obs, expected = env.step(action)[0], twin.step(action)[0]
        np.testing.assert_array_equal(obs, expected)


@pytest.mark.works("JAX", 'array="jax": masks of resets, states and reset pools are JAX arrays')
def test_jax_arrays_as_arguments():
    env, twin = make(autoreset_mode="disabled"), make(autoreset_mode="disabled", array="numpy")
    env.reset(seed=2**63 + 5)
    twin.reset(seed=2**63 + 5)
    state, expected = env.get_state(), twin.get_state()
    assert_trees_equal(map_tree(np.asarray, state), expected)
    assert isinstance(state["state"], jax.Array)
    assert state["seed"][0] == 2**63 + 5  # a NumPy array: JAX would keep 32 bits of it
    actions = random_actions(env, 3)
    env.step(actions[0])
    env.set_state(state)
    for action in actions:
        np.testing.assert_array_equal(env.step(action)[0], twin.step(action)[0])
    env.set_reset_pool(join_states([state]))
    assert isinstance(env.get_reset_pool()["state"], jax.Array)
    env.reset(options={"reset_mask": jnp.arange(9) < 4})
    np.testing.assert_array_equal(env.get_state("t")["t"], [0] * 4 + [3] * 5)
    env.reset(seed=[jnp.int32(7)] * 9)
    assert (env.get_state("seed")["seed"] == 7).all()
    assert isinstance(env.observe(), jax.Array)


@pytest.mark.works("JAX", 'array="jax": pickles and copies')
@pytest.mark.parametrize("copier", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_as_the_original(copier):
    env = EpisodeStatistics(make())
    env.reset(seed=0)
    actions = random_actions(env, 20)
    for action in actions[:10]:
        env.step(action)
    again = copier(env)
    for action in actions[10:]:
        out = again.step(action)
        assert all_are_jax(out)
        assert_trees_equal(known(out), known(env.step(action)))


@pytest.mark.limit("JAX", "copy=False: the next step changes an array that JAX treats as immutable")
def test_what_overwrites_arrays_is_refused():
    with pytest.raises(ParameterError, match='JAX treats as immutable; use copy=True or array="torch"'):
        make(copy=False)
    env = make()
    env.reset(seed=0)
    with pytest.raises(ArrayTypeError, match="JAX treats as immutable"):
        env.bind(obs=jnp.zeros((3, 9, 4)))


def test_actions_without_values_are_refused():
    env = make()
    env.reset(seed=0)
    with pytest.raises(ArrayTypeError, match="JAX tracer; inside jax.jit use gpu_vecenv.adapters.jax.jittable"):
        jax.jit(lambda actions: env.step(actions)[0])(jnp.zeros(9, jnp.int32))
    gone = jnp.zeros(9, jnp.int32)
    gone.delete()
    with pytest.raises(ArrayTypeError, match="deleted or donated"):
        env.step(gone)
    with pytest.raises(ArrayTypeError, match="int32 or int64, got uint16"):
        env.step(jnp.zeros(9, jnp.uint16))


def test_without_jax_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtraError, match=r'pip install "gpu-vecenv\[jax\]"'):
        make()


# ---- inside jit ---------------------------------------------------------------------------------------------------


def jittable(env):
    from gpu_vecenv.adapters.jax import jittable

    return jittable(env)


@pytest.mark.works("JAX", "inside jax.jit and jax.lax.scan, through the host, by adapters.jax.jittable")
@pytest.mark.parametrize("name", CASES)
def test_a_scan_equals_a_loop(name):
    env, twin = make(name, array="numpy"), make(name, array="numpy")
    reset, step = jittable(env)
    actions = random_actions(env, 20)
    stacked = jax.tree.map(lambda *steps: jnp.stack([jnp.asarray(one) for one in steps]), *actions)

    @jax.jit
    def rollout(seed, actions):
        first = reset(seed)
        return first, jax.lax.scan(lambda carry, action: (carry, step(action)), 0, actions)[1]

    for seed in (3, 4):
        first, results = rollout(seed, stacked)
        assert_trees_equal(*(map_tree(np.asarray, dict(enumerate(out))) for out in (first, twin.reset(seed=seed))))
        for t, action in enumerate(actions):
            assert_trees_equal(known(jax.tree.map(lambda array, t=t: array[t], results)), known(twin.step(action)))


def test_large_arrays_pass_through_callbacks():
    env = make(num_worlds=300_000, array="numpy")
    reset, step = jittable(env)

    @jax.jit
    def rollout():
        obs, _ = reset(0)
        return jax.lax.scan(lambda obs, _: (step((obs[:, 2] > 0).astype(jnp.int32))[0], None), obs, None, 5)[0]

    obs, twin = rollout(), make(num_worlds=300_000, array="numpy")
    expected, _ = twin.reset(seed=0)
    for _ in range(5):
        expected, *_ = twin.step((expected[:, 2] > 0).astype(np.int32))
    np.testing.assert_array_equal(obs, expected)


def test_a_constant_seed_may_have_64_bits():
    env, twin = make(array="numpy"), make(array="numpy")
    reset, _ = jittable(env)
    np.testing.assert_array_equal(jax.jit(lambda: reset(2**63 + 5)[0])(), twin.reset(seed=2**63 + 5)[0])


def test_errors_of_the_env_stop_the_program():
    reset, step = jittable(make(array="numpy"))
    jax.jit(reset)(0)
    with pytest.raises(Exception, match="actions must lie in 0..1, got 5"):
        jax.block_until_ready(jax.jit(step)(jnp.full(9, 5)))


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "town"])
def test_wrong_shapes_and_dtypes_are_refused_while_tracing(name):
    env = make(name, array="numpy")
    reset, step = jittable(env)
    for seed in (1.7, None, jnp.zeros(9, jnp.int32), jnp.float32(2), "1", -1):
        with pytest.raises(ParameterError, match="a seed must be an integer"):
            jax.jit(lambda seed=seed: reset(seed))()
    jax.jit(reset)(0)
    good = jax.tree.map(jnp.asarray, dict(env.action_space.sample()) if name == "town" else env.action_space.sample())
    with pytest.raises(ShapeError, match="must have shape"):
        jax.jit(step)(jax.tree.map(lambda array: array[1:], good))
    with pytest.raises(ArrayTypeError, match="got uint16"):
        jax.jit(step)(jax.tree.map(lambda array: array.astype(jnp.uint16), good))
    with pytest.raises((ParameterError, ShapeError)):
        jax.jit(lambda: step(None))()
    jax.block_until_ready(jax.jit(step)(good))


def test_envs_that_callbacks_cannot_step_are_refused():
    for env, words in (
        (make(), 'needs array="numpy", got \'jax\''),
        (EpisodeStatistics(make(array="numpy")), "without wrappers, got EpisodeStatistics"),
        (make(array="numpy", copy=False), "copy=True, got copy=False"),
    ):
        with pytest.raises(ParameterError, match=words):
            jittable(env)


@pytest.mark.works("JAX", "PPO in pure JAX solves CartPole, with steps between compiled calls and inside jax.lax.scan")
@pytest.mark.parametrize("inside_jit", slow_but([False], [False, True]))
def test_the_example_learns(inside_jit):
    pytest.importorskip("tyro")
    from examples.jax_ppo import Args, train

    result = train(Args(device="cpu", inside_jit=inside_jit, total_steps=100_000))
    assert result["mean_return"] > 150  # random actions reach 22


def test_both_forms_of_the_example_train_alike():
    pytest.importorskip("tyro")
    from examples.jax_ppo import Args, train

    args = {"device": "cpu", "num_envs": 16, "num_steps": 16, "total_steps": 5 * 256}
    returns = [train(Args(inside_jit=inside, **args))["mean_return"] for inside in (False, True)]
    assert returns[0] == pytest.approx(returns[1], rel=0.05)
