"""The native executor: PE programs and the fabric as machine code, through llvmlite.

It agrees with the reference executor in every output, cycle and fault. `machine` is the entry; nothing here is
imported, and LLVM is not loaded, before a machine with the native executor is made.
"""
