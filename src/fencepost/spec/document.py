"""A YAML document as plain values, read strictly: what can be read in two ways, or grows while it is read, is refused.

Numbers are decimal. Whatever else stands without quotes is text as it is written, but true, false, yes, no, on, off
and null. A message never shows a piece of the document: it may be half of a password.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

DEEPEST = 20  # of nesting
MOST = 10_000  # values, with those that aliases repeat
WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")  # what a key can be; anything else may be a value in the wrong place
IN_QUOTES = "put it in quotes if it is text"

_BOOL, _INT, _NULL, _MERGE = (f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "null", "merge"))
_TRUE = {"true", "yes", "on"}
_PIECE = re.compile(r"'(?!<[a-z ]+>')[^']*'|\"[^\"]*\"")  # of the document, inside PyYAML's words


class NotADocument(Exception):
    """What is wrong, in which line (None: in no one line), and what to do about it."""

    def __init__(self, line: int | None, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.line = line
        self.problem = problem
        self.remedy = remedy


def read(text: str) -> tuple[Any, yaml.Node | None]:
    """The values of the one document, and its nodes, which know their lines. Raises NotADocument."""
    try:
        loader = _Loader(text)
        tree = loader.get_single_node()
        return (None if tree is None else loader.value_of(tree)), tree
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise NotADocument(line, f"holds the character U+{_code(error):04X}, which YAML forbids", "remove it") from None
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text) from None
    except RecursionError:  # of the scanner, before a node is made
        raise NotADocument(None, "is nested too deep to be read", "see `fencepost init`") from None


def _code(error: yaml.reader.ReaderError) -> int:
    character: int | str = error.character
    return ord(character) if isinstance(character, str) else character


def _explained(error: yaml.MarkedYAMLError, text: str) -> NotADocument:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return NotADocument(None, "is not YAML", "see `fencepost init`")
    if mark.index < len(text) and text[mark.index] == "\t":
        return NotADocument(mark.line + 1, "is indented with a tab", "YAML is indented with spaces")
    words = error.problem or ""
    why = "" if _PIECE.search(words) or not words.isprintable() else f": {words}"
    remedy = "put a value with special characters in quotes"
    return NotADocument(mark.line + 1, f"is not YAML from column {mark.column + 1} on{why}", remedy)


class _Loader(yaml.SafeLoader):
    """Composes nodes, and counts while it does."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._weights: dict[int, tuple[int, int]] = {}  # by node: values and levels, with those of aliases

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            self._require_anchor(event, line)
        elif getattr(event, "tag", None) is not None:
            raise NotADocument(line, "has a value with a tag: something that begins with !", IN_QUOTES)
        self._depth += 1
        self._require_size(0, self._depth, line)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and not isinstance(event, yaml.AliasEvent):
            self._weigh(node, line)
        return node

    def _require_anchor(self, event: Any, line: int) -> None:
        if event.anchor not in self.anchors:
            raise NotADocument(line, "has an alias of nothing: something that begins with *", IN_QUOTES)
        if id(self.anchors[event.anchor]) not in self._weights:
            raise NotADocument(line, "has an alias of what it is inside of", "write it out")

    def _weigh(self, node: yaml.Node, line: int) -> None:
        below = [self._weights[id(child)] for child in _children(node)]
        values, levels = 1 + sum(one for one, _ in below), 1 + max((deep for _, deep in below), default=0)
        self._require_size(values, levels, line)
        self._weights[id(node)] = values, levels

    @staticmethod
    def _require_size(values: int, levels: int, line: int) -> None:
        if values > MOST:
            raise NotADocument(line, f"holds more than {MOST:,} values, with those that aliases repeat", "write less")
        if levels > DEEPEST:
            raise NotADocument(line, f"is nested more than {DEEPEST} levels deep", "see `fencepost init`")

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise NotADocument(line, "has a key that is not a word", "write KEY: VALUE; quotes for a { or [ in it")
            if key.value in seen:
                named = f"the key {key.value}" if WORD.fullmatch(key.value) else "a key"
                raise NotADocument(line, f"repeats {named} of line {seen[key.value]}", "keep one of the two")
            seen[key.value] = line
        return node

    def value_of(self, node: yaml.Node) -> Any:
        """What the node says, in Python's own types."""
        if isinstance(node, yaml.SequenceNode):
            return [self.value_of(one) for one in node.value]
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            return {key.value: self.value_of(value) for key, value in node.value}
        return _scalar(node)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _scalar(node: yaml.Node) -> Any:
    if node.tag == _NULL:
        return None
    if node.tag == _BOOL:
        return node.value.lower() in _TRUE
    return int(node.value) if node.tag == _INT else node.value


_Loader.yaml_implicit_resolvers = {}  # none of YAML 1.1: 0123 is not 83 here, nor 1:30 ninety
for _tag, _form, _first in (
    (_BOOL, r"true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF", "tTfFyYnNoO"),
    (_INT, r"0|-?[1-9][0-9]{0,17}", "-0123456789"),  # a longer one is text: it is no number that anything here takes
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_MERGE, r"<<", "<"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_form})$"), list(_first))
