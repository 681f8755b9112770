"""Long tests of runs in several processes under torchrun: kills at random moments, two hosts, and learning curves."""

import contextlib
import dataclasses
import statistics

import pytest
from killed_runs import kill_and_go_on, torchrun
from ranks import free_port, in_processes

from gpu_vecenv.train import TrainConfig, Trainer, load_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics

pytestmark = pytest.mark.slow

WORLDS, STEPS = 18, 18 * 8
RUN = ["WarpCartPole-v1", "--device", "cpu", "--num-envs", str(WORLDS), "--ppo", "num_steps=8", "--network", "hidden_sizes=(8,)"]


@pytest.mark.parametrize("seed", range(20))
def test_a_run_goes_on_after_any_process_is_killed_at_any_moment(seed, tmp_path):
    words = [*RUN, "--total-steps", str(STEPS * 10**7), "--checkpoint-interval", "2"]
    _, _, went_on = kill_and_go_on(words, tmp_path / "run", seed, 3)
    assert went_on < 90


def test_two_hosts_train_one_run(tmp_path):
    """Two agents of torchrun on this host, which meet over the loopback device, stand for two hosts."""
    out, port = tmp_path / "run", free_port()
    words = [*RUN, "--total-steps", str(STEPS * 4)]
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    options += ["--rdzv-id", "two", "--rdzv-conf", "join_timeout=120"]
    with (tmp_path / "log.txt").open("w") as log:
        agents = [torchrun(words, out, *options, log=log) for _ in range(2)]
        try:
            assert [agent.wait(200) for agent in agents] == [0, 0], (tmp_path / "log.txt").read_text()
        finally:
            for agent in agents:
                agent.kill()
    assert len(read_metrics(out)) == 4
    assert len(load_checkpoint(out)["processes"]) == 1


CURVES = TrainConfig("WarpCartPole-v1", num_envs=16, total_steps=16_000, device="cpu")


@pytest.mark.timeout(900)
def test_curves_of_one_process_and_of_four_are_equivalent(tmp_path):
    """Stated beforehand: mean returns over the last half of the run, over 5 seeds, differ by less than 15 % of the larger one."""

    def mean_return(processes, seed):
        config, found = dataclasses.replace(CURVES, seed=seed), []
        with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
            for _ in range(trainer.num_iterations):
                trainer.launch()
                found.append(trainer.finish()["recent_return/agent"])
        return statistics.mean(found[len(found) // 2 :])

    one = [mean_return(None, seed) for seed in range(5)]
    four = in_processes(4, lambda processes: [mean_return(processes, seed) for seed in range(5)], tmp_path)[0]
    means = statistics.mean(one), statistics.mean(four)
    assert abs(means[0] - means[1]) < 0.15 * max(means), (one, four)
