"""The names of everything Slicewise keeps in etcd, so that no other file spells a key.

A key names what the value is about; values are JSON objects that `etcdctl get` shows as they are.
Parts of a key never hold a slash: names of functions, namespaces and nodes are checked where they
enter the platform, and `_part` is the last line of defence.
"""

from __future__ import annotations

from proto.types.identity import FunctionKey

ROOT = "/slicewise/v1/"
FUNCTIONS = f"{ROOT}functions/"
SECRETS = f"{ROOT}secrets/"
UIDS = f"{ROOT}uids/"
MODELS = f"{ROOT}models/"
PROFILES = f"{ROOT}profiles/"
POLICY = f"{ROOT}policy"
POOLS = f"{ROOT}pools"
NODES = f"{ROOT}nodes/"
SLICES = f"{ROOT}slices/"
ELECTION = f"{ROOT}election/scheduler"


def _part(text: str) -> str:
    if not text or "/" in text:
        raise ValueError(f"{text!r} cannot be part of a key: it is empty or holds a slash")
    return text


def function(key: FunctionKey) -> str:
    """Where a deployed function is recorded."""
    return f"{FUNCTIONS}{_part(key.namespace)}/{_part(key.name)}"


def functions_of(namespace: str) -> str:
    """The prefix of one namespace's functions."""
    return f"{FUNCTIONS}{_part(namespace)}/"


def function_of(key: str) -> FunctionKey:
    """The function that a key under FUNCTIONS or MODELS is about."""
    prefix = FUNCTIONS if key.startswith(FUNCTIONS) else MODELS
    namespace, name = key.removeprefix(prefix).split("/")[:2]
    return FunctionKey(namespace, name)


def secret(namespace: str, name: str) -> str:
    """Where a sealed secret is kept."""
    return f"{SECRETS}{_part(namespace)}/{_part(name)}"


def secrets_of(namespace: str) -> str:
    """The prefix of one namespace's secrets."""
    return f"{SECRETS}{_part(namespace)}/"


def uid(number: int) -> str:
    """Who owns a Unix uid that functions run under."""
    return f"{UIDS}{number}"


def model(key: FunctionKey, digest: str) -> str:
    """Where one model of a function is recorded."""
    return f"{models_of(key)}{_part(digest)}"


def models_of(key: FunctionKey) -> str:
    """The prefix of one function's models."""
    return f"{MODELS}{_part(key.namespace)}/{_part(key.name)}/"


def profile(worker: str) -> str:
    """Where the measurements of a worker key (NAME.NAMESPACE@REVISION) are kept."""
    return f"{PROFILES}{_part(worker)}"


def node(name: str) -> str:
    """Where a node's hello is kept."""
    return f"{NODES}{_part(name)}"


def slice_(identity: str) -> str:
    """Where a slice's status, LRU list and last latency are kept."""
    return f"{SLICES}{_part(identity)}"


def last(key: str) -> str:
    """The last part of a key: a secret's name, a uid, a digest, a worker key, a node, a slice."""
    return key.rpartition("/")[2]
