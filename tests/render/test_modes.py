"""Rendering without a render mode, and windows."""

import sys
import warnings

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.errors import MissingExtraError, ParameterError

MAKERS = [
    ("gymnasium.make", lambda **options: gymnasium.make("WarpCartPole-v1", **options)),
    ("gymnasium.make_vec", lambda **options: gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu", **options)),
]


@pytest.mark.parametrize(("call", "make"), MAKERS)
def test_rendering_without_a_mode_warns_once_and_names_the_right_call(call, make):
    env = make()
    env.reset(seed=0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        assert [env.render() for _ in range(3)] == [None] * 3
    (warning,) = warned
    assert f'{call}("WarpCartPole-v1", render_mode="rgb_array")' in str(warning.message)


@pytest.mark.parametrize(("call", "make"), MAKERS)
@pytest.mark.filterwarnings("error")
def test_rendering_with_a_mode_gives_no_warning(call, make):
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    assert np.asarray(env.render()).std() > 0


def test_a_window_without_pygame_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(MissingExtraError, match=r'render_mode="human" needs pygame: pip install "gpu-vecenv.human."'):
        gymnasium.make("WarpCartPole-v1", render_mode="human")


def test_a_window_of_a_vector_env_raises_an_error():
    with pytest.raises(ParameterError, match="render_mode must be one of None, 'rgb_array', got 'human'"):
        gymnasium.make_vec("WarpCartPole-v1", render_mode="human")


@pytest.mark.filterwarnings("error:.*natively:UserWarning")
def test_a_window_shows_the_frame(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame")
    shown, drawn = (gymnasium.make("WarpCartPole-v1", render_mode=mode) for mode in ("human", "rgb_array"))
    again = gymnasium.make(shown.spec)
    assert shown.render_mode == again.render_mode == "human" and str(again) == str(shown)
    for env in (shown, drawn):
        env.reset(seed=0)
        env.step(1)
    picture = pygame.surfarray.array3d(pygame.display.get_surface())
    np.testing.assert_array_equal(picture.transpose(1, 0, 2), drawn.render())
    for env in (shown, drawn, again):
        env.close()
