"""The audit's page: nothing of a topic, an event or a message is markup in it, and no other page is written over."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from fencepost.audit.findings import Audit, Finding, Hop
from fencepost.audit.page import render, write_page
from fencepost.errors import Usage
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.machine.printable import visible
from support.hostile import SURROGATE, TEXTS


class Tags(HTMLParser):
    """Which elements a page has, with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, object]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def audit_of(text: str) -> Audit:
    hop = Hop(text, text, 2, 1)
    hop.add([Finding(next(iter(Anomaly)), text, text, 0, 0, 0, 1, text)])
    part = {"topic": text, "partition": 0, "from": 0, "to": 10, "end": 12, "waiting": 2}
    return Audit(Guarantee.EXACTLY_ONCE, "duckdb", [hop], [part], undecided=text)


def tags(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    return parser


@pytest.mark.parametrize("text", [*TEXTS.values(), SURROGATE, "</td><img src=x onerror=alert(1)>", '" onload="x'])
def test_whatever_its_words_are_the_page_has_the_same_elements(text: str) -> None:
    plain, found = tags(render(audit_of("orders"), "orders")), tags(render(audit_of(text), text))
    if text:
        assert found.found == plain.found
        assert visible(text) in found.text
    assert found.text.replace("\n", "").isprintable()


def test_a_page_of_others_stays_as_it_is(tmp_path: Path) -> None:
    write_page(audit_of("orders"), "orders", tmp_path)
    write_page(audit_of(SURROGATE), SURROGATE, tmp_path)
    (tmp_path / "index.html").write_text("<h1>my site</h1>")
    with pytest.raises(Usage, match="is not an audit report: it was not changed"):
        write_page(audit_of("orders"), "orders", tmp_path)
    assert (tmp_path / "index.html").read_text() == "<h1>my site</h1>"
    for folder in (tmp_path / "index.html", Path("/dev/null/x")):
        with pytest.raises(Usage):
            write_page(audit_of("orders"), "orders", folder)
