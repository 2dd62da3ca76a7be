"""What Poolwise raises: one root, and each error is a builtin too, so that ordinary `except` clauses work."""

from __future__ import annotations


class PoolwiseError(Exception):
    """The root of every error that Poolwise raises on purpose."""


class InputError(PoolwiseError, ValueError):
    """An argument that cannot be used; the message names it and says what to change."""


class MissingExtra(PoolwiseError, ImportError):
    """A part that needs an optional dependency which is not installed; the message gives the pip line."""
