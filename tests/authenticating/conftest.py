from tests.gateway_rig.fixtures import rig

__all__ = ["rig"]
