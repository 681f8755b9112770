"""Back ends ``cuda`` and ``cpu``: memory and launches of kernels, independent of the meaning of arrays."""
