"""The robot warehouse: steps that the original recorded, steps and starts against the reference, ids and errors."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv
from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.envs.rware.reference import RwareReference
from gpu_vecenv.envs.rware.spec import SPEC
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train.config import PRESETS
from gpu_vecenv.train.config.presets import preset_of
from gpu_vecenv.variants import VARIANTS
from tests.devices import DEVICES
from tests.envs.rware_original import CONFIGURATIONS, KEYS, RECORDED, RECORDING, crowded_state, random_actions

WORLDS = 60


def make(num_envs, device="cpu", env_id="WarpRware-v2", **options):
    options = {"autoreset_mode": "disabled", **options}
    return gymnasium.make_vec(env_id, num_envs=num_envs, device=device, array="numpy", **options).unwrapped


def set_state(env, state):
    present = env.get_state()
    env.set_state({name: values.astype(present[name].dtype) for name, values in state.items()})


@pytest.fixture(scope="module")
def recording():
    with np.load(RECORDING) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", RECORDED)
def test_a_step_from_every_recorded_state_is_the_originals(name, recording, device):
    data = {key.partition("/")[2]: array for key, array in recording.items() if key.startswith(f"{name}/")}
    env = make(len(data["done"]), device, **CONFIGURATIONS[name])
    env.reset(seed=0)
    set_state(env, {key: data[key] for key in KEYS})
    *_, terminated, truncated, info = env.step(data["actions"].astype(np.int32))
    np.testing.assert_array_equal(info["agent_reward"], data["rewards"])
    np.testing.assert_array_equal(terminated | truncated, data["done"])
    after = env.get_state()
    for key in set(KEYS) - {"request_queue"}:
        np.testing.assert_array_equal(after[key], data[f"after_{key}"], err_msg=key)
    # New requests are drawn, at the places of the same deliveries.
    before, queue, theirs = data["request_queue"], after["request_queue"], data["after_request_queue"]
    delivered = before != theirs
    np.testing.assert_array_equal(queue != before, delivered)
    assert (data["rewards"].any(1) >= delivered.any(1)).all() and delivered.any()
    assert all(len(set(requests)) == len(requests) for requests in queue.tolist())
    set_state(env, {key: data[f"after_{key}"] for key in KEYS})
    np.testing.assert_array_equal(env.observe(), data["obs"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("collision", ["resolve", "end"])
@pytest.mark.parametrize("name", ["tiny, 4 robots", "messages", "two stages", "inactivity", "a drawing"])
def test_a_step_of_a_crowd_matches_the_reference(name, collision, device):
    given = {**CONFIGURATIONS[name], "collision": collision}
    params, generator = SPEC.resolve(given), np.random.default_rng(1)
    env = make(WORLDS, device, **given)
    env.reset(seed=2)
    starts = env.get_state()
    floor = floor_of(params)
    crowds = [crowded_state(generator, {key: starts[key][i] for key in KEYS}, floor, params) for i in range(WORLDS)]
    set_state(env, {key: np.stack([crowd[key] for crowd in crowds]) for key in KEYS})
    env.set_state({"inactive_steps": generator.integers(0, 24, WORLDS, dtype=np.int32)})
    before, actions = env.get_state(), random_actions(generator, WORLDS, params["n_agents"], params["msg_bits"])
    obs, _, terminated, truncated, info = env.step(actions)
    after = env.get_state()
    for i in range(WORLDS):
        reference = RwareReference(params)
        reference.set_state({key: values[i] for key, values in before.items()})
        seen, paid, over, late = reference.step(actions[i])
        for key, value in reference.get_state().items():
            np.testing.assert_array_equal(after[key][i], value, err_msg=key)
        np.testing.assert_array_equal(obs[i], seen)
        np.testing.assert_array_equal(info["agent_reward"][i], paid)
        assert (terminated[i], truncated[i]) == (over, late)
    assert (0 < terminated.sum() < WORLDS) == (collision == "end" or name == "inactivity")


def test_the_robot_of_lowest_number_moves_where_chains_of_one_length_meet():
    """Two chains lead down to one cell from the left and right: robots 3, 1 and 2, 0, the second of each at the front."""
    env = make(2, n_agents=4, layout="......\n......\n..xx..\n..g...", request_queue_size=0)
    env.reset(seed=0)
    places = np.array([[4, 1], [2, 1], [5, 1], [1, 1]])
    set_state(env, {"agent_pos": np.stack([places, places[[1, 0, 3, 2]]]), "agent_dir": np.array([[2, 3, 2, 3], [3, 2, 3, 2]])})
    env.step(np.ones((2, 4), np.int32))
    moved = (env.get_state()["agent_pos"] != np.stack([places, places[[1, 0, 3, 2]]])).any(-1)
    np.testing.assert_array_equal(moved, [[True, False, True, False]] * 2)


@pytest.mark.parametrize("device", DEVICES)
def test_starts_are_uniform(device):
    """20,000 starts: places and directions of robots and requested shelves. Each count is within five deviations."""
    env = make(20_000, device, request_queue_size=3, n_agents=3)
    env.reset(seed=4)
    state = env.get_state()
    cells = state["agent_pos"][..., 1].astype(int) * 10 + state["agent_pos"][..., 0]
    for values, choices in ((cells, 110), (state["agent_dir"], 4), (state["request_queue"], 32)):
        for column in values.T:  # each robot and each place of the queue
            counts = np.bincount(column, minlength=choices)
            expected = 20_000 / choices
            assert len(counts) == choices and np.abs(counts - expected).max() < 5 * expected**0.5
    for values in (cells, state["request_queue"]):
        assert (np.diff(np.sort(values, axis=1), axis=1) > 0).all()
    assert (state["shelf_pos"] == floor_of(env.params).homes).all() and (state["carrying"] == -1).all()


def test_ids_have_the_originals_parameters():
    assert len(VARIANTS) >= 4 * 19 * 3
    for env_id, shelves, robots, requests in (
        ("WarpRware-tiny-1ag-hard-v2", 32, 1, 0),
        ("WarpRware-medium-3ag-hard-v2", 144, 3, 1),
        ("WarpRware-large-19ag-easy-v2", 224, 19, 38),
    ):
        env = make(1, env_id=env_id)
        env.reset(seed=0)
        state = env.get_state()
        assert [len(state[name][0]) for name in ("shelf_pos", "agent_dir", "request_queue")] == [shelves, robots, requests]
        env.close()
    assert make(1, env_id="WarpRware-tiny-2ag-v2", n_agents=5).num_agents == 5  # a keyword replaces a parameter of the id


def test_an_id_with_parameters_trains_with_the_preset_of_its_env():
    preset = preset_of("WarpRware-tiny-2ag-easy-v2")
    assert preset.ppo == PRESETS["WarpRware-v2"].ppo and preset.env_kwargs == {}
    with pytest.raises(ParameterError, match="expected an id of another package"):
        gpu_vecenv.register_preset("WarpRware-tiny-2ag-easy-v2", preset)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"shelf_columns": 4}, "shelf_columns must be odd, got 4"),
        ({"request_queue_size": 32}, "below the number of shelves, 32"),
        ({"n_agents": 111}, "a cell for each robot, got 110 cells and 111 robots"),
        ({"column_height": 255, "shelf_rows": 3}, "at most 256 rows and columns, got 770 x 10"),
        ({"column_height": 200, "shelf_columns": 19, "n_agents": 200}, "at most 12160 together, got 11774 cells and 200 robots"),
        ({"reward_type": "shared"}, "reward_type must be one of individual, global, two_stage, got 'shared'"),
        ({"collision": None}, "collision must be one of resolve, end, got None"),
        ({"layout": "xg\nx"}, "lines of one length, got 2, 1"),
        ({"layout": "x?g"}, r"must consist of 'x', '.' and 'g', got \['\?'\]"),
        ({"layout": "xx."}, "must have a goal"),
        ({"layout": " "}, "layout must consist of"),
        ({"layout": 3}, "layout must be a text, got 3"),
        ({"layout": "xxxg", "normalised_coordinates": True}, "needs two rows and two columns, got 1 x 4"),
    ],
)
def test_wrong_parameters_raise_an_error(params, message):
    with pytest.raises(ParameterError, match=message):
        SPEC.resolve(params)
