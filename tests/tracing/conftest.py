from tests.tracing.commands import commands

__all__ = ["commands"]
