"""Recorded evaluations: played again to the same bits, refused if the file or the env is another."""

import dataclasses
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Pairs-v0)

import gpu_vecenv
from gpu_vecenv.cli.main import main
from gpu_vecenv.envs.tag.spec import SPEC
from gpu_vecenv.errors import DifferenceError, RecordingError
from gpu_vecenv.train import ConfigError, TrainConfig, evaluate
from gpu_vecenv.vector.env.verify import first_difference

EXAMPLE = Path(__file__).parents[1] / "golden" / "recorded_tag.npz"


def changed(path, tmp_path, **members):
    """A copy of a file with other members; None leaves one out."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays |= {name.replace("__", "/"): values for name, values in members.items()}
    copy = tmp_path / "changed.npz"
    np.savez(copy, **{name: values for name, values in arrays.items() if values is not None})
    return copy


def test_the_example_gives_the_recorded_bits(capsys):
    assert main(["verify", str(EXAMPLE)]) == 0
    assert "104 returns of 8 episodes of WarpTag-v0: the same bits as recorded on " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("Pairs-v0", {"max_episode_steps": 7}), ("WarpPendulum-v1", {"max_episode_steps": 20}), ("WarpCartPole-v1", {})],
)
def test_every_kind_of_action_is_played_again(env_id, kwargs, tmp_path):
    file, roles = tmp_path / "steps.npz", {"Pairs-v0": ("left", "right")}.get(env_id, ("agent",))
    config = TrainConfig(env_id, env_kwargs=kwargs, policy_map=dict.fromkeys(roles, "random"), device="cpu")
    result = evaluate(config, episodes=5, seed=3, seeds=2, record=file)
    verified = gpu_vecenv.verify(file)
    assert verified.mean_return == pytest.approx(result.mean_return)
    assert verified.episodes == 10 and [part.seed for part in verified.recording.parts] == [3, 4]
    for part in verified.recording.parts:
        steps = int(part.results["length"].max())
        for values in part.actions.values():
            assert values.dtype in (np.uint8, np.float32) and values.shape[:2] == (steps, 5)
            assert not any(values[length:, world].any() for world, length in enumerate(part.results["length"]))


def test_other_numbers_are_named(tmp_path):
    returns = gpu_vecenv.read_recording(EXAMPLE).parts[1].results["return"].copy()
    returns[2, 4] = np.nextafter(returns[2, 4], np.inf)
    seed = gpu_vecenv.read_recording(EXAMPLE).parts[1].seed
    with pytest.raises(DifferenceError, match=rf"seed {seed}, world 2, agent 4 \(runner 1\): expected the recorded return"):
        gpu_vecenv.verify(changed(EXAMPLE, tmp_path, **{"1__results__return": returns}))
    actions = gpu_vecenv.read_recording(EXAMPLE).parts[0].actions[""].copy()
    actions[:, 1] = 0
    with pytest.raises(DifferenceError, match="world 1"):
        gpu_vecenv.verify(changed(EXAMPLE, tmp_path, **{"0__actions__": actions}))
    actions[3, 1, 0, 0] = 200
    with pytest.raises(RecordingError, match="expected actions of the env in step 3"):
        gpu_vecenv.verify(changed(EXAMPLE, tmp_path, **{"0__actions__": actions}))


def test_bits_are_compared():
    x = np.array([0.0, np.nan, 1.0])
    assert first_difference(x, x.copy()) is None
    assert first_difference(x, np.array([-0.0, np.nan, 1.0])) == (0,)
    assert first_difference(x, np.array([0.0, 2.0, 1.0])) == (1,)


@pytest.mark.slow
def test_another_env_is_refused(tmp_path):
    folder = tmp_path / "tag"
    shutil.copytree(SPEC.kernel.parent, folder)
    kernel = folder / SPEC.kernel.name
    same = dataclasses.replace(SPEC, kernel=kernel)
    assert gpu_vecenv.verify(EXAMPLE, env_spec=same).returns == 104
    constants = tuple(
        dataclasses.replace(one, value=lambda p: 1.0) if number == 0 else one for number, one in enumerate(SPEC.constants)
    )
    for spec, part in (
        (dataclasses.replace(same, limit_is_rule=False, reward_role="runner"), "spec"),
        (dataclasses.replace(same, constants=constants), "numbers"),
    ):
        with pytest.raises(RecordingError, match=f"expected WarpTag-v0 as it was recorded, got one whose {part} changed"):
            gpu_vecenv.verify(EXAMPLE, env_spec=spec)
    kernel.write_text(kernel.read_text() + "\n// other\n")
    with pytest.raises(RecordingError, match="whose kernel changed"):
        gpu_vecenv.verify(EXAMPLE, env_spec=same)


class Opened:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_damaged_files_are_refused(tmp_path):
    damaged, content = tmp_path / "damaged.npz", EXAMPLE.read_bytes()
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        damaged.write_bytes(content[:length])
        with pytest.raises(RecordingError, match="got another one, or a part of one"):
            gpu_vecenv.verify(damaged)
    spoilt = bytearray(content)
    spoilt[len(content) // 2] ^= 255
    damaged.write_bytes(spoilt)
    with pytest.raises(RecordingError):
        gpu_vecenv.verify(damaged)
    with pytest.raises(RecordingError, match="got none"):
        gpu_vecenv.verify(tmp_path / "missing.npz")
    ran = tmp_path / "ran"
    with pytest.raises(RecordingError, match="cannot be read"):
        gpu_vecenv.verify(changed(EXAMPLE, tmp_path, about=np.array(Opened(ran), dtype=object)))
    assert not ran.exists()


def about(old, new):
    with np.load(EXAMPLE) as file:
        text = str(file["about"][()])
    assert old in text
    return np.array(text.replace(old, new))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"about": ('"version": 1', '"version": 2')}, "expected version 1 of the format, got 2"),
        ({"about": ('"gpu_vecenv steps"', '"other"')}, "another kind of file"),
        ({"about": ('"num_worlds": 4', '"num_worlds": "4"')}, "expected num_worlds of type int"),
        ({"about": ('"num_worlds": 4', '"num_worlds": 5')}, "expected actions of T steps and 5 worlds"),
        ({"about": ("WarpTag-v0", "Unknown-v0")}, "import the module that registers it first"),
        ({"about": ("WarpTag-v0", "module_that_is_missing:Unknown-v0")}, "'module_that_is_missing' first"),
        ({"about": ('"evaluation"', '"world"')}, "gpu-vecenv replay steps it"),
        ({"0__seed": None}, "expected a seed, uint64, or a state"),
        ({"0__actions__": None}, "expected actions of T steps"),
        ({"7__seed": np.array(3, np.uint64)}, "expected parts numbered from 0 on"),
        ({"0__extra": np.array(3)}, "expected members as"),
        ({"0__results__return": np.zeros((4, 13), np.float32)}, "expected return as float64 of the shape"),
    ],
)
def test_files_of_another_form_are_refused(members, said, tmp_path):
    members = {name: about(*value) if name == "about" else value for name, value in members.items()}
    with pytest.raises(RecordingError, match=said):
        gpu_vecenv.verify(changed(EXAMPLE, tmp_path, **members))


def test_what_no_file_can_hold_is_refused(tmp_path):
    config = TrainConfig("WarpCartPole-v1", policy_map={"agent": "random"}, device="cpu")
    with pytest.raises(ConfigError, match="record: expected a file that ends with .npz"):
        evaluate(config, episodes=2, record="steps.txt")
    gymnasium.register(
        "Wrapped-v0",
        vector_entry_point=lambda **options: gpu_vecenv.ClipReward(gpu_vecenv.make_vec("WarpCartPole-v1", **options), 0.0, 1.0),
    )
    try:
        with pytest.raises(ConfigError, match="record: expected an env without wrappers"):
            evaluate(dataclasses.replace(config, env_id="Wrapped-v0"), episodes=2, record=tmp_path / "steps.npz")
    finally:
        del gymnasium.registry["Wrapped-v0"]
