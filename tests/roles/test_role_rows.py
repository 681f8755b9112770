"""``RoleRows``, compared with the env by role stepped directly: same bits, in all modes."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv import EpisodeStatistics, GpuVectorEnv, NormalizeObservation, RoleRows
from gpu_vecenv.errors import ArrayTypeError, ClosedError, ParameterError, SequenceError, ShapeError
from gpu_vecenv.vector.inputs.random_actions import uniform_actions
from tests.devices import DEVICES, JAX
from tests.roles import shared as pot
from tests.roles.town import SPEC

WORLDS, CITIZENS = 4, 5
AGENTS = {"citizen": CITIZENS, "mayor": 1}


def make(**options):
    given = {"num_worlds": WORLDS, "device": "cpu", "array": "numpy", "num_citizens": CITIZENS, "max_episode_steps": 6}
    return GpuVectorEnv(SPEC, **{**given, **options})


def host(array):
    return np.asarray(array.get() if hasattr(array, "get") else array.cpu() if isinstance(array, torch.Tensor) else array)


def strike_or_work(obs, mask):
    """Citizens with little wealth strike where they may, others work where they may."""
    obs, mask = host(obs), host(mask)
    return np.where(mask[..., 2] & (obs[..., 0] < 1), 2, mask[..., 1]).astype(np.int32)


def tax_the_rich(obs):
    return np.clip(host(obs)[..., [0, -1]] / 8, 0, 1).astype(np.float32)


OTHERS = {"citizen": {"mayor": tax_the_rich}, "mayor": {"citizen": strike_or_work}}


def choose(role, obs, mask):
    """Return actions of the role, from rows or from arrays by world."""
    return strike_or_work(obs, mask) if role == "citizen" else tax_the_rich(obs)


def rows_of(role, array):
    return np.reshape(host(array), (WORLDS * AGENTS[role], *array.shape[2:]))


def by_row(role, array):
    return np.repeat(host(array), AGENTS[role], axis=0)


def check_step(role, rows, plain):
    """Compare the results of a step of RoleRows with those of the env by role."""
    (obs, reward, terminated, truncated, info), (all_obs, _, ended, timed_out, expected) = rows, plain
    agents = slice(0, CITIZENS) if role == "citizen" else slice(CITIZENS, None)
    np.testing.assert_array_equal(host(obs), rows_of(role, all_obs[role]))
    np.testing.assert_array_equal(host(reward), host(expected["agent_reward"])[:, agents].reshape(-1))
    np.testing.assert_array_equal(host(terminated), by_row(role, ended))
    np.testing.assert_array_equal(host(truncated), by_row(role, timed_out))
    np.testing.assert_array_equal(host(info["agent_reward"]), host(reward))
    np.testing.assert_array_equal(host(info["agent_alive"]), host(expected["agent_alive"])[:, agents].reshape(-1))
    over = host(info["_episode"])
    np.testing.assert_array_equal(over, by_row(role, expected["_episode"]))
    for name, values in expected["episode"].items():
        np.testing.assert_array_equal(host(info["episode"][name])[over], by_row(role, values)[over])
    if "_final_obs" in expected:
        final = host(info["_final_obs"])
        np.testing.assert_array_equal(final, by_row(role, expected["_final_obs"]))
        np.testing.assert_array_equal(host(info["final_obs"])[final], rows_of(role, expected["final_obs"][role])[final])
        if role == "citizen":
            masks = rows_of(role, expected["final_action_mask"][role])
            np.testing.assert_array_equal(host(info["final_action_mask"])[final], masks[final])
    if role == "citizen":
        np.testing.assert_array_equal(host(info["action_mask"]), rows_of(role, expected["action_mask"][role]))
    assert info.keys() == expected.keys() - ({"action_mask", "final_action_mask"} if role == "mayor" else set())


def run_both(role, steps=20, device="cpu", array="numpy", **options):
    """Step RoleRows and the env by role beside each other; return how many episodes of worlds ended."""
    rows = RoleRows(make(device=device, array=array, **options), role, OTHERS[role])
    plain = make(**{**options, "copy": True})
    obs, info = rows.reset(seed=7)
    all_obs, plain_info = plain.reset(seed=7)
    np.testing.assert_array_equal(host(obs), rows_of(role, all_obs[role]))
    assert (obs.shape, rows.observation_space.shape) == ((rows.num_envs, *rows.single_observation_space.shape),) * 2
    episodes, mask = 0, plain_info["action_mask"]["citizen"]
    for _ in range(steps):
        own = choose(role, obs, info.get("action_mask"))
        step = rows.step(torch.as_tensor(own, device=device) if array != "numpy" else own)
        joint = {"citizen": strike_or_work(all_obs["citizen"], mask), "mayor": tax_the_rich(all_obs["mayor"])}
        expected = plain.step(joint)
        check_step(role, step, expected)
        (obs, *_, info), (all_obs, mask) = step, (expected[0], expected[4]["action_mask"]["citizen"])
        ended = expected[2] | expected[3]
        episodes += int(ended.sum())
        if options.get("autoreset_mode") == "disabled" and ended.any():
            obs, info = rows.reset(options={"reset_mask": np.repeat(ended, AGENTS[role])})
            all_obs, given = plain.reset(options={"reset_mask": ended})
            mask = given["action_mask"]["citizen"]
            np.testing.assert_array_equal(host(obs), rows_of(role, all_obs[role]))
    rows.close()
    return episodes


@pytest.mark.parametrize("role", AGENTS)
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_rows_equal_those_of_the_env_by_role(role, mode, copy):
    assert run_both(role, autoreset_mode=mode, copy=copy) >= WORLDS


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("array", ["torch", "numpy", JAX, pytest.param("cupy", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("role", AGENTS)
def test_rows_of_all_array_kinds(role, array, device):
    if array == "cupy" and device == "cpu":
        pytest.skip("CuPy is for GPUs")
    assert run_both(role, device=device, array=array, steps=9) >= WORLDS


def test_observations_are_views():
    env = make(array="torch")
    rows = RoleRows(env, "citizen")
    obs, _ = rows.reset(seed=0)
    assert obs.data_ptr() == env.worlds.last()[0].data_ptr() and obs.shape == (WORLDS * CITIZENS, 4)


# ---- the other roles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("array", ["torch", "numpy", JAX, pytest.param("cupy", marks=pytest.mark.gpu)])
def test_random_citizens_obey_their_masks(array, device):
    """The state says who may work: a citizen that strikes sets ``idle_until``, one that works gains wealth."""
    if array == "cupy" and device == "cpu":
        pytest.skip("CuPy is for GPUs")
    env = make(num_worlds=200, max_episode_steps=0, rich=1e6, device=device, array=array)
    rows = RoleRows(env, "mayor")
    rows.reset(seed=1)
    idle = strikes = worked = 0
    for _ in range(12):
        before = {name: host(value) for name, value in env.get_state("wealth", "idle_until", "t").items()}
        rows.step(np.zeros((200, 2), np.float32))
        after = {name: host(value) for name, value in env.get_state("wealth", "idle_until").items()}
        forbidden = before["idle_until"] > before["t"][:, None]
        works, strike = after["wealth"] > before["wealth"], after["idle_until"] != before["idle_until"]
        assert not (works & forbidden).any() and not (strike & forbidden).any()
        idle, strikes, worked = idle + forbidden.sum(), strikes + strike.sum(), worked + works.sum()
        allowed = (~forbidden).sum()
        assert abs(works.sum() / allowed - 1 / 3) < 0.1 and abs(strike.sum() / allowed - 1 / 3) < 0.1
    assert idle > 1000 and strikes > 1000 and worked > 1000


def test_a_seed_starts_random_actions_anew():
    def run(rows, seed):
        rows.reset(seed=seed)
        return np.stack([rows.step(np.ones(rows.num_envs, np.int32))[0][:, 2] for _ in range(5)])  # the tax of the random mayor

    first, second = (RoleRows(make(), "citizen", others) for others in (None, {"mayor": "random"}))
    taxes = run(first, 3)
    np.testing.assert_array_equal(run(second, 3), taxes)
    np.testing.assert_array_equal(run(first, 3), taxes)
    assert (run(first, 4) != taxes).any()
    assert (0 <= taxes).all() and (taxes <= 1).all() and np.unique(taxes[:, ::CITIZENS]).size == 5 * WORLDS
    assert (run(RoleRows(make(first_world=50), "citizen"), 3) != taxes).any()
    assert np.array_equal(run(first, [1, None, 2, 3])[0].shape, (WORLDS * CITIZENS,))


def test_other_roles_act_for_the_present_state():
    """After set_state and copy_worlds, which bypass the results of steps, functions get the new observations and masks."""
    seen = []

    def policy(obs, mask):
        seen.append((obs.clone(), mask.clone()))
        return torch.zeros(obs.shape[:2], dtype=torch.int32)

    env = make(array="torch")
    rows = RoleRows(env, "mayor", {"citizen": policy})
    rows.reset(seed=0)
    tax = torch.zeros(WORLDS, 2)
    env.set_state(
        {"idle_until": np.full((WORLDS, CITIZENS), 9, np.int32), "wealth": np.full((WORLDS, CITIZENS), 0.5, np.float32)}
    )
    rows.step(tax)
    obs, mask = seen[-1]
    assert (obs[..., 0] == 0.5).all() and not mask[..., 1:].any() and mask[..., 0].all()
    rows.set_state({"wealth": np.arange(WORLDS * CITIZENS, dtype=np.float32).reshape(WORLDS, CITIZENS) / 100})
    env.copy_worlds([3], [0])
    rows.step(tax)
    assert torch.equal(seen[-1][0][0, :, 0], torch.arange(15, 20) / 100)


def test_functions_run_without_gradients():
    layer = torch.nn.Linear(CITIZENS + 1, 2)

    def policy(obs):
        taxes = layer(obs).sigmoid()
        assert not taxes.requires_grad
        return taxes

    rows = RoleRows(make(array="torch"), "citizen", {"mayor": policy})
    rows.reset(seed=0)
    rows.step(torch.ones(rows.num_envs, dtype=torch.int64))


def test_masked_random_actions_are_uniform_over_allowed_choices():
    """Entries 0 and 2 of three have masks. An entry without an allowed choice is 0."""
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1, 1]]).bool().repeat(30_000, 1)
    actions = uniform_actions(MultiDiscrete([3, 4, 5]), (60_000,), torch.Generator().manual_seed(0), None, mask, (0, 2))
    assert actions.shape == (60_000, 3) and actions.dtype == torch.int32
    for row, entry, allowed in ((0, 0, [0, 2]), (1, 0, [0]), (0, 2, [0, 2, 3]), (1, 2, range(5)), (0, 1, range(4))):
        counts = torch.bincount(actions[row::2, entry], minlength=5) / 30_000
        expected = torch.tensor([1 / len(allowed) if i in allowed else 0 for i in range(5)])
        assert torch.allclose(counts, expected, atol=0.015)
        assert not counts[expected == 0].any()


# ---- masks ---------------------------------------------------------------------------------------------------------


def test_action_masks_are_those_of_the_last_observation():
    rows = RoleRows(make(), "citizen")
    _, info = rows.reset(seed=0)
    for _ in range(8):
        np.testing.assert_array_equal(rows.action_masks(), info["action_mask"])
        *_, info = rows.step(np.where(info["action_mask"][:, 2], 2, 0).astype(np.int32))
    assert not rows.action_masks().all()


# ---- Gymnasium's contract -----------------------------------------------------------------------------------------


def test_attributes_and_spaces():
    env = make(render_mode="rgb_array", autoreset_mode="next_step", array="torch")
    rows = RoleRows(env, "citizen")
    assert isinstance(rows, gymnasium.vector.VectorEnv) and rows.unwrapped is rows and rows.env is env
    assert rows.single_observation_space == Box(-np.inf, np.inf, (4,), np.float32) and rows.single_action_space.n == 3
    assert rows.action_space == MultiDiscrete(np.full(WORLDS * CITIZENS, 3))
    assert rows.metadata == env.metadata and rows.render_mode == "rgb_array"
    assert (rows.num_envs, rows.num_worlds, rows.num_agents) == (WORLDS * CITIZENS, WORLDS, CITIZENS)
    assert rows.role_rows == {"citizen": slice(0, WORLDS * CITIZENS)}
    assert repr(rows) == "RoleRows(Town-v0, role=citizen, num_envs=20, device=cpu)"


def test_close_closes_the_env():
    rows = RoleRows(make(), "mayor")
    rows.reset(seed=0)
    rows.close()
    rows.close()
    assert rows.closed and rows.env.closed
    with pytest.raises(ClosedError):
        rows.step(np.zeros((WORLDS, 2), np.float32))


def test_a_frame_for_each_row():
    env = make(render_mode="rgb_array")
    rows = RoleRows(env, "citizen")
    env.render = lambda: tuple(np.full((1, 1, 3), world, np.uint8) for world in range(WORLDS))
    assert [int(frame[0, 0, 0]) for frame in rows.render()] == [w for w in range(WORLDS) for _ in range(CITIZENS)]
    env.render = lambda: None
    assert rows.render() is None


def test_statistics_of_rows():
    rows = EpisodeStatistics(RoleRows(make(), "mayor", OTHERS["mayor"]))
    rows.reset(seed=2)
    total, ends = np.zeros(WORLDS, np.float32), 0
    for step in range(1, 13):
        _, reward, _, _, info = rows.step(np.full((WORLDS, 2), 0.25, np.float32))
        total += reward
        ended = info["_episode"]
        if ended.any():
            assert ended.all() and step % 6 == 0
            np.testing.assert_array_equal(info["episode"]["r"], total)
            assert (info["episode"]["l"] == 6).all() and (info["episode"]["tax"] == 0.25).all()
            total, ends = 0 * total, ends + 1
    assert ends == 2


def test_observations_of_rows_are_normalised():
    rows, plain = NormalizeObservation(RoleRows(make(), "citizen")), RoleRows(make(), "citizen")
    (obs, _), (raw, _) = rows.reset(seed=2), plain.reset(seed=2)
    deviation = np.sqrt(raw.astype(np.float64).var(0) + 1e-8)
    np.testing.assert_allclose(obs, (raw - raw.mean(0, np.float64)) / deviation, rtol=1e-3, atol=1e-3)
    assert obs.shape == rows.observation_space.shape
    with pytest.raises(ParameterError, match=r"got the space Dict; wrap RoleRows\(env, role\)"):
        NormalizeObservation(make())


# ---- errors -------------------------------------------------------------------------------------------------------


def tag():
    return gymnasium.make_vec("WarpTag-v0", num_worlds=1, num_taggers=1, num_runners=2, device="cpu")


WRONG = {
    "no role": (lambda: RoleRows(make(), "king"), "Town-v0 has no role 'king'; the roles are citizen, mayor"),
    "alike": (lambda: RoleRows(tag(), "tagger"), 'same spaces, so RoleRows is not needed; use view="agents"'),
    "one agent": (lambda: RoleRows(gymnasium.make_vec("WarpCatalysis-v0"), "agent"), 'RoleRows is not needed; use view="agents"'),
    "wrapped": (lambda: RoleRows(EpisodeStatistics(make()), "mayor"), "without wrappers, got EpisodeStatistics"),
    "foreign": (lambda: RoleRows(gymnasium.make_vec("CartPole-v1"), "mayor"), "takes an env of this package"),
    "own role": (lambda: RoleRows(make(), "mayor", {"mayor": "random"}), "among citizen, got 'mayor', whose rows are those"),
    "unknown other": (lambda: RoleRows(make(), "mayor", {"king": "random"}), "among citizen, got 'king'"),
    "no policy": (
        lambda: RoleRows(make(), "mayor", {"citizen": 3}),
        r"others\['citizen'\] must be 'random' or a function, got 3",
    ),
    "agents view": (
        lambda: make(view="agents", num_worlds=None, num_envs=4),
        r'got view="agents"\. RoleRows\(env, role, others=',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case):
    call, message = WRONG[case]
    with pytest.raises(ParameterError, match=message):
        call()


def test_random_actions_need_bounds():
    roles = (SPEC.roles[0], replace(SPEC.roles[1], action=lambda p: Box(-np.inf, np.inf, (2,), np.float32)))
    env = GpuVectorEnv(replace(SPEC, roles=roles), device="cpu")
    with pytest.raises(ParameterError, match="random actions of mayor need finite bounds"):
        RoleRows(env, "citizen")
    RoleRows(env, "citizen", {"mayor": tax_the_rich})


def test_wrong_calls():
    rows = RoleRows(make(), "citizen", {"mayor": lambda obs: np.zeros((WORLDS, 2), np.float32)})
    actions = np.ones(rows.num_envs, np.int32)
    with pytest.raises(ArrayTypeError, match="others must be a mapping"):
        RoleRows(make(), "citizen", ["mayor"])
    for call in (lambda: rows.step(actions), rows.action_masks):
        with pytest.raises(SequenceError, match=r"call reset\(\) before"):
            call()
    rows.reset(seed=0)
    with pytest.raises(ShapeError, match=r"actions must have shape \(20,\), got \(4, 5\)"):
        rows.step(actions.reshape(4, 5))
    with pytest.raises(ShapeError, match="20 rows, got lists of unequal lengths"):
        rows.step([1, [2]])
    with pytest.raises(ArrayTypeError, match="actions of citizen must be uint8, int8, int16, int32 or int64, got float64"):
        rows.step([0.5] * 20)
    with pytest.raises(ShapeError, match=r"actions of mayor must have shape \(4, 1, 2\), got \(4, 2\)"):
        rows.step(actions)
    with pytest.raises(ParameterError, match="the same for all agents of a world.*world 0 is mixed"):
        rows.reset(options={"reset_mask": np.arange(20) == 0})
    with pytest.raises(ShapeError, match=r"reset_mask must have shape \(20,\), got \(4,\)"):
        rows.reset(options={"reset_mask": np.ones(4, bool)})
    with pytest.raises(ParameterError, match="mayor has no masked entries"):
        RoleRows(make(), "mayor").action_masks()


# ---- envs with a shared part --------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", ["torch", "numpy"])
def test_rows_of_a_role_with_a_shared_part_are_whole(array):
    seen = []

    def pay(obs):
        seen.append(host(obs))
        return np.ones((3, 1), np.int32)

    options = {"num_worlds": 3, "num_players": 4, "max_episode_steps": 3, "device": "cpu", "array": array}
    rows, plain = RoleRows(pot.make_vec(**options), "player", {"judge": pay}), pot.make_vec(**options)
    parts, obs = plain.reset(seed=5)[0]["player"], rows.reset(seed=5)[0]
    assert obs.shape == (12, 3) and rows.single_observation_space.shape == (3,)
    for _ in range(7):
        np.testing.assert_array_equal(host(obs), rows_of_parts(parts))
        coins = np.ones(12, np.int32)
        expected, _, _, _, given = plain.step({"player": coins.reshape(3, 4), "judge": np.ones((3, 1), np.int32)})
        obs, _, _, _, info = rows.step(coins)
        parts, final = expected["player"], host(info["_final_obs"])
        np.testing.assert_array_equal(host(info["final_obs"])[final], rows_of_parts(given["final_obs"]["player"])[final])
        np.testing.assert_array_equal(host(info["action_mask"]), host(given["action_mask"]["player"]).reshape(12, 3))
    judge = RoleRows(pot.make_vec(**options), "judge", {"player": lambda parts, mask: pay(parts["own"]).repeat(4, axis=1)})
    judge.reset(seed=5)
    judge.step(np.ones(3, np.int32))
    assert seen[-1].shape == (3, 4, 1)


def rows_of_parts(parts):
    """Rows of three worlds of four agents: the shared part, then the own part."""
    shared, own = host(parts["shared"]), host(parts["own"])
    return np.stack([np.append(shared[w], own[w, i]) for w in range(3) for i in range(4)])
