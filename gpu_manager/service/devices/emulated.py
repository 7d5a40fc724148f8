"""Emulated slices: real processes, IPC, loads and evictions; a scenario file says how large and how slow.

A scenario's models are matched to functions by name. A function that it does not name runs as it is.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from gpu_manager.service.devices.seam import Declared, Device, Devices
from proto.types.errors import SlicewiseError
from proto.types.slices import SliceSpec
from proto.wire.settings import read_yaml


def _bad(field: str, fix: str) -> SlicewiseError:
    return SlicewiseError("bad_request", f"emulate: {field}: {fix}.")


def _number(value: Any, field: str, *, above: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise _bad(field, "must be a finite number that is not negative")
    if above and value == 0:
        raise _bad(field, "must be above 0")
    return float(value)


class Emulated(Devices):
    """The slices and models of a scenario."""

    def __init__(self, node: str, path: Path, time_scale: float) -> None:
        document = read_yaml(path)
        slices, models = document.get("slices"), document.get("models")
        if not isinstance(slices, list) or not slices:
            raise _bad("slices", "must be a list of at least one slice")
        if not isinstance(models, dict):
            raise _bad("models", "must be a mapping of names to models")
        self._scale = time_scale
        self._slices = [self._slice(node, index, item) for index, item in enumerate(slices)]
        self._declared: dict[str, Declared] = {}
        self._infer: dict[str, dict[str, Any]] = {}
        for name, item in models.items():
            self._model(str(name), item)

    def _slice(self, node: str, index: int, item: Any) -> Device:
        field = f"slices[{index}]"
        if not isinstance(item, dict):
            raise _bad(field, "must be a mapping with id, gpcs and memory_gb")
        gpcs = _number(item.get("gpcs"), f"{field}.gpcs", above=True)
        if gpcs != int(gpcs):
            raise _bad(f"{field}.gpcs", "must be an integer")
        memory = _number(item.get("memory_gb"), f"{field}.memory_gb", above=True)
        spec = SliceSpec(f"{node}-s{index}", node, index, int(gpcs), round(memory * 1e9), "emulated")
        return Device(spec, 1, 0)

    def _model(self, name: str, item: Any) -> None:
        field = f"models.{name}"
        if not isinstance(item, dict):
            raise _bad(field, "must be a mapping with memory_gb, load_s and infer_s")
        memory = _number(item.get("memory_gb"), f"{field}.memory_gb", above=True)
        load = _number(item.get("load_s"), f"{field}.load_s")
        self._declared[name] = Declared(round(memory * 1e9), load * self._scale)
        infer = item.get("infer_s")
        if not isinstance(infer, dict) or not ("fixed" in infer or "table" in infer):
            raise _bad(f"{field}.infer_s", "must be {fixed, per_item} or {table}")
        if "table" not in infer:
            _number(infer.get("fixed"), f"{field}.infer_s.fixed")
            _number(infer.get("per_item", 0.0), f"{field}.infer_s.per_item")
            self._infer[name] = infer
            return
        try:
            table = {
                int(gpcs): sorted((int(batch), _number(s, field)) for batch, s in row.items())
                for gpcs, row in infer["table"].items()
            }
        except (AttributeError, TypeError, ValueError) as error:
            raise _bad(f"{field}.infer_s.table", "must be gpcs -> batch -> seconds") from error
        if not table or not all(table.values()):
            raise _bad(f"{field}.infer_s.table", "must have a row with a value")
        self._infer[name] = {"table": table}

    def slices(self) -> list[Device]:
        """The scenario's, under names of this node."""
        return self._slices

    def declared(self, function_name: str) -> Declared | None:
        """The model of that name."""
        return self._declared.get(function_name)

    def infer_s(self, function_name: str, device: Device, batch: int) -> float:
        """Scaled seconds of one call; between two batches of a table linear, beyond its ends the end's."""
        infer = self._infer.get(function_name)
        if infer is None:
            return 0.0
        batch = max(1, batch)
        if "table" not in infer:
            return float(infer["fixed"] + infer.get("per_item", 0.0) * batch) * self._scale
        table: dict[int, list[tuple[int, float]]] = infer["table"]
        row = table.get(device.spec.gpcs) or table[min(table, key=lambda gpcs: abs(gpcs - device.spec.gpcs))]
        return _interpolate(row, batch) * self._scale


def _interpolate(row: list[tuple[int, float]], batch: int) -> float:
    if batch <= row[0][0]:
        return row[0][1]
    for (b0, s0), (b1, s1) in itertools.pairwise(row):
        if batch <= b1:
            return s0 + (s1 - s0) * (batch - b0) / (b1 - b0)
    return row[-1][1]
