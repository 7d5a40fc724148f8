"""Names that travel between rooms: which function, which revision of it, which call.

A function is known to people as NAME.NAMESPACE (OpenFaaS's own spelling). What is cached on a
slice is a *worker*, and a worker belongs to one revision of one function: code that changed is
another worker, so a redeploy never answers from old weights.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_NAMESPACE = "openfaas-fn"


@dataclass(frozen=True, order=True, slots=True)
class FunctionKey:
    """One function in one namespace; `str()` gives NAME.NAMESPACE."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.name}.{self.namespace}"

    @classmethod
    def parse(cls, text: str, default_namespace: str = DEFAULT_NAMESPACE) -> FunctionKey:
        """Split at the last dot, as every OpenFaaS client does; no dot is the default namespace."""
        name, dot, namespace = text.rpartition(".")
        if not dot:
            return cls(default_namespace, text)
        return cls(namespace, name)


@dataclass(frozen=True, order=True, slots=True)
class WorkerKey:
    """The cache item: all models of one revision of a function; `str()` gives NAME.NAMESPACE@REVISION."""

    function: FunctionKey
    revision: str

    def __str__(self) -> str:
        return f"{self.function}@{self.revision}"

    @classmethod
    def parse(cls, text: str) -> WorkerKey:
        """The inverse of `str()`; raises ValueError without an @."""
        function, at, revision = text.rpartition("@")
        if not at:
            raise ValueError(f"{text!r} is no worker key: it has no @REVISION")
        return cls(FunctionKey.parse(function), revision)
