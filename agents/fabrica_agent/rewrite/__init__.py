"""Source-to-source rewriting of CSL: the catalogue of the deterministic optimizer."""
