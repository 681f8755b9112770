"""Lightning's strategy ``ddp`` with runs of this package: the bits of torchrun, checkpoints of all processes, refusals."""

import csv
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_vecenv.train import ConfigError, load_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics

pytest.importorskip("lightning")
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy  # noqa: E402

from gpu_vecenv.adapters.lightning import LightningRun, require_strategy  # noqa: E402
from tests.adapters.lightning_worker import TAG, weights  # noqa: E402
from tests.adapters.test_lightning import lightnings  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]
ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("lightning_worker.py")
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def started(words):
    """Run Python with some words, one thread in each process."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    threads = {"OMP_NUM_THREADS": "1", "GPU_VECENV_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, words)], env={**os.environ, "PYTHONPATH": path, **threads},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]


def by_lightning(folder, accelerator="cpu", before=()):
    """Return what each process of the worker has."""
    started([*before, WORKER, accelerator, folder])
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(2)]


def by_torchrun(folder, device="cpu"):
    """Return weights and metrics of the same run by the command line under torchrun."""
    file = dataclasses.replace(TAG, device=device).save(folder)
    out = folder / "run"
    started([*TORCHRUN, "-m", "gpu_vecenv", "train", "--config", file, "--out", out, "--no-video", "--no-matches"])
    policies = load_checkpoint(out)["policies"]
    return {f"{name}/{key}": x for name, each in policies.items() for key, x in each.items()}, read_metrics(out)


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def both(request, tmp_path_factory):
    """Folder and results of the worker in two processes of Lightning, and results of torchrun's."""
    if request.param == "gpu" and torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    folder = tmp_path_factory.mktemp("lightning")
    wanted = by_torchrun(tmp_path_factory.mktemp("torchrun"), "cpu" if request.param == "cpu" else "cuda")
    return folder, by_lightning(folder, request.param), wanted


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, x in wanted.items():
        assert torch.equal(found[name], x.cpu()), name


@pytest.mark.works("Lightning", 'strategy="ddp" on several devices: the bits of the package\'s own trainer under torchrun')
def test_a_run_in_two_processes_has_the_bits_of_torchrun(both):
    _, ranks, (wanted, metrics) = both
    for rank, found in enumerate(ranks):
        assert_same(found["weights"], wanted)
        assert (found["iterations"], found["worlds"]) == ((6, 6), 2)
        assert found["device"] in ("cpu", f"cuda:{rank}")
        assert found["wrapped"] == [False] * 6  # gradients are added up once
        for mine, line in zip(found["metrics"], metrics, strict=True):
            valued = {name: x for name, x in mine.items() if x == x and name != "steps_per_second"}
            assert valued == {name: line[name] for name in valued}


def test_metrics_are_logged_once(both):
    folder, (first, _), _ = both
    assert [path.name for path in folder.rglob("*.csv")] == ["metrics.csv"]
    rows = list(csv.DictReader((folder / "csv" / "metrics.csv").read_text().splitlines()))
    steps = [row for row in rows if row["policy_loss/tagger"]]
    assert [int(float(row["iteration"])) for row in steps] == [1, 2, 3, 4, 5, 6]
    losses = [metrics["policy_loss/tagger"] for metrics in first["metrics"]]
    assert [float(row["policy_loss/tagger"]) for row in steps] == pytest.approx(losses)


def test_the_first_process_evaluates_for_all(both):
    _, (first, second), _ = both
    assert first["tested"] == second["tested"] and first["evaluations"] == second["evaluations"]
    assert len(first["evaluations"]) == 3 and first["evaluations"][-1] == pytest.approx(first["tested"][0]["evaluation/tagger"])


@pytest.mark.works("Lightning", 'checkpoints with strategy="ddp": one file of all processes, and the same bits')
def test_a_run_in_two_processes_goes_on_with_the_same_bits(both):
    folder, ranks, (wanted, _) = both
    for found in ranks:
        assert_same(found["resumed"], wanted)
    content = torch.load(folder / "step=3.ckpt", weights_only=False)["gpu_vecenv"]
    assert content["iteration"] == 3 and len(content["processes"]) == 1
    assert_same({f"{name}/{key}": x for name, each in load_checkpoint(folder / "whole.pt")["policies"].items()
                 for key, x in each.items()}, wanted)  # fmt: skip


def test_one_process_takes_a_checkpoint_of_two(both):
    folder, (first, _), _ = both
    module = LightningRun.load_from_checkpoint(folder / "step=6.ckpt")
    assert module.run.iteration == 6 and module.run.parts.spread.num_worlds == 4
    assert_same(weights(module), first["weights"])


@pytest.mark.works("Lightning", 'strategy="ddp" in processes of torchrun')
def test_processes_of_torchrun_are_those_of_lightning(tmp_path, both):
    accelerator = "cpu" if both[1][0]["device"] == "cpu" else "gpu"
    for found in by_lightning(tmp_path, accelerator, TORCHRUN):
        assert found["torchrun"]  # Lightning started none
        assert_same(found["weights"], both[2][0])
        assert_same(found["resumed"], both[2][0])


REFUSED = {
    "spawn": (lambda: DDPStrategy(start_method="spawn"), "got one that starts processes by 'spawn': they end with fit"),
    "fork": (lambda: DDPStrategy(start_method="fork"), "got one that starts processes by 'fork'"),
    "unused": (lambda: DDPStrategy(find_unused_parameters=True), "got DDPStrategy with options of DistributedDataParallel"),
    "hook": (lambda: DDPStrategy(ddp_comm_hook=print), "got DDPStrategy with ddp_comm_hook: a run adds up its gradients"),
    "averages": (lambda: DDPStrategy(model_averaging_period=2), "got DDPStrategy with model_averaging_period"),
    "sharded": (FSDPStrategy, "got FSDPStrategy: each process has all weights of a run"),
}


@pytest.mark.limit("Lightning", "strategies other than ddp, such as fsdp and ddp_spawn: each process has all weights")
@pytest.mark.limit("Lightning", "options of DistributedDataParallel: a run adds up its gradients itself")
@pytest.mark.parametrize("case", REFUSED)
def test_other_strategies_are_refused_by_name(case):
    make, message = REFUSED[case]
    with pytest.raises(ConfigError, match=f"^strategy: expected 'auto' with one device, or 'ddp', {message}"):
        require_strategy(make())
    require_strategy(DDPStrategy())


@pytest.mark.limit("Lightning", "several hosts, num_nodes above 1: no test has tried them")
@pytest.mark.parametrize(
    ("options", "message"),
    [({"num_nodes": 2}, "^num_nodes: expected 1, as no test has tried several hosts with Lightning, got 2"),
     ({"sync_batchnorm": True}, "^sync_batchnorm: expected False"),
     ({"strategy": "ddp_spawn"}, "^strategy: .*'spawn'")],
)  # fmt: skip
def test_options_of_several_processes_are_refused_by_name(options, message, tmp_path):
    module = LightningRun(TAG)
    module.trainer = lightnings(tmp_path, **{"strategy": "ddp", "devices": 2, **options})
    with pytest.raises(ConfigError, match=message):
        module.configure_callbacks()


def test_a_run_keeps_its_number_of_processes(tmp_path):
    module = LightningRun(dataclasses.replace(TAG, device="cpu"))
    assert module.run.iteration == 0  # made before Lightning starts processes
    module.trainer = lightnings(tmp_path, strategy="ddp", devices=2)
    with pytest.raises(ConfigError, match="^devices: expected 1, the number of processes that the run has already, got 2"):
        module.configure_callbacks()
