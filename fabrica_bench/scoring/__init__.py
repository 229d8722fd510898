"""The scorer: staging, the five predicates, verdicts, acceptance and fast_p."""
