"""Pot: players put coins into a pot, and a judge pays it out."""

from gpu_vecenv.pyhooks import f32, i32


def env_reset(w):
    for me in w.role.player:
        me.purse = 1 + w.draw(0, me.index).below(5)
        me.put = 0
    if w.once:
        w.state.pot = 0
        w.state.share = 0


def env_step(w):
    s, players = w.state, w.role.player.count()
    if w.once:
        s.share = s.pot // players if w.role.judge[0].action.index() == 1 else 0
    for me in w.role.player:
        coins = me.action.index()
        me.put = min(coins, me.purse)
    for me in w.role.player:
        me.purse += s.share - me.put
        me.reward = f32(s.share)
    put = w.sum(w.role.player, lambda it: f32(it.put))
    if w.once:
        s.pot += i32(put) - s.share * players
        w.role.judge[0].reward = f32(s.pot)
        w.terminate(s.pot >= w.params.full)
        w.truncate_at(w.params.max_episode_steps)


def env_observe(w):
    s = w.state
    for me in w.role.player:
        me.obs = [f32(me.purse)]
        for coins in range(3):
            me.mask[coins] = coins <= me.purse
    if w.once:
        pot = f32(s.pot)
        w.role.judge[0].obs[0] = pot
        shared = w.role.player.shared()
        shared[0] = pot
        shared[1] = f32(w.t)
