"""The example that finds a reaction pathway prints the path that its policy takes, beside the exact optimum."""

import numpy as np

from examples import catalysis_path


def test_the_example_prints_path_return_and_barrier(tmp_path, capsys):
    catalysis_path.main("gas1", str(tmp_path / "run"), total_steps=2_048, num_envs=32, device="cpu")
    *_, path, total, barrier = capsys.readouterr().out.splitlines()
    assert path.startswith(("path, which reaches the target: 3 15 43 > ", "path, which does not reach the target: 3 15 43 > "))
    assert total.endswith("the best possible: 28.9848") and barrier.endswith("eV; the lowest possible: 0.0000 eV")


def test_a_path_names_the_cells_of_both_atoms():
    states = [{"position": np.uint8([1, 2, 3, 0]), "position2": np.uint8([4, 5, 6, 0])}] * 2
    assert catalysis_path.path_of(states, 2) == ["1 2 3; 4 5 6"] * 2
    assert catalysis_path.path_of(states[:1], 1) == ["1 2 3"]
