from tests.etcd_rig import etcd, store

__all__ = ["etcd", "store"]
