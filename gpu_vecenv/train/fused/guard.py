"""Error of the kernels' gradients of a minibatch, measured by torch in float64."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor

from gpu_vecenv.train.algorithms.ppo.loss import Minibatch, PPOLoss
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.config import PPOConfig
from gpu_vecenv.train.fused.kernels import UpdateKernels
from gpu_vecenv.train.policies.contract import Inputs, Policy
from gpu_vecenv.train.storage.samples import Samples


def kernel_gradient(kernels: UpdateKernels, index: Tensor, used: Tensor) -> dict[str, Tensor]:
    """Return the mean gradient of a minibatch by name of the parameter, and change no weight.

    Args:
        kernels: point to samples, settings and weights.
        index: int64 (b,), samples of the minibatch.
        used: bool (b,), False for rows that fill it up.
    """
    kernels.gradient(torch.where(used, index, -1).int())
    kernels.reduce()
    sizes = kernels.sizes
    of_actor = sizes.actor_columns - 1
    counts = [kernels.sums[column].clamp(min=1.0) for column in (of_actor, -1 if sizes.may_lack_choice else of_actor)]
    first = {tensor.weight: tensor.first for tensor in kernels.args.tensors if tensor.weight}
    gradients = {}
    for name, parameter in kernels.policy.named_parameters():
        start = first[parameter.data_ptr()]
        count = counts[start >= sizes.actor_columns]
        gradients[name] = (kernels.sums[start : start + parameter.numel()] / count).view_as(parameter)
    return gradients


def exact_gradient(
    policy: Policy, config: PPOConfig, samples: Samples, scalars: DeviceScalars, loss_inputs: Tensor, index: Tensor, used: Tensor
) -> dict[str, Tensor]:
    """Return the same by torch's autograd over the policy's own module, float64. The host waits for the device.

    Args:
        policy: the policy.
        config: hyperparameters; advantages are those of ``loss_inputs``.
        samples: the policy's samples of a rollout.
        scalars: settings of the update.
        loss_inputs: float32 (T * B, 4), log-probability, value, advantage and target of each sample.
        index: int64 (b,), samples of the minibatch.
        used: bool (b,), False for rows that fill it up.
    """
    chosen = index[used]
    exact, at = copy.deepcopy(policy).double(), samples.place(chosen)
    inputs, action = samples.chosen(at), samples.action[at]
    assert isinstance(inputs.obs, Tensor)
    action = action.double() if action.is_floating_point() else action
    log_prob, value, advantage, target = loss_inputs[chosen].double().unbind(-1)
    valid = torch.ones_like(chosen, dtype=torch.bool)
    choice = None if samples.choice is None else samples.choice[at]
    batch = Minibatch(Inputs(inputs.obs.double(), inputs.mask), action, log_prob, value, advantage, target, valid, choice)
    for parameter in exact.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with torch.enable_grad():
        loss = PPOLoss(config, scalars.entropy_coef.double(), scalars.clip_coef.double())
        loss.backward(exact.evaluate(batch.inputs, action), batch, policy.name)
    return {name: cast(Tensor, parameter.grad) for name, parameter in exact.named_parameters()}


def relative_errors(gradients: dict[str, Tensor], exact: dict[str, Tensor]) -> dict[str, float]:
    """Return the norm of the error over the norm of the exact gradient, of each layer by name and of all as ``total``."""
    layers: dict[str, list[str]] = {"total": list(exact)}
    for name in exact:
        layers.setdefault(name.rpartition(".")[0] or name, []).append(name)
    errors = {}
    for layer, names in layers.items():
        error, size = (torch.cat([x.double().flatten() for x in xs]).norm() for xs in (
            [gradients[name] - exact[name] for name in names], [exact[name] for name in names],
        ))  # fmt: skip
        errors[layer] = float(error / size)
    return errors
