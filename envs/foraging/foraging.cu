// Level-based foraging: one team a world, one player a lane. Players move at once and load food beside them together.
// Cells are packed as row << 16 | column. Rules: README.md in this folder.
#include "world.h"

enum { NONE, NORTH, SOUTH, WEST, EAST, LOAD };

// Marks cells of `food` during a start that can get no food.
constexpr int TAKEN = -1;

// The start as in the original: places are drawn again until they are free, those of food at most 1,000 times in all.
constexpr int MOST_DRAWS = 1000;

GV_INLINE int pack(int row, int col) {
    return row << 16 | col;
}

GV_INLINE int row_of(int cell) {
    return cell >> 16;
}

GV_INLINE int col_of(int cell) {
    return cell & 0xffff;
}

GV_INLINE int& food_in(GvWorld& w, int cell) {
    return w.at.food(row_of(cell), col_of(cell));
}

GV_INLINE bool on_board(GvWorld& w, int row, int col) {
    return row >= 0 && row < w.sizes.rows && col >= 0 && col < w.sizes.cols;
}

// Level of the food in a cell, 0 outside the board.
GV_INLINE int food_at(GvWorld& w, int row, int col) {
    return on_board(w, row, col) ? w.at.food(row, col) : 0;
}

// One lane places the players and marks their cells.
GV_FN void place_players(GvWorld& w) {
    const auto& p = w.params;
    int draws = 0;
    for (int i = 0; i < w.agents.count(); ++i) {
        int row, col;
        do {
            const auto drawn = w.draw(0, draws++);
            row = drawn.below(w.sizes.rows);
            col = drawn.below(w.sizes.cols, 1);
            w.state.player_level[i] = p.min_player_level + drawn.below(p.max_player_level - p.min_player_level + 1, 2);
        } while (w.at.food(row, col) == TAKEN);
        w.at.food(row, col) = TAKEN;
        w.at.player_pos(i, 0) = row;
        w.at.player_pos(i, 1) = col;
    }
}

// Sum of the three lowest levels of players, or of all if there are fewer.
GV_FN int lowest_levels(GvWorld& w) {
    constexpr int NO_LEVEL = 1 << 16;
    int first = NO_LEVEL, second = NO_LEVEL, third = NO_LEVEL;
    for (int i = 0; i < w.agents.count(); ++i) {
        const int level = w.state.player_level[i];
        if (level < first) {
            third = second, second = first, first = level;
        } else if (level < second) {
            third = second, second = level;
        } else if (level < third) {
            third = level;
        }
    }
    return first + (second < NO_LEVEL ? second : 0) + (third < NO_LEVEL ? third : 0);
}

// Marks the free cells that are too close to a food: its eight neighbours, and those two cells away in its row or column.
// Food is never on the rim, so cells there stay unmarked. Returns the number of marked cells.
GV_FN int mark_around(GvWorld& w, int row, int col) {
    int marked = 0;
    for (int y = -2; y <= 2; ++y) {
        for (int x = -2; x <= 2; ++x) {
            const bool close = (y * y <= 1 && x * x <= 1) || y == 0 || x == 0;
            const int r = row + y, c = col + x;
            const bool inner = r > 0 && r < w.sizes.rows - 1 && c > 0 && c < w.sizes.cols - 1;
            if (close && inner && w.at.food(r, c) == 0) {
                w.at.food(r, c) = TAKEN;
                ++marked;
            }
        }
    }
    return marked;
}

// One lane places the food. It stops early if no cell is left, since further draws would change nothing.
GV_FN void place_food(GvWorld& w) {
    const auto& p = w.params;
    const int highest = p.max_food_level > 0 ? p.max_food_level : lowest_levels(w);
    const int lowest = p.force_coop ? highest : p.min_food_level;
    const int inner_rows = w.sizes.rows - 2, inner_cols = w.sizes.cols - 2;
    int left = inner_rows * inner_cols;
    for (int i = 0; i < w.agents.count(); ++i) {
        const int row = w.at.player_pos(i, 0), col = w.at.player_pos(i, 1);
        left -= row > 0 && row <= inner_rows && col > 0 && col <= inner_cols;
    }
    int placed = 0, spawned = 0;
    for (int i = 0; i < MOST_DRAWS && left > 0 && placed < w.sizes.max_num_food; ++i) {
        const auto drawn = w.draw(1, i);
        const int row = 1 + drawn.below(inner_rows), col = 1 + drawn.below(inner_cols, 1);
        if (w.at.food(row, col) != 0) continue;
        const int level = lowest + drawn.below(highest - lowest + 1, 2);
        w.at.food(row, col) = level;
        spawned += level;
        ++placed;
        left -= 1 + mark_around(w, row, col);
    }
    w.state.food_spawned = spawned;
}

GV_FN void env_reset(GvWorld& w) {
    const int cells = w.sizes.rows * w.sizes.cols;
    for (int cell : w.each(cells)) w.state.food[cell] = 0;
    w.barrier();
    if (w.once) {
        place_players(w);
        place_food(w);
    }
    w.barrier();
    for (int cell : w.each(cells)) {
        if (w.state.food[cell] == TAKEN) w.state.food[cell] = 0;
    }
}

// Cell of the food beside a cell, -1 for none. No start has two foods beside one cell.
GV_INLINE int food_beside(GvWorld& w, int row, int col) {
    if (food_at(w, row - 1, col) > 0) return pack(row - 1, col);
    if (food_at(w, row + 1, col) > 0) return pack(row + 1, col);
    if (food_at(w, row, col - 1) > 0) return pack(row, col - 1);
    if (food_at(w, row, col + 1) > 0) return pack(row, col + 1);
    return -1;
}

// Reward of a player that loads food, with all others that load it; notes in scratch if they load it.
GV_INLINE float load(GvWorld& w, int player, int cell) {
    int levels = 0;
    for (int j = 0; j < w.agents.count(); ++j) {
        if (w.scratch.wanted[j] == cell) levels += w.state.player_level[j];
    }
    const int food = food_in(w, cell);
    if (levels < food) return 0.0f - w.params.penalty;
    w.scratch.loaded[player] = 1;
    const float reward = (float)(w.state.player_level[player] * food);
    return w.params.normalize_reward ? reward / ((float)levels * (float)w.state.food_spawned) : reward;
}

// ---- the list of foods --------------------------------------------------------------------------------------------------------

// Notes cell number `cell` if it has food, in any order. Foods beyond the room of the list are only counted.
GV_INLINE void note_food(GvWorld& w, int cell, int level) {
    if (level <= 0) return;
    const int place = gv_fetch_add(&w.scratch.num_foods[0]);
    if (place < w.sizes.max_num_food) w.scratch.noted[place] = cell;
}

// Notes the foods on the board, whose number must be 0 before. If its address allows, a lane reads a row of vectors before it notes
// their foods, so that it waits for memory once a row.
GV_FN void note_foods(GvWorld& w) {
    typedef GvVec<gv_i32, 4> Four;
    constexpr int ROW = 4;
    const int cells = w.sizes.rows * w.sizes.cols, fours = cells / 4;
    const gv_i32* food = &w.state.food[0];
    if (GV_VECTOR_STORES && cells % 4 == 0 && (gv_u64)food % sizeof(Four) == 0) {
        for (int row : w.each((fours + ROW - 1) / ROW)) {
            Four read[ROW];
            GV_UNROLL for (int i = 0; i < ROW; ++i) {
                const int k = ROW * row + i;
                read[i] = k < fours ? ((const Four*)food)[k] : Four{};
            }
            GV_UNROLL for (int i = 0; i < 4 * ROW; ++i) note_food(w, 4 * ROW * row + i, read[i / 4].value[i % 4]);
        }
        return;
    }
    for (int cell : w.each(cells)) note_food(w, cell, food[cell]);
}

// Orders the noted foods row by row, as observations have them. No result depends on the order in which they were noted.
GV_FN void order_foods(GvWorld& w) {
    const int noted = w.scratch.num_foods[0];
    if (noted > w.sizes.max_num_food) return;
    gv_i32* const foods = &w.scratch.foods[0];
    for (int i : w.each(noted)) {
        const int cell = w.scratch.noted[i];
        int place = 0;  // of this lane alone, because cells differ
        for (int j = 0; j < noted; ++j) place += w.scratch.noted[j] < cell;
        foods[place] = pack(cell / w.sizes.cols, cell % w.sizes.cols);
    }
}

// Lists the first foods row by row, if the board has more than the list has room for, which only a state from outside has. One lane
// calls it.
GV_FN void cut_foods(GvWorld& w) {
    if (w.scratch.num_foods[0] <= w.sizes.max_num_food) return;
    int found = 0;
    for (int cell = 0; found < w.sizes.max_num_food && cell < w.sizes.rows * w.sizes.cols; ++cell) {
        if (w.state.food[cell] > 0) w.scratch.foods[found++] = pack(cell / w.sizes.cols, cell % w.sizes.cols);
    }
    w.scratch.num_foods[0] = found;
}

// ---- steps --------------------------------------------------------------------------------------------------------------------

GV_FN void env_step(GvWorld& w) {
    if (w.once) w.scratch.num_foods[0] = 0;
    w.barrier();
    for (auto me : w.agents) {
        const int action = me.action.index(), row = me.player_pos[0], col = me.player_pos[1];
        const int r = row + (action == SOUTH) - (action == NORTH), c = col + (action == EAST) - (action == WEST);
        const bool free = on_board(w, r, c) && food_at(w, r, c) == 0;
        w.scratch.target[me.index] = free ? pack(r, c) : pack(row, col);
        w.scratch.wanted[me.index] = action == LOAD ? food_beside(w, row, col) : -1;
        w.scratch.loaded[me.index] = 0;
    }
    note_foods(w);
    w.barrier();
    for (auto me : w.agents) {
        const int target = w.scratch.target[me.index], wanted = w.scratch.wanted[me.index];
        int arriving = 0;
        for (int j = 0; j < w.agents.count(); ++j) arriving += w.scratch.target[j] == target;
        if (arriving == 1) {
            me.player_pos[0] = row_of(target);
            me.player_pos[1] = col_of(target);
        }
        me.reward = wanted >= 0 ? load(w, me.index, wanted) : 0.0f;
    }
    order_foods(w);
    w.barrier();
    if (w.once) {
        for (int j = 0; j < w.agents.count(); ++j) {
            if (w.scratch.loaded[j]) food_in(w, w.scratch.wanted[j]) = 0;
        }
        cut_foods(w);
        bool any_left = false;
        for (int i = 0; i < w.scratch.num_foods[0]; ++i) any_left |= food_in(w, w.scratch.foods[i]) > 0;
        w.terminate(!any_left);
        w.truncate_at(w.params.max_episode_steps);
    }
}

// ---- observations -------------------------------------------------------------------------------------------------------------

// Row, column and, if it is shown, level, at a place of a row; returns the next place.
GV_INLINE int write_entry(const GvObsRow& row, int at, int y, int x, int level, bool shown = true) {
    row[at] = (float)y;
    row[at + 1] = (float)x;
    if (shown) row[at + 2] = (float)level;
    return at + (shown ? 3 : 2);
}

// Foods in sight, then the player, then other players in sight. Rows and columns count from the first ones in sight.
GV_INLINE void observe_one(GvWorld& w, int player, const GvObsRow& row) {
    const bool shown = w.sizes.observe_agent_levels;
    const int sight = w.params.sight, y = w.at.player_pos(player, 0), x = w.at.player_pos(player, 1);
    const int top = y > sight ? y - sight : 0, left = x > sight ? x - sight : 0;
    int at = 0;
    for (int i = 0; i < w.scratch.num_foods[0]; ++i) {
        const int cell = w.scratch.foods[i], r = row_of(cell), c = col_of(cell), level = food_in(w, cell);
        const bool seen = level > 0 && r >= top && r <= y + sight && c >= left && c <= x + sight;
        if (seen) at = write_entry(row, at, r - top, c - left, level);
    }
    while (at < 3 * w.sizes.max_num_food) at = write_entry(row, at, -1, -1, 0);
    at = write_entry(row, at, y - top, x - left, w.state.player_level[player], shown);
    for (int j = 0; j < w.agents.count(); ++j) {
        const int r = w.at.player_pos(j, 0) - top, c = w.at.player_pos(j, 1) - left;
        const bool seen = j != player && r >= 0 && r <= 2 * sight && c >= 0 && c <= 2 * sight;
        if (seen) at = write_entry(row, at, r, c, w.state.player_level[j], shown);
    }
    while (at < w.sizes.num_features) at = write_entry(row, at, -1, -1, 0, shown);
}

// After a step, scratch has the list of foods; those that were loaded have level 0.
GV_FN void env_observe_step(GvWorld& w) {
    for (auto me : w.agents) observe_one(w, me.index, me.obs);
}

GV_FN void env_observe(GvWorld& w) {
    if (w.once) w.scratch.num_foods[0] = 0;
    w.barrier();
    note_foods(w);
    w.barrier();
    order_foods(w);
    w.barrier();
    if (w.once) cut_foods(w);
    w.barrier();
    for (auto me : w.agents) observe_one(w, me.index, me.obs);
}
