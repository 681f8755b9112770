"""The command `watch` on a small run, and `render()` of envs."""

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.cli.watch import watch
from gpu_vecenv.envs.cartpole.render import Renderer as CartPoleRenderer
from gpu_vecenv.envs.tag.render import Renderer as TagRenderer
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.side_by_side import GAP
from gpu_vecenv.render.worlds import tile
from gpu_vecenv.train.config import TrainConfig, resolve
from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_path
from gpu_vecenv.train.runner import beside_random as compare
from gpu_vecenv.train.runner.trainer import Trainer
from gpu_vecenv.train.runner.watch import stacked

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 12, "tagging_distance": 0.0, "use_full_observation": True}
RANDOM = ("tagger=random", "runner=random")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a short training run; no runner can be tagged, so every episode has full length."""
    folder = tmp_path_factory.mktemp("run")
    config = TrainConfig("WarpTag-v0", 2, 256, seed=0, device="cpu", out=str(folder), env_kwargs=TAG)
    trainer = Trainer(resolve(config))
    trainer.train()
    trainer.close()
    return folder


@pytest.mark.slow
def test_a_video_shows_every_state_of_each_episode(run, capsys):
    watch(str(run), episodes=2, device="cpu")
    assert imageio.imread(run / "watch.mp4", index=None).shape == (2 * 13, 688, 960, 3)
    out, error = capsys.readouterr()
    assert out == f"video: {run / 'watch.mp4'}\n"
    assert error.splitlines()[-1].startswith("100%  26 frames  2 of 2 episodes  ")


def test_random_policies_can_be_shown_in_a_short_gif(run, tmp_path, capsys):
    watch(str(run), tmp_path / "film.gif", max_frames=5, device="cpu", policy=RANDOM)
    assert len(imageio.imread(tmp_path / "film.gif", index=None)) == 5
    assert capsys.readouterr().err.splitlines()[-1].startswith("100%  5 frames  0 of 1 episodes  ")


def test_a_seed_determines_the_video(run, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        watch(str(run), tmp_path / f"{name}.gif", max_frames=4, seed=seed, device="cpu")
    a, b, c = ((tmp_path / f"{name}.gif").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.slow
def test_random_and_trained_play_start_alike_and_part(run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(compare, "tile", lambda frames, **options: drawn.append(frames) or tile(frames, **options))
    watch(str(run), tmp_path / "both.gif", seed=3, max_frames=6, beside_random=True, device="cpu")
    film = imageio.imread(tmp_path / "both.gif", index=None)
    assert len(film) == 6 and len(drawn) == 12
    left, right = drawn[0::2], drawn[1::2]
    np.testing.assert_array_equal(left[0], right[0])
    assert all((a[0] != b[0]).any() for a, b in zip(left[1:], right[1:], strict=True))
    assert film.shape[2] == 2 * drawn[0][0].shape[1] + GAP
    # The left side is the play in which both roles act at random.
    drawn.clear()
    watch(str(run), tmp_path / "random.gif", seed=3, max_frames=6, beside_random=True, device="cpu", policy=RANDOM)
    np.testing.assert_array_equal(drawn[0::2], left)
    np.testing.assert_array_equal(drawn[1::2], left)


def test_several_worlds_are_shown_side_by_side(run, tmp_path):
    for worlds in (1, 2):
        watch(str(run), tmp_path / f"{worlds}.gif", max_frames=3, worlds=worlds, seed=3, device="cpu")
    one, two = (imageio.imread(tmp_path / f"{worlds}.gif", index=None)[..., :3].astype(int) for worlds in (1, 2))
    # Each arena is below a line of text of 48 rows; a gap of 4 columns is between them, and a legend of 56 rows below both.
    assert two.shape == (3, 48 + 688 + 56, 2 * 688 + 4, 3)
    # The first of two worlds is the world of the other video.
    apart = [np.abs(one[:, :, :688] - two[:, 48:736, left : left + 688]).mean() for left in (0, 692)]
    assert apart[0] < 0.5 * apart[1]


def test_a_video_has_its_scale_and_theme(run, tmp_path):
    for theme in ("dark", "light"):
        watch(str(run), tmp_path / f"{theme}.gif", max_frames=2, device="cpu", theme=theme, scale=0.25)
    dark, light = (imageio.imread(tmp_path / f"{theme}.gif", index=1)[..., :3] for theme in ("dark", "light"))
    assert dark.shape == light.shape == (172, 240, 3)
    assert dark.mean() < 60 and light.mean() > 200


@pytest.mark.parametrize("scale", [0.0, 9.0, float("nan")])
def test_a_scale_out_of_range_raises_an_error(run, scale):
    with pytest.raises(ParameterError, match="--scale must be a number from 0.1 to 8; got"):
        watch(str(run), scale=scale)


def test_a_world_that_ended_shows_its_last_state():
    games = [iter([{"t": np.int32(t)} for t in range(length)]) for length in (2, 4, 1)]
    times = [state["t"].tolist() for state in stacked(games)]
    assert times == [[0, 0, 0], [1, 1, 0], [1, 2, 0], [1, 3, 0]]


def test_no_worlds_raise_an_error(run):
    with pytest.raises(ConfigError, match="--worlds: expected an integer from 1 to 1000, got 0"):
        watch(str(run), worlds=0)


def test_the_video_of_a_checkpoint_file_lies_beside_it(run):
    file = checkpoint_path(run)
    watch(str(file), max_frames=2, device="cpu")
    assert file.with_suffix(".mp4").is_file()


def test_a_missing_checkpoint_raises_an_error(tmp_path):
    with pytest.raises(CheckpointError):
        watch(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "renderer", "params"),
    [("WarpTag-v0", TagRenderer, TAG), ("WarpCartPole-v1", CartPoleRenderer, {})],
)
def test_an_env_draws_each_world_with_a_renderer_of_its_own(name, renderer, params):
    env = gymnasium.make_vec(name, 2, device="cpu", array="numpy", render_mode="rgb_array", **params)
    env.reset(seed=1)
    env.action_space.seed(2)
    own = [renderer(env.unwrapped.params) for _ in range(2)]
    for _ in range(4):
        env.step(env.action_space.sample())
        state = env.unwrapped.get_state()
        expected = [own[w].frame({k: v[w] for k, v in state.items()}) for w in range(2)]
        np.testing.assert_array_equal(env.render(), expected)
    assert (expected[0] != expected[1]).any()
    env.close()
