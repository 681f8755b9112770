"""The vector env and what is made of it: single envs, CUDA graphs, pictures, copies."""
