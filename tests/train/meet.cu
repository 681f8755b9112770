// Agents on a ring of cells are paid together for each step at whose end all of them are in one cell. An agent observes the next
// agent's place beside its own alone.
#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) me.cell = w.draw(0, me.index).below(w.params.num_cells);
}

GV_FN void env_step(GvWorld& w) {
    const int agents = w.agents.count(), cells = w.params.num_cells;
    for (auto me : w.agents) me.cell = (me.cell + cells - 1 + me.action.index()) % cells;
    w.barrier();
    const int together = w.count(w.agents, [&](auto it) { return it.cell == w.state.cell[0]; });
    for (auto me : w.agents) me.reward = together == agents ? 1.0f : 0.0f;
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

GV_FN void env_observe(GvWorld& w) {
    const int agents = w.agents.count(), cells = w.params.num_cells;
    for (auto me : w.agents) {
        const int ahead = (w.state.cell[(me.index + 1) % agents] - me.cell + cells) % cells;
        for (int cell = 0; cell < cells; ++cell) me.obs[cell] = cell == ahead ? 1.0f : 0.0f;
    }
}
