"""Peers: other libraries, each in a process of its own and timed in the same rounds as this one.

A module here has ``NAME`` and ``DISTRIBUTION`` of its library. ``ways(case, device)`` returns the library's ways to run a case,
dicts that JSON can hold. In the library's own process ``make(**way)`` returns the subject to time. Only ``make`` imports the
library.
"""

PEERS = (
    "gymnasium_vector", "envpool_sync", "gymnax_jax", "jaxmarl_mpe", "vmas_torch", "warpdrive",
    "mpe2_spread", "lbforaging_gym", "rware_gym", "jumanji_scan",
)  # fmt: skip
"""Modules of this package, one for each library."""

TRAINERS = ("purejaxrl", "torch_graph")
"""Modules of this package with other trainers. Their ``ways`` get a ``Setting`` or a ``Goal``."""

CLASSIC_IDS = {
    "WarpCartPole-v1": "CartPole-v1",
    "WarpAcrobot-v1": "Acrobot-v1",
    "WarpPendulum-v1": "Pendulum-v1",
    "WarpMountainCar-v0": "MountainCar-v0",
}
"""Ids of this package to those of Gymnasium, EnvPool and gymnax."""
