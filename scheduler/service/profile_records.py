"""A profile as it is written down, in etcd and in recordings."""

from __future__ import annotations

from dataclasses import asdict

from datastore.values import Value
from proto.types.models import Profile


def write_profile(profile: Profile) -> Value:
    """The record; tables are lists of [gpcs, batch, ns]."""
    record = asdict(profile)
    for table in ("call_ns", "turn_ns"):
        record[table] = [[gpcs, batch, ns] for (gpcs, batch), ns in sorted(record[table].items())]
    return record


def read_profile(worker: str, record: Value) -> Profile:
    """The inverse of `write_profile`."""
    fields = {name: record[name] for name in record if name in Profile.__dataclass_fields__}
    for table in ("call_ns", "turn_ns"):
        fields[table] = {(int(gpcs), int(batch)): int(ns) for gpcs, batch, ns in fields.get(table, ())}
    return Profile(**{**fields, "worker": worker})
