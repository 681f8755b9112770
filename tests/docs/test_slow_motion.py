"""The picture of CartPole in slow motion: its worlds follow the rules, and it shows what the file of results says."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
from PIL import Image  # noqa: E402

import benchmarks.slow_motion as script  # noqa: E402
from benchmarks import slow_motion_picture as picture  # noqa: E402
from gpu_vecenv.envs.cartpole.reference import CartPoleReference  # noqa: E402
from gpu_vecenv.envs.cartpole.spec import SPEC  # noqa: E402
from gpu_vecenv.train import PPOConfig  # noqa: E402

RECORDED = script.Options().out


class Left:
    """Always pushes to the left."""

    def outputs(self, obs):
        return obs.new_tensor([50.0, -50.0]).expand(len(obs), 2)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow_motion")
    ppo = PPOConfig(num_steps=16, num_epochs=1, num_minibatches=1)
    options = script.Options(
        device="cpu", num_envs=8, ppo=ppo, iterations=2, slower=2.0, after_s=0.8, worlds=2, episodes=8,
        out=folder / "results.json", figure=folder / "picture.gif",
    )  # fmt: skip
    script.shared.run(options, script.measure, script.table, picture.draw)
    return options


def test_a_policy_is_shown_from_its_time_on():
    times = [0.0, 1.0, 2.5]
    assert [script.newest(times, now) for now in (0.0, 0.99, 1.0, 2.49, 2.5, 9.0)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("recorded", [False, True], ids=["small", "recorded"])
def test_worlds_follow_the_rules(small, recorded):
    results = json.loads((RECORDED if recorded else small.out).read_text())
    reference = CartPoleReference({param.name: param.default for param in SPEC.params})
    for before, after in zip(results["states"][:-1], results["states"][1:], strict=True):
        for (*state, t), (*found, next_t) in zip(before, after, strict=True):
            if next_t == 0:
                continue
            possible = []
            for action in (0, 1):
                reference.reset(np.array(state))
                possible.append(reference.step(action)[0])
            assert next_t == t + 1
            assert min(np.abs(np.array(found) - each).max() for each in possible) < 3e-4  # numbers are rounded to 1e-4


def test_results_hold_a_time_and_a_return_for_each_policy(small):
    results = json.loads(small.out.read_text())
    assert len(results["times_s"]) == len(results["returns"]) == 3
    assert results["times_s"][0] == 0.0 and np.all(np.diff(results["times_s"]) > 0)
    seconds = results["times_s"][-1] * 2.0 + 0.8
    assert len(results["states"]) == pytest.approx(50 * seconds, abs=1)


def test_a_start_anew_gives_back_the_first_policy(small):
    snapshots, *_ = script.train(small)
    (policy,) = script.Trainer(script.TrainConfig("WarpCartPole-v1", num_envs=8, seed=small.seed), quiet=True).policies.values()
    first = script.Snapshots(policy)
    first.take()
    weights = sum(parameter.numel() for parameter in policy.parameters())
    assert snapshots.taken[0][:weights].equal(first.taken[0][:weights])
    assert not snapshots.taken[1][:weights].equal(first.taken[0][:weights])


def test_each_step_is_played_by_the_newest_policy(small):
    class Shown(list):
        def show(self, number):
            self.append(number)
            return Left()

    shown = Shown()
    states = list(script.play(shown, [0.0, 0.095, 0.155], small))  # half as fast: ready before steps 10 and 16
    assert shown == [0] * 10 + [1] * 6 + [2] * (len(states) - 16)


def test_an_episode_is_played_to_its_end(small):
    length = script.mean_return(Left(), small)
    assert 8 <= length <= 11  # a cart that is always pushed to one side


def test_the_time_limit_ends_an_episode(small):
    class Balance:
        def outputs(self, obs):
            push = 100.0 * (obs @ obs.new_tensor([0.02, 0.1, 1.0, 0.5]))
            return push.new_zeros(len(obs), 2).index_copy(1, push.new_tensor([1]).long(), push[:, None])

    assert script.mean_return(Balance(), small) > 450


@pytest.mark.parametrize("recorded", [False, True], ids=["small", "recorded"])
def test_the_picture_has_a_frame_for_every_second_step(small, recorded):
    options = script.Options() if recorded else small
    results = json.loads(Path(options.out).read_text())
    with Image.open(options.figure) as image:
        assert image.is_animated
        seconds = sum(image.seek(n) or image.info["duration"] for n in range(image.n_frames)) / 1e3  # equal frames are merged
        assert seconds == pytest.approx(len(results["states"]) / results["played_a_second"], abs=0.05)
    shown = next(picture.frames(results))
    assert shown.shape == (image.height, image.width, 3)
