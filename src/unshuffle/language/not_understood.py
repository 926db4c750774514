"""What makes a query foreign."""

from __future__ import annotations


class NotUnderstood(Exception):
    """A construct that only Spark understands; the reason is shown under `fallbacks`."""
