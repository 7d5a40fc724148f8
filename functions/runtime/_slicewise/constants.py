"""Plain values that the user's own modules hold beside their code: `THRESHOLD = float(os.environ["T"])`.

A worker does not compute them again, since it has neither the environment nor the files of the function:
it gets them as they are. Plain is what a literal can say.
"""

import math
import sys

MAX_NODES = 2000
MAX_TEXT = 64 * 1024


def is_plain(value) -> bool:
    """Whether a literal could stand for the value, and a short one."""
    left = [MAX_NODES, MAX_TEXT]
    return _plain(value, left)


def _plain(value, left) -> bool:
    left[0] -= 1
    if left[0] < 0:
        return False
    kind = type(value)
    if value is None or kind in (bool, int, float, complex):
        return kind is not int or value.bit_length() < 4096
    if kind in (str, bytes):
        left[1] -= len(value)
        return left[1] >= 0
    if kind in (list, tuple, set, frozenset):
        return all(_plain(item, left) for item in value)
    if kind is dict:
        return all(_plain(key, left) and _plain(item, left) for key, item in value.items())
    return False


def literal(value):
    """Source text of a plain value, None where there is none (inf, nan, an empty frozenset ...)."""
    if not is_plain(value) or not _has_literal(value):
        return None
    return repr(value)


def _has_literal(value) -> bool:
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind in (complex, frozenset):
        return False
    if kind is set:
        return bool(value) and all(_has_literal(item) for item in value)
    if kind in (list, tuple):
        return all(_has_literal(item) for item in value)
    if kind is dict:
        return all(_has_literal(key) and _has_literal(item) for key, item in value.items())
    return True


def current(module, name):
    """(True, value) if a module's name stands for a plain value at this moment, else (False, None)."""
    namespace = getattr(sys.modules.get(module), "__dict__", {})
    if name not in namespace or not is_plain(namespace[name]):
        return False, None
    return True, namespace[name]
