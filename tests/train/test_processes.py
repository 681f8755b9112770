"""Runs in several processes equal those in one: worlds, gradients, statistics and weights."""

import contextlib
import hashlib

import pytest
import torch
from process_cases import CASES, GHOSTS, assert_close, of_cases
from ranks import in_processes

from gpu_vecenv.train import Trainer


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


def hashes(processes=None):
    """Hashes of the steps of each world of a run by given actions: all that the env gives, by number of the world."""
    count, rank = (1, 0) if processes is None else (processes.count, processes.rank)
    worlds = 8 // count
    found = [hashlib.sha256() for _ in range(worlds)]
    with contextlib.closing(Trainer(GHOSTS, quiet=True, processes=processes)) as trainer:
        env, agents = trainer.env, trainer.env.num_agents
        env.unbind()
        env.reset(seed=3)
        generator = torch.Generator().manual_seed(0)
        for _ in range(50):
            actions = torch.randint(0, 3, (8, agents, 2), generator=generator, dtype=torch.int32)
            own = actions[rank * worlds : (rank + 1) * worlds]
            parts = [own[:, rows.start // worlds : rows.stop // worlds].flatten(0, 1) for rows in env.role_rows.values()]
            results = env.step(torch.cat(parts))[:4]
            for world in range(worlds):
                for rows in env.role_rows.values():
                    for x in results:
                        found[world].update(x[rows].unflatten(0, (worlds, -1))[world].contiguous().numpy().tobytes())
    return [each.hexdigest() for each in found]


def test_worlds_have_the_same_steps_in_any_process(tmp_path):
    one = hashes()
    assert len({*one}) == 8
    for count in (2, 4):
        assert sum(in_processes(count, hashes, tmp_path / str(count)), []) == one
