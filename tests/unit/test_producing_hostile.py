"""Files that a sender finds: read as what they are, every line once, or refused with a line; nothing is destroyed."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError, PositionLost, Usage
from fencepost.producing.journal import Journal
from fencepost.producing.resume import file_name
from fencepost.producing.sources import lines
from fencepost.producing.sources.files import Files
from fencepost.producing.sources.layouts import Layout
from fencepost.producing.sources.lines import Reading
from fencepost.producing.sources.piped import Piped
from fencepost.producing.sources.source import BrokenLine, Place
from support.hostile import DEEP, DIGITS, FILE_NAMES, JOURNALS, VALUES

LINES = b"".join(b'{"id": %d}\n' % number for number in range(1_000))


def zstd(content: bytes) -> bytes:
    """With a checksum, as the command-line tool writes it."""
    if shutil.which("zstd") is None:
        pytest.skip("needs zstd")
    return subprocess.run(["zstd", "-qc"], input=content, capture_output=True, check=True).stdout  # noqa: S607


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": lambda content: bytes(pa.compress(content, codec="zstd", asbytes=True)),
}


def values(path: Path, reading: Reading | None = None, place: Place | None = None) -> list[bytes | None]:
    return [event.value for event in Files(path, reading).open(place)]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


class TestPacked:
    @pytest.mark.parametrize("packing", PACKINGS)
    def test_it_is_read_as_what_is_in_it(self, tmp_path: Path, packing: str) -> None:
        path = write(tmp_path / f"a.jsonl.{packing}", PACKINGS[packing](LINES))
        events = list(Files(path, Reading(key="id")).open(None))
        assert b"".join((event.value or b"") + b"\n" for event in events) == LINES
        assert [event.key for event in events] == [b"%d" % number for number in range(1_000)]

    @pytest.mark.parametrize("packing", PACKINGS)
    def test_whatever_its_name_is(self, tmp_path: Path, packing: str) -> None:
        assert len(values(write(tmp_path / "a.jsonl", PACKINGS[packing](LINES)))) == 1_000

    @pytest.mark.parametrize("packing", PACKINGS)
    @given(stop=st.integers(0, 1_000))
    def test_wherever_a_reader_stops_the_next_goes_on(
        self, tmp_path_factory: pytest.TempPathFactory, packing: str, stop: int
    ) -> None:
        path = write(tmp_path_factory.mktemp("packed") / f"a.csv.{packing}", PACKINGS[packing](b"id\n" + LINES))
        source = Files(path, Reading(Layout.TEXT))
        for _ in zip(range(stop), source.open(None), strict=False):
            pass
        place = json.loads(json.dumps(source.place()))
        rest = [event.number for event in Files(path, Reading(Layout.TEXT)).open(place)]
        assert rest == list(range(stop + 1, 1_002))

    @pytest.mark.parametrize("packing", PACKINGS)
    def test_one_that_grew_by_another_part_is_read_on(self, tmp_path: Path, packing: str) -> None:
        path = write(tmp_path / f"a.jsonl.{packing}", PACKINGS[packing](LINES))
        source = Files(path)
        assert len(list(source.open(None))) == 1_000
        with path.open("ab") as more:
            more.write(PACKINGS[packing](b'{"id": 1000}\n'))
        assert values(path, None, source.place()) == [b'{"id": 1000}']

    @pytest.mark.parametrize("packing", PACKINGS)
    def test_one_that_was_packed_anew_is_the_same(self, tmp_path: Path, packing: str) -> None:
        source = Files(write(tmp_path / "a.jsonl", PACKINGS[packing](LINES)))
        for _ in zip(range(10), source.open(None), strict=False):
            pass
        assert len(values(write(tmp_path / "a.jsonl", LINES), None, source.place())) == 990

    @pytest.mark.parametrize("packing", PACKINGS)
    def test_one_whose_content_changed_is_refused(self, tmp_path: Path, packing: str) -> None:
        path = write(tmp_path / f"a.jsonl.{packing}", PACKINGS[packing](LINES))
        source = Files(path)
        for _ in zip(range(10), source.open(None), strict=False):
            pass
        for changed in (LINES.replace(b"3", b"7"), LINES[:50]):
            write(path, PACKINGS[packing](changed))
            with pytest.raises(PositionLost):
                Files(path).open(source.place())

    @pytest.mark.parametrize("packing", [*PACKINGS, "zst of the tool"])
    @pytest.mark.parametrize("cut", [1, 4, 9, 500])
    def test_a_cut_one_is_an_error_never_a_silent_end(self, tmp_path: Path, packing: str, cut: int) -> None:
        long = os.urandom(200_000).hex().encode() + b"\n"
        pack = PACKINGS.get(packing, zstd)
        whole = pack(LINES + long)
        path = write(tmp_path / f"a.txt.{packing[:3].strip()}", whole[:-cut])
        for reading in (Reading(Layout.TEXT), Reading(Layout.TEXT, skip_broken=True)):
            with pytest.raises(BrokenLine, match=r"a\.txt.* cannot be read further"):
                values(path, reading)

    @pytest.mark.parametrize("content", [b"", b"\x1f", b"plain\n", b"\x28\xb5"])
    @pytest.mark.parametrize("suffix", ["gz", "zst"])
    def test_a_name_that_says_packed_over_something_else_is_refused(
        self, tmp_path: Path, content: bytes, suffix: str
    ) -> None:
        with pytest.raises(Usage, match="is not packed with"):
            Files(write(tmp_path / f"a.{suffix}", content))

    def test_damage_in_the_middle_is_an_error(self, tmp_path: Path) -> None:
        whole = bytearray(gzip.compress(os.urandom(100_000)))
        whole[50_000] ^= 0xFF
        with pytest.raises(BrokenLine, match="cannot be read further"):
            values(write(tmp_path / "a.gz", bytes(whole)), Reading(Layout.TEXT))


REFUSED = {
    "zip": (b"PK\x03\x04....", "a zip archive"),
    "bzip2": (b"BZh91AY&SY....", "bzip2"),
    "xz": (b"\xfd7zXZ\x00....", "xz"),
    "lz4": (b"\x04\x22\x4d\x18....", "lz4"),
    "snappy": (b"\xff\x06\x00\x00sNaPpY", "snappy"),
    "Avro": (b"Obj\x01....", "Avro"),
    "Parquet": (b"PAR1\x15\x04", "Parquet"),
    "UTF-16": ('{"id": 1}\n'.encode("utf-16"), "UTF-16"),
    "UTF-16, the other way": (b"\xfe\xff\x00a\x00\n", "UTF-16"),
    "UTF-32": ("a\n".encode("utf-32"), "UTF-16 or UTF-32"),
    "UTF-16 without a mark": ("id,name\n1,x\n".encode("utf-16-le"), "NUL"),
    "binary": (b"\x7fELF\x00\x00\n", "NUL"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_what_has_no_lines_is_refused_by_name_and_sent_only_when_asked_for(
    tmp_path: Path, name: str, packed: str
) -> None:
    content, why = REFUSED[name]
    pack = PACKINGS.get(packed[1:], bytes)
    path = write(tmp_path / f"a.csv{packed}", pack(content))
    with pytest.raises(Usage, match=why):
        Files(path)
    with pytest.raises(Usage, match=why):
        list(Piped(io.BufferedReader(io.BytesIO(pack(content)))).open(None))
    assert b"\n".join(value or b"" for value in values(path, Reading(Layout.TEXT))) == content.rstrip(b"\n")


def test_what_is_there_and_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "fifo", tmp_path / "socket", Path("/dev/null"), Path("/dev/zero")):
            with pytest.raises(Usage, match="cannot be read again: read it through standard input"):
                Files(path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("loop", "x" * 300, "nothing", "fifo/below"):
        with pytest.raises(Usage, match="cannot be read"):
            Files(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", b"x\n").chmod(0)
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(Usage, match="Permission denied"):
            Files(path)


@pytest.mark.parametrize("name", FILE_NAMES)
def test_any_name_of_a_file_is_a_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / FILE_NAMES[name], b"x\n")
    source = Files(path)
    assert [event.value for event in source.open(None)] == [b"x"]
    json.loads(json.dumps(source.place()))
    file_name(path).encode()


def test_a_name_that_is_not_utf8_is_a_name_too(tmp_path: Path) -> None:
    path = write(tmp_path / os.fsdecode(b"a\xff.txt"), b"x\ny\n")
    source = Files(path)
    events = source.open(None)
    next(events)
    assert values(path, None, json.loads(json.dumps(source.place()))) == [b"y"]
    assert file_name(path).startswith("a\\udcff.txt-")


class TestLines:
    @pytest.mark.parametrize("end", [b"\n", b"\r\n"])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    @pytest.mark.parametrize("last", [True, False])
    @pytest.mark.parametrize("stop", range(3))
    @pytest.mark.parametrize("layout", ["jsonl", "csv", "txt"])
    def test_marks_and_ends_are_in_no_event(
        self, tmp_path: Path, end: bytes, mark: bytes, last: bool, stop: int, layout: str
    ) -> None:
        rows = {"jsonl": [b'{"id": "1"}', b'{"id": "2"}'], "csv": [b"id", b"1", b"2"], "txt": [b"1", b"2"]}[layout]
        path = write(tmp_path / f"a.{layout}", mark + end.join(rows) + (end if last else b""))
        sent = {"txt": [b"1", b"2"]}.get(layout, [b'{"id": "1"}', b'{"id": "2"}'])
        source = Files(path)
        for _ in zip(range(stop), source.open(None), strict=False):
            pass
        assert values(path) == sent
        assert values(path, None, json.loads(json.dumps(source.place()))) == sent[stop:]
        with path.open("rb") as stream:
            piped = Piped(stream, Reading({"jsonl": Layout.JSONL, "csv": Layout.CSV, "txt": None}[layout]))
            assert [event.value for event in piped.open(None)] == sent

    def test_a_file_of_a_mark_alone_has_no_events_and_may_grow(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.txt", b"\xef\xbb\xbf")
        source = Files(path)
        assert list(source.open(None)) == []
        write(path, b"\xef\xbb\xbfone\n")
        assert values(path, None, source.place()) == [b"one"]

    @pytest.mark.parametrize("layout", ["jsonl", "csv", "txt"])
    def test_an_empty_file_has_no_events(self, tmp_path: Path, layout: str) -> None:
        assert values(write(tmp_path / f"a.{layout}", b"")) == []

    def test_a_line_that_is_too_long_is_broken_and_never_held(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lines, "LONGEST_LINE", 100)
        for length in (99, 100, 101, 1_000):
            path = write(tmp_path / "a.txt", b"one\n" + b"x" * length + b"\ntwo\n" + b"y" * length)
            long = [] if length > 99 else [b"x" * length], [] if length > 99 else [b"y" * length]
            source = Files(path, Reading(skip_broken=True))
            found = list(source.open(None))
            assert [event.value for event in found] == [b"one", *long[0], b"two", *long[1]]
            assert [line for _, line, _ in source.broken] == ([2, 4] if length > 99 else [])
            assert source.place()["line"] == 4
            assert source.place()["byte"] == path.stat().st_size
            if length > 99:
                with pytest.raises(BrokenLine, match="line 2: longer than 100 bytes"):
                    values(path)

    def test_long_integers_are_events_and_keys(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", f'{{"id": {DIGITS}}}\n{{"id": -{DIGITS}, "a": [1, 2.5]}}\n'.encode())
        assert [event.key for event in Files(path, Reading(key="id")).open(None)] == [
            DIGITS.encode(),
            f"-{DIGITS}".encode(),
        ]

    @pytest.mark.parametrize("name", VALUES)
    @pytest.mark.parametrize("key", [None, "id", "v"])
    def test_each_hostile_value_is_an_event_as_it_is_or_a_broken_line(
        self, tmp_path: Path, name: str, key: str | None
    ) -> None:
        value = VALUES[name] or b""
        if b"\n" in value:
            pytest.skip("two lines")
        path = write(tmp_path / "a.jsonl", b'{"id": 1, "v": 1}\n' + value + b'\n{"id": 3, "v": 3}\n')
        if name == "UTF-16":
            value = value.removeprefix(b"\xff\xfe")
        source = Files(path, Reading(key=key, skip_broken=True))
        found = [event.value for event in source.open(None)]
        assert found[0] == b'{"id": 1, "v": 1}'
        assert found[-1] == b'{"id": 3, "v": 3}'
        assert len(found) + len(source.broken) == (3 if value.strip(b"\r\n") else 2)
        assert found[1:-1] in ([], [VALUES[name]])

    def test_nesting_that_is_too_deep_is_broken(self, tmp_path: Path) -> None:
        with pytest.raises(BrokenLine, match="line 1: not JSON: nested too deeply"):
            values(write(tmp_path / "a.jsonl", b"[" * DEEP + b"]" * DEEP + b"\n"))


class TestCsv:
    def test_a_column_that_is_there_twice_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BrokenLine, match="line 1: the column 'id' occurs twice"):
            values(write(tmp_path / "a.csv", b"id,name,id\n1,x,2\n"))

    def test_long_cells_and_nul_are_cells(self, tmp_path: Path) -> None:
        long = b"x" * 1_000_000
        (event,) = values(write(tmp_path / "a.csv", b"id,v\n1," + long + b"\n"))
        assert json.loads(event or b"")["v"] == long.decode()
        (event,) = values(write(tmp_path / "b.csv", b"id,v\n1,a\x00b\n"), Reading(Layout.CSV))
        assert json.loads(event or b"") == {"id": "1", "v": "a\x00b"}

    def test_a_quote_that_is_never_closed_costs_its_lines_only(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.csv", b'id,v\n1,"open\n2,x\n')
        source = Files(path, Reading(skip_broken=True))
        assert list(source.open(None)) == []
        assert [line for _, line, _ in source.broken] == [2]


class TestJournal:
    @pytest.mark.parametrize("name", JOURNALS)
    def test_a_file_that_is_no_journal_stays_as_it_is(self, tmp_path: Path, name: str) -> None:
        path = write(tmp_path / "precious", JOURNALS[name])
        with pytest.raises(Usage, match="is not a journal: it was not changed"):
            Journal(path, "orders", "exactly-once")
        assert path.read_bytes() == JOURNALS[name]

    def test_what_is_no_file_is_refused_at_once(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "fifo")
        for path in (tmp_path / "fifo", Path("/dev/null"), Path("/dev/full")):
            with pytest.raises(Usage, match="is not a file"):
                Journal(path, "orders", "exactly-once")
        for path in (tmp_path, tmp_path / "nowhere" / "journal", tmp_path / ("x" * 300)):
            with pytest.raises(Usage, match="cannot be written"):
                Journal(path, "orders", "exactly-once")

    def test_two_producers_cannot_write_the_same(self, tmp_path: Path) -> None:
        first = Journal(tmp_path / "journal", "orders", "exactly-once")
        with pytest.raises(Usage, match="another producer writes"):
            Journal(tmp_path / "journal", "orders", "exactly-once")
        first.close()
        Journal(tmp_path / "journal", "orders", "exactly-once").close()

    def test_every_piece_of_a_journal_is_one(self, tmp_path: Path) -> None:
        """Wherever a kill tears the first line."""
        path = tmp_path / "journal"
        journal = Journal(path, "orders", "exactly-once")
        journal.sent(1, 5)
        journal.close()
        whole = path.read_bytes()
        for length in range(len(whole)):
            write(path, whole[:length])
            Journal(path, "orders", "exactly-once").close()
            assert whole.startswith(path.read_bytes())
            assert path.read_bytes().count(b"\n") == whole[:length].count(b"\n")

    def test_it_is_never_one_of_the_files_that_are_sent(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.jsonl", LINES)
        (tmp_path / "link").symlink_to(path)
        assert Files(path).holds(tmp_path / "link")
        assert Files(path).holds(tmp_path / "." / "a.jsonl")
        assert not Files(path).holds(tmp_path / "journal")
        assert Files(tmp_path).holds(tmp_path / "journal")
        assert not Files(tmp_path).holds(tmp_path / "deeper" / "journal")


def test_a_stream_counts_what_it_skips() -> None:
    stream = io.BufferedReader(io.BytesIO(b'{"id": 1}\nno\n{"id": 3}\n'))
    piped = Piped(stream, Reading(Layout.JSONL, "id", skip_broken=True))
    assert [event.key for event in piped.open(None)] == [b"1", b"3"]
    assert [line for _, line, _ in piped.broken] == [2]


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packed_stream_is_read_as_what_is_in_it_and_a_cut_one_is_an_error(packing: str) -> None:
    packed = PACKINGS[packing](LINES)
    assert len(list(Piped(io.BufferedReader(io.BytesIO(packed))).open(None))) == 1_000
    with pytest.raises(FencepostError, match="standard input cannot be read further"):
        list(Piped(io.BufferedReader(io.BytesIO(packed[:-1]))).open(None))
