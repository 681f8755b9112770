"""Runs in several processes equal those in one: worlds, gradients, statistics and weights."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
from process_cases import CASES, assert_close, hashes, of_cases
from ranks import in_processes

from examples.evolution import EvolutionConfig
from gpu_vecenv.train import NetworkConfig, TrainConfig, Trainer


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of each case in one process, in four, and of two cases in two."""
    some = ("shards", "fused")
    four = in_processes(4, lambda processes: of_cases(CASES, processes), tmp_path_factory.mktemp("four"))
    two = in_processes(2, lambda processes: of_cases(some, processes), tmp_path_factory.mktemp("two"))
    return of_cases(CASES), four, two


@pytest.mark.parametrize("name", CASES)
def test_runs_in_processes_equal_those_in_one(results, name):
    one, four, two = results
    for results_of_rank in (four[3], *(each for each in two if name in each)):
        assert_close(results_of_rank[name], one[name])


def test_processes_have_the_same_weights_to_the_last_bit(results):
    """Else they would drift apart, because nothing but the gradient is added up."""
    for ranks in results[1:]:
        for other in ranks[1:]:
            for name, (state, metrics) in other.items():
                first_state, first_metrics = ranks[0][name]
                for policy, tensors in first_state.items():
                    assert all(torch.equal(state[policy][key], x) for key, x in tensors.items()), name
                assert repr(metrics) == repr(first_metrics), name


# ---- worlds ------------------------------------------------------------------------------------------------------------


def test_worlds_have_the_same_steps_in_any_process(tmp_path):
    one = hashes()
    assert len({*one}) == 8
    for count in (2, 4):
        assert sum(in_processes(count, hashes, tmp_path / str(count)), []) == one


# ---- algorithms without gradients ----------------------------------------------------------------------------------------


def generation(processes=None):
    """Return weights after a step of evolution along noise whose returns are given, by number of the noise."""
    count, rank = (1, 0) if processes is None else (processes.count, processes.rank)
    config = TrainConfig(
        "WarpCartPole-v1", num_envs=8, total_steps=1, device="cpu", algorithm="evolution", network=NetworkConfig((4,)),
        algorithms={"evolution": EvolutionConfig(num_steps=4)},
    )  # fmt: skip
    with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
        algorithm = trainer.parts.algorithms["agent"]
        returns = torch.tensor([[3.0, 1.0, 9.0, 4.0], [2.0, 8.0, 5.0, 7.0]])  # of each noise, and of its opposite
        half = 4 // count
        algorithm.scores.zero_()
        algorithm.scores[0] = returns[:, rank * half : (rank + 1) * half].flatten()
        algorithm.scores[1] = 1.0
        none = torch.zeros(4, 8 // count, dtype=torch.bool)
        samples = SimpleNamespace(valid=none, reward=none.float(), ended=none)
        metrics = algorithm.update(samples, ())
        return [weight.clone() for weight in algorithm.weights], metrics


def test_a_generation_of_evolution_has_the_rows_of_all_processes(tmp_path):
    weights, metrics = generation()
    for found in in_processes(4, generation, tmp_path):
        for x, y in zip(found[0], weights, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(found[1], metrics, equal_nan=True)
