"""Integrity checks: one module per check, each returning findings with their place."""
