"""Pipeline files that somebody may write by mistake or on purpose: each is refused in one message, with its line."""

from __future__ import annotations

SECRET = "hunter2"  # noqa: S105  (never in a message)

GOOD = """name: orders
guarantee: exactly-once
source: {topic: orders}
sink: {format: postgres, options: {table: orders}}
"""


def source(more: str) -> str:
    return GOOD.replace("topic: orders", f"topic: orders, {more}")


def options(more: str) -> str:
    return GOOD.replace("table: orders", f"table: orders, {more}")


def bomb(levels: int) -> str:
    """Nine times as much with each line."""
    lines = ["a0: &a0 x"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return GOOD + "\n".join(lines)


# name: (text, what the message says)
REFUSED: dict[str, tuple[str, str]] = {
    "the guarantee twice": (GOOD + "guarantee: at-most-once\n", "line 5: repeats the key guarantee of line 2"),
    "a key twice deep below": (source("value: json, value: bytes"), "line 3: repeats the key value of line 3"),
    "a key twice in quotes": (GOOD + '"guarantee": at-most-once\n', "line 5: repeats the key guarantee"),
    "a partition twice": (source("start: {0: 1, '0': 2}"), "line 3: repeats the key 0"),
    "a partition twice in two spellings": (source("start: {0: 1, '00': 2}"), "line 3: source.start"),
    "merge keys twice": (GOOD + "kafka: {<<: {a: b}, <<: {a: c}}\n", "line 5: repeats"),
    "a bomb of aliases": (bomb(12), "more than 10,000 values"),
    "a bomb of merge keys": (
        GOOD + "k0: &k0 {a: b}\n" + "".join(f"k{n}: &k{n} {{<<: [{f'*k{n - 1}, ' * 9}]}}\n" for n in range(1, 12)),
        "more than 10,000 values",
    ),
    "a chain of aliases": (
        GOOD + "c0: &c0 [x]\n" + "".join(f"c{n}: &c{n} [[[[[*c{n - 1}]]]]]\n" for n in range(1, 400)),
        "levels deep",
    ),
    "an alias of itself": (GOOD + "kafka: &k {a: *k}\n", "line 5: has an alias of what it is inside of"),
    "an anchor twice": (GOOD + f"a: &{SECRET} 1\nb: &{SECRET} 2\nc: *{SECRET}\n", "fencepost.yml line"),
    "a date that is none": (source("start: 2024-13-45"), "line 3: source.start: earliest, latest"),
    "a time that is none": (source("start: 2024-01-01T99:99:99Z"), "line 3: source.start: earliest, latest"),
    "a date without a zone": (source("start: 2024-01-01"), "line 3: source.start: earliest, latest"),
    "a number as a time": (source("start: '5'"), "line 3: source.start: earliest, latest"),
    "an octal number": (GOOD + "batch: {records: 0o9}\n", "line 5: batch.records"),
    "a number with base sixty": (GOOD + "batch: {records: 1:30}\n", "line 5: batch.records"),
    "infinity": (GOOD + "batch: {records: .inf}\n", "line 5: batch.records"),
    "not a number": (GOOD + "batch: {every: .nan}\n", "line 5: batch.every"),
    "a number beyond floats": (GOOD + "batch: {every: 1e999}\n", "line 5: batch.every"),
    "a duration beyond time": (GOOD + f"batch: {{every: {'9' * 400}h}}\n", "line 5: batch.every"),
    "5,000 digits": (GOOD + f"batch: {{records: {'9' * 5000}}}\n", "line 5: batch.records"),
    "5,000 digits as a key": (source(f"start: {{{'9' * 5000}: 1}}"), "line 3: "),
    "an offset of twenty digits": (source(f"start: {{0: {'9' * 20}}}"), "line 3: source"),
    "lists in lists": (GOOD + "kafka: {a: " + "[" * 3000 + "]" * 3000 + "}\n", "levels deep"),
    "lists in lists without an end": (GOOD + "kafka: " + "[" * 100_000, "levels deep"),
    "maps in maps": (GOOD + "".join(f"{' ' * n}k:\n" for n in range(300)), "levels deep"),
    "a tab": (GOOD + "batch:\n\trecords: 5\n", "line 6: is indented with a tab"),
    "NUL": (GOOD + "kafka: {a: '\0'}\n", "line 5: holds the character U+0000"),
    "an escape sequence": (GOOD + "kafka: {a: '\x1b[31m'}\n", "line 5: holds the character U+001B"),
    "a lone surrogate": (GOOD + "kafka: {a: '\ud800'}\n", "line 5: holds the character U+D800"),
    "a lone surrogate in an escape": (GOOD + 'name2: "\\ud800"\n', "line 5: name2: no such key"),
    "a binary value": (GOOD + "kafka: {a: !!binary aGFsbG8=}\n", "line 5: has a value with a tag"),
    "a Python object": (GOOD + "kafka: !!python/object/apply:os.system [id]\n", "line 5: has a value with a tag"),
    "a set": (GOOD + "kafka: !!set {a, b}\n", "line 5: has a value with a tag"),
    "a list as a key": (GOOD + "? [a, b]\n: c\n", "line 5: has a key that is not a word"),
    "a map as a key": (GOOD + "? {a: b}\n: c\n", "line 5: has a key that is not a word"),
    "a number as a key": (GOOD + "1: 2\n", "line 5: 1: no such key"),
    "nothing as a key": (GOOD + "~: 2\n", "line 5: "),
    "a merge of text": (GOOD + "<<: text\n", "line 5: is not YAML"),
    "two documents": (GOOD + "---\n" + GOOD, "line 5: "),
    "another version of YAML": ("%YAML 9.1\n---\n" + GOOD, "line 1: is not YAML"),
    "nothing": ("", "holds keys and values"),
    "comments only": ("# name: orders\n", "holds keys and values"),
    "a list": ("- name: orders\n", "holds keys and values"),
    "a folder of its own": (GOOD + "folder: /etc\n", "line 5: folder: no such key"),
    "a key under two names": (source("value: json, schema: id long, fields: id int"), "line 3: source.fields"),
    "four thousand wrong keys": (GOOD + "".join(f"k{n}: 1\n" for n in range(4_000)), "problems more"),
    "a password with !": (GOOD + f"kafka:\n  sasl.password: !{SECRET}\n", "line 6: has a value with a tag"),
    "a password with ! in braces": (GOOD + f"kafka: {{sasl.password: !{SECRET}}}\n", "line 5: is not YAML"),
    "a password with *": (GOOD + f"kafka:\n  sasl.password: *{SECRET}\n", "line 6: has an alias of nothing"),
    "a password with &": (GOOD + f"kafka:\n  sasl.password: &{SECRET}\n", "line 6: kafka.sasl.password"),
    "a password with %": (GOOD + f"kafka:\n  sasl.password: %{SECRET}\n", "line 6: is not YAML"),
    "a password with @": (GOOD + f"kafka:\n  sasl.password: @{SECRET}\n", "line 6: is not YAML"),
    "a password with |": (GOOD + f"kafka:\n  sasl.password: |{SECRET}\n", "line 6: is not YAML"),
    "a password with #": (GOOD + f"kafka:\n  sasl.password: #{SECRET}\n", "line 6: kafka.sasl.password"),
    "a password with a brace": (GOOD + f"kafka:\n  sasl.password: {{{SECRET}\n", "is not YAML"),
    "a password in open quotes": (GOOD + f"kafka:\n  sasl.password: \"{SECRET}\n", "is not YAML"),
    "a password with a bad escape": (GOOD + f"kafka:\n  sasl.password: \"\\{SECRET}\"\n", "line 6: is not YAML"),
    "a password with a colon": (GOOD + f"kafka:\n  sasl.password: a: {SECRET}\n", "line 6: is not YAML"),
    "a password without a space before it": (options(f"dsn:postgres://u:{SECRET}@h/d"), "line 4: sink.options"),
    "a password as in a properties file": (GOOD + f"kafka: {{sasl.password={SECRET}}}\n", "line 5: kafka"),
    "a password in a list": (GOOD + f"kafka: {{sasl.password: [{SECRET}]}}\n", "line 5: kafka.sasl.password"),
    "a password twice": (options(f"dsn: {SECRET}, dsn: {SECRET}"), "line 4: repeats the key dsn"),
    "a password of the environment": (GOOD.replace("exactly-once", "${SECRET}"), "line 2: guarantee"),
    "a password of the environment in a list": (GOOD.replace("topic: orders", "topics: ['${SECRET} ']"), "line 3"),
    "the environment has it not": (GOOD.replace("exactly-once", "${NOT_THERE}"), "line 2: guarantee: the environment"),
}  # fmt: skip

# as bytes: (content, what the message says)
REFUSED_FILES: dict[str, tuple[bytes, str]] = {
    "UTF-16": (GOOD.encode("utf-16"), "is UTF-16"),
    "UTF-32": (GOOD.encode("utf-32"), "is UTF-16"),
    "UTF-16 without a mark": (GOOD.encode("utf-16-le"), "line 1"),
    "Latin-1": (GOOD.encode() + "# für\n".encode("latin-1"), "line 5: is not UTF-8"),
    "a program": (b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)), "is not UTF-8"),
    "something large": (b"a: b\n" * 60_000, "is larger than"),
}

# name: (text, what comes of it)
TAKEN: dict[str, tuple[str, dict[str, str]]] = {
    "numbers as they are written": (
        GOOD + "kafka: {a: 0123, b: 1_000, c: 1.10, d: 1:30, e: 0x1F, f: +5, g: -0, h: 1e5, i: 2024-01-01}\n",
        {"a": "0123", "b": "1_000", "c": "1.10", "d": "1:30", "e": "0x1F", "f": "+5", "g": "-0", "h": "1e5"}
        | {"i": "2024-01-01"},
    ),
    "yes and no": (
        GOOD + "kafka: {a: yes, b: Off, c: true, d: 'no'}\n",
        {"a": "true", "b": "false", "c": "true", "d": "no"},
    ),
    "an alias": (GOOD + "kafka: {a: &one x, b: *one}\n", {"a": "x", "b": "x"}),
    "a merge key": (GOOD + "kafka: {<<: {a: x, b: x}, b: y}\n", {"a": "x", "b": "y"}),
    "a mark in front": ("\ufeff" + GOOD, {}),
    "lines of Windows": (GOOD.replace("\n", "\r\n") + "kafka:\r\n  a: b\r\n", {"a": "b"}),
    "a default that looks like YAML": (GOOD + 'kafka: {a: "${NOT_THERE:-!x *y}"}\n', {"a": "!x *y"}),
    "an expansion is not expanded": (GOOD + 'kafka: {a: "${NESTED}"}\n', {"a": "${SECRET}"}),
}
