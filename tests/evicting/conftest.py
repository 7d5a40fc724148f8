"""The etcd of the storing tests serves these as well."""

from __future__ import annotations

from tests.storing_state.conftest import etcd, store

__all__ = ["etcd", "store"]
