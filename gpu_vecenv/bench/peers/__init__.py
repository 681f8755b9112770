"""Other libraries, each in a process of its own and timed in the same rounds as this one.

A module here names its library and says which ways it has to run a case (``NAME``, ``DISTRIBUTION``, ``ways(case, device)``,
dicts that JSON can hold); in the library's own process ``make(**way)`` gives the subject to time. Only ``make`` imports the
library.
"""

PEERS = ("gymnasium_vector", "envpool_sync", "gymnax_jax", "jaxmarl_mpe", "vmas_torch", "warpdrive")
"""Modules of this package, one a library."""

CLASSIC_IDS = {
    "WarpCartPole-v1": "CartPole-v1",
    "WarpAcrobot-v1": "Acrobot-v1",
    "WarpPendulum-v1": "Pendulum-v1",
    "WarpMountainCar-v0": "MountainCar-v0",
}
"""Our ids to those that Gymnasium, EnvPool and gymnax share."""
