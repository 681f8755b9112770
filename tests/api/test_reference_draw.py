"""``gpu_vecenv.reference.draw()`` gives the bits of ``w.draw``, also for indices that 16 bits do not hold."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import gpu_vecenv
from gpu_vecenv import EnvSpec, Field, GpuVectorEnv, Role
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.reference import draw
from tests.kernels.test_rng import philox

INDICES = (0, 1, 65_535, 65_536, 65_537, 131_071, 131_072, 3 * 65_536 + 7, 2**31 - 1)
PURPOSES = (0, 1, 2, 0xFAFD)

KERNEL = """#include "world.h"
GV_FN void draw(GvWorld& w) {
    const gv_i32 purposes[] = {0, 1, 2, 0xFAFD};
    if (w.once) {
        for (gv_i32 p = 0; p < 4; ++p) {
            for (gv_i32 i = 0; i < COUNT; ++i) {
                const auto drawn = w.draw(purposes[p], w.tables.indices[i]);
                for (gv_i32 k = 0; k < 4; ++k) w.state.words[(p * COUNT + i) * 4 + k] = (gv_i32)drawn.word[k];
                w.state.uniform[p * COUNT + i] = drawn.uniform(3);
                w.state.below[p * COUNT + i] = drawn.below(1000, 2);
            }
        }
    }
}
GV_FN void env_reset(GvWorld& w) { draw(w); }
GV_FN void env_step(GvWorld& w) {
    draw(w);
    for (auto me : w.agents) me.reward = 0.0f;
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {0.0f};
}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    kernel = tmp_path_factory.mktemp("draws") / "draws.cu"
    kernel.write_text(KERNEL.replace("COUNT", str(len(INDICES))))
    shape = (len(PURPOSES), len(INDICES))
    return EnvSpec(
        name="Draws-v0", kernel=kernel, roles=(Role("agent", 1),), params=(),
        state=(Field("words", "int32", (*shape, 4), "words"), Field("uniform", "float32", shape, "numbers in [0, 1)"),
               Field("below", "int32", shape, "numbers below 1000")),
        tables=(gpu_vecenv.Table("indices", lambda params: np.array(INDICES), "indices", dtype="int32"),),
        observation=lambda params: Box(0, 1, (1,), np.float32), action=lambda params: Discrete(2),
    )  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_kernel_and_its_twin_draw_the_same_bits(spec, device):
    env = GpuVectorEnv(spec, num_worlds=3, device=device, array="numpy", autoreset_mode="disabled")
    seed = 2**63 + 12345
    env.reset(seed=seed)
    for step in range(3):
        state = env.get_state()
        for world in range(3):
            for p, purpose in enumerate(PURPOSES):
                twin = draw(seed, world, 0, step, purpose, np.array(INDICES))
                np.testing.assert_array_equal(state["words"][world, p].astype(np.uint32), twin.word)
                np.testing.assert_array_equal(state["uniform"][world, p], twin.uniform(3))
                np.testing.assert_array_equal(state["below"][world, p], twin.below(1000, 2))
        words = state["words"].reshape(-1, 4)
        assert len(np.unique(words, axis=0)) == len(words)  # no index draws what another draws for another purpose
        env.step(np.zeros(3, np.int32))


def test_small_indices_have_the_counter_of_the_paper():
    for agent in (0, 5, 65_535):
        assert draw(2**40 + 17, 5, 2, 7, 3, agent).word.tolist() == list(philox(2**40 + 17, (5, 2, 7, 3 << 16 | agent)))
    assert gpu_vecenv.reference.draw is draw


@pytest.mark.parametrize(
    "changed", [{"seed": -1}, {"seed": 2**64}, {"purpose": 0xFAFE}, {"agent": -1}, {"agent": 0.5}, {"step": -1}]
)
def test_arguments_out_of_range_are_refused(changed):
    with pytest.raises(ParameterError, match=f"draw: {next(iter(changed))} must"):
        draw(**{"seed": 1, "world_id": 0, "episode": 0, "step": 0, "purpose": 0, **changed})
