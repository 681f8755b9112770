"""PPO in NumPy float64 with gradients written by hand, for comparison. It shares no code with the trainer.

Written from Schulman et al. 2015 (arXiv 1506.02438) and 2017 (arXiv 1707.06347). Networks have tanh layers; actions are
choices, with masks or without, or numbers.
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


def scaled(reward, valid, episode_end, gamma, limit=10.0):
    """Return rewards divided by the deviation of the discounted returns of all rows, clipped; (T, n) each."""
    returns, total = np.zeros_like(reward), np.zeros(reward.shape[1])
    for t in range(len(reward)):
        total = np.where(valid[t], reward[t], 0.0) + gamma * total
        returns[t] = total
        total = np.where(episode_end[t] | ~valid[t], 0.0, total)
    return np.clip(np.where(valid, reward, 0.0) / returns[valid].std(), -limit, limit)


def choices(logits, action, sizes, mask):
    """Return log-probability and entropy of each row, and functions from their gradients to that of the logits.

    Args:
        logits: (rows, sum of sizes).
        action: integers (rows, entries).
        sizes: choices of each entry of an action.
        mask: bool, shaped as the logits; forbidden choices have probability 0. None allows all.
    """
    rows, log_prob, entropy, parts, first = np.arange(len(logits)), 0.0, 0.0, [], 0
    for entry, size in enumerate(sizes):
        z = logits[:, first : first + size]
        allowed = np.ones_like(z, bool) if mask is None else mask[:, first : first + size]
        e = np.where(allowed, np.exp(z - z.max(1, keepdims=True)), 0.0)
        free = allowed.any(1, keepdims=True)  # otherwise the entry has no effect
        p = e / np.where(free, e.sum(1, keepdims=True), 1.0)
        log_p = np.log(np.where(allowed, p, 1.0))
        chosen = np.eye(size)[action[:, entry]] * free
        log_prob = log_prob + log_p[rows, action[:, entry]]
        own = -(p * log_p).sum(1)
        entropy = entropy + own
        parts.append((chosen - p, -p * (log_p + own[:, None])))
        first += size
    to_log_prob, to_entropy = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return log_prob, entropy, lambda g, h: (g[:, None] * to_log_prob + h[:, None] * to_entropy, None)


def gaussian(mean, action, log_std):
    """The same for continuous actions in normalised units; the second gradient is that of ``log_std``."""
    z = (action - mean) / np.exp(log_std)
    log_prob = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1)
    entropy = np.full(len(mean), (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum())
    return (
        log_prob,
        entropy,
        lambda g, h: (
            g[:, None] * z / np.exp(log_std),
            (g[:, None] * (z**2 - 1)).sum(0) + h.sum(),
        ),
    )


def loss_and_gradients(actor, critic, batch, head, clip, value_coef, entropy_coef, clip_value):
    """Return policy loss, value loss, entropy, divergence, clipped share, and the gradients of the whole loss.

    Args:
        actor, critic: layers, lists of (weight, bias).
        batch: dict of arrays of the rows that count: obs, critic_obs if the critic reads something else, action, log_prob, value,
            advantage, target, and choice, False for rows that only the critic learns from.
        head: function of the actor's outputs, see ``choices()`` and ``gaussian()``.
        clip, value_coef, entropy_coef, clip_value: settings.

    Returns:
        Five numbers, those of the policy 0 without a choice; then (weight, bias) of the actor's layers and the critic's; then the
        gradient of ``log_std`` or None.
    """
    rows, choice = len(batch["obs"]), batch["choice"]
    choices = max(1, choice.sum())
    inputs, outputs = forward(actor, batch["obs"])
    log_prob, entropy, to_outputs = head(outputs)
    log_ratio = log_prob - batch["log_prob"]
    ratio = np.exp(log_ratio)
    free, clipped = ratio * batch["advantage"], np.clip(ratio, 1 - clip, 1 + clip) * batch["advantage"]
    to_log_prob = np.where(choice & (free <= clipped), -ratio * batch["advantage"] / choices, 0.0)
    gradient, to_log_std = to_outputs(to_log_prob, np.where(choice, -entropy_coef / choices, 0.0))
    critic_inputs, value = forward(critic, batch.get("critic_obs", batch["obs"]))
    value = value[:, 0]
    error, to_value = (value - batch["target"]) ** 2, value - batch["target"]
    if clip_value:
        change = value - batch["value"]
        near = batch["value"] + np.clip(change, -clip, clip)
        worse = (near - batch["target"]) ** 2
        to_value = np.where(worse > error, (near - batch["target"]) * (np.abs(change) < clip), to_value)
        error = np.maximum(error, worse)
    gradients = backward(actor, inputs, gradient)
    gradients += backward(critic, critic_inputs, (value_coef * to_value / rows)[:, None])
    of_policy = -np.minimum(free, clipped), entropy, ratio - 1 - log_ratio, np.abs(ratio - 1) > clip
    terms = [x[choice].sum() / choices for x in of_policy]
    return (terms[0], 0.5 * error.mean(), *terms[1:]), gradients, to_log_std
