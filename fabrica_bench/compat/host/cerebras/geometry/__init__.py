"""Served by the Fabrica-Bench simulator; importable under its `cs_python` only."""
