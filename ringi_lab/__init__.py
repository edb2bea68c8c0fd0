"""Experiments on how data moves inside a GPU node: simulated, measured or recorded."""

__version__ = "0.1.0"
