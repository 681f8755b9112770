"""Lightning's trainer with runs of this package: the bits of ``Trainer.train()``, checkpoints, callbacks, loggers, refusals."""

import dataclasses
import logging
import math
import warnings
from csv import DictReader
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from gpu_vecenv.errors import MissingExtraError, SequenceError
from gpu_vecenv.train import ConfigError, PolicyConfig, PPOConfig, TrainConfig, Trainer, evaluate
from tests.devices import DEVICES

pytest.importorskip("lightning")
import lightning.pytorch as lightning  # noqa: E402
from lightning.pytorch import callbacks  # noqa: E402
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger  # noqa: E402
from torch import nn  # noqa: E402

from examples import lightning_tag  # noqa: E402
from examples.evolution import EvolutionConfig  # noqa: E402
from gpu_vecenv.adapters.lightning import PRECISIONS, LightningRun, Residents, default_step_size  # noqa: E402

PPO = PPOConfig(num_steps=16, num_minibatches=2, num_epochs=2)
CONFIG = TrainConfig("WarpCartPole-v1", 8, 8 * 16 * 6, seed=3, ppo=PPO)
TAG = TrainConfig("WarpTag-v0", 4, 4 * 16 * 3, env_kwargs={"num_taggers": 2, "num_runners": 5, "episode_length": 20}, ppo=PPO)
EVOLUTION = TrainConfig(
    "WarpCartPole-v1", 16, 16 * 16 * 3, algorithm="evolution", algorithms={"evolution": EvolutionConfig(num_steps=16)}
)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]


def lightnings(folder, device="cpu", **options):
    """Return Lightning's trainer without output on the screen."""
    accelerator = "cpu" if device == "cpu" else "gpu"
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "enable_checkpointing": False}
    return lightning.Trainer(
        **{"max_epochs": -1, "accelerator": accelerator, "devices": 1, "limit_val_batches": 0, **quiet, **options},
        default_root_dir=folder,
    )


def weights(run):
    return {f"{name}/{key}": x.clone() for name, policy in run.policies.items() for key, x in policy.state_dict().items()}


def assert_same_run(run, expected):
    """Weights, statistics and states of the env are equal to the bit."""
    left, right = run.state_dict(), expected.state_dict()
    for part in ("policies", "algorithms", "collector", "episodes"):
        torch.testing.assert_close(left[part], right[part], rtol=0, atol=0, equal_nan=True)
    assert left["iteration"] == right["iteration"]


def trained(config, iterations=None):
    run = Trainer(config, quiet=True)
    run.train(iterations)
    return run


@pytest.mark.works("Lightning", "PPO and algorithms of users, with several policies: the bits of the package's own trainer")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("config", [CONFIG, TAG, EVOLUTION], ids=["ppo", "tag", "evolution"])
def test_a_run_has_the_bits_of_the_trainer(config, device, tmp_path):
    config = dataclasses.replace(config, device=device)
    module, trainer = LightningRun(config, iterations_per_step=1), lightnings(tmp_path, device)
    trainer.fit(module)
    assert_same_run(module.run, trained(config))
    assert trainer.global_step == module.run.iteration == module.run.num_iterations
    assert trainer.current_epoch == 1


@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_several_iterations_have_the_bits_of_the_trainer(device, tmp_path):
    """Six iterations in steps of four: the second step has two. A checkpoint after the first goes on with the same bits."""
    config = dataclasses.replace(CONFIG, device=device)
    saver = callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=1, save_top_k=-1)
    module = LightningRun(config, iterations_per_step=4)
    trainer = lightnings(tmp_path, device, callbacks=[saver], enable_checkpointing=True)
    trainer.fit(module)
    assert (trainer.global_step, module.run.iteration, module.run.num_iterations) == (2, 6, 6)
    whole = trained(config)
    assert_same_run(module.run, whole)
    again = LightningRun(config, iterations_per_step=4)
    lightnings(tmp_path, device).fit(again, ckpt_path=tmp_path / "step=1.ckpt")
    assert_same_run(again.run, whole)
    short = LightningRun(config, iterations_per_epoch=2, iterations_per_step=2)
    trainer = lightnings(tmp_path, device, max_epochs=2)
    trainer.fit(short)
    assert (trainer.global_step, short.run.iteration) == (2, 4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("per_epoch", "on_gpu"), [(None, 1), (4, 2), (3, 2)])
def test_by_default_short_iterations_of_a_gpu_share_a_step(per_epoch, on_gpu, device, tmp_path):
    """The run has 6 short iterations. A step of the CPU has one, a step of the GPU all of an epoch."""
    config = dataclasses.replace(CONFIG, device=device)
    module, trainer = LightningRun(config, per_epoch), lightnings(tmp_path, device)
    trainer.fit(module)
    assert trainer.global_step == (6 if device == "cpu" else on_gpu)
    assert_same_run(module.run, trained(config))


def test_a_default_step_on_a_gpu_has_enough_transitions_and_divides_the_epoch():
    large = 1 << 24
    assert [default_step_size(n, None) for n in (1, large // 10, large - 1, large, 2 * large)] == [32, 11, 2, 1, 1]
    assert [default_step_size(large // 10, epoch) for epoch in (5, 12, 22, 13, 40)] == [5, 6, 11, 1, 10]


def test_an_epoch_has_whole_steps():
    with pytest.raises(ConfigError, match="^iterations_per_epoch: expected a multiple of iterations_per_step, 2, got 3"):
        LightningRun(CONFIG, iterations_per_epoch=3, iterations_per_step=2)


@pytest.mark.works("Lightning", "max_steps, max_epochs, limit_train_batches, and fit() that goes on")
@pytest.mark.parametrize(
    ("options", "done"), [({"max_steps": 4}, 4), ({"max_epochs": 1}, 2), ({"limit_train_batches": 1, "max_epochs": 3}, 3)]
)
def test_limits_of_lightning_pause_a_run_that_goes_on(options, done, tmp_path):
    module = LightningRun(CONFIG, iterations_per_epoch=2)
    lightnings(tmp_path, **options).fit(module)
    assert_same_run(module.run, trained(CONFIG, done))
    lightnings(tmp_path).fit(module)
    assert_same_run(module.run, trained(CONFIG))
    lightnings(tmp_path).fit(module)  # nothing is left
    assert module.run.iteration == 6


@pytest.mark.works("Lightning", "ModelCheckpoint, and fit(ckpt_path=...), which goes on with the same bits")
@pytest.mark.parametrize("per_epoch", [None, 2, 3])
@pytest.mark.parametrize("device", DEVICES)
def test_a_resumed_run_has_the_bits_of_one_without_an_interruption(per_epoch, device, tmp_path):
    saver = callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=3, save_top_k=-1)
    options = {"callbacks": [saver], "enable_checkpointing": True}
    first = LightningRun(CONFIG, per_epoch, iterations_per_step=1)
    lightnings(tmp_path, device, **options, max_steps=4).fit(first)
    seen = []
    counter = callbacks.LambdaCallback(
        on_train_batch_end=lambda trainer, module, outputs, batch, index: seen.append((batch, index))
    )
    second = LightningRun(CONFIG, per_epoch, iterations_per_step=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="You're resuming from a checkpoint")
        trainer = lightnings(tmp_path, device, callbacks=[counter])
        trainer.fit(second, ckpt_path=tmp_path / "step=3.ckpt")
    assert seen == [(batch, batch % (per_epoch or 6)) for batch in (3, 4, 5)] and trainer.global_step == 6
    assert trainer.current_epoch == (1 if per_epoch is None else 6 // per_epoch)
    assert_same_run(second.run, trained(dataclasses.replace(CONFIG, device=device)))
    lightnings(tmp_path, device).fit(first, ckpt_path=tmp_path / "step=3.ckpt")  # back from iteration 4, in the same module
    assert_same_run(first.run, second.run)


@pytest.mark.works("Lightning", "load_from_checkpoint(), and checkpoints of weights alone")
@pytest.mark.parametrize("alone", [True, False])
def test_a_checkpoint_makes_the_module_anew(alone, tmp_path):
    module, trainer = LightningRun(CONFIG, iterations_per_epoch=2), lightnings(tmp_path, max_steps=2)
    trainer.fit(module)
    trainer.save_checkpoint(tmp_path / "a.ckpt", weights_only=alone)
    again = LightningRun.load_from_checkpoint(tmp_path / "a.ckpt")
    torch.testing.assert_close(weights(again.run), weights(module.run), rtol=0, atol=0)
    assert again.run.iteration == (0 if alone else 2)
    assert (again.config, again.iterations_per_epoch) == (dataclasses.replace(CONFIG), 2)


def test_a_module_has_the_weights_under_the_names_of_policies(tmp_path):
    module = LightningRun(TAG)
    lightnings(tmp_path, max_steps=1).fit(module)
    state = module.state_dict()
    assert {key.split(".")[1] for key in state} == {"tagger", "runner"}
    assert all(value is dict(module.run.policies[name].named_parameters())[key] for name in ("tagger", "runner")
               for key, value in module.policies[name].named_parameters())  # fmt: skip
    assert evaluate(module.run.save(tmp_path / "mine.pt"), episodes=4).mean_return.keys() == {"tagger", "runner"}


class Seen(callbacks.Callback):
    def __init__(self):
        self.outputs, self.known, self.bar = [], [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.outputs.append(outputs)
        self.known.append({name: x.item() for name, x in trainer.callback_metrics.items()})
        self.bar.append(dict(trainer.progress_bar_metrics))


@pytest.mark.works("Lightning", "callbacks of the user and loggers get the metrics of each iteration")
def test_callbacks_and_loggers_get_the_metrics_of_the_trainer(tmp_path):
    short = dataclasses.replace(CONFIG, total_steps=8 * 4 * 6, ppo=dataclasses.replace(PPO, num_steps=4))
    expected, run = [], Trainer(short, quiet=True)
    while not run.finished:
        expected.append(run.train(1))
    assert math.isnan(expected[0]["return/agent"])  # no episode of CartPole ends in four steps
    seen, csv, board = Seen(), CSVLogger(tmp_path, "csv"), TensorBoardLogger(tmp_path, "board")
    module = LightningRun(short)
    lightnings(tmp_path, callbacks=[seen], logger=[csv, board], log_every_n_steps=2).fit(module)
    rows = list(DictReader(Path(csv.log_dir, "metrics.csv").read_text().splitlines()))
    assert [int(row["iteration"]) for row in rows] == [2, 4, 6] and [row["step"] for row in rows] == ["1", "3", "5"]
    assert all(row["epoch"] == "0" for row in rows)
    for metrics, outputs, known, bar in zip(expected, seen.outputs, seen.known, seen.bar, strict=True):
        del metrics["steps_per_second"], outputs["steps_per_second"]
        torch.testing.assert_close(outputs, metrics, rtol=0, atol=0, equal_nan=True)
        valued = {name: x for name, x in metrics.items() if not math.isnan(x)}
        assert {name: known[name] for name in valued} == valued and not any(math.isnan(x) for x in known.values())
        assert bar.get("recent_return/agent", math.nan) == pytest.approx(metrics["recent_return/agent"], nan_ok=True)
    for row in rows:
        logged = {name: float(x) for name, x in row.items() if x and name in expected[0]}
        valued = {name: x for name, x in expected[int(row["iteration"]) - 1].items() if not math.isnan(x)}
        assert logged == pytest.approx(valued)
    assert any("policy_loss" in str(key) for key in board_tags(board.log_dir))


def board_tags(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder)
    events.Reload()
    return events.Tags()["scalars"]


@pytest.mark.works("Lightning", "validate(), test() and validation during fit(), which measure the policies and change nothing")
def test_a_validation_is_an_evaluation(tmp_path):
    run = Trainer(dataclasses.replace(CONFIG, evaluation_interval=2, evaluation_episodes=5), quiet=True)
    expected = []
    while not run.finished:
        expected.append(run.train(1).get("evaluation/agent"))
    module = LightningRun(CONFIG, evaluation_episodes=5)
    found = []
    reader = callbacks.LambdaCallback(
        on_validation_end=lambda trainer, module: found.append(trainer.callback_metrics.get("evaluation/agent"))
    )
    trainer = lightnings(tmp_path, callbacks=[reader], limit_val_batches=1, val_check_interval=2, num_sanity_val_steps=1)
    trainer.fit(module)
    assert [float(x) for x in found[1:]] == pytest.approx([x for x in expected if x is not None])
    assert_same_run(module.run, trained(CONFIG))
    quiet = lightnings(tmp_path, limit_val_batches=1)
    assert (
        quiet.validate(module, verbose=False)
        == quiet.test(module, verbose=False)
        == [{"evaluation/agent": pytest.approx(expected[-1])}]
    )


@pytest.mark.works("Lightning", "EarlyStopping and ModelCheckpoint on evaluation/ROLE")
def test_callbacks_monitor_evaluations(tmp_path):
    stop = callbacks.EarlyStopping("evaluation/agent", mode="max", stopping_threshold=1.0)
    best = callbacks.ModelCheckpoint(tmp_path, "best", monitor="evaluation/agent", mode="max")
    module = LightningRun(CONFIG, iterations_per_epoch=2, evaluation_episodes=4)
    trainer = lightnings(tmp_path, callbacks=[stop, best], enable_checkpointing=True, limit_val_batches=1)
    trainer.fit(module)
    assert module.run.iteration == 2  # the return of CartPole is at least 1
    assert float(best.best_model_score) == float(trainer.callback_metrics["evaluation/agent"])
    assert LightningRun.load_from_checkpoint(best.best_model_path).run.iteration == 2


@pytest.mark.works("Lightning", 'precision="bf16-mixed"')
def test_the_precision_of_lightning_is_that_of_the_run(tmp_path):
    module = LightningRun(CONFIG)
    lightnings(tmp_path, precision="bf16-mixed", limit_val_batches=1, max_steps=3).fit(module)
    assert module.run.config.precision == "bfloat16"
    assert_same_run(module.run, trained(dataclasses.replace(CONFIG, precision="bfloat16"), 3))


def test_validations_are_in_float32(tmp_path):
    """Lightning's precision is on around a validation, too; evaluations of the package's own trainer are in float32."""
    module = LightningRun(dataclasses.replace(CONFIG, precision="bfloat16"))
    seen = []
    measured = module.evaluation.measured
    module.evaluation.measured = lambda: (seen.append((torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled())),
                                          measured())[1]  # fmt: skip
    lightnings(tmp_path, precision="bf16-mixed", limit_val_batches=1).validate(module, verbose=False)
    assert seen == [(False, False)]


@pytest.mark.works("Lightning", "profilers")
def test_a_profiler_has_the_time_of_iterations(tmp_path):
    trainer = lightnings(tmp_path, profiler="simple", max_steps=3)
    trainer.fit(LightningRun(CONFIG))
    assert len(trainer.profiler.recorded_durations["optimizer_step"]) == 3


@pytest.mark.works("Lightning", "fast_dev_run, barebones, deterministic, frozen policies")
def test_other_options_of_lightning(tmp_path):
    lightnings(tmp_path, fast_dev_run=True).fit(LightningRun(CONFIG))
    bare = {"barebones": True, "enable_progress_bar": None, "enable_model_summary": None, "logger": None}
    module = LightningRun(CONFIG)
    lightnings(tmp_path, **bare, enable_checkpointing=None, max_steps=2).fit(module)
    assert_same_run(module.run, trained(CONFIG, 2))
    before = torch.are_deterministic_algorithms_enabled()
    try:
        lightnings(tmp_path, deterministic=True, max_steps=1).fit(LightningRun(CONFIG))
    finally:
        torch.use_deterministic_algorithms(before)
    frozen = dataclasses.replace(TAG, frozen=("runner",))
    module = LightningRun(frozen)
    lightnings(tmp_path, max_steps=2).fit(module)
    assert_same_run(module.run, trained(frozen, 2))


REFUSED = {
    "precision": ({"precision": "64-true"}, "precision: expected one of.*got '64-true'"),
    "overfit_batches": ({"overfit_batches": 1}, "overfit_batches: expected 0"),
    "clipping": ({"gradient_clip_val": 0.5}, r"Remove `Trainer\(gradient_clip_val=0.5\)`"),
    "accumulation": ({"accumulate_grad_batches": 2}, r"Remove `Trainer\(accumulate_grad_batches=2\)`"),
    "rates": ({"callbacks": [callbacks.LearningRateFinder()]}, "got LearningRateFinder: the algorithms have schedules"),
    "monitor": ({"callbacks": [callbacks.LearningRateMonitor()]}, "got LearningRateMonitor: learning rates are among"),
    "sizes": ({"callbacks": [callbacks.BatchSizeFinder()]}, "got BatchSizeFinder: num_envs"),
    "averages": ({"callbacks": [callbacks.EMAWeightAveraging()]}, "got EMAWeightAveraging: it copies the module"),
    "swa": ({"callbacks": [callbacks.StochasticWeightAveraging(0.1)]}, "got StochasticWeightAveraging: it copies"),
    "pruning": ({"callbacks": [callbacks.ModelPruning("l1_unstructured")]}, "got ModelPruning: it replaces weights"),
    "finetuning": ({"callbacks": [callbacks.BackboneFinetuning()]}, "got BackboneFinetuning: it freezes weights"),
}


@pytest.mark.limit("Lightning", "gradient_clip_val, accumulate_grad_batches, overfit_batches: algorithms have their own options")
@pytest.mark.limit("Lightning", "precision other than 32-true and bf16-mixed: TrainConfig has tf32 and float16")
@pytest.mark.limit("Lightning", "callbacks that change weights, rates or sizes, such as StochasticWeightAveraging")
@pytest.mark.parametrize("case", REFUSED)
def test_options_without_an_effect_are_refused_by_name(case, tmp_path):
    options, message = REFUSED[case]
    module, trainer = LightningRun(CONFIG), lightnings(tmp_path, **options)
    with pytest.raises(Exception, match=message) as caught:
        trainer.fit(module)
    if case not in ("clipping", "accumulation"):
        assert isinstance(caught.value, ConfigError)
    assert module._run is None


@pytest.mark.limit("Lightning", "ModelCheckpoint(train_time_interval=...): Lightning does not follow it in manual optimisation")
def test_checkpoints_by_time_are_refused(tmp_path):
    saver = callbacks.ModelCheckpoint(tmp_path, train_time_interval=timedelta(minutes=1))
    with pytest.raises(ConfigError, match="expected ModelCheckpoint.every_n_train_steps=...., got one with train_time"):
        lightnings(tmp_path, callbacks=[saver], enable_checkpointing=True).fit(LightningRun(CONFIG))


@pytest.mark.limit("Lightning", "data loaders of the user: rollouts are the data")
@pytest.mark.parametrize("data", [[torch.zeros(3)], [7], ["a"], [True]])
def test_data_of_the_user_are_refused(data, tmp_path):
    module = LightningRun(CONFIG)
    with pytest.raises(SequenceError, match="training_step: expected 0, the number of the next iteration, got"):
        lightnings(tmp_path).fit(module, data)
    assert module.run.iteration == 0


@pytest.mark.parametrize(
    ("option", "value", "instead"),
    [("out", "runs/a", "default_root_dir"), ("checkpoint_interval", 3, "every_n_train_steps"), ("wandb", "p", "WandbLogger"),
     ("keep_checkpoints", 9, "save_top_k"), ("evaluation_interval", 2, "val_check_interval"),
     ("evaluation_episodes", 5, "LightningRun")],
)  # fmt: skip
def test_options_that_lightning_has_are_refused_by_name(option, value, instead):
    with pytest.raises(ConfigError, match=f"^{option}: expected .*{instead}.*, got "):
        LightningRun(dataclasses.replace(CONFIG, **{option: value}))


@pytest.mark.parametrize("name", ["iterations_per_epoch", "evaluation_episodes", "iterations_per_step"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_numbers_are_checked(name, value):
    with pytest.raises(ConfigError, match=f"^{name}: expected an integer from 1"):
        LightningRun(CONFIG, **{name: value})


@pytest.mark.parametrize("config", [None, "WarpTag-v0", 3])
def test_other_values_than_options_are_refused(config):
    with pytest.raises(ConfigError, match="config: expected a TrainConfig, or its options as a mapping, got"):
        LightningRun(config)


def test_devices_and_precisions_must_agree(tmp_path):
    with pytest.raises(ConfigError, match="device: expected 'auto' or 'cpu', that of Lightning's Trainer, got 'cuda:0'"):
        lightnings(tmp_path).fit(LightningRun(dataclasses.replace(CONFIG, device="cuda:0")))
    with pytest.raises(ConfigError, match="precision: expected 'bfloat16', that of Lightning's Trainer, got 'tf32'"):
        lightnings(tmp_path, precision="bf16-mixed").fit(LightningRun(dataclasses.replace(CONFIG, precision="tf32")))
    module = LightningRun(CONFIG)
    lightnings(tmp_path, max_steps=1).fit(module)
    with pytest.raises(ConfigError, match="precision: expected 'float32', as the run has it already, got 'bfloat16'"):
        lightnings(tmp_path, precision="bf16-mixed").fit(module)
    assert PRECISIONS["32-true"] == "float32"


def test_policies_keep_their_dtype_and_stay_where_graphs_read_them():
    module = LightningRun(dataclasses.replace(CONFIG, device="cpu"))
    addresses = [x.data_ptr() for x in module.run.policies["agent"].parameters()]
    module.to("cpu").float().cpu()
    assert addresses == [x.data_ptr() for x in module.policies.parameters()]
    with pytest.raises(ConfigError, match="policies: expected torch.float32 on cpu, as in the run, got torch.float16 on cpu"):
        module.half()
    with pytest.raises(ConfigError, match="policies: expected torch.float32 on cpu, as in the run, got torch.float32 on meta"):
        module.to("meta")


def test_names_that_torch_does_not_take_are_refused():
    for name in ("a.b", "keys"):
        with pytest.raises(ConfigError, match=f"policies: expected names that torch.nn.ModuleDict takes, got '{name}'"):
            Residents({name: nn.Linear(1, 1)})


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.acts, self.worth = nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, obs):
        return self.acts(obs), self.worth(obs).squeeze(-1)


def small():
    torch.manual_seed(2)
    return {"agent": Small()}


@pytest.mark.works("Lightning", "networks of the user, which load_from_checkpoint() takes again")
def test_networks_of_the_user_learn(tmp_path):
    module, trainer = LightningRun(CONFIG, networks=small()), lightnings(tmp_path, max_steps=2)
    trainer.fit(module)
    expected = Trainer(CONFIG, quiet=True, networks=small())
    expected.train(2)
    assert_same_run(module.run, expected)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    again = LightningRun.load_from_checkpoint(tmp_path / "a.ckpt", networks=small())
    assert_same_run(again.run, expected)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [({"seed": 4}, ConfigError, "seed: expected 3, as in the run that is resumed, got 4"),
     ({"num_envs": 4}, ConfigError, "num_envs: expected 8"), ({"total_steps": 8 * 16 * 8}, None, "")],
)  # fmt: skip
def test_a_checkpoint_fits_the_run(change, error, message, tmp_path):
    module, trainer = LightningRun(CONFIG), lightnings(tmp_path, max_steps=2)
    trainer.fit(module)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    other = LightningRun(dataclasses.replace(CONFIG, **change))
    if error is None:
        lightnings(tmp_path).fit(other, ckpt_path=tmp_path / "a.ckpt")
        assert other.run.iteration == 8
        return
    with pytest.raises(error, match=message):
        lightnings(tmp_path).fit(other, ckpt_path=tmp_path / "a.ckpt")


def test_settings_of_policies_go_through_a_checkpoint(tmp_path):
    config = dataclasses.replace(TAG, policies={"runner": PolicyConfig(network={"hidden_sizes": (8,)})})
    module, trainer = LightningRun(config), lightnings(tmp_path, max_steps=1)
    trainer.fit(module)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert LightningRun.load_from_checkpoint(tmp_path / "a.ckpt").run.config == module.run.config


@pytest.mark.works("Lightning", "Tag with a policy for each role, in the game of WarpDrive's tutorial")
def test_the_example_trains_and_writes_curves_and_checkpoints(tmp_path, capsys):
    small = {"num_envs": 2, "total_steps": 2 * 25 * 2, "env_kwargs": {"num_runners": 6, "episode_length": 40}}
    returns = lightning_tag.main(str(tmp_path), {"enable_model_summary": False, "accelerator": "cpu"}, **small)
    assert returns.keys() == {"trained", "random"} and all(math.isfinite(x) for x in returns.values())
    assert "iteration 2: mean return tagger" in capsys.readouterr().out
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} >= {".pt", ".ckpt"}
    assert "evaluation/tagger" in board_tags(str(tmp_path / "curves" / "version_0"))


def test_without_lightning_the_error_names_the_extra(monkeypatch):
    import importlib
    import sys

    monkeypatch.delitem(sys.modules, "gpu_vecenv.adapters.lightning")
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    with pytest.raises(MissingExtraError, match=r'pip install "gpu-vecenv\[lightning\]"'):
        importlib.import_module("gpu_vecenv.adapters.lightning")
