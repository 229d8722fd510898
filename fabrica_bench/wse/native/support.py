"""What the native executor leaves to the reference executor."""

from __future__ import annotations


class NativeUnsupported(Exception):
    """The program uses something that the native executor does not implement; carries what."""
