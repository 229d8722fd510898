"""Not served: refuses its import with the remedy."""

raise ImportError(
    "cerebras.sdk.client is for the vendor's appliance and not imitated; compile with cslc, and write the host script "
    "with SdkRuntime of cerebras.sdk.runtime.sdkruntimepybind"
)
