"""The HTML that a notebook shows for an env."""

import base64
import io
import re

import gymnasium
import numpy as np
import pytest
from PIL import Image

import gpu_vecenv  # noqa: F401
from tests.roles import shared, town


def picture(html):
    """Return the picture in the HTML, or None."""
    found = re.search(r'src="data:image/png;base64,([^"]+)"', html)
    return None if found is None else np.asarray(Image.open(io.BytesIO(base64.b64decode(found[1]))).convert("RGB"))


def make(name="WarpTag-v0", **options):
    return gymnasium.make_vec(name, device="cpu", **options).unwrapped


def rows(html):
    return dict(re.findall(r"<tr><td[^>]*>([^<]+)</td><td[^>]*>([^<]+)</td></tr>", html))


def test_the_table_has_size_roles_spaces_and_device():
    env = make(num_envs=70, num_taggers=2, num_runners=3)
    assert rows(env._repr_html_()) == {
        "env": "WarpTag-v0", "worlds": "70", "agents in a world": "tagger: 2, runner: 3",
        "observation of an agent": f"float32 {env.single_observation_space.shape[1:]}",
        "action of an agent": "MultiDiscrete([21 21])", "view": "worlds, leading axis 70",
        "arrays": "torch, on cpu", "autoreset": "same_step",
    }  # fmt: skip
    env.close()


def test_roles_with_spaces_of_their_own_have_lines_of_their_own():
    env = town.make_vec(num_envs=3, device="cpu")
    env.reset(seed=0)
    html = env._repr_html_()
    assert picture(html) is None  # it has no render.py
    shown = rows(html)
    assert (shown["observation of a mayor"], shown["action of a mayor"]) == ("float32 (6,)", "float32 (2,), from 0 to 1")
    assert shown["action of a citizen"] == "Discrete(3), with masks"
    env.close()
    env = shared.make_vec(num_envs=3, device="cpu")
    assert rows(env._repr_html_())["observation of a player"] == "float32 (1,), and float32 (2,) in common"
    env.close()


def test_bounds_are_shown_if_all_numbers_have_the_same():
    shown = rows(make("WarpPendulum-v1", num_envs=2)._repr_html_())
    assert (shown["observation"], shown["action"]) == ("float32 (3,)", "float32 (1,), from -2 to 2")
    assert shown["agents in a world"] == "1"


@pytest.mark.parametrize("array", ["torch", "numpy"])
def test_the_picture_shows_the_first_worlds(array):
    env = make("WarpCartPole-v1", num_envs=6, array=array)
    assert picture(env._repr_html_()) is None  # no world has started
    env.reset(seed=0)
    places = np.array([-2.0, -1.5, -1.0, 0.0, 1.0, 2.0], np.float32)
    state = np.stack([places, *np.zeros((3, 6), np.float32)], axis=1)
    env.set_state({"state": state})
    html, first = env._repr_html_(), env.picture(4)
    env.set_state({"state": state[[2, 3, 4, 5, 0, 1]]})
    last = env.picture(4)

    def difference(drawn):
        expected = Image.fromarray(drawn).resize(picture(html).shape[1::-1], Image.Resampling.BOX)
        return np.abs(picture(html).astype(int) - np.asarray(expected)).mean()

    assert difference(first) < 0.25 * difference(last)
    assert "first 4 worlds; 2 more" in html
    env.close()
    assert picture(env._repr_html_()) is None and rows(env._repr_html_())["worlds"] == "6"


def test_a_state_that_cannot_be_drawn_has_no_picture():
    env = make("WarpCartPole-v1", num_envs=1)
    env.reset(seed=0)
    env.set_state({"state": [[1e30, 0.0, 0.0, 0.0]]})
    assert picture(env._repr_html_()) is None and rows(env._repr_html_())["worlds"] == "1"
    env.close()


def test_showing_an_env_does_not_change_it():
    env, other = make(num_envs=2, num_runners=5), make(num_envs=2, num_runners=5)
    for one in (env, other):
        one.reset(seed=3)
    env._repr_html_()
    state, expected = env.get_state(), other.get_state()
    assert all((state[name] == expected[name]).all() for name in expected)
    env.close(), other.close()
