"""YAML read with the place of every key and value kept, so that an error can point at it.

A strict subset: one document, no anchors, aliases, merge keys or tags, no key twice, no tabs. All findings are
collected, except that a text which is no YAML at all yields the parser's first complaint only.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from runtime.contract.yaml_scalar import Refusal, plain_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `line` and `column` count from 1; both are none where the source is not a file."""

    file: str
    line: int | None
    column: int | None
    message: str
    hint: str | None = None

    @property
    def place(self) -> str:
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        told, hint = self.told()
        return told + (f" ({hint})" if hint else "")

    def told(self) -> tuple[str, str | None]:
        """Place and message, and the hint: each one harmless line."""
        return _harmless(f"{self.place}: {self.message}"), _harmless(self.hint) if self.hint else None


def _harmless(text: str) -> str:
    """What a file holds may contain line breaks and terminal controls."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: a file with line and column, or a command-line option without."""

    file: str
    line: int | None = None
    column: int | None = None

    def problem(self, message: str, hint: str | None = None) -> Problem:
        return Problem(self.file, self.line, self.column, message, hint)


@dataclass(slots=True)
class Node:
    """A value with its place: a scalar, a list of nodes (`items`) or a mapping of nodes (`entries`)."""

    place: Place
    value: bool | int | float | str | None = None
    text: str = ""  #: a scalar as it was written, without quotes
    quoted: bool = False
    items: list[Node] | None = None
    entries: dict[str, Node] | None = None
    key_places: dict[str, Place] = field(default_factory=dict)

    def plain(self) -> Any:
        """The same as dicts, lists and scalars."""
        if self.entries is not None:
            return {key: node.plain() for key, node in self.entries.items()}
        if self.items is not None:
            return [node.plain() for node in self.items]
        return self.value

    def find(self, path: Iterable[str | int]) -> Node | None:
        """The node below this one at `path`, or none."""
        node: Node | None = self
        for part in path:
            if node is None:
                return None
            if isinstance(part, int):
                node = node.items[part] if node.items is not None and part < len(node.items) else None
            else:
                node = (node.entries or {}).get(part)
        return node

    @property
    def kind(self) -> str:
        if self.entries is not None:
            return "a section"
        return "a list" if self.items is not None else "a value"


@dataclass(frozen=True, slots=True)
class Source:
    """What a text says, and what is wrong with it; `root` is none where nothing could be read."""

    root: Node | None
    problems: tuple[Problem, ...]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def read_bytes(raw: bytes, file: str) -> Source:
    """Read a file's content; anything but UTF-8 is a problem of its own."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace")
        place = _place_after(before, file)
        return Source(None, (place.problem(f"not UTF-8 text: {error.reason}", "save the file as UTF-8"),))
    return read_text(text, file)


def read_text(text: str, file: str) -> Source:
    """Read one YAML document; `file` is only used to say where a problem is."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    tabs = tuple(_tabs(text, file))
    if tabs:
        return Source(None, tabs)
    reader = _Reader(file)
    try:
        root = reader.document(iter(yaml.parse(text, Loader=yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        reader.problems.append(_syntax_problem(error, text, file))
        root = None
    except _TooDeep as error:
        reader.problems.append(error.place.problem(f"nested deeper than {_DEEPEST} levels"))
        root = None
    except yaml.reader.ReaderError as error:
        place = _place_after(text[: error.position], file)
        character = ord(text[error.position])
        reader.problems.append(place.problem(f"character U+{character:04X} is not allowed in YAML"))
        root = None
    return Source(root, tuple(reader.problems))


def read_scalar(text: str, source: str) -> Source:
    """Read a value given on the command line: a scalar, `[a, b]` or `{a: b}`."""
    label = Place(source)
    found = read_text(text, source)
    problems = tuple(label.problem(p.message, p.hint) for p in found.problems)
    if found.root is None and not problems:
        return Source(Node(label), ())
    if found.root is not None:
        _relabel(found.root, label)
    return Source(found.root, problems)


def _relabel(node: Node, label: Place) -> None:
    node.place = label
    node.key_places = dict.fromkeys(node.key_places, label)
    for child in [*(node.items or []), *(node.entries or {}).values()]:
        _relabel(child, label)


def _place_after(before: str, file: str) -> Place:
    return Place(file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _tabs(text: str, file: str) -> Iterator[Problem]:
    for number, line in enumerate(text.split("\n"), start=1):
        indentation = line[: len(line) - len(line.lstrip(" \t"))]
        if "\t" in indentation:
            column = indentation.index("\t") + 1
            yield Problem(file, number, column, f"tab at line {number}, use spaces")


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
    said = error.problem or "not readable as YAML"
    if "\\t" in said:
        return place.problem(f"tab at line {place.line}", "use spaces")
    lines = text.split("\n")
    line = lines[mark.line].strip() if mark and mark.line < len(lines) else ""
    shown = f": '{line[:60]}'" if line else ""
    hint = "write key: value, a line each, keys of a section indented; quote what has other signs of YAML in it"
    if "mapping values are not allowed" in said:
        hint = "check the indentation, and quote a value that contains ': '"
    elif error.context and error.context_mark:
        shown += f" ({error.context} that begins at line {error.context_mark.line + 1})"
        if "flow" in error.context or "quoted" in error.context:
            hint = f"close what begins at line {error.context_mark.line + 1}, or quote it if it is a text"
    return place.problem(f"not YAML, {said}{shown}", hint)


class _TooDeep(ValueError):
    def __init__(self, place: Place) -> None:
        super().__init__("nested too deep")
        self.place = place


class _Reader:
    """Builds nodes from parser events, noting what the subset does not allow and going on."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def document(self, events: Iterator[Any]) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    self._note(event, "a second document begins here", "keep one document per file")
                    break
            elif isinstance(event, yaml.NodeEvent):
                root = self._node(event, events, depth=0)
        return root

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        self._refuse_extras(event)
        node = Node(self._place(event))
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, node)
        elif isinstance(event, yaml.CollectionStartEvent):
            if depth >= _DEEPEST:
                raise _TooDeep(node.place)
            if isinstance(event, yaml.MappingStartEvent):
                self._mapping(node, events, depth)
            else:
                node.items = []
                while not isinstance(child := next(events), yaml.SequenceEndEvent):
                    node.items.append(self._node(child, events, depth + 1))
        return node

    def _mapping(self, node: Node, events: Iterator[Any], depth: int) -> None:
        node.entries = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._node(event, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            name = self._key(key)
            if name is None:
                continue
            if name in node.key_places:
                first = node.key_places[name].line
                self.problems.append(
                    key.place.problem(f"key '{name}' is given twice, at lines {first} and {key.place.line}")
                )
                continue
            node.entries[name] = value
            node.key_places[name] = key.place

    def _key(self, key: Node) -> str | None:
        if key.items is not None or key.entries is not None:
            self.problems.append(key.place.problem(f"{key.kind} cannot be a key"))
            return None
        if key.text == "<<" and not key.quoted:
            self.problems.append(key.place.problem("merge keys (<<) are not supported", "write the keys out"))
            return None
        return key.text

    def _scalar(self, event: Any, node: Node) -> None:
        node.text = event.value
        node.quoted = event.style is not None
        meaning = event.value if node.quoted else plain_value(event.value)
        if isinstance(meaning, Refusal):
            self._note(event, meaning.message, meaning.hint)
            meaning = event.value
        node.value = meaning

    def _refuse_extras(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._note(event, f"aliases (*{event.anchor}) are not supported", "write the value out")
        elif event.anchor is not None:
            self._note(event, f"anchors (&{event.anchor}) are not supported", "write the value out where it is needed")
        if getattr(event, "tag", None) is not None:
            self._note(event, f"tags ({event.tag}) are not supported", "write the plain value")

    def _place(self, event: Any) -> Place:
        return Place(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _note(self, event: Any, message: str, hint: str | None = None) -> None:
        self.problems.append(self._place(event).problem(message, hint))
