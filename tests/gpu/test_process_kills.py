"""Processes on GPUs of their own, of which one is killed at ten moments: an error that names it, a whole checkpoint, a restart.

The runs go on side by side, several on each pair of GPUs, because most of their time is the start of Python.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.train.killed_runs import kill_and_go_on

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

RUN = ["WarpCartPole-v1", "--device", "cuda", "--num-envs", "65536", "--checkpoint-interval", "20", "--total-steps", str(2**50)]
WAYS = {"fused": [], "graph": ["--kernels", "torch"]}
MOMENTS = 10


@pytest.mark.timeout(600)
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_runs_go_on_after_a_kill_at_any_moment(tmp_path, capsys):
    pairs = torch.cuda.device_count() // 2

    def killed(seed):
        pair = seed % pairs
        words = [*RUN, *(WAYS["graph"] if seed % 5 == 4 else WAYS["fused"])]
        devices = f"{2 * pair},{2 * pair + 1}"
        return kill_and_go_on(words, tmp_path / f"run-{seed}", seed, 2, start_s=200, CUDA_VISIBLE_DEVICES=devices)

    with ThreadPoolExecutor(MOMENTS) as pool:
        found = list(pool.map(killed, range(MOMENTS)))
    with capsys.disabled():
        for victim, ended, went_on in found:
            print(f"rank {victim} killed: all ended after {ended:.0f} s, the run went on after {went_on:.0f} s", flush=True)
    assert {victim for victim, _, _ in found} == {0, 1}
    assert all(ended < 60 for _, ended, _ in found)
