"""skrl's trainers and agents with the adapters, and the final observations of an env that resets within a step."""

import dataclasses
import importlib
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from gpu_vecenv.errors import MissingExtraError, ParameterError
from tests.devices import DEVICES

pytest.importorskip("skrl")
pytest.importorskip("tyro")
from skrl.agents.torch.dqn import DQN  # noqa: E402
from skrl.agents.torch.ppo import PPO  # noqa: E402
from skrl.envs.wrappers.torch import wrap_env  # noqa: E402
from skrl.memories.torch import RandomMemory  # noqa: E402
from skrl.models.torch import DeterministicMixin, Model, MultiCategoricalMixin  # noqa: E402
from skrl.multi_agents.torch.ippo import IPPO  # noqa: E402
from skrl.multi_agents.torch.mappo import MAPPO  # noqa: E402
from skrl.trainers.torch import SequentialTrainer  # noqa: E402
from skrl.utils import set_seed  # noqa: E402

from examples import skrl_ppo  # noqa: E402
from gpu_vecenv.adapters.skrl import SkrlEnv, SkrlMultiAgentEnv, with_final_observations  # noqa: E402

TAG = {"num_taggers": 1, "num_runners": 2, "episode_length": 6, "tagging_distance": 0.3}
NAMES = ["tagger_0", "runner_0", "runner_1"]
SINGLE = ["WarpCartPole-v1", "WarpAcrobot-v1", "WarpMountainCar-v0", "WarpMountainCarContinuous-v0", "WarpPendulum-v1"]
ROWS = [*((name, {}) for name in SINGLE), ("WarpTag-v0", TAG), ("WarpTag-v0", {**TAG, "continuous_actions": True}),
        ("WarpGridTag-v0", {"num_taggers": 2})]  # fmt: skip

QUIET = {"headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
KINDS = ("learning_rate_scheduler", "observation_preprocessor", "state_preprocessor", "value_preprocessor")
KWARGS = [f"{kind}_kwargs" for kind in KINDS]
"""Options of IPPO and MAPPO that take a dict by agent."""


def make(name="WarpCartPole-v1", num_worlds=4, device="cpu", view="agents", **options):
    return gymnasium.make_vec(name, num_worlds=num_worlds, device=device, view=view, **options)


def random_actions(env, steps):
    env.action_space.seed(0)
    return [torch.as_tensor(env.action_space.sample(), device=env.unwrapped.device) for _ in range(steps)]


class Policy(MultiCategoricalMixin, Model):
    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        MultiCategoricalMixin.__init__(self)
        self.net = torch.nn.Linear(self.num_observations, self.num_actions)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    """Value of the state if a state space is given, else of the observation."""

    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Linear(self.num_states or self.num_observations, 1)

    def compute(self, inputs, role=""):
        return self.net(inputs["states" if self.num_states else "observations"]), {}


class Values(DeterministicMixin, Model):
    """One value an action."""

    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Linear(self.num_observations, self.num_actions)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


def collect(agent_class, env, steps, tmp_path, **cfg):
    """Make ``steps`` steps without an update; return the agent's memory and its value network."""
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    models = {"policy": skrl_ppo.Policy(**spaces), "value": skrl_ppo.Value(**spaces)}
    memory = RandomMemory(memory_size=steps, num_envs=env.num_envs, device=env.device)
    nothing = {"directory": str(tmp_path), "write_interval": 0, "checkpoint_interval": 0}
    agent = agent_class(models=models, memory=memory, cfg={"rollouts": steps + 1, "experiment": nothing, **cfg}, **spaces)
    SequentialTrainer(env=env, agents=agent, cfg={**QUIET, "timesteps": steps}).train()
    return memory, models["value"]


# ---- one agent a row ----------------------------------------------------------------------------------------------


@pytest.mark.works("skrl", "every id in single-agent trainers, with one row for each agent, on the env's device")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name, options", ROWS, ids=[f"{name} {len(options)}" for name, options in ROWS])
def test_rows_equal_those_of_the_vector_env(name, options, device):
    set_seed(5)
    env, plain = SkrlEnv(make(name, device=device, **options)), make(name, device=device, **options)
    expected, _ = plain.reset(seed=5)
    obs, _ = env.reset()
    assert torch.equal(obs, expected)
    assert env.num_envs == len(obs) and env.num_agents == 1 and env.state() is None
    for action in random_actions(plain, 8):
        out = env.step(action.reshape(len(obs), -1))
        for got, wanted in zip(out[:4], plain.step(action)[:4], strict=True):
            assert torch.equal(got, wanted.reshape(len(obs), -1))
            assert str(got.device) == device and got.ndim == 2
    assert torch.equal(env.reset()[0], out[0])  # a later reset starts no episode
    assert env.render() is None
    env.close()


@pytest.mark.works("skrl", "actions and results stay on the device")
@pytest.mark.parametrize("device", DEVICES)
def test_actions_reach_the_env_as_tensors_on_its_device(device, tmp_path, monkeypatch):
    inner, seen = make(device=device), []
    step = inner.step
    monkeypatch.setattr(inner, "step", lambda actions: seen.append(actions) or step(actions))
    collect(PPO, SkrlEnv(inner), 3, tmp_path)
    assert len(seen) == 3
    assert all(isinstance(actions, torch.Tensor) and str(actions.device) == device for actions in seen)


@pytest.mark.works("skrl", "skrl's own wrapper of vector envs, with copies through the host")
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning", "ignore:Host actions:UserWarning")
@pytest.mark.parametrize("device", DEVICES)
def test_skrls_own_wrapper(device):
    set_seed(5)
    env, plain = wrap_env(make(device=device), verbose=False), make(device=device)
    assert torch.equal(env.reset()[0], plain.reset(seed=5)[0])
    for action in random_actions(plain, 8):
        for got, wanted in zip(env.step(action.view(-1, 1))[:4], plain.step(action)[:4], strict=True):
            assert torch.equal(got, wanted.reshape(4, -1))


def test_the_memory_holds_the_observations_that_were_acted_on(tmp_path):
    """skrl stores an observation after the next step."""
    set_seed(3)
    memory, _ = collect(PPO, SkrlEnv(make(max_episode_steps=5)), 12, tmp_path)
    plain = make(max_episode_steps=5)
    obs, _ = plain.reset(seed=3)
    stored = [memory.get_tensor_by_name(name) for name in ("observations", "actions", "rewards")]
    for before, action, reward in zip(*stored, strict=True):
        assert torch.equal(before, obs)
        obs, expected, *_ = plain.step(action.flatten().long())
        assert torch.equal(reward.flatten(), expected)


@pytest.mark.limit("skrl", "copy=False: skrl stores an observation after the next step has overwritten it")
@pytest.mark.parametrize("wrap", [lambda: SkrlEnv(make(copy=False)), lambda: SkrlMultiAgentEnv(tag_worlds(copy=False))])
def test_copy_false_raises_an_error(wrap):
    env = wrap()
    env.reset()
    one = torch.zeros(4, dtype=torch.long)
    with pytest.raises(ParameterError, match="expected an env with copy=True, got copy=False"):
        env.step(one if isinstance(env, SkrlEnv) else dict.fromkeys(NAMES, torch.zeros(4, 2, dtype=torch.long)))


# ---- the observation that ends an episode -------------------------------------------------------------------------


def bootstrapped(agent_class, tmp_path):
    """Yield two differences for each step that reaches the time limit.

    Both are the stored reward minus a reward plus discounted value: of the final observation, and of the next episode's first.
    """
    set_seed(7)
    cfg = {"time_limit_bootstrap": True, "discount_factor": 0.5}
    memory, value = collect(agent_class, SkrlEnv(make(max_episode_steps=3)), 6, tmp_path, **cfg)
    plain = make(max_episode_steps=3)
    plain.reset(seed=7)
    for t in range(6):
        obs, reward, _, truncated, info = plain.step(memory.get_tensor_by_name("actions")[t].flatten().long())
        if truncated.any():
            assert truncated.all()
            stored = memory.get_tensor_by_name("rewards")[t]
            with torch.no_grad():
                yield tuple(stored - reward.view(-1, 1) - 0.5 * value.net(seen) for seen in (info["final_obs"], obs))


@pytest.mark.works("skrl", "bootstrapping from the true last observation at time limits")
def test_time_limits_bootstrap_from_the_last_observation(tmp_path):
    differences = list(bootstrapped(with_final_observations(PPO), tmp_path))
    assert len(differences) == 2
    for from_last, from_first in differences:
        torch.testing.assert_close(from_last, torch.zeros(4, 1))
        assert (from_first.abs() > 1e-4).all()


@pytest.mark.limit("skrl", "bootstrapping without with_final_observations: skrl uses the next episode's first observation")
def test_without_final_observations_skrl_bootstraps_from_the_next_episode(tmp_path):
    for _, from_first in bootstrapped(PPO, tmp_path):
        torch.testing.assert_close(from_first, torch.zeros(4, 1))


@pytest.mark.works("skrl", "off-policy agents, with the true last observation in their memory")
def test_an_off_policy_memory_holds_the_last_observation(tmp_path):
    set_seed(7)
    env = SkrlEnv(make(max_episode_steps=3))
    memory = RandomMemory(memory_size=6, num_envs=4)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    networks = {name: Values(**spaces) for name in ("q_network", "target_q_network")}
    cfg = {"learning_starts": 100, "experiment": {"directory": str(tmp_path), "write_interval": 0, "checkpoint_interval": 0}}
    agent = with_final_observations(DQN)(models=networks, memory=memory, cfg=cfg, **spaces)
    SequentialTrainer(env=env, agents=agent, cfg={**QUIET, "timesteps": 6}).train()
    plain = make(max_episode_steps=3)
    plain.reset(seed=7)
    stored = memory.get_tensor_by_name
    for t in range(6):
        obs, _, _, _, info = plain.step(stored("actions")[t].flatten().long())
        ended = info["_final_obs"]
        assert bool(ended.all()) == (t in (2, 5))
        assert torch.equal(stored("next_observations")[t], torch.where(ended.view(-1, 1), info["final_obs"], obs))


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"tagger_0": x}], ids=["one agent", "by agent"])
def test_transitions_hold_the_last_observations_and_states(wrap):
    """Final observations where an episode ended, next observations elsewhere; the rest of the transition is unchanged."""

    class Recorder:
        def record_transition(self, **transition):
            self.seen = transition

    agent = with_final_observations(Recorder)()
    names = ("next_observations", "next_states")
    following = {name: wrap(torch.tensor([[1.0], [2.0]]) + 10 * i) for i, name in enumerate(names)}
    infos = {"ended": torch.tensor([[True], [False]]), "final_observations": wrap(torch.tensor([[3.0], [4.0]])),
             "final_states": wrap(torch.tensor([[13.0], [14.0]]))}  # fmt: skip
    agent.record_transition(**following, infos=infos, rewards=7)
    assert agent.seen.keys() == {*names, "infos", "rewards"} and agent.seen["rewards"] == 7
    for name, expected in zip(names, ([[3.0], [2.0]], [[13.0], [12.0]]), strict=True):
        torch.testing.assert_close(agent.seen[name], wrap(torch.tensor(expected)))


# ---- several agents a world ---------------------------------------------------------------------------------------


def tag_worlds(device="cpu", **options):
    return make("WarpTag-v0", device=device, view="worlds", **TAG, **options)


@pytest.mark.works("skrl", "Tag as dicts by agent, for multi-agent trainers")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"flatten_actions": True}, {"continuous_actions": True}], ids=str)
def test_dicts_by_agent_hold_the_results_of_the_vector_env(options, device):
    set_seed(2)
    env, plain = SkrlMultiAgentEnv(tag_worlds(device, **options)), tag_worlds(device, **options)
    expected, _ = plain.reset(seed=2)
    assert env.agents == env.possible_agents == NAMES and env.num_agents == 3 and env.num_envs == 4
    obs, _ = env.reset()
    ended = 0
    for action in random_actions(plain, 10):
        for i, name in enumerate(NAMES):
            assert torch.equal(obs[name], expected[:, i])
            assert env.observation_spaces[name].shape == obs[name].shape[1:]
        assert torch.equal(env.state()["runner_0"], expected.reshape(4, -1))
        assert env.state_spaces["runner_0"] == Box(*(np.concatenate([getattr(env.observation_space(n), bound) for n in NAMES])
                                                     for bound in ("low", "high")), dtype=np.float32)  # fmt: skip
        obs, reward, terminated, truncated, infos = env.step(
            {name: action[:, i].reshape(4, -1) for i, name in reversed(list(enumerate(NAMES)))}
        )
        expected, _, *flags, info = plain.step(action)
        for i, name in enumerate(NAMES):
            assert torch.equal(reward[name], info["agent_reward"][:, i : i + 1])
            assert torch.equal(terminated[name].flatten(), flags[0]) and torch.equal(truncated[name].flatten(), flags[1])
        over = info["_final_obs"]
        ended += int(over.sum())
        assert torch.equal(infos["final_observations"]["runner_1"][over], info["final_obs"][over, 2])
        assert torch.equal(infos["final_states"]["tagger_0"][over], info["final_obs"][over].flatten(1))
        assert torch.equal(infos["ended"].flatten(), over)
    assert ended >= 4
    assert torch.equal(env.reset()[0]["runner_1"], obs["runner_1"])
    env.close()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("algorithm", [
    pytest.param(IPPO, marks=pytest.mark.works("skrl", "IPPO on a small game of Tag")),
    pytest.param(MAPPO, marks=pytest.mark.works("skrl", "MAPPO on a small game of Tag; its critic observes the whole world")),
])  # fmt: skip
def test_multi_agent_algorithms_train(algorithm, device, tmp_path):
    """An update changes every network; stored observations and rewards are the env's results for the stored actions."""
    set_seed(0)
    env = SkrlMultiAgentEnv(tag_worlds(device))
    models = {}
    for name in NAMES:
        spaces = {"observation_space": env.observation_space(name), "action_space": env.action_space(name), "device": env.device}
        state = {"state_space": env.state_space(name)} if algorithm is MAPPO else {}
        models[name] = {"policy": Policy(**spaces), "value": Value(**spaces, **state)}
    before = {name: {kind: model.net.weight.clone() for kind, model in both.items()} for name, both in models.items()}
    agent = with_final_observations(algorithm)(
        possible_agents=env.possible_agents,
        models=models,
        memories={name: RandomMemory(memory_size=8, num_envs=env.num_envs, device=env.device) for name in NAMES},
        observation_spaces=env.observation_spaces,
        state_spaces=env.state_spaces,
        action_spaces=env.action_spaces,
        device=env.device,
        cfg={
            "rollouts": 8,
            "time_limit_bootstrap": True,
            "experiment": {"directory": str(tmp_path), "checkpoint_interval": 0},
            **{option: {name: {} for name in NAMES} for option in KWARGS},
        },
    )
    SequentialTrainer(env=env, agents=agent, cfg={**QUIET, "timesteps": 8}).train()
    stored = {name: memory.get_tensor_by_name for name, memory in agent.memories.items()}
    plain, ended = tag_worlds(device), 0
    obs, _ = plain.reset(seed=0)
    for t in range(8):
        for i, name in enumerate(NAMES):
            assert torch.equal(stored[name]("observations")[t], obs[:, i])
            assert algorithm is IPPO or torch.equal(stored[name]("states")[t], obs.flatten(1))
        obs, *_, info = plain.step(torch.stack([stored[name]("actions")[t] for name in NAMES], dim=1).long())
        goes_on = ~info["_final_obs"]  # a bootstrapped value may be added to the last reward of an episode
        ended += int((~goes_on).sum())
        for i, name in enumerate(NAMES):
            assert torch.equal(stored[name]("rewards")[t, goes_on, 0], info["agent_reward"][goes_on, i])
    assert ended >= 4
    for name, both in models.items():
        for kind, model in both.items():
            assert torch.isfinite(model.net.weight).all()
            assert not torch.equal(model.net.weight.to("cpu"), before[name][kind].to("cpu")), (name, kind)


@pytest.mark.limit("skrl", "one model for each role in IPPO and MAPPO: they need a model for each agent, so games must be small")
def test_one_model_a_role_raises_an_error():
    by_role = {"tagger": {"policy": None, "value": None}, "runner": {"policy": None, "value": None}}
    with pytest.raises(KeyError, match="tagger_0"):
        IPPO(possible_agents=NAMES, models=by_role, cfg={option: {name: {} for name in NAMES} for option in KWARGS})


@pytest.mark.limit("skrl", "IPPO's and MAPPO's default options: each ..._kwargs must be a dict of dicts by agent")
@pytest.mark.parametrize("algorithm", [IPPO, MAPPO])
def test_options_must_be_given_by_agent(algorithm):
    with pytest.raises(ValueError, match="do not match possible agents"):
        algorithm(possible_agents=NAMES, models={name: {"policy": None, "value": None} for name in NAMES})


# ---- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap, text", [
    (lambda: SkrlEnv(make(array="numpy")), "SkrlEnv needs an env with array='torch', got 'numpy'"),
    (lambda: SkrlEnv(make(autoreset_mode="next_step")), "needs an env with autoreset_mode='same_step', got 'next_step'"),
    (lambda: SkrlEnv(tag_worlds()), "SkrlEnv needs an env with view='agents', got 'worlds'"),
    (lambda: SkrlMultiAgentEnv(make("WarpTag-v0", **TAG)), "SkrlMultiAgentEnv needs an env with view='worlds', got 'agents'"),
    (lambda: SkrlMultiAgentEnv(make()), "takes worlds of several agents, got one agent; use SkrlEnv"),
    (lambda: SkrlEnv(gymnasium.make_vec("CartPole-v1", num_envs=2)), "takes an env of this package, got CartPoleVectorEnv"),
])  # fmt: skip
def test_unsuitable_envs_raise_errors(wrap, text):
    with pytest.raises(ParameterError, match=text):
        wrap()


def test_without_skrl_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrl", None)
    monkeypatch.delitem(sys.modules, "gpu_vecenv.adapters.skrl")
    with pytest.raises(MissingExtraError, match=r"pip install \"gpu-vecenv\[skrl\]\""):
        importlib.import_module("gpu_vecenv.adapters.skrl")


# ---- the example --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_the_example_runs(device, tmp_path):
    args = skrl_ppo.Args(num_envs=4, total_steps=4 * 130, num_steps=32, eval_episodes=2, device=device, run_dir=str(tmp_path))
    result = skrl_ppo.train(args)
    assert set(result) == {"mean_return", "rows_per_second"} and all(np.isfinite(list(result.values())))
    assert list(tmp_path.rglob("events*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.works("skrl", "PPO solves CartPole")
def test_the_example_learns(device, tmp_path):
    result = skrl_ppo.train(dataclasses.replace(skrl_ppo.Args(), device=device, run_dir=str(tmp_path)))
    print(result)
    assert result["mean_return"] >= 475
