"""The command line: argument handling, progress, tables. No decision of the benchmark is taken here."""
