"""The replay buffer, compared with a deque of steps, and its draws with the shares that they should have."""

import dataclasses
import warnings

import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Arena-v0 and Pairs-v0)
import torch
from dispatched import HostReads
from replay_cases import Steps, Worlds, numpy_of

import tests.roles  # noqa: F401  (registers Whisper-v0)
from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.errors import ArrayTypeError, OutOfMemoryError, ShapeError
from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    NetworkConfig,
    Noise,
    PPOConfig,
    Replay,
    TrainConfig,
    Trainer,
    replay_bytes,
)
from gpu_vecenv.train.storage import replay_ring
from gpu_vecenv.train.storage.sizes import bytes_of
from tests.devices import DEVICES

FORMS = {
    "rows": {},
    "rows, no one leaves": {"leaving": False, "continuous": True},
    "rows, all ends terminal": {"final_obs": False, "mask": True},
    "worlds": {"by_world": True, "mask": True, "continuous": True},
    "rows, masks": {"mask": True},
    "rows, masks of ends unknown": {"mask": True, "final_mask": False},
    "worlds, shared": {"by_world": True, "shared": True, "agents": 3},
    "worlds, critic": {"by_world": True, "critic": True, "final_obs": False},
}


def parts_of(inputs):
    """Return inputs by name."""
    obs = inputs.obs if isinstance(inputs.obs, dict) else {"own": inputs.obs}
    return {name: numpy_of(x) for name, x in {**obs, "mask": inputs.mask, "critic": inputs.critic}.items() if x is not None}


def require_transitions(batch, steps):
    """Each transition of a batch must be that of the deque."""
    places, weight = steps.sampled(), numpy_of(batch.weight)
    inputs, ahead = parts_of(batch.inputs), parts_of(batch.next_inputs)
    if not places:
        assert not batch.valid.any() and not batch.discount.any() and not batch.reward.any()
        assert np.isfinite(weight).all() and all(np.isfinite(x).all() for x in (*inputs.values(), *ahead.values()))
        return
    for b, place in enumerate(batch.place.tolist()):
        want = steps.transition(*places[place])
        for found, name in ((inputs, "inputs"), (ahead, "next")):
            assert found.keys() == want[name].keys()
            for part, x in want[name].items():
                np.testing.assert_array_equal(found[part][b], x, err_msg=f"{name} {part}")
        for name in ("valid", "action"):
            np.testing.assert_array_equal(np.atleast_1d(numpy_of(getattr(batch, name))[b]), np.atleast_1d(want[name]), name)
        for name in ("reward", "discount"):
            np.testing.assert_allclose(np.atleast_1d(numpy_of(getattr(batch, name))[b]), want[name], 1e-5, 1e-6, name)


def tensors_of(batch):
    """Return all tensors of a batch."""
    obs = [(*x.obs.values(),) if isinstance(x.obs, dict) else (x.obs,) for x in (batch.inputs, batch.next_inputs)]
    rest = (batch.inputs.mask, batch.next_inputs.mask, *(x for x in batch if isinstance(x, torch.Tensor)))
    return [x for x in (*obs[0], *obs[1], *rest) if x is not None]


def require_equal(one, other):
    """Two batches must have the same bits."""
    for x, y in zip(tensors_of(one), tensors_of(other), strict=True):
        assert torch.equal(x.cpu(), y.cpu())


def chi_squared(counts, shares):
    """Return how far counts are from their expectations, in standard deviations of chi-squared."""
    expected = shares * counts.sum()
    assert expected.min() > 5
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


def filled_replay(worlds, size, batch_size, rollouts, n_steps=1, exponent=None, seed=7, device="cpu"):
    """Return a buffer after some rollouts, and the deque of the same steps."""
    replay = Replay(worlds.rows, size, batch_size, 0.9, seed, device, n_steps, exponent)
    steps = Steps(-(-size // worlds.rows.num_samples), n_steps, 0.9)
    for _ in range(rollouts):
        samples = worlds.rollout()
        replay.add(samples)
        steps.add(samples)
    return replay, steps


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_transitions_are_those_of_a_deque(form, n_steps, device):
    worlds = Worlds(**FORMS[form], seed=n_steps, device=device)
    size = 13 * worlds.rows.num_samples - 1
    replay, steps = filled_replay(worlds, size, 40, 0, n_steps, 0.6 if n_steps == 3 else None, device=device)
    beta = () if n_steps == 1 else (0.4,)
    require_transitions(replay.sample(*beta), steps)
    for _ in range(12):
        samples = worlds.rollout()
        replay.add(samples)
        steps.add(samples)
        assert int(replay.filled) == len(steps.sampled())
        batch = replay.sample(*beta)
        require_transitions(batch, steps)
        if beta:
            replay.set_priorities(batch, torch.rand(40, device=device))


def test_arrays_of_samples_may_be_replaced():
    """An algorithm may scale its rewards. Samples of later rollouts have those of the env again."""
    config = TrainConfig(
        "WarpCartPole-v1", num_envs=5, total_steps=10**6, device="cpu", network=NetworkConfig((8,)),
        ppo=PPOConfig(num_steps=6, num_minibatches=2),
    )  # fmt: skip
    trainer = Trainer(config, quiet=True)
    (rows,) = trainer.parts.rows.values()
    replay, steps = Replay(rows, 40 * rows.num_samples, 50, 0.9, 3, "cpu"), Steps(40, 1, 0.9)
    for rollout in range(4):
        trainer.parts.collector.collect()
        samples = rows.samples()
        assert (samples.reward == 1).all()
        for scale in (1.0, rollout + 2.0):
            samples.reward = samples.reward * scale
            replay.add(samples)
            steps.add(samples)
        require_transitions(replay.sample(), steps)


@pytest.mark.slow
@pytest.mark.parametrize(("n_steps", "exponent"), [(1, None), (4, None), (5, 0.7)])
def test_transitions_of_100_000_steps_are_those_of_a_deque(n_steps, exponent):
    """The ring is written over several times, and each time its end is in another step of a rollout."""
    worlds = Worlds(num_worlds=50, steps=7, mask=True, seed=n_steps)
    replay, steps = filled_replay(worlds, 100 * 45, 60, 0, n_steps, exponent)
    for rollout in range(100_000 // 700 + 1):
        samples = worlds.rollout()
        replay.add(samples)
        steps.add(samples)
        if rollout % 8 == 5:
            assert int(replay.filled) == len(steps.sampled())
            batch = replay.sample(*(() if exponent is None else (0.5,)))
            require_transitions(batch, steps)
            if exponent is not None:
                replay.set_priorities(batch, torch.randn(60))


ARENA = TrainConfig(
    "Arena-v0", num_envs=5, total_steps=10**6, device="cpu", network=NetworkConfig((8,), agent_ids=True),
    ppo=PPOConfig(num_steps=6, num_minibatches=2, bootstrap_at_time_limit=True), env_kwargs={"max_episode_steps": 9},
)  # fmt: skip
RUNS = {
    "rows, worlds": {"policy_map": None},
    "parts of roles": {"policy_map": {"red[1:3]": "red", "red[0:1]": "one", "blue[0:1]": "blue", "blue[1:2]": "two"}},
    "roles of one policy": {"env_id": "Pairs-v0", "policy_map": {"left": "one", "right": "one"}},
    "flags of effect": {"env_id": "Whisper-v0", "policy_map": None},
}


@pytest.mark.parametrize("run", RUNS)
def test_transitions_of_a_run_are_those_of_a_deque(run):
    trainer = Trainer(dataclasses.replace(ARENA, **RUNS[run]), quiet=True)
    for name, rows in trainer.parts.rows.items():
        replay, steps = Replay(rows, 11 * rows.num_samples, 50, 0.9, 3, "cpu", 2), Steps(11, 2, 0.9, bool(rows.group.effects))
        for _ in range(4):
            trainer.parts.collector.collect()
            replay.add(rows.samples())
            steps.add(rows.samples())
            batch = replay.sample()
            require_transitions(batch, steps)
            agent = torch.cat(rows.agents)[batch.place % rows.num_samples]
            assert torch.equal(batch.inputs.agent, agent) and torch.equal(batch.next_inputs.agent, agent), name


@pytest.mark.parametrize("exponent", [None, 0.6])
@pytest.mark.parametrize("form", FORMS)
def test_a_buffer_that_keeps_its_batch_draws_the_same(form, exponent):
    """Its batches lie in the same arrays; those of another buffer stay as they were."""
    beta = () if exponent is None else (0.4,)
    both = [filled_replay(Worlds(**FORMS[form], seed=2), 500, 40, 3, 2, exponent)[0] for _ in range(2)]
    both[0].keeps_batch = True
    first = None
    for _ in range(3):
        found, want = (replay.sample(*beta) for replay in both)
        assert first is None or (found.reward.data_ptr() == first.reward.data_ptr() and found.reward is not want.reward)
        first = found
        for x, y in zip(flat(found), flat(want), strict=True):
            assert torch.equal(x, y)


def flat(batch):
    """Return all arrays of a batch."""
    parts = [*batch.inputs, *batch.next_inputs, *batch[1:3], *batch[4:]]
    return [x for part in parts if part is not None for x in (part.values() if isinstance(part, dict) else [part])]


@pytest.mark.parametrize("leaving", [False, True])
def test_draws_are_uniform_over_the_transitions_that_count(leaving):
    worlds = Worlds(num_worlds=5, leaving=leaving)
    replay, steps = filled_replay(worlds, 130, 60_000, 8, n_steps=2)
    places = sorted(steps.sampled())
    assert len(places) == 120 if not leaving else 40 < len(places) < 110
    place = replay.sample().place.numpy()
    counts = np.bincount(place, minlength=max(places) + 1)
    assert counts.sum() == counts[places].sum()
    assert chi_squared(counts[places], np.full(len(places), 1 / len(places))) < 4
    assert not np.array_equal(replay.sample().place.numpy(), place)
    sixth = np.arange(len(places)) * 6 // len(places)
    pairs, share = sixth[np.searchsorted(places, place)].reshape(-1, 2), np.bincount(sixth) / len(places)
    assert chi_squared(np.bincount(pairs @ [6, 1], minlength=36), np.outer(share, share).flatten()) < 4  # rows of a batch


def test_draws_have_the_shares_of_priorities():
    """Shares and weights by section 3.3 and 3.4 of Schaul et al. 2016, from errors that the test keeps."""
    alpha, beta = 0.7, 0.4
    worlds = Worlds(num_worlds=30, seed=3)
    replay, steps = filled_replay(worlds, 60 * 13, 60_000, 7, n_steps=2, exponent=alpha)
    error = {place: 1.0 - 1e-6 for place in steps.sampled()}  # new transitions have priority 1 before any error is known
    rng = np.random.default_rng(1)
    for _ in range(3):
        places = sorted(error)
        share = np.array([(error[place] + 1e-6) ** alpha for place in places])
        share /= share.sum()
        batch = replay.sample(beta)
        counts = np.bincount(batch.place, minlength=14 * 60)
        assert counts.sum() == counts[places].sum() and chi_squared(counts[places], share) < 4
        weight = dict(zip(places, (len(places) * share) ** -beta, strict=True))
        drawn = np.array([weight[place] for place in batch.place.tolist()])
        np.testing.assert_allclose(batch.weight, drawn / drawn.max(), 1e-5)
        by_place = rng.gamma(1.0, 1.0, 14 * 60).astype(np.float32) + np.float32(0.05)
        found = by_place[batch.place] * rng.choice([-1, 1], len(batch.place)).astype(np.float32)
        replay.set_priorities(batch, torch.from_numpy(found))
        error |= {place: float(by_place[place]) for place in batch.place.tolist()}
        largest = max(error.values())
    samples = worlds.rollout()
    replay.add(samples)
    steps.add(samples)
    priority = {place: (largest if k >= 13 - 5 else error.get(place, 1.0 - 1e-6)) for place, (k, _) in steps.sampled().items()}
    priority = {place: (x + 1e-6) ** alpha for place, x in priority.items()}
    assert len({*priority} & {*error}) > 100 and int(replay.filled) == len(priority)
    found = replay.ring.priority.view(-1)[list(priority)]
    np.testing.assert_allclose(found, list(priority.values()), 1e-5)
    assert abs(float(replay.ring.masses[-1]) - sum(priority.values())) < 1e-3


def test_a_place_that_comes_twice_gets_the_larger_priority():
    replay, _ = filled_replay(Worlds(), 8 * 13, 4, 2, exponent=0.5)
    batch = replay.sample(1.0)
    assert batch.valid.all()
    place = torch.tensor([5, 3, 5, 5])
    replay.set_priorities(batch._replace(place=place), torch.tensor([4.0, 9.0, -16.0, 1.0]))
    np.testing.assert_allclose(replay.ring.priority.view(-1)[[3, 5]], [3.0, 4.0], 1e-5)
    replay.set_priorities(batch._replace(place=place), torch.tensor([torch.nan, 1.0, 0.25, torch.inf]))
    np.testing.assert_allclose(replay.ring.priority.view(-1)[[3, 5]], [1.0, 4.0], 1e-5)  # the largest so far
    replay.set_priorities(batch._replace(place=place), torch.zeros(4))
    assert (replay.ring.priority.view(-1)[[3, 5]] > 0).all()


def test_errors_of_an_empty_buffer_change_no_priority():
    worlds = Worlds()
    replay, other = (Replay(worlds.rows, 8 * 13, 20, 0.9, 7, "cpu", 8, 0.5) for _ in range(2))
    for number in range(5):
        samples = worlds.rollout()
        for each in (replay, other):
            each.add(samples)
        batch, same = replay.sample(0.5), other.sample(0.5)
        require_equal(batch, same)
        if number == 0:
            assert not batch.valid.any() and samples.valid[0, 0]
            replay.set_priorities(batch, torch.full((20,), 50.0))
    assert batch.valid.all()


def test_draws_are_independent_of_those_of_noise():
    replay, _ = filled_replay(Worlds(leaving=False), 8 * 500, 4000, 100)
    place = replay.sample().place.double() - replay.ring.slots * 4
    noise = Noise(7, 4000, "cpu").integers(4000).double()
    assert abs(torch.corrcoef(torch.stack((place, noise)))[0, 1]) < 0.06
    other, _ = filled_replay(Worlds(leaving=False), 8 * 500, 4000, 100, seed=8)
    replay.load_state_dict({**replay.state_dict(), "draws": other.state_dict()["draws"]}, "here")
    assert not torch.equal(other.sample().place, replay.sample().place)


@pytest.mark.parametrize("exponent", [None, 0.6])
def test_a_resumed_buffer_goes_on_with_the_same_bits(exponent):
    beta = () if exponent is None else (0.5,)
    worlds = Worlds(by_world=True, mask=True)
    replay, _ = filled_replay(worlds, 4 * 13, 30, 5, 3, exponent)
    if exponent is not None:
        replay.set_priorities(replay.sample(*beta), torch.rand(30))
    replay.sample(*beta)
    state = torch.load(_saved(replay.state_dict()), weights_only=True)
    resumed = Replay(worlds.rows, 4 * 13, 30, 0.9, 7, "cpu", 3, exponent)
    resumed.load_state_dict(state, "here")
    for _ in range(3):
        assert torch.equal(replay.filled, resumed.filled)
        one, other = replay.sample(*beta), resumed.sample(*beta)
        require_equal(one, other)
        if exponent is not None:
            error = torch.rand(30)
            replay.set_priorities(one, error)
            resumed.set_priorities(other, error)
            require_equal(replay.sample(*beta), resumed.sample(*beta))
        samples = worlds.rollout()
        replay.add(samples)
        resumed.add(samples)


def _saved(state):
    import io

    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("exponent", [None, 0.6])
def test_a_buffer_whose_transitions_were_dropped_begins_empty_and_says_so(exponent):
    worlds, beta = Worlds(), () if exponent is None else (0.5,)
    replay, _ = filled_replay(worlds, 8 * 13, 30, 5, 3, exponent)
    if exponent is not None:
        replay.set_priorities(replay.sample(0.5), torch.full((30,), 9.0))
    other, _ = filled_replay(worlds, 8 * 13, 30, 2, 3, exponent)
    state = replay.state_dict(with_transitions=False)
    assert bytes_of(state) == 8
    with pytest.warns(UserWarning, match="here: the checkpoint holds no transitions, so the replay buffer begins empty"):
        other.load_state_dict(state, "here")
    assert int(other.filled) == 0 and not other.sample(*beta).valid.any()
    new = Replay(worlds.rows, 8 * 13, 30, 0.9, 7, "cpu", 3, exponent)
    new.load_state_dict({**new.state_dict(), "draws": other.state_dict()["draws"]}, "here")
    for _ in range(3):
        samples = worlds.rollout()
        for each in (new, other):
            each.add(samples)
        require_equal(new.sample(*beta), other.sample(*beta))


def test_a_damaged_state_is_refused():
    worlds = Worlds()
    replay, _ = filled_replay(worlds, 8 * 13, 30, 2, exponent=0.5)
    state = replay.state_dict()
    ring = state["ring"]
    damaged = {
        "ring/steps": {**ring, "steps": torch.tensor(-1)},
        "ring/priority": {**ring, "priority": ring["priority"] - 2},
        "ring/largest": {**ring, "largest": torch.tensor(torch.nan)},
        "ring/arrays/reward": {**ring, "arrays": {**ring["arrays"], "reward": torch.zeros(2)}},
    }
    for name, other in damaged.items():
        with pytest.raises(CheckpointError, match=f"^here/{name}: expected"):
            replay.load_state_dict({**state, "ring": other}, "here")
    for other in ({}, {"ring": ring}, 3):
        with pytest.raises(CheckpointError, match="^here: expected"):
            replay.load_state_dict(other, "here")
    with pytest.raises(CheckpointError, match="^here/ring: expected"):
        filled_replay(worlds, 8 * 13, 30, 0)[0].load_state_dict(state, "here")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"size": 8 * 6}, "replay_size: expected at least 56 transitions, 7 steps of 8 samples, got 48"),
        ({"batch_size": 0}, "batch_size: expected an integer from 1"),
        ({"n_steps": 1.5}, "n_steps: expected an integer from 1"),
        ({"gamma": 1.1}, "gamma: expected a number from 0 to 1, got 1.1"),
        ({"priority_exponent": -1}, "priority_exponent: expected a number of 0 or more, or None, got -1"),
    ],
)
def test_options_out_of_range_are_refused(options, text):
    given = {"size": 100, "batch_size": 4, "gamma": 0.9, "seed": 0, "device": "cpu", "n_steps": 3} | options
    with pytest.raises(ConfigError, match=text):
        Replay(Worlds().rows, **given)


def test_arguments_without_an_effect_and_of_another_form_are_refused():
    worlds = Worlds()
    uniform, prioritised = (filled_replay(worlds, 8 * 13, 6, 1, exponent=exponent)[0] for exponent in (None, 0.5))
    with pytest.raises(ConfigError, match="importance_exponent: expected None without priority_exponent, got 0.5"):
        uniform.sample(0.5)
    with pytest.raises(ConfigError, match="importance_exponent: expected a number with priority_exponent, got None"):
        prioritised.sample()
    with pytest.raises(ConfigError, match="set_priorities: expected a buffer with priority_exponent"):
        uniform.set_priorities(uniform.sample(), torch.zeros(6))
    with pytest.raises(ShapeError, match="error must have 6 numbers"):
        prioritised.set_priorities(prioritised.sample(0.5), torch.zeros(6, 2))
    with pytest.raises(ArrayTypeError, match="error must be torch.float32"):
        prioritised.set_priorities(prioritised.sample(0.5), torch.zeros(6, dtype=torch.float64))
    samples = worlds.rollout()
    for change, error, text in (
        ({"final_obs": None}, ShapeError, r"expected samples with \[.*'final_obs'"),
        ({"reward": samples.reward[:, :7]}, ShapeError, r"reward: expected \(8,\) in a step, got \(7,\)"),
        ({"action": samples.action.long()}, ArrayTypeError, "action: expected torch.int32, got torch.int64"),
    ):
        with pytest.raises(error, match=text):
            uniform.add(dataclasses.replace(samples, **change))
    assert int(uniform.ring.steps) == 5


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("exponent", [None, 0.5])
def test_bytes_are_known_before(form, exponent):
    worlds = Worlds(**FORMS[form])
    size, n_steps = 1000, 3
    replay = Replay(worlds.rows, size, 4, 0.9, 7, "cpu", n_steps, exponent)
    ring = replay.ring
    kept = [*ring.arrays.values(), *(x for x in (ring.priority, ring.counts, ring.masses) if x is not None)]
    assert replay_bytes(worlds.rows, size, n_steps, exponent) == sum(x.nbytes for x in kept)
    slots = -(-size // worlds.rows.num_samples)
    assert len(ring.arrays["reward"]) == slots + 1
    assert replay_bytes(worlds.rows, size * 10**7, n_steps, exponent) > 10**10


def test_a_buffer_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    worlds = Worlds()
    needed = replay_bytes(worlds.rows, 10**5)
    for free in (needed, needed - 1):
        monkeypatch.setattr(TorchMemory, "free_bytes", lambda memory, free=free: free)
        if free == needed:
            Replay(worlds.rows, 10**5, 4, 0.9, 7, "cpu")
            continue
        with pytest.raises(OutOfMemoryError, match=r"^replay_size: 100,000 transitions need .* MB on cpu, and .* MB are free"):
            Replay(worlds.rows, 10**5, 4, 0.9, 7, "cpu")


def test_places_of_ten_million_transitions_beyond_two_to_the_31_bytes(monkeypatch):
    def unwritten(*shape, dtype, device):
        """Memory that is not written takes none."""
        return torch.from_numpy(np.zeros(shape if isinstance(shape[0], int) else shape[0], str(dtype).removeprefix("torch.")))

    worlds = Worlds(by_world=True, agents=20, num_worlds=8, steps=5)
    monkeypatch.setattr(replay_ring.torch, "zeros", unwritten)
    monkeypatch.setattr(TorchMemory, "free_bytes", lambda memory: None)
    slots = 10**7 // 8 + 50
    replay = Replay(worlds.rows, slots * 8, 60, 0.9, 7, "cpu", 2, 0.5)
    assert replay.ring.arrays["own"].nbytes > 2**31
    steps = Steps(slots, 2, 0.9)
    steps.total = slots - 13
    replay.ring.steps.fill_(slots - 13)
    for _ in range(5):  # across the end of the ring
        samples = worlds.rollout()
        replay.add(samples)
        steps.add(samples)
    places = {place - place // 8 * 8 + (slot % (slots + 1)) * 8: (k, b)
              for place, (k, b) in steps.sampled().items() for slot in [slots - 13 + k]}  # fmt: skip
    steps.sampled = lambda: places
    batch = replay.sample(0.5)
    assert 0 < int((batch.place // 8 < 20).sum()) < 60
    require_transitions(batch, steps)


def test_calls_read_nothing_on_the_host():
    worlds = Worlds()
    replay, _ = filled_replay(worlds, 8 * 13, 30, 2, 2, 0.5)
    samples = worlds.rollout()
    with HostReads():
        replay.add(samples)
        batch = replay.sample(torch.tensor(0.4))
        replay.set_priorities(batch, torch.rand(30))


def _rounds(worlds, replay, exponent):
    """Return batches of several rounds of adding, sampling and priorities."""
    batches, beta = [], () if exponent is None else (0.5,)
    for number in range(4):
        replay.add(worlds.rollout())
        batches.append(replay.sample(*beta))
        if exponent is not None:
            error = torch.rand(50, generator=torch.Generator().manual_seed(number)).to(replay.device)
            replay.set_priorities(batches[-1], error)
    return batches


@pytest.mark.gpu
@pytest.mark.parametrize("exponent", [None, 0.6])
@pytest.mark.parametrize("form", FORMS)
def test_a_gpu_has_the_bits_of_the_cpu(form, exponent):
    found = []
    for device in ("cpu", "cuda:0"):
        worlds = Worlds(**FORMS[form], device=device)
        replay = Replay(worlds.rows, 13 * worlds.rows.num_samples, 50, 0.9, 7, device, 3, exponent)
        found.append(_rounds(worlds, replay, exponent))
    for here, there in zip(*found, strict=True):
        require_equal(here, there)


@pytest.mark.gpu
@pytest.mark.parametrize("exponent", [None, 0.6])
def test_a_graph_has_the_bits_of_eager_calls(exponent):
    beta = () if exponent is None else (torch.tensor(0.5, device="cuda:0"),)
    worlds = Worlds(by_world=True, shared=True, mask=True, device="cuda:0")
    rollouts = [worlds.rollout() for _ in range(9)]
    slabs = dataclasses.replace(rollouts[0], **{
        name: x.clone() for name, x in vars(rollouts[0]).items() if isinstance(x, torch.Tensor)
    }, obs={name: x.clone() for name, x in rollouts[0].obs.items()},
        final_obs={name: x.clone() for name, x in rollouts[0].final_obs.items()})  # fmt: skip
    error = torch.rand(40, device="cuda:0")
    eager, captured = (Replay(worlds.rows, 4 * 13, 40, 0.9, 7, "cuda:0", 3, exponent) for _ in range(2))

    def fill(samples):
        for name, x in vars(samples).items():
            for to, value in zip(*((y.values() if isinstance(y, dict) else [y]) for y in (getattr(slabs, name), x)), strict=True):
                if isinstance(value, torch.Tensor):
                    to.copy_(value)

    def update(replay, samples):
        replay.add(samples)
        batches = [replay.sample(*beta) for _ in range(2)]
        if exponent is not None:
            replay.set_priorities(batches[1], error)
        return batches

    for samples in rollouts[:2]:
        fill(samples)
        update(eager, samples)
        update(captured, slabs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = update(captured, slabs)
    for samples in rollouts[2:]:
        fill(samples)
        graph.replay()
        for one, other in zip(update(eager, samples), recorded, strict=True):
            require_equal(one, other)
        assert torch.equal(eager.filled, captured.filled)


def test_warnings_of_a_state_with_transitions_are_none():
    replay, _ = filled_replay(Worlds(), 8 * 13, 4, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replay.load_state_dict(replay.state_dict(), "here")
