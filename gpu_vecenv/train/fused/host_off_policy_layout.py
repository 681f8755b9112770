"""Places of the numbers of SAC, TD3 and DDPG in the arrays of ``kernels/learner/host_off_policy.cu``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from gpu_vecenv.backend.trainer_programs import HOST_OFF_POLICY
from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.fused.host_act import MOST_TEAMS
from gpu_vecenv.train.fused.host_layout import STEP
from gpu_vecenv.train.fused.host_update import BLOCKS, SHARED_SIZE
from gpu_vecenv.train.fused.tile_plan import up_to
from gpu_vecenv.train.policies.actor import ActorPolicy

ROWS, NO_FORM, AS_STORED = (int(HOST_OFF_POLICY.macros[name]) for name in ("ROWS", "NO_FORM", "AS_STORED"))
FEW = 4
"""Outputs of a layer for which a product of 16 columns would take longer."""


def num_blocks(num_rows: int) -> int:
    """Return the teams that learn from a batch."""
    return max(1, min(BLOCKS, -(-num_rows // ROWS)))


def num_teams(num_rows: int) -> int:
    """Return the teams that draw actions."""
    return min(MOST_TEAMS, -(-num_rows // ROWS))


class Place(NamedTuple):
    """Places of the numbers of a parameter; see ``HOST_TENSOR``."""

    outputs: int
    inputs: int
    by_inputs: int
    first: int
    partial_at: int
    forward_at: int
    backward_at: int


class Layout:
    """Places of the numbers of all networks: policy, target policy of TD3, critics, target critics.

    Attributes:
        places: of weight and bias of each layer of each network, and of the temperature, the last one.
        first_critic: number of the first critic among the networks.
        packed: numbers of packed weights.
        columns: numbers of all parameters that learn.
        groups: first tensor and number of tensors of each optimiser: critics, policy, temperature.
        num_following: tensors of target networks.
        partial_floats: sums of a team, those of a gradient and from ``terms_at`` on the terms.
        room_floats: numbers of the tile of a team.
        most_columns: columns of the widest matrix of a tile.
    """

    def __init__(self, policy: ActorPolicy, network: NetworkConfig, num_critics: int, has_target: bool) -> None:
        """Lay out the numbers.

        Args:
            policy: the policy.
            network: hidden layers of all networks.
            num_critics: number of critics.
            has_target: the policy has a target.
        """
        self.features, self.entries = policy.num_features, policy.group.num_entries
        self.num_layers = len(network.hidden_sizes) + 1
        actor = (self.features, *network.hidden_sizes, policy.outputs_of(self.entries))
        critic = (self.features + self.entries, *network.hidden_sizes, 1)
        self.most_columns = self.packed = up_to(max(*actor, *critic), STEP)
        self.num_critics, self.first_critic, self.columns = num_critics, 1 + has_target, 0
        self.places: list[Place] = []
        of_actor = self._add_network(actor, False, True, 0)
        if has_target:
            self._add_network(actor, False, False, 0)
        of_critics = 0
        for learns in (True, False):
            for _ in range(num_critics):
                of_critics = self._add_network(critic, True, learns, of_critics)
        of_network = 2 * self.num_layers
        self.groups = [(of_network * self.first_critic, of_network * num_critics), (0, of_network), (len(self.places), 1)]
        self.num_following = of_network * (has_target + num_critics)
        self.places.append(Place(1, 1, 0, self.columns, 0, -1, -1))
        self.columns += 1
        self.terms_at = max(of_actor, of_critics)
        self.partial_floats = self.terms_at + STEP
        slopes = network.hidden_sizes if network.activation == "silu" else ()
        units = [sum(up_to(size, STEP) for size in (*sizes, *slopes)) for sizes in (actor, *num_critics * [critic])]
        self.room_floats = ROWS * (sum(units) + 2 * self.most_columns + 2 * self.entries + 2)

    def _add_network(self, sizes: Sequence[int], is_critic: bool, learns: bool, at: int) -> int:
        """Add the places of a network whose sums begin at ``at``, and return their end."""
        for number, (below, units) in enumerate(pairwise(sizes)):
            is_few = 0 < number and units <= FEW
            by_inputs = is_critic and units > 1  # one output has the same numbers in both orders
            forward = NO_FORM if is_few else self._form(below, units, by_inputs)
            # Targets have no derivatives, and nothing needs those by the features of the policy.
            has_slopes = learns and (is_critic or number > 0)
            backward = self._form(units, below, not by_inputs) if has_slopes or is_few else NO_FORM
            of_weight = below * up_to(units, STEP) if by_inputs else units * up_to(below, STEP)
            self.places.append(Place(units, below, int(by_inputs), self.columns, at, forward, backward))
            of_bias = self.columns + learns * units * below
            self.places.append(Place(1, units, 0, of_bias, at + of_weight, NO_FORM, self._form(1, units, True)))
            if learns:
                self.columns, at = self.columns + units * (below + 1), at + of_weight + up_to(units, STEP)
        return at

    def _form(self, rows: int, columns: int, as_stored: bool) -> int:
        """Return the place of a form of a parameter, which may be that in which it is stored."""
        if as_stored and columns % STEP == 0:
            return AS_STORED
        place, self.packed = self.packed, self.packed + rows * up_to(columns, STEP)
        return place

    @property
    def work(self) -> int:
        """Numbers of a launch over parameters. Few of them are not shared by threads."""
        return 0 if self.columns < SHARED_SIZE else self.columns

    def num_floats(self, num_rows: int) -> dict[str, int]:
        """Return the numbers of the arrays of the kernels for batches of some rows."""
        blocks = num_blocks(num_rows)
        return {
            "packed": self.packed, "sums": self.columns, "squares": len(self.places),
            "partial": blocks * self.partial_floats, "room": blocks * self.room_floats,
        }  # fmt: skip

    def num_floats_of_actions(self, num_rows: int) -> dict[str, int]:
        """Return the numbers of the arrays that draw actions for some rows."""
        return {"packed": self.packed, "room": num_teams(num_rows) * self.room_floats}
