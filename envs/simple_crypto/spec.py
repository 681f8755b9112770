"""Spec of Crypto: a message that an adversary should not read. README.md in this folder has the rules."""

from pathlib import Path

from gpu_vecenv.envs.mpe.parts import COMMON, actions, comm, goal, row
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.roles import Role

WORDS = 4

SPEC = EnvSpec(
    name="WarpSimpleCrypto-v3",
    kernel=Path(__file__).with_name("hooks.py"),
    roles=(
        Role("eve", 1, row(lambda params: WORDS), actions(moves=False, words=WORDS)),
        Role("bob", 1, row(lambda params: 2 * WORDS), actions(moves=False, words=WORDS)),
        Role("alice", 1, row(lambda params: 2 * WORDS), actions(moves=False, words=WORDS)),
    ),
    params=COMMON,
    sizes=("continuous_actions",),
    state=(
        comm(speakers=3, words=WORDS),
        goal(2, "message, the number of a word"),
        goal(2, "key of Alice and Bob, the number of a word", name="key"),
    ),
    rewards={
        "eve": "to Eve: minus the squared distance of what it said from the message; 0 if it said nothing",
        "pair": "to Bob and Alice: Eve's squared distance minus Bob's, each 0 if nothing was said",
    },
)
