"""Runs in several processes on GPUs equal those in one process: by NCCL, and by gloo where two processes share a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.gpu

TRAIN = Path(__file__).parents[1] / "train"


def started(count, folder, *words, **variables):
    """Return the results of each of some processes."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    path = os.pathsep.join([str(TRAIN), str(TRAIN.parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}
    command = [*torchrun, str(TRAIN / "process_worker.py"), "cuda", str(folder), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(count)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Results of one process without a group."""
    return started(1, tmp_path_factory.mktemp("alone"))[0]


def require_near(found, wanted, ways):
    """Compare weights; sums of other order are rounded otherwise, and each step of Adam hands the difference on."""
    for way in ways:
        for policy, tensors in wanted[way][0].items():
            for name, x in tensors.items():
                value = found[way][0][policy][name].cpu()  # of another GPU
                torch.testing.assert_close(value, x.cpu(), rtol=1e-3, atol=1e-4, msg=f"{way}: {policy}/{name}")


def require_equal(ranks, ways):
    """Compare the processes with each other, to the last bit."""
    for other in ranks[1:]:
        for way in ways:
            for policy, tensors in ranks[0][way][0].items():
                assert all(torch.equal(other[way][0][policy][name].cpu(), x.cpu()) for name, x in tensors.items()), way


def test_two_processes_share_a_gpu_by_gloo(alone, tmp_path):
    """NCCL refuses two processes on one GPU."""
    ranks = started(2, tmp_path, CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0])
    assert ranks[0]["backend"] == "gloo"
    assert "gloo cannot be recorded" in ranks[0]["graph without a graph"]
    require_near(ranks[0], alone, ("eager", "graph", "fused"))
    require_equal(ranks, ("eager", "graph", "fused"))


def test_a_graph_holds_the_sums_of_one_process_by_nccl(alone, tmp_path):
    (found,) = started(1, tmp_path, "even", "alone")
    assert found["backend"] == "nccl"
    assert found["graph without a graph"] == found["fused without a graph"] == ""
    require_near(found, alone, ("eager", "graph", "fused"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize(("count", "kind"), [(2, "direct"), (4, "direct"), (2, "nccl")])
def test_processes_on_gpus_of_their_own_equal_one(alone, tmp_path, count, kind):
    if torch.cuda.device_count() < count:
        pytest.skip(f"needs {count} GPUs")
    ranks = started(count, tmp_path, GPU_VECENV_SUMS=kind)
    assert ranks[0]["backend"] == "nccl"
    peers = all(torch.cuda.can_device_access_peer(0, other) for other in range(1, count))
    assert ranks[0]["direct"] == (kind == "direct" and peers)
    assert ranks[0]["graph without a graph"] == ranks[0]["fused without a graph"] == ""
    assert sum((each["hashes"] for each in ranks), []) == alone["hashes"]  # all steps of all worlds, by given actions
    require_near(ranks[-1], alone, ("eager", "graph", "fused"))
    require_equal(ranks, ("eager", "graph", "fused"))
    for number, (of_run, by_nccl) in enumerate(ranks[0]["sums"]):
        torch.testing.assert_close(of_run, by_nccl, rtol=1e-5, atol=1e-5)
        assert all(torch.equal(each["sums"][number][0], of_run) for each in ranks[1:])
