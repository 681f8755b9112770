"""Each check passes for a right env, and names the first difference of an env that is spoiled in one way."""

from dataclasses import dataclass, field

import pytest

from gpu_vecenv import testing
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.envs.grid_tag.reference import GridTagReference
from gpu_vecenv.errors import HookFault
from gpu_vecenv.testing.same_bits import require_same_run
from tests.debug.faulty import line_of

SMALL = {"num_taggers": 4, "grid_length": 3, "episode_length": 11}


@dataclass(frozen=True)
class Spoiled(testing.Subject):
    """Grid Tag whose state changes behind launches: ``spoil(env, name)`` gets the env and the name of the kernel."""

    env: str = "WarpGridTag-v0"
    params: dict = field(default_factory=lambda: SMALL)
    num_steps: int = 20
    spoil: object = None

    def make(self, backend=None, **options):
        env = super().make(backend, **options)
        if self.spoil is not None:
            inner, spoil = env.worlds.backend, self.spoil

            class Around:
                def __getattr__(self, name):
                    return getattr(inner, name)

                def launch(self, name, args, num_worlds):
                    undo = spoil(env, name)
                    inner.launch(name, args, num_worlds)
                    if undo is not None:
                        undo()

            env.worlds.backend = Around()
        return env


def add(field, world, agent, when):
    def spoil(env, name):
        if not when(env, name):
            return None

        def undo():
            env.worlds.state.fields[field][world, agent] += 1

        return undo

    return spoil


def unwritten(env, name):
    before = env.worlds.state.fields["loc_y"].copy()

    def undo():
        env.worlds.state.fields["loc_y"][:, 2] = before[:, 2]

    return undo if name == "gv_reset" else None


SPOILED = {
    "rollouts": (testing.check_rollouts, add("loc_x", 1, 3, lambda env, name: name == "gv_rollout"),
                 r"step 1\d, world 1, .*; in a rollout, not by single steps"),
    "autoreset": (testing.check_autoreset, add("loc_x", 1, 3, lambda env, name: env.autoreset_mode.name == "SAME_STEP"),
                  r"step \d of the world, world 1, .*; with autoreset_mode='same_step'"),
    "reset": (testing.check_reset, unwritten, "after the reset, world 0, agent 2, state loc_y: .*env_reset does not write it"),
    "values": (testing.check_values, add("loc_y", 3, 1, lambda env, name: name == "gv_step"),
               r"step \d+, world 3, agent 1, state loc_y: expected 0 to 3, as the field declares, got 4"),
    "worlds": (testing.check_worlds, add("loc_x", 2, 0, lambda env, name: env.num_worlds == 5),
               "world 0, .*; worlds 2 and 3 in an env of their own"),
    "reference": (testing.check_reference, add("loc_x", 1, 3, lambda env, name: name == "gv_step"),
                  r"step 1, world 1, agent 3, state loc_x: \d and \d; the second is the reference's"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_a_check_passes_and_notices(name):
    check, spoil, says = SPOILED[name]
    assert check(Spoiled()) and check(testing.Subject("WarpCartPole-v1", num_steps=20))
    with pytest.raises(testing.CheckError, match=says):
        check(Spoiled(spoil=spoil))


def test_a_build_with_other_bits_is_noticed():
    subject = testing.Subject("WarpGridTag-v0", SMALL, num_steps=10)

    class Other(CpuBackend):
        def launch(self, name, args, num_worlds):
            args["wall_hit_penalty"] = 0.75
            super().launch(name, args, num_worlds)

    with pytest.raises(testing.CheckError, match=r"^step \d, world 0, reward: .*; built with a team of 3"):
        require_same_run(subject, "built with a team of 3", Other)


def test_the_wrong_reference_is_noticed():
    class Reference(GridTagReference):
        def step(self, actions):
            obs, rewards, *flags = super().step(actions)
            return obs, rewards + 0.5 * self.is_runner, *flags

    with pytest.raises(testing.CheckError, match="step 1, world 0, agent 4, agent_reward: "):
        testing.check_reference(testing.Subject("WarpGridTag-v0", SMALL), Reference)


def test_a_reference_without_set_state_is_not_compared(monkeypatch):
    monkeypatch.delattr(GridTagReference, "set_state")
    with pytest.raises(testing.NotRunError, match=r"no class Reference with set_state\(\), .*Reference has no set_state\(\)"):
        testing.check_reference(testing.Subject("WarpGridTag-v0", SMALL))


NATIONS = [("WarpCovid-v0", {}), ("WarpRice-v0", {}), ("WarpRice-v0", {"negotiation_on": True, "observe": "whole"})]


@pytest.mark.parametrize(("env_id", "params"), NATIONS)
def test_envs_of_nations_are_compared_with_their_references(env_id, params):
    """Over more steps than the 30 days that the state of COVID-19 has, and than two rounds of negotiation."""
    assert testing.check_reference(testing.Subject(env_id, params, num_worlds=1, num_steps=35)) == "35 steps of 1 worlds"


def test_a_recording_is_repeated_or_its_first_difference_is_named(tmp_path):
    subject, file = testing.Subject("WarpGridTag-v0", SMALL, num_steps=12), tmp_path / "golden.npz"
    with pytest.raises(testing.NotRunError, match="no golden.npz beside the kernel"):
        testing.check_golden(subject)
    testing.record_golden(subject, file)
    assert testing.check_golden(testing.Subject("WarpGridTag-v0", SMALL), file) == "12 steps"
    other = testing.Subject("WarpGridTag-v0", {**SMALL, "wall_hit_penalty": 0.75})
    with pytest.raises(testing.CheckError, match=r"^step 1, world 0, reward: .*; the first is recorded in golden.npz"):
        testing.check_golden(other, file)


def test_a_debug_build_has_the_same_bits_and_names_a_wrong_index():
    assert testing.check_debug(testing.Subject("WarpGridTag-v0", SMALL, num_steps=10)) == "-O0 -g, indices checked"
    with pytest.raises(HookFault, match=rf"^faulty.cu:{line_of('w.state.cells[me')}: env_step: index -1 of w.state.cells"):
        testing.check_debug(testing.Subject("tests.debug.faulty:Faulty-v0", {"fault": 2}, num_steps=10))


def test_hooks_in_cpp_do_not_run_as_python():
    with pytest.raises(testing.NotRunError, match=r"written in C\+\+, cartpole.cu"):
        testing.check_python_hooks(testing.Subject("WarpCartPole-v1"))


def test_worlds_of_one_lane_have_no_races():
    with pytest.raises(testing.NotRunError, match="one lane"):
        testing.check_races(testing.Subject("WarpCartPole-v1"))


def test_an_episode_that_does_not_end_is_no_check_of_autoreset():
    with pytest.raises(testing.NotRunError, match="no episode ended in 3 steps"):
        testing.check_autoreset(testing.Subject("WarpPendulum-v1", {"max_episode_steps": 9}, num_steps=3))
