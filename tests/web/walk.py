"""The env of the page on envs of one's own, from its text."""

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs"


def write_walk(folder, name, with_renderer=False):
    """Write the env, with hooks in Python, as a module of a name; return its id. The renderer is that of the page on pictures."""
    spec, hooks = (block for block in blocks("learn/own-env.md") if "EnvSpec(" in block or "def env_reset" in block)
    folder.joinpath(f"{name}_hooks.py").write_text(hooks)
    env_id = f"{name.capitalize()}-v0"
    folder.joinpath(f"{name}.py").write_text(spec.replace("Walk-v0", env_id).replace("walk.cu", f"{name}_hooks.py"))
    if with_renderer:
        (renderer,) = (block for block in blocks("pictures.md") if "class Renderer" in block)
        folder.joinpath("render.py").write_text(renderer)
    return env_id


def blocks(page):
    """Return the blocks of Python of a page."""
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
