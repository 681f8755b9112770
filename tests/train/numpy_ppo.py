"""PPO in NumPy float64 with gradients written by hand, for comparison. It shares no code with the trainer.

Written from Schulman et al. 2015 (arXiv 1506.02438) and 2017 (arXiv 1707.06347). Networks have tanh layers; actions are several
choices, or one.
"""

import numpy as np


def forward(layers, x):
    """Return the inputs of every layer, and the output. ``layers`` is a list of (weight, bias)."""
    inputs = []
    for number, (weight, bias) in enumerate(layers):
        inputs.append(x)
        x = x @ weight.T + bias
        if number < len(layers) - 1:
            x = np.tanh(x)
    return inputs, x


def backward(layers, inputs, gradient):
    """Return the gradients of weights and biases for the gradient of the output."""
    found = []
    for number in reversed(range(len(layers))):
        found[:0] = [(gradient.T @ inputs[number], gradient.sum(0))]
        if number:
            gradient = (gradient @ layers[number][0]) * (1 - inputs[number] ** 2)
    return found


def advantages(reward, value, final_value, alive_before, alive_after, terminated, truncated, gamma, decay):
    """Return advantages and value targets of one row, by the definition.

    ``value`` has an entry more than the others. ``final_value`` is None if a time limit counts as an end.
    """
    steps = len(reward)
    advantage = np.zeros(steps)
    for t in range(steps):
        if not alive_before[t]:
            continue
        total, factor = 0.0, 1.0
        for later in range(t, steps):
            ended = terminated[later] or truncated[later]
            following = value[later + 1]
            if ended or not alive_after[later]:
                following = 0.0
                if final_value is not None and truncated[later] and not terminated[later] and alive_after[later]:
                    following = final_value[later]
            total += factor * (reward[later] + gamma * following - value[later])
            factor *= gamma * decay
            if ended or not alive_after[later]:
                break
        advantage[t] = total
    return advantage, advantage + value[:-1]


def loss_and_gradients(actor, critic, batch, sizes, clip, value_coef, entropy_coef, clip_value):
    """Return policy loss, value loss, entropy, and the gradients of the whole loss.

    Args:
        actor, critic: layers, lists of (weight, bias).
        batch: dict of arrays of the rows that count: obs, action (B, k), log_prob, value, advantage, target.
        sizes: choices of each entry of an action.
        clip, value_coef, entropy_coef, clip_value: settings.
    """
    rows = len(batch["obs"])
    inputs, logits = forward(actor, batch["obs"])
    log_prob, entropy, parts, first = 0.0, 0.0, [], 0
    for entry, size in enumerate(sizes):
        z = logits[:, first : first + size]
        log_p = z - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True)) - z.max(1, keepdims=True)
        p, chosen = np.exp(log_p), batch["action"][:, entry]
        log_prob = log_prob + log_p[np.arange(rows), chosen]
        own = -(p * log_p).sum(1)
        entropy = entropy + own
        parts.append((first, p, log_p, own, np.eye(size)[chosen]))
        first += size
    ratio = np.exp(log_prob - batch["log_prob"])
    free, held = ratio * batch["advantage"], np.clip(ratio, 1 - clip, 1 + clip) * batch["advantage"]
    to_log_prob = np.where(free <= held, -ratio * batch["advantage"] / rows, 0.0)
    to_logits = np.zeros_like(logits)
    for first, p, log_p, own, chosen in parts:
        to_logits[:, first : first + p.shape[1]] = to_log_prob[:, None] * (chosen - p) - entropy_coef / rows * (
            -p * (log_p + own[:, None])
        )
    critic_inputs, value = forward(critic, batch["obs"])
    value = value[:, 0]
    error, to_value = (value - batch["target"]) ** 2, value - batch["target"]
    if clip_value:
        change = value - batch["value"]
        near = batch["value"] + np.clip(change, -clip, clip)
        worse = (near - batch["target"]) ** 2
        to_value = np.where(worse > error, (near - batch["target"]) * (np.abs(change) < clip), to_value)
        error = np.maximum(error, worse)
    gradients = backward(actor, inputs, to_logits)
    gradients += backward(critic, critic_inputs, (value_coef * to_value / rows)[:, None])
    return -np.minimum(free, held).mean(), 0.5 * error.mean(), entropy.mean(), gradients
