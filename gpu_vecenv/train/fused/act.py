"""Actions and values of a policy by kernels, with the arithmetic of the kernels that learn.

The ratio of the first minibatch of an update is then 1, up to rounding of float32. Given equal outputs of the network, actions
have the bits of ``policies/draw.py``. A CUDA graph can record a call if a call of the same kind was made before.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.source import Program
from gpu_vecenv.backend.trainer_programs import SLAB
from gpu_vecenv.errors import ArrayTypeError, DeviceError, ShapeError
from gpu_vecenv.train.fused.kernels import SMALL_BYTES, empty_halves, is_addressed_by_rows, norm_numbers
from gpu_vecenv.train.fused.tile_plan import LARGEST_HALF, Sizes, act_program
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.contract import Draw, Inputs, Observation, apply
from gpu_vecenv.train.policies.networks import FeedForward
from gpu_vecenv.train.storage.rollout import Rollout

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

CPU_TEAMS = 64
"""Most teams on the CPU, each of which loads the network. Results do not depend on it."""

MAX_ROWS = 2**30
"""Most rows of a call; kernels number them by int32."""

SPLIT_ROWS = 2**17
"""Rows from which on steps of a split network are computed in turn, so that units between its kernels need less memory."""


PreparedCall = TypeVar("PreparedCall", bound="ActCall")


class FusedActor:
    """Acts for an ``ActorCritic``, see ``Policy.act()``.

    Kernels read the weights and the statistics of the module where they are, so a change counts at once, but for weights while
    ``hold_weights()`` is open. The module's parameters must stay the same objects. Arrays may have gaps between steps and between
    samples.

    Attributes:
        largest: size of the largest observation; results of a larger one are NaN.
    """

    def __init__(self, policy: ActorCritic, sizes: Sizes, device: torch.device, alone: bool = True) -> None:
        """Find the arrays of the policy.

        Args:
            policy: the policy, on the device.
            sizes: sizes of its networks, see ``fused_sizes()``.
            device: device of all arrays.
            alone: no other run uses the GPU.
        """
        self.policy, self.sizes, self.device, self.alone = policy, sizes, device, alone
        self.action_type = torch.float32 if sizes.choices is None else torch.int32
        self.mask_columns = sum(policy.choices[entry] for entry in policy.masked or ()) if sizes.choices is not None else 0
        norm, self.limit = norm_numbers(policy, sizes.part_features[1], device)
        self._of_shared = norm_numbers(policy, sizes.shared, device, "shared") if sizes.shared else None
        self.largest = LARGEST_HALF if math.isinf(self.limit) else math.inf
        box = () if policy.box is None else (policy.log_std, policy.box.centre, policy.box.half_width)
        self._tensors = [[*weights, *norm, *box] for weights in self._weights()]
        self.multiprocessors = 1
        self.most_teams = CPU_TEAMS
        if device.type == "cuda":
            self.multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
            self.most_teams = self.multiprocessors * sizes.act_memory.resident
        if sizes.wide:
            columns = sizes.stream(1).columns
            self.first_weights = empty_halves(columns, sum(sizes.part_columns), device=device)
            self.first_biases = torch.empty(columns, dtype=torch.float32, device=device)
        self.packed = empty_halves(sizes.packed_halves, device=device)
        self._holds = False
        self._prepared_network: int | None = None
        # The last one of each is used; earlier ones stay, because a recorded graph may use them.
        self._units: list[Tensor] = []
        self._allowed: list[Tensor] = []
        self._world_sums: list[Tensor] = []
        self._prepared: weakref.WeakKeyDictionary[Draw, dict[bool, Any]] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def hold_weights(self) -> Iterator[None]:
        """Weights do not change while this is open, so kernels convert those of wide layers and of many heads once."""
        before, self._holds = self._holds, True
        try:
            yield
        finally:
            self._holds, self._prepared_network = before, None

    def must_convert(self, network: int) -> bool:
        """True if kernels must convert the weights of a network, the actor's or the critic's, before they use them."""
        if self._prepared_network == network:
            return False
        self._prepared_network = network if self._holds else None
        return True

    def _weights(self) -> list[list[Tensor]]:
        """Return weights and biases of each network, layer by layer."""
        network = cast(FeedForward, self.policy.network)
        return [
            [x for layer in layers if isinstance(layer, nn.Linear) for x in (layer.weight, layer.bias)]
            for layers in (network.actor_layers, network.critic_layers)
        ]

    def room_for_units(self, rows: int) -> Tensor:
        """Return memory for units of the first layer between two kernels, which all calls share."""
        if not self._units or len(self._units[-1]) < rows:
            tiles = -(-rows // self.sizes.rows)
            columns = self.sizes.stream(1).columns if self.sizes.wide else self.sizes.widths[0]
            self._units.append(empty_halves(tiles * self.sizes.rows, columns, device=self.device))
        return self._units[-1]

    def room_for_worlds(self, worlds: int) -> Tensor:
        """Return memory for sums of the shared part of observations, which all calls share."""
        if not self._world_sums or len(self._world_sums[-1]) < worlds:
            columns = self.sizes.stream(1).columns
            self._world_sums.append(torch.empty(worlds, columns, dtype=torch.float32, device=self.device))
        return self._world_sums[-1]

    def shared_norm(self) -> dict[str, Any]:
        """Return the normalisation of the shared part of observations, as members of an argument struct."""
        (offset, scale, shift), limit = cast("tuple[list[Tensor], float]", self._of_shared)
        return {"offset": offset, "scale": scale, "shift": shift, "limit": limit}

    def room_for_masks(self, rows: int) -> Tensor:
        """Return memory for the masks of many heads as bits, which all calls share."""
        if not self._allowed or len(self._allowed[-1]) < rows:
            self._allowed.append(torch.empty(rows, self.sizes.mask_words, dtype=torch.int32, device=self.device))
        return self._allowed[-1]

    def prepared(self, draw: Draw, deterministic: bool, kind: type[PreparedCall]) -> PreparedCall:
        """Return the launch that acts by some counters."""
        calls = self._prepared.setdefault(draw, {})
        if deterministic not in calls:
            calls[deterministic] = kind(self, draw, deterministic)
        return cast(PreparedCall, calls[deterministic])

    def program(self) -> Program:
        """Return the kernels that act."""
        return act_program(self.sizes)

    def addresses(self, network: int) -> list[int]:
        """Return the addresses of weights and biases, layer by layer, of the normalisation and of the scale of actions."""
        return [tensor.data_ptr() for tensor in self._tensors[network]]

    def point(self, args: Any, addresses: list[int]) -> None:
        """Write ``addresses()`` to the members of an argument struct."""
        following = iter(addresses)
        for layer in range(self.sizes.num_layers):
            args.layers[layer].weight, args.layers[layer].bias = next(following), next(following)
        args.norm.offset, args.norm.scale, args.norm.shift = next(following), next(following), next(following)
        args.norm.limit = self.limit
        for member, address in zip(("log_std", "centre", "half_width"), following, strict=False):
            setattr(args.box, member, address)


class FusedPolicy(FusedActor):
    """Acts and computes values for an ``ActorCritic`` without a state, see ``Policy.act()`` and ``Policy.value()``."""

    def whole_rollout(self, env: GpuVectorEnv, rollout: Rollout) -> Callable[[], None] | None:
        """See ``Actor``."""
        from gpu_vecenv.train.fused.rollout import whole_rollout  # which imports this module

        return whole_rollout(env, rollout, self)

    def act(
        self, inputs: Inputs, draw: Draw, deterministic: bool = False, outputs: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``. Results are in ``draw.out`` if it is given; its entropies are not written.

        Args:
            inputs: what the rows observe.
            draw: counters of the random numbers. Rows have the axes of ``draw.world``.
            deterministic: take the likeliest action instead of a draw.
            outputs: float32 (rows, num_outputs), which gets the outputs of the network; None: nobody reads them.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
        """
        mask = inputs.mask if self.mask_columns else None
        return self.prepared(draw, deterministic, ActCall).act(inputs.obs, mask, outputs)

    def log_prob(self, inputs: Inputs, action: Tensor) -> Tensor:
        """Return the log-probabilities of the actions of all steps at once, float32 (S, B[, a]).

        Args:
            inputs: what the rows observe, each array (S, B, ...).
            action: ``(S, B[, a][, k])``, as ``act()`` returns them.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
        """
        lead = row_axes(inputs.obs)
        result = torch.empty(lead, dtype=torch.float32, device=self.device)
        for steps in self._steps(lead):
            call = self._call("gv_evaluate", 0, inputs.obs, steps)
            call.place("action", self._by_row(action[steps]), self.action_type, self.sizes.entries)
            if inputs.mask is not None and self.mask_columns:
                call.place("mask", self._by_row(inputs.mask[steps]), torch.bool, self.mask_columns)
            call.write(result[steps])
        return result

    def value(self, inputs: Inputs) -> Tensor:
        """See ``Policy.value()``."""
        return self.values(apply(inputs.obs, lambda x: x.unsqueeze(0))).squeeze(0)

    def values(self, obs: Observation, used: Tensor | None = None, packed: Tensor | None = None) -> Tensor:
        """Return the values of all steps at once, float32 (S, B[, a]).

        Args:
            obs: float32 (S, B, *shape), or with a shared part the dict of ``Inputs``.
            used: bool (S, B[, a]), False for values that nobody reads, which are undefined; None: all are used.
            packed: numbers of 16 bits (rows, columns), gets the normal features of the first rows of a wide network whose
                observations have no shared part; None: nobody wants them.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: the tensor does not fit.
        """
        lead = row_axes(obs)
        result = torch.empty(lead, dtype=torch.float32, device=self.device)
        with self.hold_weights():
            for steps in self._steps(lead):
                call = self._call("gv_values", 1, obs, steps)
                if used is not None:
                    call.place("mask", self._by_row(used[steps]), torch.bool, 1)
                    call.args.partly = 1
                first = steps.start * math.prod(lead[1:])
                if packed is not None and first < len(packed):
                    call.args.packed_rows = packed[first:].data_ptr()
                    call.args.packed_count = min(call.count, len(packed) - first)
                call.write(result[steps])
        return result

    def _call(self, name: str, network: int, obs: Observation, steps: slice) -> _Call:
        """Return a launch over the rows of some steps, with their observations."""
        chosen = apply(obs, lambda x: x[steps])
        if isinstance(chosen, dict):
            chosen = {part: x.flatten(0, 1) for part, x in chosen.items()}
        call = _Call(self, name, network, row_axes(chosen)[:2])
        call.place_obs(chosen)
        return call

    def _by_row(self, array: Tensor) -> Tensor:
        """Return an array of samples with two axes before those of a row."""
        return array.flatten(0, 1) if self.sizes.shared else array

    def _steps(self, lead: tuple[int, ...]) -> list[slice]:
        """Return the steps of each launch over rows with the axes (S, B[, a])."""
        steps, *width = lead
        each = max(1, SPLIT_ROWS // max(1, math.prod(width))) if self.sizes.split else max(1, steps)
        return [slice(first, first + each) for first in range(0, steps, each)]


def row_axes(obs: Observation) -> tuple[int, ...]:
    """Return the axes of what a policy computes for each row: the first two of rows, or (S, B, a) or (B, a) of worlds."""
    return tuple(obs["own"].shape[:-1] if isinstance(obs, dict) else obs.shape[:2])


class _Call(Call):
    """One launch, or several of a split network."""

    def __init__(self, fused: FusedActor, name: str, network: int, rows: tuple[int, ...]) -> None:
        """Prepare a kernel over rows of the axes (B,) or (S, B), for the actor, network 0, or the critic, network 1."""
        self.fused, self._network, self.rows, self.count = fused, network, rows, math.prod(rows)
        if self.count > MAX_ROWS:
            raise ShapeError(f"fused policy: expected at most {MAX_ROWS:,} rows, got {self.count:,}.")
        sizes = fused.sizes
        super().__init__(fused.program(), fused.device, rows=self.count, samples_per_step=rows[-1])
        self._teams, self._shared_bytes = min(-(-self.count // sizes.rows), fused.most_teams), sizes.act_memory.shared_bytes
        self._names: tuple[str, ...] = (name,)
        if sizes.split:
            packs = ("gv_pack_heads", *(("gv_pack_masks",) if sizes.mask_words else ()))
            first = "gv_wide_first" if sizes.wide else "gv_first"
            self._names = (first, *(packs if sizes.head_columns and network == 0 else ()), name)
            self.set(units=fused.room_for_units(self.count), packed=fused.packed)
            if "gv_pack_masks" in self._names:
                self.set(allowed=fused.room_for_masks(self.count))
        if sizes.wide:
            self.set(first_weights=fused.first_weights, first_biases=fused.first_biases)
        if sizes.shared:  # rows have the axes (worlds, agents)
            self._names = ("gv_wide_worlds", *self._names)
            self.set(agents=rows[-1], world_sums=fused.room_for_worlds(rows[0]), shared_norm=fused.shared_norm())
        self._addresses: list[int] = []

    def place(self, member: str, array: Tensor, dtype: torch.dtype, width: int) -> bool:
        """Store the place of an array with ``width`` numbers a row; return True if it had to be copied."""
        axes, rows = len(self.rows), self.rows
        if tuple(array.shape[:axes]) != rows or array.shape[axes:].numel() != width:
            expected = f"the axes {rows} and {width} numbers a row"
            raise ShapeError(f"fused policy: {member} must have {expected}, got {tuple(array.shape)}.")
        if array.dtype != dtype:
            raise ArrayTypeError(f"fused policy: {member} must be {dtype}, got {array.dtype}.")
        if array.device != self.fused.device:
            raise DeviceError(f"fused policy: {member} must be on {self.fused.device}, got {array.device}.")
        copied = self.count > 0 and not (is_addressed_by_rows(array if axes == 2 else array[None]))
        array = array.contiguous() if copied else array
        step = array.stride(0) if axes == 2 else rows[0] * array.stride(0)
        setattr(self.args, member, SLAB.form(array.data_ptr(), step, array.stride(axes - 1)))
        self._members[member] = array
        return copied

    def place_obs(self, obs: Observation) -> bool:
        """Store the place of observations; return True if they had to be copied."""
        shared_features, features = self.fused.sizes.part_features
        if isinstance(obs, Tensor):
            return self.place("obs", obs, torch.float32, features)
        copied = self.place("obs", obs["own"], torch.float32, features)
        shared = obs["shared"]
        if shared.shape != (self.rows[0], shared_features):
            raise ShapeError(f"fused policy: shared must have {(self.rows[0], shared_features)}, got {tuple(shared.shape)}.")
        by_world = shared if not self.count or is_addressed_by_rows(shared[None]) else shared.contiguous()
        self.set(shared={"at": by_world, "step": len(by_world) * by_world.stride(0), "sample": by_world.stride(0)})
        self.args.worlds_per_step = self.rows[0]
        return copied or by_world is not shared

    def run(self) -> None:
        """Queue the kernel."""
        addresses = self.fused.addresses(self._network)
        if addresses != self._addresses:
            self._addresses = addresses
            self.fused.point(self.args, addresses)
        converts = self.fused.must_convert(self._network)
        if self.fused.sizes.wide and converts:
            columns = self.fused.sizes.stream(1).columns
            self.launch("gv_pack_first", columns, self.count, SMALL_BYTES)
        for name in self._names:
            if (name == "gv_pack_masks" and not self.args.mask.at) or (name == "gv_pack_heads" and not converts):
                continue
            teams = -(-self.count // self.fused.sizes.rows) if name == "gv_pack_masks" else self._teams
            self.launch(name, teams, self.count, SMALL_BYTES if name.startswith("gv_pack") else self._shared_bytes)

    def write(self, result: Tensor) -> None:
        """Queue the kernel, which writes a number for each row, float32, without gaps."""
        self.args.result = result.data_ptr()
        self.run()


class ActCall(_Call):
    """A launch that acts, prepared for counters. Checks are most of its host time, so arrays of the last call have none."""

    kernel = "gv_act"

    def __init__(self, fused: FusedActor, draw: Draw, deterministic: bool) -> None:
        super().__init__(fused, self.kernel, 0, tuple(draw.world.shape))
        self.args.likeliest = int(deterministic)
        names = ("seed", "world_id", "episode", "t", "world", "agent")
        self.set(draw={name: getattr(draw, name) for name in names})
        self._inputs: tuple[Observation, Tensor | None] | None = None
        self._out = None if draw.out is None else draw.out[:2]
        self._place_results(*(self._out or self._new_results()))

    def act(self, obs: Observation, mask: Tensor | None, outputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """See ``FusedPolicy.act()``."""
        last = self._inputs
        if last is None or last[0] is not obs or last[1] is not mask:
            copied = self.place_obs(obs)
            if mask is None:
                self.args.mask = SLAB.form()
            else:
                copied |= self.place("mask", mask, torch.bool, self.fused.mask_columns)
            self._inputs = None if copied else (obs, mask)
        self.args.result = None if outputs is None else outputs.data_ptr()
        action, log_prob = self._out or self._new_results()
        self.args.action.at, self.args.log_prob.at = action.data_ptr(), log_prob.data_ptr()
        self.run()
        return action.squeeze(-1) if self.fused.policy.discrete else action, log_prob

    def _new_results(self) -> tuple[Tensor, Tensor]:
        fused = self.fused
        action = torch.empty((*self.rows, fused.sizes.entries), dtype=fused.action_type, device=fused.device)
        return action, torch.empty(self.rows, dtype=torch.float32, device=fused.device)

    def _place_results(self, action: Tensor, log_prob: Tensor) -> None:
        """Check arrays for the results, and store their places; those of new ones differ by their addresses alone."""
        copied = self.place("action", action, self.fused.action_type, self.fused.sizes.entries)
        if self.place("log_prob", log_prob, torch.float32, 1) or copied:
            raise ShapeError("fused policy: expected results whose numbers of a row lie side by side.")
