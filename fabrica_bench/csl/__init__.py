"""The open CSL compiler: source text to typed IR."""
