"""Values of options as JSON stores them."""

import json

import numpy as np
import pytest

from gpu_vecenv.train import ConfigError, TrainConfig, Trainer, load_checkpoint
from gpu_vecenv.train.config.checks import plain

GIVEN = {
    "f": np.float32(0.1), "d": np.float64(0.25), "i": np.int64(-3), "b": np.bool_(True), "t": np.str_("x"),
    "array": np.arange(4, dtype=np.int32).reshape(2, 2), "tuple": (1, (np.uint8(2), None)), "dict": {np.str_("k"): np.zeros(1)},
    "objects": np.array([1, "a"], dtype=object), "scalar": np.array(5),
}  # fmt: skip
WANT = {
    "f": 0.10000000149011612, "d": 0.25, "i": -3, "b": True, "t": "x", "array": [[0, 1], [2, 3]], "tuple": [1, [2, None]],
    "dict": {"k": [0.0]}, "objects": [1, "a"], "scalar": 5,
}  # fmt: skip


def types(value):
    if isinstance(value, dict):
        return {name: types(item) for name, item in value.items()}
    return [types(item) for item in value] if isinstance(value, list) else type(value)


def test_numpy_values_become_those_that_json_gives_back():
    made = plain("env_kwargs", GIVEN)
    assert made == WANT and types(made) == types(WANT)
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize(
    "bad", [{1: 2}, {"x": {1}}, {"x": object()}, {"x": 1j}, {"x": [np.datetime64("2020-01-01")]}, {"x": b"a"}]
)
def test_other_values_raise_an_error_that_names_the_place(bad):
    with pytest.raises(ConfigError, match=r"env_kwargs.*: expected numbers, text, lists and dicts, got "):
        plain("env_kwargs", bad)


def test_a_run_with_numpy_parameters_is_saved_and_resumed(tmp_path):
    kwargs = {"gravity": np.float32(9.5), "max_episode_steps": np.int64(7)}
    config = TrainConfig("WarpCartPole-v1", 2, 64, device="cpu", out=str(tmp_path / "run"), env_kwargs=kwargs)
    trainer = Trainer(config, quiet=True)
    trainer.train()
    trainer.close()
    assert json.loads(load_checkpoint(config.out)["config"])["env_kwargs"] == {"gravity": 9.5, "max_episode_steps": 7}
    assert Trainer.resume(config.out, quiet=True).env.params["gravity"] == 9.5
