"""Runs in several processes equal those in one: worlds, gradients, statistics and weights."""

import contextlib
import os
import time
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from process_cases import CASES, assert_close, hashes, of_cases
from ranks import in_processes

from examples.evolution import EvolutionConfig
from gpu_vecenv.train import ConfigError, LostRankError, NetworkConfig, TrainConfig, Trainer
from gpu_vecenv.train.processes import direct, group
from gpu_vecenv.train.processes.join import OtherGroup
from gpu_vecenv.train.processes.late import LateSums


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of each case in one process, in four, and of two cases in two."""
    some = ("shards", "fused")
    four = in_processes(4, lambda processes: of_cases(CASES, processes), tmp_path_factory.mktemp("four"))
    two = in_processes(2, lambda processes: of_cases(some, processes), tmp_path_factory.mktemp("two"))
    return of_cases(CASES), four, two


@pytest.mark.in_ci
@pytest.mark.parametrize("name", CASES)
def test_runs_in_processes_equal_those_in_one(results, name):
    one, four, two = results
    for results_of_rank in (four[3], *(each for each in two if name in each)):
        assert_close(results_of_rank[name], one[name])


@pytest.mark.in_ci
def test_processes_have_the_same_weights_to_the_last_bit(results):
    """Else they would drift apart, because nothing but the gradient is added up."""
    for ranks in results[1:]:
        for other in ranks[1:]:
            for name, (state, metrics) in other.items():
                first_state, first_metrics = ranks[0][name]
                for policy, tensors in first_state.items():
                    assert all(torch.equal(state[policy][key], x) for key, x in tensors.items()), name
                assert repr(metrics) == repr(first_metrics), name


# ---- sums of an iteration ------------------------------------------------------------------------------------------------


def num_sums(processes):
    """Return the sums over processes in the second iteration of some runs: of gradients, and of float64 numbers."""
    found, by_group = {}, group.dist.all_reduce
    for name in ("shards", "torch", "fused"):
        with contextlib.closing(Trainer(CASES[name], quiet=True, processes=processes)) as trainer:
            trainer.launch(), trainer.finish()
            types = []
            group.dist.all_reduce = lambda x, *more, types=types, **named: types.append(x.dtype) or by_group(x, *more, **named)
            trainer.launch(), trainer.finish()
            group.dist.all_reduce = by_group
        found[name] = types.count(torch.float32), types.count(torch.float64), len(types)
    return found


def test_an_iteration_has_few_sums_over_processes(tmp_path):
    """Each takes as long as a kernel of a minibatch: there is one for a minibatch, and few others."""
    gradients = 2 * 2 * 3  # policies, epochs, minibatches
    rest = 2 * 2 + 1  # reward scale and advantages of each policy, and all that the end of the iteration needs
    of_epochs = 2 * 2  # what the minibatches of an epoch share
    for found in in_processes(2, num_sums, tmp_path):
        assert found["fused"] == found["shards"] == (gradients, rest, gradients + rest)
        assert found["torch"] == (gradients, rest + of_epochs, gradients + rest + of_epochs)


def test_late_sums_are_handed_out_in_their_shapes(tmp_path):
    def act(processes):
        found, late = [], LateSums(processes)
        with late:
            processes.sum_then(torch.full((2, 3), 1.0 + processes.rank, dtype=torch.float64), found.append)
        processes.sum_then(torch.ones(1, dtype=torch.float64), found.append)  # at once
        with late:
            processes.sum_then(torch.arange(4, dtype=torch.float64), found.append)
        before = len(found)
        late.add_up()
        late.add_up()  # nothing is left
        return before, found

    for before, found in in_processes(2, act, tmp_path):
        assert before == 1 and [x.tolist() for x in found] == [[2.0], [[3.0] * 3] * 2, [0.0, 2.0, 4.0, 6.0]]


def test_the_process_that_holds_the_store_leaves_last(tmp_path):
    def act(processes):
        if not processes.is_first:
            check = processes._store.check
            processes._store = SimpleNamespace(check=lambda names: time.sleep(0.3) or check(names), set=processes._store.set)
        return True

    assert in_processes(2, act, tmp_path) == [True, True]


def test_processes_of_another_library(tmp_path):
    """Torch's default group is there already. Signs of life end and begin again, and tell of an error."""

    def act(processes):
        other = OtherGroup("cpu", 2, "127.0.0.1")
        mine, words = other.processes, []
        for word in ("first", "second"):
            words.append(mine.from_first(lambda word=word: word))
            words.append(mine.to_first(f"{word} of {mine.rank}".encode()))
            other.end()
            other.begin()
        total = mine.sum(torch.tensor([1.0, mine.rank]))
        why = ""
        if mine.is_first:
            other.fail(ValueError("no more"))
        else:
            with pytest.raises(LostRankError) as caught:
                mine.from_first(lambda: "a word that the first process does not give")
            why = str(caught.value)
            other.fail(caught.value)
        processes.sum(torch.zeros(1))  # the first process holds the store until now
        return total, words, why

    first, second = in_processes(2, act, tmp_path)
    assert first[0].tolist() == second[0].tolist() == [2.0, 1.0]
    assert first[1] == ["first", [b"first of 0", b"first of 1"], "second", [b"second of 0", b"second of 1"]]
    assert second[1] == ["first", [], "second", []]
    assert second[2] == "rank 0 of 2 is lost: ValueError: no more"


def test_sums_are_direct_if_all_processes_can_make_them(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda one, other: one != other)

    def act(processes):
        def fails(*args):
            raise RuntimeError("no symmetric memory here")

        found, of_all = [], dist.group.WORLD
        for of_second in (print, fails):
            direct.one_shot_sum = print if processes.is_first else of_second
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found.append((direct.direct_sums(of_all, f"cuda:{processes.rank}", 2) is not None, len(caught)))
        os.environ["GPU_VECENV_SUMS"] = "nccl"
        return [*found, direct.direct_sums(of_all, f"cuda:{processes.rank}", 2)]

    first, second = in_processes(2, act, tmp_path)
    assert first == [(True, 0), (False, 0), None]
    assert second == [(True, 0), (False, 1), None]


def test_sums_of_another_kind_are_refused(monkeypatch):
    monkeypatch.setenv("GPU_VECENV_SUMS", "gloo")
    with pytest.raises(ConfigError, match=r"GPU_VECENV_SUMS: expected 'direct' or 'nccl', got 'gloo'"):
        direct.direct_sums(None, "cuda:0", 2)


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
