"""Reads the file of `slicewise chain`: a service cut into blocks, the demand, and servers. What to do with it is the
planner's part, scheduler.core.chains.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from proto.wire import fields
from proto.wire.documents import read_document
from scheduler.core.chains.model import Server, Service
from scheduler.core.chains.tuning import TuneBy

_REQUIRED = ("blocks", "block_gb", "cache_gb", "rate_rps", "servers")
_OPTIONAL = ("version", "max_load", "c", "tune_by")
_SERVER = ("id", "memory_gb", "comm_s", "block_s")
_DEFAULT_MAX_LOAD = 0.7  # the paper's


@dataclass(frozen=True, slots=True)
class ChainFile:
    """One file. `c` is None where it is to be chosen, by `tune_by`."""

    service: Service
    servers: tuple[Server, ...]
    c: int | None
    tune_by: TuneBy


def read_chain_file(path: Path) -> ChainFile:
    """The file; raises SlicewiseError `bad_request` naming the field and what it must be."""
    return parse_chain_file(read_document(path))


def parse_chain_file(document: Any) -> ChainFile:
    """As `read_chain_file`, of the document in it."""
    given = fields.table(document, "", _REQUIRED, _OPTIONAL)
    if fields.number(given.get("version", 1), "version") != 1:
        raise fields.bad("version", "must be 1, the only one there is")
    service = Service(
        fields.whole(given["blocks"], "blocks", least=1),
        float(fields.number(given["block_gb"], "block_gb", above=0)),
        float(fields.number(given["cache_gb"], "cache_gb", above=0)),
        float(fields.number(given["rate_rps"], "rate_rps", above=0)),
        float(fields.number(given.get("max_load", _DEFAULT_MAX_LOAD), "max_load", above=0, most=1)),
    )
    servers = tuple(
        _server(item, f"servers[{index}]")
        for index, item in enumerate(fields.items(given["servers"], "servers", "servers, each with an id"))
    )
    _unlike(servers)
    _within_doubles(service, servers)
    return ChainFile(service, servers, _c(given.get("c", "auto")), _tune_by(given.get("tune_by", "lower")))


def _server(item: Any, field: str) -> Server:
    given = fields.table(item, field, _SERVER)
    server = Server(
        fields.text(given["id"], f"{field}.id"),
        float(fields.number(given["memory_gb"], f"{field}.memory_gb", above=0)),
        _time_ns(given["comm_s"], f"{field}.comm_s"),
        _time_ns(given["block_s"], f"{field}.block_s"),
    )
    if server.comm_ns == server.block_ns == 0:
        raise fields.bad(f"{field}.block_s", "must not be 0 when comm_s is 0 too (to the nanosecond); give one of them")
    return server


def _time_ns(value: Any, field: str) -> int:
    return fields.nanoseconds(fields.number(value, field, least=0), field)


def _unlike(servers: tuple[Server, ...]) -> None:
    seen: set[str] = set()
    for index, server in enumerate(servers):
        if server.id in seen:
            raise fields.bad(f"servers[{index}].id", f"{server.id!r} stands twice; give each server an id of its own")
        seen.add(server.id)


def _within_doubles(service: Service, servers: tuple[Server, ...]) -> None:
    """Sizes and times are free, but slots and the time of the longest chain must be numbers that a double can hold."""
    for index, server in enumerate(servers):
        if not math.isfinite(server.memory_gb / service.cache_gb):
            raise fields.bad("cache_gb", f"is too small beside servers[{index}].memory_gb; give both in gigabytes")
    # A thousand, since a job may be many times the mean size.
    if sum(server.time_ns(service.blocks) for server in servers) * 1000 > sys.float_info.max:
        raise fields.bad("servers", "comm_s and block_s add up to more than a number can hold; give seconds")


def _c(value: Any) -> int | None:
    if value == "auto":
        return None
    if isinstance(value, str):
        raise fields.bad("c", f"must be auto or an integer of at least 1, not {value!r}")
    return fields.whole(value, "c", least=1)


def _tune_by(value: Any) -> TuneBy:
    for known in get_args(TuneBy):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise fields.bad("tune_by", f"must be one of {', '.join(get_args(TuneBy))}, not {value!r}")
