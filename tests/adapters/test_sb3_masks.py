"""MaskablePPO of sb3-contrib on rows of one role and on envs by id, with the masks that the kernels write."""

import copy
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv import GpuVectorEnv, RoleRows, SingleEnv
from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from gpu_vecenv.errors import ParameterError, SequenceError
from tests.adapters import role_cases
from tests.roles import harvest
from tests.roles.town import SPEC
from tools.docs.readme import blocks

pytest.importorskip("sb3_contrib")
from sb3_contrib import MaskablePPO  # noqa: E402
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback  # noqa: E402
from sb3_contrib.common.maskable.evaluation import evaluate_policy  # noqa: E402
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.vec_env import VecCheckNan  # noqa: E402

WORLDS, CITIZENS = 3, 4


def works(what):
    return pytest.mark.works("sb3-contrib", what)


def town(**options):
    given = {"num_worlds": WORLDS, "num_citizens": CITIZENS, "max_episode_steps": 20, "device": "cpu"}
    return GpuVectorEnv(SPEC, **{**given, **options})


class Recorder(Sb3VecEnv):
    """Keeps the mask before each step and the actions of the step."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.taken = []

    def step_async(self, actions):
        self.taken.append((self.action_masks(), np.array(actions)))
        super().step_async(actions)


def forbidden(env):
    """Number of actions that a mask forbade, and of masks that forbade an action."""
    masks, actions = (np.stack(arrays) for arrays in zip(*env.taken, strict=True))
    chosen = np.take_along_axis(masks, actions[..., None].astype(int), axis=-1)
    return int((~chosen).sum()), int((~masks).any(-1).sum())


@works("MaskablePPO on the rows of a role, which takes no forbidden action")
def test_maskable_ppo_takes_no_forbidden_action():
    env = Recorder(RoleRows(town(), "citizen"))
    model = MaskablePPO("MlpPolicy", env, n_steps=25, batch_size=100, n_epochs=2, seed=0, device="cpu")
    before = [p.clone() for p in model.policy.parameters()]
    model.learn(600)
    assert len(env.taken) == 50 and env.num_envs == WORLDS * CITIZENS
    wrong, masks = forbidden(env)
    assert wrong == 0 and masks > 50
    assert any((old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True))
    np.testing.assert_array_equal(model.rollout_buffer.action_masks.shape[-1], 3)
    obs = env.reset()
    model.predict(obs, action_masks=env.action_masks())


def test_ppo_without_masks_takes_forbidden_actions():
    """The check above can fail."""
    env = Recorder(RoleRows(town(), "citizen"))
    PPO("MlpPolicy", env, n_steps=25, batch_size=100, n_epochs=1, seed=0, device="cpu").learn(300)
    assert forbidden(env)[0] > 0


@pytest.mark.works("Stable-Baselines3", "PPO on the rows of a role with a Box")
def test_ppo_trains_the_mayor():
    def obey(obs, mask):
        return mask[..., 1].int()

    env = Sb3VecEnv(RoleRows(town(rich=1e6), "mayor", {"citizen": obey}))
    model = PPO("MlpPolicy", env, n_steps=20, batch_size=60, n_epochs=1, device="cpu").learn(120)
    assert env.num_envs == WORLDS and len(model.ep_info_buffer) == 2 * WORLDS
    assert all(episode["l"] == 20 for episode in model.ep_info_buffer)


def test_the_example_of_the_page_trains_both_roles():
    page = Path(__file__).resolve().parents[2] / "docs" / "adapters" / "sb3.md"
    (block,) = (block for block in blocks(page) if "MaskablePPO" in block.text)
    names = {}
    exec(compile(block.text, page, "exec"), names)
    model = names["train"](town(num_worlds=4), 400)
    assert model.num_timesteps >= 400 and model.observation_space.shape == (CITIZENS + 1,)


def test_masks_of_rows_reach_sb3_contrib_through_wrappers():
    rows = RoleRows(town(), "citizen")
    inner = Sb3VecEnv(rows)
    env = VecCheckNan(inner)
    assert is_masking_supported(env)
    with pytest.raises(SequenceError, match=r"call reset\(\) before action_masks\(\)"):
        get_action_masks(env)
    env.seed(0)
    env.reset()
    for _ in range(6):
        masks = get_action_masks(env)
        assert masks.shape == (WORLDS * CITIZENS, 3) and masks.dtype == bool
        np.testing.assert_array_equal(masks, rows.action_masks())
        env.step(np.where(masks[:, 2], 2, 0))
    assert not masks.all()


def test_unmasked_rows_have_no_masks():
    env = Sb3VecEnv(RoleRows(town(), "mayor"))
    assert not is_masking_supported(env)
    with pytest.raises(ParameterError, match="Town-v0 has no masks for these rows"):
        env.action_masks()
    with pytest.raises(ValueError, match="does not support action masking"):
        MaskablePPO("MlpPolicy", Sb3VecEnv("WarpCartPole-v1", device="cpu"), device="cpu").learn(1)


def test_an_env_by_role_needs_role_rows():
    with pytest.raises(
        ParameterError, match=r"Sb3VecEnv needs the same spaces for all agents, and citizen and mayor .* RoleRows"
    ):
        Sb3VecEnv(town())


# ---- roles that are alike -----------------------------------------------------------------------------------------


def test_rows_of_the_agents_view_have_masks():
    """Harvest masks its first entry, a move of 5, and not its second, a zap of 2. Frozen agents may not move."""
    env = Recorder(harvest.make_vec(num_worlds=8, view="agents", device="cpu"), role="red")
    assert is_masking_supported(env)
    model = MaskablePPO("MlpPolicy", env, n_steps=10, batch_size=60, n_epochs=1, device="cpu").learn(480)
    masks, actions = (np.stack(arrays) for arrays in zip(*env.taken, strict=True))
    assert masks.shape == (20, 24, 7) and masks[..., 5:].all() and not masks[..., 1:5].all()
    assert np.take_along_axis(masks[..., :5], actions[..., :1].astype(int), -1).all()
    assert model.rollout_buffer.action_masks.shape[-1] == 7


@pytest.mark.parametrize("others", [{}, {"blue": lambda obs, mask: torch.stack([mask.int().argmin(-1), obs[:, 3].long()], -1)}])
def test_other_roles_of_the_agents_view_get_masks(others):
    """Random agents choose what their masks allow; a function gets the masks and may choose what they forbid."""
    env = Sb3VecEnv(harvest.make_vec(num_worlds=20, view="agents", device="cpu"), role="red", others=others)
    env.reset()
    blue, counts = slice(60, 100), torch.zeros(2, dtype=torch.int64)
    for _ in range(20):
        mask = env._mask[blue]
        joint = env._with_others(torch.zeros(60, 2, dtype=torch.int64))[blue]
        allowed = mask.gather(1, joint[:, :1].long()).flatten()
        counts += torch.stack([(~allowed).sum(), (~mask).any(1).sum()])
        env.step(np.ones((60, 2), int))
    assert counts[0] == (counts[1] if others else 0) and counts[1] > 100


# ---- every env with masks -----------------------------------------------------------------------------------------


def maskable_rows(name):
    """``Sb3VecEnv`` of each role with masks, or of all agents if roles are alike, and the masks of a reset with seed 4."""
    env_id, params = role_cases.CASES[name]
    plain = role_cases.vector_env(name, WORLDS)
    masks = role_cases.by_role(plain, plain.reset(seed=4)[1]["action_mask"])
    options = {"num_worlds": WORLDS, "device": "cpu", **params}
    if not plain.layout.by_role:
        rows = np.concatenate([mask.reshape(-1, mask.shape[-1]) for mask in masks.values()])
        return [(Sb3VecEnv(env_id, **options), rows)]
    env = partial(gymnasium.make_vec, env_id, array="torch", **options)
    return [(Sb3VecEnv(RoleRows(env().unwrapped, role)), mask.reshape(-1, mask.shape[-1])) for role, mask in masks.items()]


@works("the `action_masks` hook, for every env with masks")
@pytest.mark.parametrize("name", role_cases.CASES)
def test_the_hook_gives_the_masks_of_every_env(name, monkeypatch, tmp_path):
    role_cases.register(monkeypatch, tmp_path)
    for env, expected in maskable_rows(name):
        assert env.has_attr("action_masks") and is_masking_supported(env)
        env.seed(4)
        env.reset()
        masks = np.stack(env.env_method("action_masks"))
        np.testing.assert_array_equal(masks[:, : expected.shape[1]], expected)
        assert masks[:, expected.shape[1] :].all()  # the choices of an entry without a mask
        np.testing.assert_array_equal(env.get_attr("action_masks")[0](), masks)
        MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=env.num_envs, n_epochs=1, device="cpu").learn(8 * env.num_envs)


# ---- envs by id, of one world each --------------------------------------------------------------------------------


@pytest.fixture
def one(monkeypatch):
    """Id of an env with one agent, whose masks forbid one of three choices; the right one, observed as one-hot, gives 1."""
    spec = role_cases.make_one(device="cpu").env_spec
    made = gymnasium.envs.registration.EnvSpec("One-v0", entry_point=partial(SingleEnv, spec), max_episode_steps=10)
    monkeypatch.setitem(gymnasium.registry, "One-v0", made)
    return "One-v0"


def test_a_single_env_gives_masks_with_each_observation(one):
    env = gymnasium.make(one)
    assert is_masking_supported(env) and not is_masking_supported(gymnasium.make("WarpCartPole-v1"))
    with pytest.raises(SequenceError, match=r"call reset\(\) before action_masks\(\)"):
        get_action_masks(env)
    obs, info = env.reset(seed=1)
    for _ in range(5):
        right = obs.argmax()
        expected = np.arange(3) != (right + 1) % 3
        np.testing.assert_array_equal(info["action_mask"], expected)
        np.testing.assert_array_equal(get_action_masks(env), expected)
        for array in (info["action_mask"], get_action_masks(env)):
            array[:] = False  # the caller's own arrays
        np.testing.assert_array_equal(get_action_masks(copy.deepcopy(env)), expected)
        obs, reward, *_, info = env.step(right)
        assert reward == 1


def test_a_single_env_of_several_agents_gives_the_masks_of_all_entries_side_by_side():
    env = SingleEnv(harvest.SPEC)
    moves = env.reset(seed=0)[1]["action_mask"]
    masks = env.action_masks().reshape(5, 7)  # 5 agents, with a masked move of 5 and a zap of 2
    np.testing.assert_array_equal(masks[:, :5], moves)
    assert masks[:, 5:].all() and not moves.all()


def test_a_single_env_refuses_roles_with_spaces_of_their_own():
    with pytest.raises(ParameterError, match="Town-v0: a single env needs the same spaces for all agents"):
        SingleEnv(SPEC)


@pytest.mark.slow
@works("MaskablePPO by id, through `make_vec_env`, of an env whose spec has masks; it learns")
def test_maskable_ppo_learns_by_id(one):
    env = make_vec_env(one, n_envs=4, seed=0)
    model = MaskablePPO("MlpPolicy", one, n_steps=128, batch_size=64, learning_rate=2e-3, seed=0, device="cpu").learn(1_500)
    assert evaluate_policy(model, env, n_eval_episodes=8)[0] > 9  # of 10; random actions have 5 with masks
    with pytest.raises(ValueError, match="does not support action masking"):
        MaskablePPO("MlpPolicy", "WarpCartPole-v1", device="cpu").learn(1)


@works("`evaluate_policy` and `MaskableEvalCallback` with masks")
def test_evaluation_with_masks(tmp_path):
    env, judge = Recorder(RoleRows(town(), "citizen")), Recorder(RoleRows(town(), "citizen"))
    model = MaskablePPO("MlpPolicy", env, n_steps=25, batch_size=100, n_epochs=1, seed=0, device="cpu")
    callback = MaskableEvalCallback(judge, n_eval_episodes=12, eval_freq=20, log_path=str(tmp_path), verbose=0)
    model.learn(300, callback=callback)
    wrong, masks = forbidden(judge)
    assert wrong == 0 and masks > 10 and np.load(tmp_path / "evaluations.npz")["results"].shape == (1, 12)
    returns, lengths = evaluate_policy(model, judge, n_eval_episodes=12, return_episode_rewards=True)
    assert len(returns) == 12 and max(lengths) <= 20
