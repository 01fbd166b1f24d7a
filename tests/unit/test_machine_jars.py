"""The pins and the checksums are one list."""

from __future__ import annotations

import re
from pathlib import Path

from fencepost.machine import ivy, jars

PACKAGE = Path(jars.__file__).parent


def test_every_pin_has_a_checksum_and_every_checksum_a_pin() -> None:
    lines = [line.split() for line in (PACKAGE / "jars.sha256").read_text().splitlines()]
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest, _name in lines)
    assert sorted(name for _digest, name in lines) == sorted(pin.file for pin in ivy.pins())


def test_only_what_is_named_is_fetched() -> None:
    text = (PACKAGE / "ivy.xml").read_text()
    assert text.count("<dependency ") == text.count('transitive="false"') == len(ivy.pins())
    assert all(re.fullmatch(r"\d[\w.-]*", pin.revision) for pin in ivy.pins())  # exact: no ranges, no "latest"


def test_no_address_is_written_down() -> None:
    for name in ("ivy.xml", "ivysettings.xml", "ivy.py", "jars.py"):
        assert "://" not in (PACKAGE / name).read_text()


def test_brokers_and_spark_have_clients_of_their_own() -> None:
    clients = {pin.configuration: pin.revision for pin in ivy.pins() if pin.module == "kafka-clients"}
    assert set(clients) == {"broker", "spark"}
