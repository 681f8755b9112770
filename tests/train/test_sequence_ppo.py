"""PPO from whole sequences by overriding parts of its back end, compared with PPO from transitions."""

import dataclasses

import pytest
import role_envs  # noqa: F401  (registers Arena-v0)
import torch
from torch import nn

from gpu_vecenv.train import PolicyConfig, PPOConfig, TrainConfig, Trainer, register_algorithm, register_network
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.ppo.backend import TorchBackend
from gpu_vecenv.train.algorithms.ppo.loss import Minibatch, standardized
from gpu_vecenv.train.algorithms.shuffle import choose


class WholeSequences(TorchBackend):
    """Learns from the sequences of all T steps of samples that are rows."""

    def walk(self, samples):
        row = torch.arange(samples.reward.shape[1])
        return self.policy.evaluate_sequence(*samples.sequences((torch.zeros_like(row), row), samples.num_steps), samples.state)

    @torch.no_grad()
    def renew_log_prob(self, samples):
        samples.log_prob.copy_(torch.where(samples.valid, self.walk(samples)[0].log_prob, samples.log_prob))

    def values(self, samples, final):
        steps, (evaluated, after) = samples.num_steps, self.walk(samples)
        last = torch.where(samples.episode_end[-1:].unsqueeze(-1), 0.0, after[-1:])
        at_end = self.policy.value(samples.steps(samples.obs, slice(steps, steps + 1), state=last))
        final_value = None
        if final:
            final_value = self.policy.value(samples.steps(samples.final_obs, slice(0, steps), state=after))
            final_value = final_value.view_as(evaluated.value)
        return torch.cat((evaluated.value, at_end[None])), final_value

    def places(self, samples):
        return [choose(samples.valid.any(0), samples.all_valid)]

    def minibatches(self, samples, index, used, numbers, shared):
        numbers = numbers.unflatten(1, samples.reward.shape)
        for row, use in zip(index, used, strict=True):
            sequences = samples.sequences((torch.zeros_like(row), row), samples.num_steps)
            counts, choice = samples.valid[:, row] & use, samples.choice[:, row] & use
            log_prob, value, advantage, target = torch.where(counts, numbers[:, :, row], 0.0)
            advantage = torch.where(choice, standardized(advantage, choice), 0.0)
            batch = Minibatch(sequences.inputs, sequences.action, log_prob, value, advantage, target, counts, choice)
            yield batch, self.policy.evaluate_sequence(*sequences, samples.state[row])[0]


def make(policy, options, setup):
    return PPO(policy, options, setup.rows.shape, setup.seed, setup.device, WholeSequences, setup.schedule_steps)


class Plain(nn.Module):
    """Two layers for each result."""

    def __init__(self, spec):
        super().__init__()
        size = sum(spec.parts)
        self.acts = nn.Sequential(nn.Linear(size, 8), nn.Tanh(), nn.Linear(8, spec.num_outputs))
        self.worth = nn.Sequential(nn.Linear(size, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, obs):
        return self.acts(obs), self.worth(obs).squeeze(-1)


class Forgetful(Plain):
    """Counts in its state and does not read it."""

    state_shape = (2,)

    def forward(self, obs, state):
        return *super().forward(obs), state + 1.0


@dataclasses.dataclass(frozen=True)
class WholeConfig(PPOConfig):
    """The options of PPO."""


register_algorithm("whole_sequences", WholeConfig, make)
register_network("plain", Plain)
register_network("forgetful", Forgetful)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_sequences_of_a_network_that_forgets_are_learned_as_transitions(bootstrap):
    """All other parts of PPO are the same; the order of sums differs."""
    options = {"num_steps": 7, "num_minibatches": 1, "num_epochs": 2, "bootstrap_at_time_limit": bootstrap, "learning_rate": 0.01}
    found = []
    for algorithm, module in (("ppo", "plain"), ("whole_sequences", "forgetful")):
        policies = {"red": PolicyConfig(module=module, algorithm=algorithm)}
        config = TrainConfig(
            "Arena-v0", num_envs=6, total_steps=6 * 7 * 3, device="cpu", env_kwargs={"max_episode_steps": 9, "shut": 1},
            ppo=PPOConfig(**options), policies=policies, frozen=("blue",),
        )  # fmt: skip
        if algorithm != "ppo":
            config = dataclasses.replace(config, algorithms={algorithm: WholeConfig(**options)})
        trainer = Trainer(config, quiet=True)
        start = {name: x.clone() for name, x in trainer.policies["red"].state_dict().items()}
        metrics = trainer.train()
        found.append((trainer.policies["red"].state_dict(), {k: x for k, x in metrics.items() if k.endswith("/red")}))
    (one, measured), (other, again) = found
    assert any(not torch.allclose(one[name], x, atol=1e-3) for name, x in start.items())
    for name, x in one.items():
        torch.testing.assert_close(other[name], x, rtol=1e-4, atol=1e-5)
    assert again.keys() == measured.keys() and again == pytest.approx(measured, rel=1e-3, abs=1e-5, nan_ok=True)
