"""The navigation of the site, as mkdocs.yml has it."""

from pathlib import Path

import yaml


class _Loader(yaml.SafeLoader):
    """Reads MkDocs' tag for environment variables as None."""


_Loader.add_constructor("!ENV", lambda loader, node: None)
NAV = yaml.load((Path(__file__).resolve().parents[2] / "mkdocs.yml").read_text(), _Loader)["nav"]
