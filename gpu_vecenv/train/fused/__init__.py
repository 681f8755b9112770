"""Updates of small networks by kernels of their own, where a policy fits them."""
