"""Stands for a framework that Slicewise does not interpose."""

__version__ = "2.99"
