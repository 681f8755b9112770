"""The site: its tabs, and what its hooks make of the repository's pages. Those tests need the extra "docs"."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from gpu_vecenv.testing.subject import Subject
from tests.docs.site import NAV
from tests.web.node import run_in_node

ROOT = Path(__file__).resolve().parents[2]
THEME = ROOT / "tools" / "docs" / "theme" / "main.html"


def test_the_site_has_at_most_seven_tabs():
    assert len(NAV) <= 7 and all(len(entry) == 1 for entry in NAV)


def test_the_preview_of_a_shared_link_is_a_picture_of_the_stated_size():
    with Image.open(ROOT / "docs" / "figures" / "preview.png") as picture:
        width, height = picture.size
    assert f'"og:image:width" content="{width}"' in THEME.read_text()
    assert f'"og:image:height" content="{height}"' in THEME.read_text()


@pytest.fixture
def hooks(monkeypatch):
    """Return the module of the hooks."""
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(ROOT / "tools" / "docs")
    import site_hooks

    yield site_hooks
    sys.modules.pop("site_hooks")
    sys.modules.pop("notebook_page")


@pytest.fixture
def site(hooks):
    """Return a site's configuration and a function that gives a page's text to the hooks; the repository has no address."""
    from mkdocs.config import load_config
    from mkdocs.structure.files import get_files

    config = load_config(str(ROOT / "mkdocs.yml"), repo_url="")
    config = hooks.on_config(config)
    files = config.plugins.run_event("files", get_files(config), config=config)

    def text(uri, markdown):
        return hooks.on_page_markdown(markdown, SimpleNamespace(file=files.get_file_from_path(uri)), config, files)

    return config, text


def test_all_tutorials_are_in_the_navigation_in_their_order(site):
    (tutorials,) = (entry["Tutorials"] for entry in site[0].nav if "Tutorials" in entry)
    numbers = [int(Path(page).name.partition("_")[0]) for page in tutorials[1:]]
    assert tutorials[0] == "tutorials/README.md"
    assert numbers == list(range(1, len(list((ROOT / "tutorials").glob("*.ipynb"))) + 1))


def test_links_lead_to_pages_and_to_the_repository(site):
    config, text = site
    page = "docs/adapters/sb3.md"
    assert text(page, "[t](../../tutorials/1_first_steps.ipynb)") == "[t](../../tutorials/1_first_steps.md)"
    assert text(page, "[t](torchrl.md#use) [none](none.md)") == "[t](torchrl.md#use) [none](none.md)"
    assert text(page, "[code](../../adapters/sb3.py)") == "code"
    config.repo_url = "https://example.org/owner/name"
    assert text(page, "[code](../../adapters/sb3.py)") == "[code](https://example.org/owner/name/blob/HEAD/adapters/sb3.py)"
    assert text(page, "git+https://REPOSITORY") == "git+https://example.org/owner/name"


SEARCHED = ("docs/how-do-i.md", "docs/learn/policies.md", "docs/learn/trained-policy.md", "envs/simple_push/README.md")
"""Pages with policies or actions in their headings."""


@pytest.fixture
def first_page(site, hooks):
    """Return a function of a query: the first of ``SEARCHED`` that the site finds, by the script of its theme."""
    import material
    from mkdocs.structure.files import get_files
    from mkdocs.structure.pages import Page

    config, _ = site
    files = config.plugins.run_event("files", get_files(config), config=config)
    search = config.plugins["material/search"]
    search.on_config(config)
    for uri in SEARCHED:
        page = Page(None, files.get_file_from_path(uri), config)
        page.markdown = hooks.on_page_markdown((ROOT / uri).read_text("utf-8"), page, config, files)
        page.render(config, files)
        search.search_index.add_entry_from_context(page)
    index = json.loads(search.search_index.generate_search_index(None))
    (worker,) = (Path(material.__path__[0]) / "templates" / "assets" / "javascripts" / "workers").glob("search.*.js")
    inputs = {"worker": worker.read_text("utf-8"), "index": {**index, "options": {"suggest": False}}}

    def first(query):
        pages = run_in_node(SEARCH, {**inputs, "query": query})
        return pages[0].partition("#")[0]

    return first


SEARCH = """
    let listener, answered;
    globalThis.self = globalThis;
    globalThis.addEventListener = (_, call) => { listener = call; };
    globalThis.postMessage = (message) => answered(message.data);
    (0, eval)(given.worker);
    const ask = (type, data) => new Promise((resolve) => { answered = resolve; listener({ data: { type, data } }); });
    const [SETUP, QUERY] = [0, 2];
    await ask(SETUP, given.index);
    answer((await ask(QUERY, given.query)).items.map((sections) => sections[0].location));
"""
"""Script that asks a worker of the theme, which takes the index and then a query."""


@pytest.mark.parametrize("query", ["load policy", "load a policy", "How do I load a policy"])
def test_a_search_for_load_policy_shows_its_page_first(first_page, query):
    """Recipes have the same words in their headings, and words such as ``a`` begin many words of other pages."""
    assert first_page(query) == "docs/learn/trained-policy/"


def test_envs_play_behind_their_films_and_titles(site):
    _, text = site
    gallery = text("docs/gallery.md", "![Tag](figures/gallery/tag.webp)\n![Catalysis](figures/gallery/catalysis.webp)\n")
    assert gallery.count("<iframe") == 2 and '<iframe src="../../play/tag.html" loading="lazy" title="tag, played' in gallery
    assert "play/cartpole.html" in text("envs/cartpole/README.md", "# CartPole\n\ntext\n")
    assert "play/catalysis.html" in gallery and "iframe" not in text("docs/pages.md", "# Pages\n")


def test_stored_policies_are_small_and_act_for_every_agent_of_an_env():
    from gpu_vecenv.train.runner.page import PageContent
    from tools.docs.play_pages import MAX_BYTES, POLICIES

    for path in POLICIES.glob("*.npz"):
        content = PageContent.read(path)
        layout = Subject(content.env_id, content.params).layout()
        assert path.stat().st_size <= MAX_BYTES and layout.spec.kernel.parent.name == path.stem
        agents = [span["number"] + k for span in content.policies["spans"] for k in range(span["agents"])]
        assert sorted(agents) == [*range(layout.num_agents)]
        assert sum(policy["count"] for policy in content.policies["policies"].values()) == len(content.weights)


def test_docstrings_lose_what_only_sphinx_reads(hooks):
    html = "<p>Example::</p>\n<pre><code>f()</code></pre><p>a::</p><p>See :func:<code>f</code></p>"
    assert hooks.on_page_content(html) == html.replace("Example::", "Example:").replace(":func:", "")
