"""The deterministic lowering: CUDA kernel IR to a serial program for one PE, and from there to CSL text."""
