"""Training data from runs, and metrics of predictions that need no compiler."""
