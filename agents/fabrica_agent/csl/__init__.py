"""CSL text from serial kernel IR."""
