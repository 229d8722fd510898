"""Fabric simulator: processing elements, routers, tasks, DSD operations and their cycle model."""
