"""Blocks in two languages are tabs on the site, and plain Markdown in the repository."""

from pathlib import Path

import pytest

from tools.docs.tabs import with_tabs

ROOT = Path(__file__).resolve().parents[2]
PAGE = """Before.

<!-- tabs -->
**C++**

```cuda
int x;
```

**Python**

```python
x = 1

y = 2
```
<!-- /tabs -->

After.
"""


def test_blocks_become_tabs():
    expected = '=== "C++"\n\n    ```cuda\n    int x;\n    ```\n\n=== "Python"\n\n    ```python\n    x = 1\n\n    y = 2\n    ```\n'
    assert with_tabs(PAGE) == f"Before.\n\n{expected}\n\nAfter.\n"


def test_a_page_without_tabs_stays():
    assert with_tabs("**C++**\n\ntext\n") == "**C++**\n\ntext\n"


def test_text_outside_of_a_tab_is_refused():
    with pytest.raises(ValueError, match="tabs must begin with a bold title"):
        with_tabs("<!-- tabs -->\nMore.\n\n**C++**\n<!-- /tabs -->\n")


def test_write_your_env_has_both_languages():
    page = (ROOT / "docs" / "learn" / "own-env.md").read_text()
    assert page.count("<!-- tabs -->") == page.count("<!-- /tabs -->") == with_tabs(page).count('=== "Python"') >= 1
