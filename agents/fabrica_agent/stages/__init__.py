"""The model-driven agent: six stages with typed records between them."""
