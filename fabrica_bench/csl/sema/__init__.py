"""Semantic analysis: comptime evaluation, types and lowering to the typed IR, in one evaluator."""
