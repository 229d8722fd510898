"""Deterministic facts from the visible files."""
