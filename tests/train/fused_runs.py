"""PPO with the kernels of GPUs on the CPU. A run has others there, so these have the name of an algorithm here."""

import dataclasses
import functools

from gpu_vecenv.train import PolicyConfig, PPOConfig, register_algorithm
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.config import bootstraps, resolve
from gpu_vecenv.train.fused.host_update import HostBackend
from gpu_vecenv.train.fused.recurrent_update import FusedRecurrentBackend
from gpu_vecenv.train.fused.update import FusedBackend

FusedPPO = functools.partial(PPO, backend=FusedBackend)
HostPPO = functools.partial(PPO, backend=HostBackend)
FusedRecurrentPPO = functools.partial(PPO, backend=FusedRecurrentBackend)


def make(policy, options, setup):
    options = dataclasses.replace(options, bootstrap_at_time_limit=bootstraps(options.bootstrap_at_time_limit, setup.spec))
    kind = FusedPPO if policy.state_shape is None else FusedRecurrentPPO
    return kind(policy, options, setup.rows.shape, setup.seed, setup.device, schedule_steps=setup.schedule_steps,
                part=setup.part)  # fmt: skip


register_algorithm("fused", PPOConfig, make)


def fused(config, policies=None):
    """Return options of a run whose policies, or those named, learn by fused kernels."""
    options = resolve(config).ppo
    named = config.policies if policies is None else {name: config.policies.get(name, PolicyConfig()) for name in policies}
    own = {
        name: dataclasses.replace(each, algorithm="fused", ppo={}, algorithms={"fused": each.ppo} if each.ppo else {})
        for name, each in named.items()
    }
    if policies is None:
        return dataclasses.replace(config, algorithm="fused", ppo=None, algorithms={"fused": options}, policies=own)
    return dataclasses.replace(config, ppo=options, algorithms={"fused": options}, policies={**config.policies, **own})
