"""Envs of the tests that hold for every env with roles or masks, and what these tests share."""

import gymnasium
import numpy as np
import torch

import gpu_vecenv  # noqa: F401
from tests.trees import leaves, map_tree, to_host

CASES = {
    "town": ("Town-v0", {"max_episode_steps": 9}),
    "harvest": ("Harvest-v0", {"max_episode_steps": 9, "map": 1, "regrowth": 0.3}),
    "harvest, a map for each world": ("Harvest-v0", {"max_episode_steps": 9, "map": np.arange(6) % 3}),
    "harvest, agents view": ("Harvest-v0", {"max_episode_steps": 9, "view": "agents"}),
    "pot": ("Pot-v0", {"max_episode_steps": 9}),
    "covid": ("WarpCovid-v0", {"episode_length": 9, "action_cooldown": 3, "subsidy_interval": 4}),
    "whisper": ("Whisper-v0", {"max_episode_steps": 9, "quiet": 1}),
    "whisper, agents view": ("WhisperAlike-v0", {"max_episode_steps": 9, "quiet": 1, "view": "agents"}),
    "choir, whole rows, agents view": ("Choir-v0", {"max_episode_steps": 9, "whole": True, "view": "agents"}),
}
"""Ids and options. Episodes end after a few steps."""

MODES = ("same_step", "next_step", "disabled")


def make(case, num_worlds=6, **options):
    env_id, given = CASES[case]
    given = {name: np.resize(value, num_worlds) if np.ndim(value) else value for name, value in given.items()}
    return gymnasium.make_vec(env_id, num_worlds=num_worlds, **{"device": "cpu", "array": "numpy", **given, **options}).unwrapped


def started(case, seed=3, **options):
    env = make(case, **options)
    env.reset(seed=seed)
    return env


def random_actions(env, steps, seed=0):
    """Actions of some steps, a tree of arrays with the leading axis steps. Forbidden choices occur."""
    env.action_space.seed(seed)
    actions = map_tree(lambda *arrays: np.stack(arrays), *(plain(env.action_space.sample()) for _ in range(steps)))
    return map_tree(lambda array: array.astype(np.float32 if array.dtype.kind == "f" else np.int32), actions)


def plain(sample):
    """A sample of a Dict space as a dict."""
    return {name: plain(part) for name, part in sample.items()} if isinstance(sample, dict) else sample


def on_device(actions, env):
    """The actions as arrays of the env's kind on its device."""
    return actions if env.device == "cpu" else map_tree(lambda array: torch.as_tensor(array, device=env.device), actions)


def at(tree, index):
    return map_tree(lambda array: array[index], tree)


def results(out):
    """Results of a step or of a rollout on the host, as one tree; values of worlds without an end of an episode are 0."""
    obs, reward, terminated, truncated, info = out
    tree = to_host({"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated, **info})
    for name, mark in (("final_obs", "_final_obs"), ("final_action_mask", "_final_obs"), ("episode", "_episode"),
                       ("final_action_effects", "_final_obs")):  # fmt: skip
        if name in tree:
            tree[name] = map_tree(lambda array, ended=tree[mark]: np.where(expand(ended, array), array, 0), tree[name])
    return tree


def observed(out):
    """Observations and masks of a reset on the host, as one tree."""
    return to_host({"obs": out[0], **out[1]})


def of_envs(env, mask):
    """Mask over worlds as a mask over envs of the view."""
    return mask if env.view == "worlds" else np.concatenate([np.repeat(mask, count) for count in env.role_counts.values()])


def expand(mask, like):
    """Mask over envs, reshaped to as many axes as ``like``."""
    return mask.reshape(mask.shape + (1,) * (like.ndim - mask.ndim))


def stepped(env, actions):
    """Results of single steps with actions of several steps, stacked as a rollout returns them."""
    outs = [results(env.step(on_device(at(actions, t), env))) for t in range(len(leaves(actions)[0]))]
    return map_tree(lambda *arrays: np.stack(arrays), *outs)


def state(env):
    return to_host(env.get_state())
