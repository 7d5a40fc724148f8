"""A plan's layout in the configuration format of NVIDIA's mig-parted, which the MIG manager reads, too.

A file (version v1) has named configurations; one is a list of entries {devices, mig-enabled, mig-devices}, and
mig-devices counts profiles. Places are the driver's choice there: mig-parted tries one order of creation after another
until all instances exist.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from proto.types.partitioning import MigInstance

NAME = "slicewise"


def configuration(layout: Sequence[Sequence[MigInstance]]) -> dict[str, Any]:
    """The file as plain values; GPU i of `layout` is device i, GPUs alike share an entry, empty ones have MIG off."""
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for device, instances in enumerate(layout):
        # Most compute first, as people read it; mig-parted does not mind.
        sizes = {instance.profile: instance.gpcs for instance in instances}
        counts = Counter(instance.profile for instance in instances)
        key = tuple(sorted(counts.items(), key=lambda item: (-sizes[item[0]], item[0])))
        alike.setdefault(key, []).append(device)
    entries = [
        {"devices": devices, "mig-enabled": bool(counts), "mig-devices": dict(counts)}
        for counts, devices in alike.items()
    ]
    return {"version": "v1", "mig-configs": {NAME: entries}}


def text(layout: Sequence[Sequence[MigInstance]]) -> str:
    """The file as YAML; profile names in quotes, devices on one line."""
    document = configuration(layout)
    for entry in document["mig-configs"][NAME]:
        devices = CommentedSeq(entry["devices"])
        devices.fa.set_flow_style()
        entry["devices"] = devices
        entry["mig-devices"] = {DoubleQuotedScalarString(name): n for name, n in entry["mig-devices"].items()}
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 1 << 20  # no line breaks in lists of devices
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()
