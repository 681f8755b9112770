"""GPU-resident multi-agent vector environments for Gymnasium. Importing this registers the ids."""

from pathlib import Path

__version__ = "0.1.0"

# In a bare checkout on PYTHONPATH, envs/ and adapters/ lie beside this folder and not in it: let imports find them there.
_root = Path(__file__).parent.parent
if (_root / "envs" / "tag" / "tag.cu").is_file() and not (Path(__file__).parent / "envs").exists():
    from gpu_vecenv._checkout import map_checkout

    map_checkout(_root)

from gpu_vecenv.registration import register_envs  # noqa: E402

register_envs()
