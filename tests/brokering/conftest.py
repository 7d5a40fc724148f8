from tests.function_rig.fixtures import host, own_host

__all__ = ["host", "own_host"]
