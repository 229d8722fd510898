"""The CUDA front end: libclang syntax tree to kernel IR."""
