// Robot warehouse: one team a world. Robots move all at once, chains and rings of them together; a robot brings a requested shelf
// to a goal. Rules: README.md in this folder.
#include "world.h"

enum { FORWARD = 1, TURN_LEFT, TURN_RIGHT, TOGGLE };
enum { UP, DOWN, LEFT, RIGHT };
#define REQUESTED 0x8000  // bits of a cell in the layer of shelves, above the shelf's number
#define CARRIED 0x4000
#define NOBODY (-1)
#define GRID_ROUND 8  // cells of the grid that are cleared at once; spec.py rounds its length up to their multiple

// ---- places -------------------------------------------------------------------------------------------------------------------

// Cell of a place. A field has one bound for both coordinates, so a state from outside may lie beyond the shorter side.
GV_INLINE int cell_at(const GvWorld& w, int x, int y) {
    const int cols = w.params.cols, rows = w.params.rows;
    return (y < rows ? y : rows - 1) * cols + (x < cols ? x : cols - 1);
}
GV_INLINE int cell_of(const GvWorld& w, const GvAgent& me) { return cell_at(w, me.agent_pos[0], me.agent_pos[1]); }
GV_INLINE int cell_of_shelf(const GvWorld& w, int shelf) {
    return cell_at(w, w.state.shelf_pos[2 * shelf], w.state.shelf_pos[2 * shelf + 1]);
}

// The cell before a robot; its own cell at a wall.
GV_INLINE int cell_before(const GvWorld& w, const GvAgent& me) {
    const int x = me.agent_pos[0], y = me.agent_pos[1], to = me.agent_dir;
    const int beside = to == LEFT ? (x > 0 ? x - 1 : 0) : to == RIGHT ? x + 1 : x;
    const int above = to == UP ? (y > 0 ? y - 1 : 0) : to == DOWN ? y + 1 : y;
    return cell_at(w, beside, above);
}

// Layers of the grid: the number of the robot in each cell, and that of the shelf with its bits, plus 1 each; 0 for none. After a
// collision several robots may stand in one cell, which shows the last robot and the last carried shelf.
GV_FN void fill_grid(GvWorld& w) {
    typedef GvVec<gv_u16, GRID_ROUND> Cells;
    const int cells = w.params.rows * w.params.cols;
    gv_u16 *const robots = &w.scratch.grid[0], *const shelves = robots + cells;
    for (int k : w.each((2 * cells + GRID_ROUND - 1) / GRID_ROUND)) ((Cells*)robots)[k] = {};
    for (auto me : w.agents) w.scratch.here[me.index] = cell_of(w, me);
    w.barrier();
    for (auto me : w.agents) {
        const int cell = w.scratch.here[me.index], shelf = me.carrying;
        bool last = true, last_carrying = shelf >= 0;
        for (int j = me.index + 1; j < w.agents.count(); ++j) {
            if (w.scratch.here[j] != cell) continue;
            last = false;
            if (w.agents[j].carrying >= 0) last_carrying = false;
        }
        if (last) robots[cell] = (gv_u16)(me.index + 1);
        if (last_carrying) shelves[cell] = (gv_u16)(shelf + 1 | CARRIED);
    }
    w.barrier();
    for (int shelf : w.each(w.sizes.shelf_pos_axis0)) {
        const int cell = cell_of_shelf(w, shelf);
        if (!(shelves[cell] & CARRIED)) shelves[cell] = (gv_u16)(shelf + 1);  // standing shelves have cells of their own
    }
    w.barrier();
    for (int k : w.each(w.sizes.request_queue_size)) shelves[cell_of_shelf(w, w.state.request_queue[k])] |= REQUESTED;
    w.barrier();
}

// ---- start --------------------------------------------------------------------------------------------------------------------

// Puts a random element of the deck of n at place k; those before k were dealt. One lane deals.
GV_INLINE int deal(GvWorld& w, const GvDrawn& drawn, int k, int n) {
    const int chosen = k + drawn.below(n - k), element = w.scratch.grid[chosen];
    w.scratch.grid[chosen] = w.scratch.grid[k];
    w.scratch.grid[k] = (gv_u16)element;
    return element;
}

GV_FN void env_reset(GvWorld& w) {
    const int cols = w.params.cols, cells = w.params.rows * cols, shelves = w.sizes.shelf_pos_axis0;
    for (int k : w.each(cells)) w.scratch.grid[k] = (gv_u16)k;
    for (int k : w.each(2 * shelves)) w.state.shelf_pos[k] = w.tables.home[k];
    for (auto me : w.agents) {
        me.carrying = NOBODY;
        me.has_delivered = 0;
        for (int bit = 0; bit < w.sizes.msg_bits; ++bit) me.message[bit] = 0;
    }
    w.barrier();
    if (w.once) {
        for (int i = 0; i < w.agents.count(); ++i) {
            const auto drawn = w.draw(0, i);
            const int cell = deal(w, drawn, i, cells);
            auto me = w.agents[i];
            me.agent_pos[0] = (gv_u8)(cell % cols);
            me.agent_pos[1] = (gv_u8)(cell / cols);
            me.agent_dir = (gv_u8)drawn.below(4, 1);
        }
        w.state.inactive_steps = 0;
    }
    w.barrier();
    for (int k : w.each(shelves)) w.scratch.grid[k] = (gv_u16)k;
    w.barrier();
    if (w.once) {
        for (int k = 0; k < w.sizes.request_queue_size; ++k) {
            w.state.request_queue[k] = (gv_u16)deal(w, w.draw(1, k), k, shelves);
        }
    }
}

// ---- moves --------------------------------------------------------------------------------------------------------------------

// The cell that a robot asks for. A loaded robot does not ask for that of a standing shelf; if collisions end the episode, nor
// for that of a carried one.
GV_INLINE int asked_cell(const GvWorld& w, const GvAgent& me, int action) {
    const int here = w.scratch.here[me.index], before = action == FORWARD ? cell_before(w, me) : here;
    const int shelf = w.scratch.grid[w.params.rows * w.params.cols + before];
    const bool in_the_way = shelf != 0 && (w.params.ends_on_collision || !(shelf & CARRIED));
    return me.carrying >= 0 && before != here && in_the_way ? here : before;
}

GV_INLINE void turn(GvAgent& me, int action) {
    const int to = me.agent_dir;
    const int left = to == UP ? LEFT : to == LEFT ? DOWN : to == DOWN ? RIGHT : UP;
    if (action == TURN_LEFT) me.agent_dir = (gv_u8)left;
    if (action == TURN_RIGHT) me.agent_dir = (gv_u8)(left ^ 1);  // opposite directions differ in the last bit
}

// Takes the shelf of the cell, or puts the shelf down where no highway is.
GV_INLINE void toggle(GvWorld& w, GvAgent& me) {
    const int cell = w.scratch.here[me.index];
    if (me.carrying < 0) {
        const int shelf = w.scratch.grid[w.params.rows * w.params.cols + cell] & ~(REQUESTED | CARRIED);
        me.carrying = shelf - 1;  // NOBODY in a cell without a shelf
    } else if (!w.tables.highway[cell]) {
        me.carrying = NOBODY;
        if (w.params.two_stages && me.has_delivered) me.reward = 0.5f;
        me.has_delivered = 0;
    }
}

// Counts the robots behind each robot that would move if it does, in the longest chain of them. A ring has no end, so a walk ends
// after as many steps as there are robots.
GV_FN void count_behind(GvWorld& w) {
    for (int i = 0; i < w.agents.count(); ++i) {
        int at = i;
        for (int k = 0; k < w.agents.count() && at != NOBODY; ++k) {
            if (w.scratch.behind[at] < k) w.scratch.behind[at] = k;
            const int next = w.scratch.ahead[at];
            at = next == at ? NOBODY : next;
        }
    }
}

// True for the robot that enters its cell before all that ask for it: that of the longest chain, of equals the lowest number.
GV_INLINE bool is_first(const GvWorld& w, int i) {
    const auto& s = w.scratch;
    for (int j = 0; j < w.agents.count(); ++j) {
        if (j == i || s.target[j] != s.target[i] || s.ahead[j] == j) continue;
        if (s.behind[j] > s.behind[i] || (s.behind[j] == s.behind[i] && j < i)) return false;
    }
    return true;
}

// True if a robot enters the cell it asks for: it is part of a ring of more than two robots, or of the first chain to a free
// cell.
GV_FN bool moves(const GvWorld& w, int i) {
    bool first = true;
    int at = i;
    for (int k = 0; k < w.agents.count(); ++k) {
        first = first && is_first(w, at);
        const int next = w.scratch.ahead[at];
        if (next == NOBODY) return first;
        if (next == i) return k > 1;
        if (next == at) return false;
        at = next;
    }
    return false;  // it follows a ring
}

// Jumanji's rule: robots move one after the other, by number. Two robots collide in one cell, and a robot that enters a cell
// before a robot of higher number leaves it collides with that one.
GV_FN bool collides(const GvWorld& w, int i) {
    const auto& s = w.scratch;
    for (int j = 0; j < w.agents.count(); ++j) {
        if (j == i) continue;
        const bool leaves_later = j > i && s.ahead[i] == j && s.ahead[j] != j;
        if (s.target[j] == s.target[i] || leaves_later) return true;
    }
    return false;
}

// Puts the shelf of a robot in its cell.
GV_INLINE void carry_along(GvWorld& w, const GvAgent& me) {
    if (me.carrying < 0) return;
    w.state.shelf_pos[2 * me.carrying] = me.agent_pos[0];
    w.state.shelf_pos[2 * me.carrying + 1] = me.agent_pos[1];
}

// ---- deliveries ---------------------------------------------------------------------------------------------------------------

// Returns a random shelf that is not requested: number k of those, counted past the requested ones up to it.
GV_FN int new_request(GvWorld& w, int goal) {
    const int queue = w.sizes.request_queue_size;
    const int k = w.draw(2, goal).below(w.sizes.shelf_pos_axis0 - queue);
    int shelf = k, before = -1;
    while (shelf != before) {
        before = shelf;
        shelf = k;
        for (int q = 0; q < queue; ++q) shelf += w.state.request_queue[q] <= before;
    }
    return shelf;
}

// Pays for a requested shelf at a goal and requests another one; returns true if there was one.
GV_FN bool deliver(GvWorld& w, int goal) {
    const int cell = cell_at(w, w.tables.goal[2 * goal], w.tables.goal[2 * goal + 1]);
    for (int i = 0; i < w.agents.count(); ++i) {
        auto me = w.agents[i];
        if (w.scratch.here[i] != cell || me.carrying < 0) continue;
        for (int q = 0; q < w.sizes.request_queue_size; ++q) {
            if (w.state.request_queue[q] != me.carrying) continue;
            w.state.request_queue[q] = (gv_u16)new_request(w, goal);
            for (int j = 0; j < w.agents.count(); ++j) {
                if (w.params.rewards_all || j == i) w.agents[j].reward += w.params.two_stages ? 0.5f : 1.0f;
            }
            if (w.params.two_stages) me.has_delivered = 1;
            return true;
        }
    }
    return false;
}

// ---- hooks --------------------------------------------------------------------------------------------------------------------

GV_FN void env_step(GvWorld& w) {
    fill_grid(w);
    for (auto me : w.agents) {
        const int action = me.action.index(0);
        for (int bit = 0; bit < w.sizes.msg_bits; ++bit) me.message[bit] = (gv_u8)me.action.index(1 + bit);
        const int target = asked_cell(w, me, action);
        w.scratch.target[me.index] = target;
        w.scratch.ahead[me.index] = target == w.scratch.here[me.index] ? me.index : w.scratch.grid[target] - 1;
        w.scratch.behind[me.index] = 0;
        me.reward = 0.0f;
        turn(me, action);
        if (action == TOGGLE) toggle(w, me);
    }
    w.barrier();
    if (w.once && !w.params.ends_on_collision) count_behind(w);
    w.barrier();
    const bool collided = w.any(w.agents, [&](auto me) { return w.params.ends_on_collision && collides(w, me.index); });
    for (auto me : w.agents) {
        if (!w.params.ends_on_collision && !moves(w, me.index)) continue;
        const int cell = w.scratch.target[me.index];
        me.agent_pos[0] = (gv_u8)(cell % w.params.cols);
        me.agent_pos[1] = (gv_u8)(cell / w.params.cols);
        w.scratch.here[me.index] = cell;
    }
    w.barrier();
    if (w.once) {
        for (int i = 0; i < w.agents.count(); ++i) carry_along(w, w.agents[i]);  // one lane, for robots with one shelf
        bool delivered = false;
        for (int goal = 0; goal < w.params.goals; ++goal) delivered |= deliver(w, goal);
        w.state.inactive_steps = delivered ? 0 : w.state.inactive_steps + 1;
        const int patience = w.params.max_inactivity_steps;
        w.terminate(collided || (patience > 0 && w.state.inactive_steps >= patience));
        w.truncate_at(w.params.max_steps);
    }
}

// A robot observes itself, then the cells in sight, row by row: a robot, its direction and message, a shelf, and its request. A
// cell without a robot has direction 0, as in rware.
GV_FN void env_observe(GvWorld& w) {
    const int range = w.sizes.sensor_range, side = 2 * range + 1, bits = w.sizes.msg_bits;
    const int rows = w.params.rows, cols = w.params.cols;
    fill_grid(w);
    GV_LOOP for (auto [me, place] : w.pairs(w.agents, w.each(side * side))) {
        const int x = me.agent_pos[0] + place % side - range, y = me.agent_pos[1] + place / side - range;
        const bool inside = x >= 0 && x < cols && y >= 0 && y < rows;
        const int robot = inside ? w.scratch.grid[y * cols + x] - 1 : NOBODY;
        const int shelf = inside ? w.scratch.grid[(rows + y) * cols + x] : 0;
        const int direction = robot < 0 ? 0 : w.agents[robot].agent_dir;
        float* feature = &me.obs[8 + place * (7 + bits)];
        feature[0] = robot >= 0;
        for (int to = 0; to < 4; ++to) feature[1 + to] = to == direction;
        for (int bit = 0; bit < bits; ++bit) feature[5 + bit] = robot < 0 ? 0.0f : w.agents[robot].message[bit];
        feature[5 + bits] = shelf != 0;
        feature[6 + bits] = (shelf & REQUESTED) != 0;
    }
    for (auto me : w.agents) {
        const bool scaled = w.params.normalised_coordinates;
        me.obs[0] = (float)me.agent_pos[0] / (scaled ? (float)(cols - 1) : 1.0f);
        me.obs[1] = (float)me.agent_pos[1] / (scaled ? (float)(rows - 1) : 1.0f);
        me.obs[2] = me.carrying >= 0;
        for (int to = 0; to < 4; ++to) me.obs[3 + to] = to == me.agent_dir;
        me.obs[7] = w.tables.highway[w.scratch.here[me.index]];
    }
}
