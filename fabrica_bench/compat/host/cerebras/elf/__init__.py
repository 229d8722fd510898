"""Not served: refuses its import with the remedy."""

raise ImportError(
    "cerebras.elf (CSELFRunner) left the SDK in version 1.0; write the host script with SdkRuntime "
    "of cerebras.sdk.runtime.sdkruntimepybind, and compile with --memcpy"
)
