"""Sanitizers on the CPU builds: no race between lanes, no access outside an array, no undefined behaviour."""

import pytest

from tests.sanitize.replay import build, record, replay

pytestmark = pytest.mark.slow

THREADS = ("-DGV_LANES=4", "-fsanitize=thread")
BOUNDS = ("-fsanitize=address,undefined,float-cast-overflow,float-divide-by-zero", "-fno-sanitize-recover=all")
SMALL = {"num_taggers": 2, "num_runners": 5, "tagging_distance": 0.2, "episode_length": 6}

CASES = {
    "cartpole": ("WarpCartPole-v1", 30, {"num_envs": 3, "max_episode_steps": 12}),
    "cartpole, a pack and 3 worlds": ("WarpCartPole-v1", 30, {"num_envs": 35}),
    "cartpole, next step": ("WarpCartPole-v1", 30, {"num_envs": 3, "autoreset_mode": "next_step"}),
    "small": ("WarpTag-v0", 20, {"num_envs": 3, **SMALL}),
    "agents view": ("WarpTag-v0", 20, {"num_worlds": 3, "view": "agents", **SMALL}),
    "next step": ("WarpTag-v0", 20, {"num_envs": 3, "autoreset_mode": "next_step", **SMALL}),
    "disabled": ("WarpTag-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", **SMALL}),
    "full observation, no exits": (
        "WarpTag-v0", 20, {"num_envs": 3, "use_full_observation": True, "runner_exits_game_after_tagged": False, **SMALL}
    ),
    "one pair": ("WarpTag-v0", 20, {"num_envs": 3, **SMALL, "num_taggers": 1, "num_runners": 1, "flatten_actions": True}),
    "defaults": ("WarpTag-v0", 8, {"num_envs": 2, "tagging_distance": 0.1, "episode_length": 5}),
    "many neighbours": ("WarpTag-v0", 8, {"num_envs": 1, "num_runners": 60, "num_other_agents_observed": 40}),
    "town": ("Town-v0", 20, {"num_envs": 3, "max_episode_steps": 6}),
    "town, next step": ("Town-v0", 20, {"num_envs": 3, "autoreset_mode": "next_step", "max_episode_steps": 6}),
    "town, one citizen": ("Town-v0", 20, {"num_envs": 3, "num_citizens": 1, "max_episode_steps": 6}),
    "town, disabled": ("Town-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", "max_episode_steps": 6}),
    "harvest": ("Harvest-v0", 20, {"num_envs": 3, "regrowth": 0.3, "max_episode_steps": 6}),
    "harvest, agents view": ("Harvest-v0", 20, {"num_worlds": 3, "view": "agents", "map": 2, "max_episode_steps": 6}),
    "harvest, next step": ("Harvest-v0", 20, {"num_envs": 3, "map": 1, "autoreset_mode": "next_step", "max_episode_steps": 6}),
    "harvest, disabled": ("Harvest-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", "max_episode_steps": 6}),
    "pot": ("Pot-v0", 20, {"num_envs": 3, "max_episode_steps": 6}),
    "pot, disabled": ("Pot-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", "max_episode_steps": 6}),
    "choir, whole rows": ("Choir-v0", 20, {"num_worlds": 3, "whole": True, "view": "agents", "max_episode_steps": 6}),
    "rice": ("WarpRice-v0", 4, {"num_envs": 2}),
    "rice, negotiation, whole rows": ("WarpRice-v0", 7, {"num_envs": 2, "negotiation_on": True, "observe": "whole"}),
    "4,096 agents": ("WarpTag-v0", 1, {"num_envs": 1, "num_taggers": 96, "num_runners": 4000, "episode_length": 1}),
}  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return a maker of replaying programs; each is compiled once."""
    built = {}

    def make(spec, flags):
        if (spec.name, flags) not in built:
            built[spec.name, flags] = build(spec, tmp_path_factory.mktemp("program"), flags)
        return built[spec.name, flags]

    return make


@pytest.mark.parametrize("flags", [THREADS, BOUNDS], ids=["threads", "bounds"])
@pytest.mark.parametrize("case", CASES)
def test_a_recording_causes_no_sanitizer_error(case, flags, program, tmp_path):
    env_id, steps, options = CASES[case]
    spec = record(tmp_path / "recording", env_id, steps, **options)
    done = replay(program(spec, flags), tmp_path / "recording")
    assert done.returncode == 0 and done.stdout == "replayed\n", done.stderr[:4000]


MOVE = "GV_FOR(i, agents) move(a, team, scratch, i);\n    GV_ONCE set_world(a, scratch, t);\n"
RACES = {
    "no barrier after moving": {MOVE + "    gv_barrier(team);": MOVE},
    "no barrier inside a sum": {"gv_barrier_sums(team);\n    GV_ONCE a.reward": "GV_ONCE a.reward"},
    "every lane counts the step": {"GV_ONCE a.t[w] = t;": "a.t[w] = t;"},
    "a shared counter without an atomic": {
        "return index;\n    gv_fetch_add(a.invalid_actions);":
        "return index;\n    *a.invalid_actions = *a.invalid_actions + 1;",
    },
    "rewards scattered by runners": {
        "s.tagged_by[i] = catcher;":
        "s.tagged_by[i] = catcher; if (tagged) a.agent_reward[gv_row(a, team.world, catcher)] += a.tag_reward_for_tagger;",
    },
    "a list filled without an atomic": {"gv_fetch_add(scratch.tags)": "(*scratch.tags)++"},
}  # fmt: skip


@pytest.mark.parametrize("fault", RACES)
def test_a_planted_race_is_reported(fault, tmp_path):
    spec = record(tmp_path / "recording", "WarpTag-v0", 20, num_envs=2, num_taggers=2, num_runners=30, tagging_distance=0.3)
    done = replay(build(spec, tmp_path, THREADS, RACES[fault]), tmp_path / "recording")
    assert done.returncode != 0 and "WARNING: ThreadSanitizer: data race" in done.stderr


FAULTS = {
    "a reward beyond the last agent": (
        {"i)] = reward;\n    if (i >=": "i) + 1] = reward;\n    if (i >="}, "heap-buffer-overflow"
    ),
    "an action head beyond the table": ({"if (index >= 0 && index < n)": "if (index >= 0)"}, "heap-buffer-overflow|SEGV"),
    "a float too large for an integer": (
        {"(float)(draw.word[2] >> 30)": "(float)(gv_i32)((float)draw.word[2] * 1e9f)"}, "outside the range of representable"
    ),
    "a signed overflow": ({"a.episode[w] += 1;": "a.episode[w] += 2147483647;"}, "signed integer overflow"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_reported(fault, tmp_path):
    planted, words = FAULTS[fault]
    spec = record(tmp_path / "recording", "WarpTag-v0", 20, num_envs=2, **SMALL)
    done = replay(build(spec, tmp_path, BOUNDS, planted), tmp_path / "recording")
    assert done.returncode != 0 and any(word in done.stderr for word in words.split("|"))


OF_ROLES = {
    "a choice beyond a mask": ("Town-v0", BOUNDS, {"mask[REST] = 1;": "mask[REST] = mask[3] = 1;"}, "heap-buffer-overflow"),
    "a row beyond a role": (
        "Pot-v0", BOUNDS, {"gv_judge_obs(a, obs, w, 0)": "gv_judge_obs(a, obs, w, 1)"}, "heap-buffer-overflow"
    ),
    "no barrier after walking": (
        "Harvest-v0", THREADS, {"gv_barrier(team);\n    GV_FOR(i, agents) meet": "GV_FOR(i, agents) meet"}, "data race"
    ),
    "every lane records a metric": (
        "Town-v0", THREADS, {"GV_ONCE number = number ==": "number = number =="}, "data race"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", OF_ROLES)
def test_a_planted_fault_of_an_env_with_roles_is_reported(fault, tmp_path):
    env_id, flags, planted, words = OF_ROLES[fault]
    spec = record(tmp_path / "recording", env_id, 20, num_envs=2, max_episode_steps=6)
    done = replay(build(spec, tmp_path, flags, planted), tmp_path / "recording")
    assert done.returncode != 0 and words in done.stderr
