"""The user's callbacks and sinks: checks when a trainer is made, requests to stop, and what they cannot spoil."""

import contextlib
import dataclasses
import threading

import numpy as np
import pytest

from gpu_vecenv.errors import SequenceError
from gpu_vecenv.train import Callback, CallbackError, ConfigError, Trainer, load_checkpoint, resume_many, train_many
from gpu_vecenv.train.run_folder.metrics import read_metrics


class Calls(Callback):
    """Calls a function in one of the methods."""

    def __init__(self, method, function):
        setattr(self, method, function)


class Sink:
    def log(self, metrics): ...
    def flush(self): ...
    def close(self): ...


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"callbacks": None}, "callbacks: expected a list or tuple of Callback objects, got None"),
        ({"callbacks": 5}, "callbacks: expected a list or tuple of Callback objects, got 5"),
        ({"callbacks": Callback()}, "callbacks: expected a list or tuple of Callback objects, got <"),
        ({"callbacks": [object()]}, "callbacks: expected instances of Callback, got <object"),
        ({"callbacks": [Callback]}, r"callbacks: expected instances of Callback, got the class Callback; .* Callback\(\)"),
        ({"sinks": None}, "sinks: expected a list or tuple of objects with the methods of Sink, got None"),
        ({"sinks": [object()]}, "sinks: expected objects with the methods log, flush and close, .* without log, flush, close"),
        ({"sinks": [Sink]}, r"sinks: expected objects .* got the class Sink; make an instance, such as Sink\(\)"),
    ],
)
def test_objects_of_a_wrong_type_are_refused_before_a_folder_is_made(config, tmp_path, options, text):
    out = tmp_path / "run"
    saved = Trainer(config, quiet=True).save(tmp_path / "a.pt")
    makers = [
        lambda: Trainer(dataclasses.replace(config, out=str(out)), quiet=True, **options),
        lambda: Trainer.resume(saved, quiet=True, out=str(out), **options),
    ]
    if "callbacks" in options:
        makers += [lambda: train_many({"a": config}, out, **options), lambda: resume_many(out, **options)]
    for make in makers:
        with pytest.raises(CallbackError, match=text):
            make()
        assert not out.exists()


@pytest.mark.parametrize(
    ("method", "answer", "text"),
    [
        ("on_iteration", 5, "Calls.on_iteration: expected None, True, or False to end the run, got 5"),
        ("on_iteration", 0, "Calls.on_iteration: expected None, True, or False to end the run, got 0"),
        ("on_start", False, r"Calls.on_start: expected None, got False; trainer.request_stop\(reason\) ends a run"),
        ("on_save", True, "Calls.on_save: expected None, got True"),
        ("on_end", False, "Calls.on_end: expected None, got False"),
    ],
)
def test_return_values_without_a_meaning_are_refused(config, tmp_path, method, answer, text):
    config = dataclasses.replace(config, out=str(tmp_path))
    with contextlib.closing(Trainer(config, quiet=True, callbacks=[Calls(method, lambda *_: answer)])) as trainer:
        with pytest.raises(CallbackError, match=text):
            trainer.train()


def stop_in_third(trainer, metrics):
    if trainer.iteration == 3:
        trainer.request_stop("enough")
        trainer.request_stop("a later reason")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (stop_in_third, "enough"),
        (lambda trainer, metrics: metrics["iteration"] < 3, "Calls.on_iteration returned False"),
        (lambda trainer, metrics: np.bool_(metrics["iteration"] < 3), "Calls.on_iteration returned False"),
    ],
)
def test_a_callback_ends_a_run_that_can_go_on(config, tmp_path, capsys, function, reason):
    config = dataclasses.replace(config, out=str(tmp_path))
    ended = []
    callbacks = [Calls("on_iteration", function), Calls("on_end", lambda trainer: ended.append(trainer.finished))]
    with contextlib.closing(Trainer(config, callbacks=callbacks)) as trainer:
        trainer.train()
        assert (trainer.iteration, trainer.finished, ended) == (3, reason, [reason])
        assert f"{reason}: iteration 3, saved" in capsys.readouterr().out
        assert load_checkpoint(tmp_path)["iteration"] == 3
        trainer.callbacks = ()
        trainer.train(iterations=1)
        assert (trainer.iteration, trainer.finished) == (4, "")
    with contextlib.closing(Trainer.resume(tmp_path, quiet=True)) as trainer:
        assert trainer.finished == ""
        trainer.train()
        assert trainer.finished == "done"
    with contextlib.closing(Trainer(dataclasses.replace(config, out=None), quiet=True)) as whole:
        whole.train()
    for name, policy in whole.policies.items():
        assert all(x.equal(policy.state_dict()[key]) for key, x in trainer.policies[name].state_dict().items())


def test_another_thread_and_a_sink_end_a_run(config):
    class Stop(Sink):
        def log(self, metrics):
            thread = threading.Thread(target=trainer.request_stop, args=("asked by a thread",))
            thread.start(), thread.join()

    trainer = Trainer(config, quiet=True, sinks=[Stop()])
    trainer.train()
    assert (trainer.iteration, trainer.finished) == (1, "asked by a thread")
    trainer.close()


def test_a_request_in_on_start_trains_nothing(config, tmp_path):
    callback = Calls("on_start", lambda trainer: trainer.request_stop("not today"))
    with contextlib.closing(Trainer(dataclasses.replace(config, out=str(tmp_path)), quiet=True, callbacks=[callback])) as trainer:
        assert trainer.train() == {}
    assert load_checkpoint(tmp_path)["iteration"] == 0


def test_requests_without_an_effect_are_refused(config):
    trainer = Trainer(config, quiet=True, callbacks=[Calls("on_end", lambda trainer: trainer.request_stop("late"))])
    for reason in ("", None, 5, "\n"):
        with pytest.raises(ConfigError, match="request_stop: reason: expected printable text, got"):
            trainer.request_stop(reason)
    with pytest.raises(SequenceError, match=r"request_stop\(\): expected a call during train\(\)"):
        trainer.request_stop("early")
    with pytest.raises(SequenceError, match=r"request_stop\(\): expected a call during train\(\)"):
        trainer.train(iterations=1)
    trainer.callbacks = ()
    assert trainer.train(iterations=1)["iteration"] == 2  # the error has not left the trainer in training


def test_requests_end_one_of_several_runs(config, tmp_path):
    def stop(trainer, metrics):
        if trainer.config.seed == 1 and trainer.iteration == 2:
            trainer.request_stop("enough of this seed")

    configs = {f"seed-{seed}": dataclasses.replace(config, seed=seed) for seed in range(2)}
    results = train_many(configs, tmp_path / "runs", quiet=True, callbacks=[Calls("on_iteration", stop)])
    assert {name: (result.finished, result.metrics["iteration"]) for name, result in results.items()} == {
        "seed-0": ("done", 6), "seed-1": ("enough of this seed", 2),
    }  # fmt: skip
    results = resume_many(tmp_path / "runs", quiet=True)
    assert [(result.finished, result.metrics["iteration"]) for result in results.values()] == [("done", 6)] * 2


def test_training_in_a_callback_is_refused(config, tmp_path):
    callback = Calls("on_iteration", lambda trainer, metrics: trainer.train(iterations=1) and None)
    with contextlib.closing(Trainer(dataclasses.replace(config, out=str(tmp_path)), quiet=True, callbacks=[callback])) as trainer:
        with pytest.raises(SequenceError, match=r"train\(\): this trainer is training already"):
            trainer.train()
    with contextlib.closing(Trainer.resume(tmp_path, quiet=True)) as trainer:
        trainer.train()
    assert [line["iteration"] for line in read_metrics(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_callbacks_spoil_neither_metrics_nor_the_number_of_an_iteration(config, tmp_path):
    def spoil(trainer, metrics):
        metrics.clear()
        metrics["junk"] = object()
        with pytest.raises(AttributeError):
            trainer.iteration = 10**30

    config = dataclasses.replace(config, out=str(tmp_path))
    with contextlib.closing(Trainer(config, quiet=True, callbacks=[Calls("on_iteration", spoil)])) as trainer:
        assert trainer.train()["iteration"] == 6
    assert [line["iteration"] for line in read_metrics(tmp_path)] == [1, 2, 3, 4, 5, 6]
