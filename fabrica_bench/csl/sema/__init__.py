"""Semantic analysis: comptime evaluation, types and lowering to the typed IR, in one evaluator."""


def register_all() -> None:
    """Fill the dispatch tables."""
    from fabrica_bench.csl.sema import calls, components, control, exprs, loops, stmts, tensor, typeexprs

    assert all((calls, components, control, exprs, loops, tensor, typeexprs))
    stmts.register_remaining()
