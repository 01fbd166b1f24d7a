"""What a browser is given: our own files and the vendored ones, as they were published."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import fencepost.web
from fencepost.web.rendering import environment

WEB = Path(fencepost.web.__file__).parent
VENDOR = WEB / "static" / "vendor"
LISTED = re.findall(r"\| `([\w.-]+)` \| .*`([\w.-]+)` \| `([0-9a-f]{64})` \|", (VENDOR / "VERSIONS.md").read_text())


def test_every_vendored_file_is_listed_with_its_licence() -> None:
    there = {file.name for file in VENDOR.iterdir()}
    licences = {licence for _, licence, _ in LISTED}
    assert there == {name for name, _, _ in LISTED} | licences | {"VERSIONS.md"}


@pytest.mark.parametrize(("name", "_licence", "digest"), LISTED)
def test_vendored_files_are_as_published(name: str, _licence: str, digest: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("file", sorted((WEB / "templates").glob("*.html")), ids=lambda file: file.name)
def test_templates_have_no_script_no_style_and_nothing_unescaped(file: Path) -> None:
    text = file.read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?://(?!www\.w3\.org)", text)
    assert not re.search(r"<script(?![^>]*\bsrc=\"/static/)", text)
    assert "|safe" not in text.replace(" ", "")
    assert "autoescape" not in text
    environment().get_template(file.name)


def test_whatever_a_template_is_given_is_escaped() -> None:
    template = environment().from_string("{{ one }}{{ one | text }}")
    assert "<" not in template.render(one="<img onerror='1'>")
