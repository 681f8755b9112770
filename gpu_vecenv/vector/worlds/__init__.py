"""Memory of all worlds on one device, and the launches of their kernels."""
