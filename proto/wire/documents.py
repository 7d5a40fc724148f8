"""Documents that people write for commands: JSON or YAML 1.2 with its core schema, read strictly.

ruamel parses; what a plain scalar means is decided here, because its own rules go beyond the core schema
(`1_000` and dates would not stay strings, `.5e3` would not be a number). JSON goes to the standard parser,
which is faster and takes all of JSON (tabs too). What a document must contain is `proto.wire.fields`' matter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

from proto.types.errors import SlicewiseError

_CORE = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", re.compile(r"(?:~|null|Null|NULL|)")),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)")),
    ("int", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    ("float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")),
    ("float", re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")),
)
_MAX_DEPTH = 100  # far deeper than any document here; Python's own stack ends later


class _CoreResolver(VersionedResolver):
    """The core schema of YAML 1.2 (chapter 10.3.2), whatever version a directive names."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """The tag of a node that has none."""
        if kind is ScalarNode:
            return Tag(suffix=_CORE + (_kind(value) if implicit[0] else "str"))
        return super().resolve(kind, value, implicit)


def read_document(path: Path) -> Any:
    """The value in a file; raises SlicewiseError `bad_request`, one line with the place of a mistake."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SlicewiseError("bad_request", f"{path}: cannot be read ({error}); give a UTF-8 file.") from error
    try:
        return parse_document(text)
    except SlicewiseError as error:
        raise SlicewiseError(error.code, f"{path}: {error.message}") from error


def parse_document(text: str) -> Any:
    """The value that JSON or YAML 1.2 text stands for; raises SlicewiseError `bad_request`.

    A key that stands twice is an error, `"1"` beside `1` too. Keys that are numbers stay numbers.
    """
    try:
        if text.lstrip()[:1] in ("{", "[", '"'):
            try:
                return json.loads(text, object_pairs_hook=_pairs)
            except json.JSONDecodeError:
                pass  # YAML may begin with the same letters
        yaml = YAML(typ="safe", pure=True)
        yaml.Resolver, yaml.max_depth = _CoreResolver, _MAX_DEPTH
        node = yaml.compose(text)
        return None if node is None else _construct(node, 0)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise _bad(f"{where}is neither JSON nor YAML ({error.problem or error.context}); mend it there") from error
    except YAMLError as error:
        raise _bad(f"is neither JSON nor YAML ({' '.join(str(error).split())})") from error
    except (RecursionError, ValueError) as error:
        raise _bad(f"cannot be read ({error}); write it plainly") from error


def scalar(text: str) -> Any:
    """What a plain scalar means by the core schema: null, a boolean, a number or else a string."""
    return _scalar(_kind(text), text)


def _kind(text: str) -> str:
    return next((kind for kind, rule in _SCALARS if rule.fullmatch(text)), "str")


def _scalar(kind: str, text: str) -> Any:
    if kind == "str":
        return text
    if not any(kind == known and rule.fullmatch(text) for known, rule in _SCALARS):
        if kind != "float" or _kind(text) != "int":  # an explicit tag: `!!float 1` is one
            raise ValueError(f"{text!r} is no {kind}")
        return float(_scalar("int", text))
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    sign = -1.0 if text.startswith("-") else 1.0
    special = {".inf": math.inf, ".nan": math.nan}.get(text.lstrip("+-").lower())
    return float(text) if special is None else sign * special


def _construct(node: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:  # an alias to what it stands in
        raise ValueError("it is nested too deeply")
    tag = str(node.tag)
    kind = tag.removeprefix(_CORE)
    if isinstance(node, ScalarNode) and kind in ("str", "int", "float", "bool", "null"):
        return _scalar(kind, node.value)
    if isinstance(node, SequenceNode) and kind == "seq":
        return [_construct(item, depth + 1) for item in node.value]
    if isinstance(node, MappingNode) and kind == "map":
        return _pairs((_construct(key, depth + 1), _construct(value, depth + 1)) for key, value in node.value)
    raise ValueError(f"line {node.start_mark.line + 1}: {tag} is no tag of YAML's core schema")


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    seen: set[str] = set()
    for key, value in pairs:
        if isinstance(key, list | dict):
            raise _bad("a key is a list or a mapping; keys are strings or numbers")
        name = str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)
        if name in seen or key in found:  # 1 beside "1" or 1.0; to Python true is 1
            raise _bad(f"{name}: stands twice in one mapping; keep one of them")
        seen.add(name)
        found[key] = value
    return found


def _bad(message: str) -> SlicewiseError:
    return SlicewiseError("bad_request", f"{message}.")
