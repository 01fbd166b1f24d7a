"""Files as sources: every line once, from any place, and a place that does not fit any more is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import PositionLost, Usage
from fencepost.producing.sources.files import Files
from fencepost.producing.sources.layouts import Layout
from fencepost.producing.sources.lines import Reading
from fencepost.producing.sources.source import BrokenLine, Place


def values(source: Files, place: Place | None = None) -> list[bytes | None]:
    return [event.value for event in source.open(place)]


def read_to(path: Path, events: int, reading: Reading | None = None) -> Place:
    """The place behind so many events, as JSON carries it."""
    source = Files(path, reading)
    for _, _event in zip(range(events), source.open(None), strict=False):
        pass
    place: Place = json.loads(json.dumps(source.place()))
    return place


def jsonl(path: Path, numbers: range) -> Path:
    path.write_text("".join(f'{{"id": {n}, "customer": "c{n % 3}"}}\n' for n in numbers))
    return path


def test_lines_have_their_numbers_and_keys(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", range(3))
    events = list(Files(path, Reading(key="customer")).open(None))
    assert [(event.number, event.key) for event in events] == [(1, b"c0"), (2, b"c1"), (3, b"c2")]


def test_the_fingerprint_is_the_same_every_time_and_another_for_another_file(tmp_path: Path) -> None:
    one, other = jsonl(tmp_path / "a.jsonl", range(3)), jsonl(tmp_path / "b.jsonl", range(3))
    assert Files(one).fingerprint == Files(one).fingerprint != Files(other).fingerprint
    assert len(Files(one).fingerprint) == 16


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b"\n"])
@given(lines=st.lists(st.sampled_from([b"", b"one", b"two", "drei €".encode(), b" "]), max_size=12), data=st.data())
def test_wherever_a_reader_stops_the_next_goes_on(
    tmp_path_factory: pytest.TempPathFactory, end: bytes, last: bytes, lines: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(end.join(lines) + last)
    whole = [(event.number, event.value) for event in Files(path).open(None)]
    assert [value for _, value in whole] == [line for line in lines if line]
    stop = data.draw(st.integers(0, len(whole)))
    rest = [(event.number, event.value) for event in Files(path).open(read_to(path, stop))]
    assert rest == whole[stop:]


def test_a_file_that_grew_is_read_on_with_the_same_ids(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", range(3))
    place = read_to(path, 3)
    before = Files(path).fingerprint
    jsonl(path, range(5))
    source = Files(path)
    assert [event.number for event in source.open(place)] == [4, 5]
    assert source.fingerprint == before


@pytest.mark.parametrize("change", ["shrunk", "changed", "replaced"])
def test_a_file_that_is_not_what_was_sent_is_refused(tmp_path: Path, change: str) -> None:
    path = jsonl(tmp_path / "a.jsonl", range(10))
    place = read_to(path, 5)
    content = path.read_bytes()
    match change:
        case "shrunk":
            path.write_bytes(content[: place["byte"] - 1])
        case "changed":
            path.write_bytes(content.replace(b'"id": 2', b'"id": 7', 1))
        case "replaced":
            jsonl(path, range(100, 120))
    with pytest.raises(PositionLost):
        Files(path).open(place)


def test_a_change_behind_the_place_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nbad\n")
    place = read_to(path, 2)
    path.write_bytes(b"one\ntwo\ngood\n")
    assert values(Files(path), place) == [b"good"]


def test_a_last_line_that_was_sent_without_its_end_must_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo")
    place = read_to(path, 2)
    path.write_bytes(b"one\ntwo\nthree\n")
    assert [(event.number, event.value) for event in Files(path).open(place)] == [(3, b"three")]
    path.write_bytes(b"one\ntwofold\nthree\n")
    with pytest.raises(PositionLost, match="has grown"):
        values(Files(path), place)


class TestFolder:
    def folder(self, tmp_path: Path) -> Path:
        for name, numbers in (("a.jsonl", range(3)), ("b.jsonl", range(3, 6)), ("c.jsonl", range(6, 9))):
            jsonl(tmp_path / name, numbers)
        (tmp_path / ".hidden").write_text("no event")
        return tmp_path

    def test_its_files_are_read_by_name_with_numbers_that_go_on(self, tmp_path: Path) -> None:
        events = list(Files(self.folder(tmp_path)).open(None))
        assert [json.loads(event.value or b"")["id"] for event in events] == list(range(9))
        assert [event.number for event in events] == list(range(1, 10))

    @pytest.mark.parametrize("stop", range(10))
    def test_wherever_a_reader_stops_the_next_goes_on(self, tmp_path: Path, stop: int) -> None:
        folder = self.folder(tmp_path)
        rest = list(Files(folder).open(read_to(folder, stop)))
        assert [event.number for event in rest] == list(range(stop + 1, 10))

    def test_a_new_file_that_sorts_behind_is_read(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        place = read_to(folder, 9)
        jsonl(folder / "d.jsonl", range(9, 11))
        assert [event.number for event in Files(folder).open(place)] == [10, 11]

    def test_a_new_file_that_sorts_earlier_is_refused(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        place = read_to(folder, 5)
        jsonl(folder / "aa.jsonl", range(1))
        with pytest.raises(PositionLost, match=r"sort before b\.jsonl"):
            Files(folder).open(place)

    def test_finished_files_may_be_removed_together(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        place = read_to(folder, 5)
        fingerprint = Files(folder).fingerprint
        (folder / "a.jsonl").unlink()
        source = Files(folder)
        assert [event.number for event in source.open(place)] == [6, 7, 8, 9]
        assert source.fingerprint == fingerprint

    def test_the_file_that_was_being_read_must_be_there(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        place = read_to(folder, 5)
        (folder / "b.jsonl").unlink()
        with pytest.raises(PositionLost, match="is gone"):
            Files(folder).open(place)

    def test_without_files_it_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Usage, match="has no files"):
            Files(tmp_path)


class TestBrokenLine:
    def broken(self, tmp_path: Path) -> Path:
        path = tmp_path / "a.jsonl"
        path.write_bytes(b'{"id": 1}\n\n{"id": \n{"id": 3}\n\xff\n{"id": 5}\n')
        return path

    def test_it_stops_with_its_number_and_reason_and_the_place_before_it(self, tmp_path: Path) -> None:
        path = self.broken(tmp_path)
        source = Files(path)
        events = source.open(None)
        assert next(events).number == 1
        with pytest.raises(BrokenLine, match=r"a\.jsonl line 3: not JSON"):
            next(events)
        assert source.place()["line"] == 2
        path.write_bytes(path.read_bytes().replace(b'{"id": \n', b'{"id": 2}\n'))
        with pytest.raises(BrokenLine, match="line 5: not UTF-8"):
            values(Files(path), source.place())

    def test_skipped_it_is_counted_and_the_others_keep_their_numbers(self, tmp_path: Path) -> None:
        source = Files(self.broken(tmp_path), Reading(skip_broken=True))
        assert [event.number for event in source.open(None)] == [1, 4, 6]
        assert [line for _, line, _ in source.broken] == [3, 5]

    def test_without_the_key_it_is_broken(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text('{"customer": 7}\n{"id": 1}\n[1]\n')
        source = Files(path, Reading(key="customer", skip_broken=True))
        assert [event.key for event in source.open(None)] == [b"7"]
        assert [reason for _, _, reason in source.broken] == ["there is no field 'customer'"] * 2


class TestCsv:
    def test_rows_become_json_under_the_headers_names(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text('id,name\n1,"Smith, J."\n2,"two\nlines"\n')
        events = list(Files(path, Reading(key="id")).open(None))
        assert [json.loads(event.value or b"") for event in events] == [
            {"id": "1", "name": "Smith, J."},
            {"id": "2", "name": "two\nlines"},
        ]
        assert [(event.key, event.number) for event in events] == [(b"1", 2), (b"2", 3)]

    @pytest.mark.parametrize("stop", range(4))
    def test_wherever_a_reader_stops_the_next_goes_on(self, tmp_path: Path, stop: int) -> None:
        path = tmp_path / "a.csv"
        path.write_text('id,name\n1,one\n2,"two\nlines"\n3,three\n')
        whole = values(Files(path))
        assert values(Files(path), read_to(path, stop)) == whole[stop:]

    @pytest.mark.parametrize("row", ["1", "1,2,3", '1,"open', '1,"a"b'])
    def test_a_row_that_does_not_fit_is_broken(self, tmp_path: Path, row: str) -> None:
        path = tmp_path / "a.csv"
        path.write_text(f"id,name\n{row}\n")
        with pytest.raises(BrokenLine, match="line 2"):
            values(Files(path))

    def test_an_unknown_key_is_refused_with_the_columns(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("id,name\n1,one\n")
        with pytest.raises(Usage, match="id, name"):
            values(Files(path, Reading(key="customer")))


def test_a_line_of_text_has_no_fields(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.txt", range(1))
    with pytest.raises(Usage, match="has no fields"):
        values(Files(path, Reading(key="id")))
    assert values(Files(path, Reading(Layout.JSONL, key="id")))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="cannot be read: No such file"):
        Files(tmp_path / "nothing.jsonl")
