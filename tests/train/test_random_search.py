"""The example of a random search: it prints the settings of the best runs, with their returns."""

import pytest

pytest.importorskip("tyro")
from examples import random_search  # noqa: E402


@pytest.mark.slow
def test_a_search_prints_the_runs_with_the_highest_returns(capsys):
    args = random_search.Args(num_runs=4, total_steps=4096, num_envs=32, best=2, seeds=2, device="cpu")
    results = random_search.main(args)
    assert len({result.config.ppo for result in results.values()}) == 4
    returns = sorted((result.metrics["recent_return/agent"] for result in results.values()), reverse=True)
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("return  learning rate  entropy weight  clip range  steps  minibatches") + 1
    assert [float(line.split()[0]) for line in lines[first : first + 2]] == pytest.approx(returns[:2], abs=0.06)
    best = next(result.config.ppo for result in results.values() if result.metrics["recent_return/agent"] == returns[0])
    assert lines[first].split()[4:] == [str(best.num_steps), str(best.num_minibatches)]
    assert lines[-1].startswith("the best settings with 2 other seeds: mean return ")


def test_draws_are_repeatable_and_within_their_ranges():
    draws = [random_search.draw(random_search.np.random.default_rng(seed)) for seed in (*range(200), 0)]
    assert draws[0] == draws[-1] and len(set(draws)) == 200
    assert all(1e-4 <= ppo.learning_rate <= 1e-2 and 0.1 <= ppo.clip_coef <= 0.4 for ppo in draws)
    assert {ppo.num_steps for ppo in draws} == {16, 32, 64}
