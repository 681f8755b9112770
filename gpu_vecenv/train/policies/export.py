"""Files of policies for use without this package: torch.export and ONNX."""

from __future__ import annotations

import copy
import importlib.util
import io
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.errors import MissingExtraError
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor import ActorPolicy
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.check import samples_of
from gpu_vecenv.train.policies.contract import Inputs, Observation, Policy
from gpu_vecenv.train.policies.distributions import Categorical
from gpu_vecenv.train.policies.q_policy import QPolicy

SUFFIXES = (".pt2", ".onnx", ".pt")
"""Endings of exported files: a program of torch.export, an ONNX model, and a TorchScript program."""

STATE_TEXT = "state is zeros in rows whose episode begins or whose agent joins, and else new_state of the step before"
"""Rule for the caller of a program with a state; an ONNX model has it as its ``doc_string``."""


def write_policy(policy: Policy, path: str | Path) -> Path:
    """Write a policy with its normalisation and action scale as a program without randomness.

    Inputs, for any number B of samples:
        obs: float32 (B, *shape), as the env returns it. With a shared part there are two inputs instead: shared, float32 (B, S),
            and own, float32 (B, a, P); the axes of the others are then (B, a) instead of (B,).
        mask: bool (B, M), only if the policy's actions have masks; see ``Inputs``.
        agent: int32 (B,), number of the agent in its world, only if the policy's network reads it; a program takes it by name.
        state: float32 (B, *state_shape), only if the policy has a state; a program takes it by name. The caller keeps it: zeros
            for each row before the first step of an episode, or of the life of an agent that joins later, and else the
            ``new_state`` of the step before. The program does not know where episodes begin, and resets nothing itself.

    Outputs of choices:
        action: int32 (B,) or (B, k), the likeliest.
        logits: float32 (B, number of choices), logarithms of the probabilities of all entries, side by side.

    Outputs of a policy of values:
        action: int32 (B,) or (B, k), the choices with the largest values.
        q_values: float32 (B, number of choices), values of the choices of all entries, side by side; also of forbidden ones.

    Outputs of continuous actions, in the env's units:
        action: float32 (B, k), the mean, clipped to the bounds.
        mean, std: float32 (B, k), of the normal distribution that training draws from; the env clips the draws.

    A policy of SAC with continuous actions gives ``action``, the tangent of the mean in the env's units, and ``mean`` and
    ``log_std``, float32 (B, k), of the normal distribution before the tangent, in units whose bounds are -1 and 1. A policy of
    TD3 or DDPG gives ``action`` alone.

    Last output of a policy with a state:
        new_state: float32 (B, *state_shape), the state after the step.

    Args:
        policy: an ``ActorCritic`` or an ``ActorPolicy``; it is not changed.
        path: file to write, ``.pt2`` for ``torch.export.load()``, ``.onnx`` for an ONNX runtime, ``.pt`` for
            ``torch.jit.load()``, which C++ has, too. An earlier file is replaced when the new one is complete.

    Returns:
        The path.

    Raises:
        ConfigError: another ending, a policy that does not learn, or a network that torch cannot export.
        MissingExtraError: onnx or onnxscript is not installed, which torch needs for ONNX.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"path: expected a file that ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {path}")
    if not isinstance(policy, ActorCritic | ActorPolicy):
        raise ConfigError(f"policy: expected a policy with a network, got {type(policy).__name__}")
    missing = [name for name in ("onnx", "onnxscript") if path.suffix == ".onnx" and importlib.util.find_spec(name) is None]
    if missing:
        needs = " and ".join(missing)
        raise MissingExtraError(f'a file that ends with .onnx needs {needs}: pip install "gpu-vecenv[export]"')
    program = program_of(policy)
    policy, group = program.policy, policy.group
    obs = samples_of(policy.network, group)
    inputs = {"obs": obs} if isinstance(obs, Tensor) else dict(obs)
    if group.masked:
        inputs["mask"] = torch.ones(*_rows_of(inputs), group.num_choices, dtype=torch.bool, device="cpu")
    named = {} if policy.ids is None else {"agent": torch.zeros(*_rows_of(inputs), dtype=torch.int32, device="cpu")}
    if policy.state_shape is not None:
        named["state"] = torch.zeros(*_rows_of(inputs), *policy.state_shape, dtype=torch.float32, device="cpu")
    try:
        if path.suffix == ".pt":
            content = _torchscript(program, {**inputs, **named})
        else:
            shapes = _any_batch({**inputs, **named})
            exported = torch.export.export(program, tuple(inputs.values()), named, dynamic_shapes=shapes)
            content = _pt2(exported) if path.suffix == ".pt2" else _onnx(exported, [*inputs, *named], program.output_names)
    except Exception as error:  # torch raises errors of many types for a network with data-dependent Python code
        raise ConfigError(f"network: expected a network that torch can export, got {type(error).__name__}: {error}") from error
    with atomic_file(path) as partial:
        Path(partial).write_bytes(content)
    return path


def program_of(policy: ActorCritic | ActorPolicy) -> Program:
    """Return the computation of an exported file for a copy of a policy on the host."""
    policy = copy.deepcopy(policy).cpu().eval()
    if isinstance(policy, ActorCritic):
        policy.checks_results = False  # torch.export cannot trace the check
    return _Rows(policy) if policy.group.shared is None else _Worlds(policy)


class Program(nn.Module):
    """The computation of an exported file: outputs of a policy, by ``output_names``."""

    low: Tensor
    high: Tensor

    def __init__(self, policy: ActorCritic | ActorPolicy):
        super().__init__()
        self.policy = policy
        if isinstance(policy, ActorPolicy):
            self.output_names = list(policy.export_names)
            return
        self.output_names = ["action", "q_values" if isinstance(policy, QPolicy) else "logits"]
        if isinstance(policy.group.action, Box):
            self.output_names = ["action", "mean", "std"]
            self.register_buffer("low", torch.tensor(policy.group.action.low, dtype=torch.float32, device="cpu"))
            self.register_buffer("high", torch.tensor(policy.group.action.high, dtype=torch.float32, device="cpu"))
        self.output_names += [] if policy.state_shape is None else ["new_state"]

    def results(
        self, obs: Observation, mask: Tensor | None, agent: Tensor | None, state: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Return the outputs."""
        policy = self.policy
        if isinstance(policy, ActorPolicy):
            return policy.exported(policy.outputs(policy.features(obs, agent)), mask)
        if state is None:
            return self.chosen(policy, policy.outputs(obs, agent), mask)
        outputs, new_state = policy.outputs_and_state(Inputs(obs, state=state), agent)
        return *self.chosen(policy, outputs, mask), new_state

    def chosen(self, policy: ActorCritic, outputs: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
        """Return actions and their distributions by outputs of the network."""
        if policy.box is not None:
            mean = policy.env_actions(outputs)
            std = (policy.box.half_width * policy.log_std.exp()).expand_as(mean)
            return mean.clamp(self.low, self.high), mean, std
        group = policy.group
        masks = {} if mask is None else dict(zip(group.masked, mask.split(group.masked_choices, dim=-1), strict=True))
        parts = outputs.split(group.choices, dim=-1)
        entries = [Categorical(part, masks.get(number)) for number, part in enumerate(parts)]
        action = torch.stack([entry.mode() for entry in entries], dim=-1).int()
        scores = outputs if isinstance(policy, QPolicy) else torch.cat([entry.log_probs for entry in entries], dim=-1)
        return action.squeeze(-1) if policy.discrete else action, scores


class _Rows(Program):
    """Observations by row."""

    def forward(
        self, obs: Tensor, mask: Tensor | None = None, agent: Tensor | None = None, state: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the outputs of rows."""
        return self.results(obs, mask, agent, state)


class _Worlds(Program):
    """Observations with a shared part."""

    def forward(
        self,
        shared: Tensor,
        own: Tensor,
        mask: Tensor | None = None,
        agent: Tensor | None = None,
        state: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the outputs of worlds."""
        return self.results({"shared": shared, "own": own}, mask, agent, state)


def _rows_of(inputs: dict[str, Tensor]) -> tuple[int, ...]:
    """Axes of the rows, (B,) or (B, a)."""
    return (len(inputs["obs"]),) if "obs" in inputs else tuple(inputs["own"].shape[:2])


def _any_batch(inputs: dict[str, Tensor]) -> dict[str, Any]:
    """Return the axes of the inputs whose length is free: samples, and the agents of a world if the network allows it."""
    agents = {1: torch.export.Dim.AUTO} if "own" in inputs else {}
    return {name: {0: torch.export.Dim("samples"), **({} if name == "shared" else agents)} for name in inputs}


def _pt2(exported: torch.export.ExportedProgram) -> bytes:
    file = io.BytesIO()
    torch.export.save(exported, file)
    return file.getvalue()


def _torchscript(program: Program, inputs: dict[str, Tensor]) -> bytes:
    """Return a TorchScript program, which is checked with another number of samples than it was traced with.

    Raises:
        RuntimeError: it depends on the number of samples.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that TorchScript is in maintenance, and that shapes become constants
        traced = torch.jit.trace(program.eval(), example_kwarg_inputs=inputs, check_trace=False)
        for count in (1, 3):
            resized = {name: x[torch.arange(count, dtype=torch.int64, device="cpu") % len(x)] for name, x in inputs.items()}
            for got, expected in zip(traced(**resized), program(**resized), strict=True):
                if got.shape != expected.shape or not torch.equal(got, expected):
                    raise RuntimeError(f"the traced program gives other results for {count} samples")
        file = io.BytesIO()
        torch.jit.save(traced, file)
    return file.getvalue()


def form_text(path: str | Path, policy: ActorCritic | ActorPolicy) -> str:
    """Return in words what an exported file takes and returns, and for how many samples; a second line says what a state is."""
    group = policy.group
    rows, takes = (_Rows, ["obs (B, ...)"]) if group.shared is None else (_Worlds, ["shared (B, S)", "own (B, a, P)"])
    takes += ["mask"] if group.masked else []
    takes += [] if policy.ids is None else ["agent"]
    takes += [] if policy.state_shape is None else ["state"]
    names = rows(policy).output_names
    form = f"{Path(path).name} takes {', '.join(takes)} and returns {', '.join(names)}, for any number B of samples at a time"
    return form if policy.state_shape is None else f"{form}\n{STATE_TEXT}"


def _onnx(exported: torch.export.ExportedProgram, input_names: list[str], output_names: list[str]) -> bytes:
    log = logging.getLogger("torch.onnx")
    level = log.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of what it calls itself
        log.setLevel(logging.ERROR)  # and of torchvision, which no policy needs
        try:
            program = torch.onnx.export(exported, dynamo=True, input_names=input_names, output_names=output_names, verbose=False)
        finally:
            log.setLevel(level)
    if program is None:
        raise RuntimeError("torch.onnx.export returned no model")
    model = program.model_proto
    model.doc_string = STATE_TEXT if "state" in input_names else ""
    return bytes(model.SerializeToString())
