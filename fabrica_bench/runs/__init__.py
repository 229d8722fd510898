"""Runs: one agent over some tasks, with records that survive interruption."""
