"""Where kernels run: the ``cuda`` and ``cpu`` back ends. They know memory and launches, nothing of reinforcement learning."""
