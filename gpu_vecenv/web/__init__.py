"""Worlds in a browser and in Node: the kernels of an env as WebAssembly, and the script that steps them."""
