"""The pages for readers: each link between them leads somewhere, headings included, and each page is found from the README in two steps. Needs no root."""

import collections
import json
import re

import pytest

from weirlab.switch import REPOSITORY

PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page):
    """What the headings of a page are called in links, as GitHub makes it of them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def links(page):
    """A page's links within the repository: the file and the heading, either of which may be none."""
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield target, (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, path, anchor in links(page):
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), target


def test_pages_are_two_steps_from_the_readme():
    readme = REPOSITORY / "README.md"
    one = {path for _, path, _ in links(readme)}
    two = {path for page in one if page.suffix == ".md" for _, path, _ in links(page)}
    assert [page.name for page in PAGES if page not in one | two | {readme}] == []


#: What stands in code style and begins as a path of the repository does. A path with an upper-case name in it stands for several.
PATH = re.compile(r"`((?:weir|config|mmu|flowctl|switch-core|dpdk-io|testbed|scenarios|lab|scripts|docs)/[a-z0-9_./-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_that_pages_name_are_there(page):
    named = set(PATH.findall(CODE.sub("", page.read_text())))
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


def test_the_readme_counts_the_stored_verdicts():
    conclusions = collections.Counter()
    for path in REPOSITORY.glob("scenarios/papers/*/*/result.json"):
        result = json.loads(path.read_text())
        conclusions[result["backends"]["sim"]["outcome"]["conclusions"]] += 1
    readme = (REPOSITORY / "README.md").read_text()
    assert f"of {conclusions.total()} figures" in readme
    words = {
        "reproduced": "reproduced",
        "partly": "partly reproduced",
        "arithmetic": "arithmetic",
        "not": "not reproduced",
        "not-exercised": "not exercised",
        "inconclusive": "inconclusive",
    }
    for of, what in words.items():
        assert not conclusions[of] or f"{conclusions[of]} {what}" in readme, (of, conclusions)
