"""Which function a path means, and which names are allowed.

Clients append `.openfaas-fn` whatever our default namespace is called, so that suffix always means
the default namespace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proto.types.errors import SlicewiseError
from proto.types.identity import DEFAULT_NAMESPACE, FunctionKey

_FUNCTION = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SECRET = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# What a router lets through as one segment; everything else is an unknown path.
_SEGMENT = re.compile(r"[-a-zA-Z0-9_.]+")
MAX_FUNCTION_NAME = 63
MAX_SECRET_NAME = 253
REFUSED_NAMESPACES = frozenset({"kube-system"})


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of this platform; `default` is one of `names`."""

    default: str = DEFAULT_NAMESPACE
    names: tuple[str, ...] = (DEFAULT_NAMESPACE,)

    def resolve(self, given: str | None) -> str:
        """The namespace meant by a client; raises SlicewiseError `bad_namespace` for one that is not ours."""
        if not given or given == DEFAULT_NAMESPACE:
            return self.default
        if given in REFUSED_NAMESPACES:
            raise SlicewiseError("bad_namespace", f"namespace: {given} belongs to the cluster, not to functions.")
        if given not in self.names:
            known = ", ".join(self.names)
            raise SlicewiseError("bad_namespace", f"namespace: there is no namespace {given!r}; there is {known}.")
        return given

    def function(self, text: str) -> FunctionKey:
        """The function in NAME or NAME.NAMESPACE; its namespace need not exist."""
        key = FunctionKey.parse(text, self.default)
        return FunctionKey(self.default, key.name) if key.namespace == DEFAULT_NAMESPACE else key


def is_segment(text: str) -> bool:
    """Whether a router accepts this as a function's or a namespace's path segment."""
    return _SEGMENT.fullmatch(text) is not None


def check_function_name(field: str, name: str) -> str:
    """`name`, or SlicewiseError `bad_function` that names `field` and the rule."""
    if len(name) > MAX_FUNCTION_NAME or not _FUNCTION.fullmatch(name):
        raise SlicewiseError(
            "bad_function",
            f"{field}: {name[:80]!r} is no valid name; use up to {MAX_FUNCTION_NAME} of a-z, 0-9 and -, "
            "beginning and ending with a letter or digit.",
        )
    return name


def is_secret_name(name: str) -> bool:
    """Whether `name` is a DNS-1123 subdomain of at most 253 characters."""
    return len(name) <= MAX_SECRET_NAME and _SECRET.fullmatch(name) is not None
