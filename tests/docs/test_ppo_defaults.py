"""The table of PPO's defaults has those of the package and of the installed Stable-Baselines3."""

import inspect
import re
from pathlib import Path

import pytest

from gpu_vecenv.train.config import Preset

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ppo-details.md").read_text()
SECTION = PAGE.partition("## Options with their defaults\n")[2].partition("\n## ")[0]
CELLS = [re.split(r" *\| *", line.strip("| ")) for line in SECTION.splitlines() if line.startswith("| ")]
ROWS = {name: columns for name, *columns in CELLS}


def rate(value):
    return f"{value:.0e}".replace("e-0", "e-")


def test_the_first_column_has_the_defaults_of_the_package():
    run = Preset()
    ppo, sizes = run.ppo, run.network.hidden_sizes
    expected = {
        "worlds x steps": f"{run.num_envs} x {ppo.num_steps}",
        "epochs x minibatches": f"{ppo.num_epochs} x {ppo.num_minibatches}",
        "learning rate": f"{rate(ppo.learning_rate)}, to 0",
        "discount, lambda": f"{ppo.gamma}, {ppo.gae_lambda}",
        "clip range": f"{ppo.clip_coef}",
        "clip range of values": f"{ppo.clip_coef}",
        "weight and loss of values": f"{ppo.value_coef}, 1/2 of the mean square",
        "weight of the entropy": f"{ppo.entropy_coef}",
        "gradient norm": f"{ppo.max_grad_norm}",
        "advantages normalised in": f"the {ppo.normalize_advantages}",
        "network": f"{sizes[0]}, {sizes[1]}, {run.network.activation}, for policy and value each",
        "log of the deviation at the start": f"{run.network.log_std:g}",
    }
    assert {name: ROWS[name][0] for name in expected} == expected
    assert ppo.clip_value and ppo.learning_rate_schedule == "linear" and len(sizes) == 2 and not run.network.shared_trunk
    assert ppo.target_kl is None and ppo.normalize_observations and ppo.normalize_rewards


def test_the_second_column_has_the_defaults_of_stable_baselines3():
    library = pytest.importorskip("stable_baselines3")
    defaults = {name: each.default for name, each in inspect.signature(library.PPO).parameters.items()}
    expected = {
        "worlds x steps": f"1 x {defaults['n_steps']:,}",
        "epochs x minibatches": f"{defaults['n_epochs']} x {defaults['n_steps'] // defaults['batch_size']}",
        "learning rate": f"{rate(defaults['learning_rate'])}, constant",
        "discount, lambda": f"{defaults['gamma']}, {defaults['gae_lambda']}",
        "clip range": f"{defaults['clip_range']}",
        "clip range of values": f"{defaults['clip_range_vf']}".lower(),
        "weight and loss of values": f"{defaults['vf_coef']}, mean square",
        "weight of the entropy": f"{defaults['ent_coef']:g}",
        "gradient norm": f"{defaults['max_grad_norm']}",
        "stop at a divergence": f"{defaults['target_kl']}".lower(),
    }
    assert {name: ROWS[name][1] for name in expected} == expected
    assert defaults["normalize_advantage"]
