"""One request of a scenario or a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proto.wire import fields


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the file gives it; `sla_ns` None is no SLA."""

    id: str
    at_ns: int
    model: str
    batch: int = 1
    sla_ns: int | None = None


def asked(item: Any, field: str) -> Asked:
    """Check one request; raises SlicewiseError `bad_request`."""
    given = fields.table(item, field, ("id", "at_s", "model"), ("batch", "sla_s"))
    at_s = fields.number(given["at_s"], f"{field}.at_s", least=0)
    sla_ns = None
    if "sla_s" in given:
        sla_s = fields.number(given["sla_s"], f"{field}.sla_s", above=0)
        sla_ns = fields.nanoseconds(sla_s, f"{field}.sla_s")
    return Asked(
        fields.text(given["id"], f"{field}.id"),
        fields.nanoseconds(at_s, f"{field}.at_s"),
        fields.text(given["model"], f"{field}.model"),
        fields.whole(given.get("batch", 1), f"{field}.batch", least=1),
        sla_ns,
    )
