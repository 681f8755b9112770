"""CartPole: Euler integration as in Gymnasium's CartPole-v1."""

from gpu_vecenv.pyhooks import World, dividing, f32, sincos_small


def env_reset(w):
    low = w.options.low
    width = w.options.high - low
    if w.once:
        draw = w.draw(0)
        w.state.x = low + width * draw.uniform(0)
        w.state.x_dot = low + width * draw.uniform(1)
        w.state.theta = low + width * draw.uniform(2)
        w.state.theta_dot = low + width * draw.uniform(3)


@dividing
def accelerations(w: World, force: f32, theta_dot: f32, sine: f32, cosine: f32):
    """R. Florian, "Correct equations for the dynamics of the cart-pole system" (2005), without friction."""
    p = w.params
    mass, polemass_length = p.masscart + p.masspole, p.masspole * p.length
    push = (force + polemass_length * theta_dot * theta_dot * sine) / mass
    theta_acc = (p.gravity * sine - cosine * push) / (p.length * (p.four_thirds - p.masspole * cosine * cosine / mass))
    return push - polemass_length * theta_acc * cosine / mass, theta_acc


def env_step(w):
    s, p = w.state, w.params
    for me in w.agents:
        force = p.force_mag if me.action.index() == 1 else -p.force_mag
        sine, cosine = sincos_small(s.theta)
        x_acc, theta_acc = accelerations(w, force, s.theta_dot, sine, cosine)
        s.x += p.tau * s.x_dot
        s.x_dot += p.tau * x_acc
        s.theta += p.tau * s.theta_dot
        s.theta_dot += p.tau * theta_acc
        inside = abs(s.x) <= p.x_threshold and abs(s.theta) <= p.theta_threshold  # false for NaN
        me.reward = (0.0 if inside else -1.0) if p.sutton_barto_reward else 1.0
        w.terminate(not inside)
        w.truncate_at(p.max_episode_steps)


def env_observe(w):
    s = w.state
    for me in w.agents:
        if w.sizes.num_features == 4:
            me.obs = [s.x, s.x_dot, s.theta, s.theta_dot]
        else:
            me.obs = [s.x, s.theta]
