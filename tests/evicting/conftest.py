"""The etcd of the storing tests serves these as well."""

from __future__ import annotations

from tests.etcd_rig import etcd, store

__all__ = ["etcd", "store"]
