"""Not served: refuses its import with the remedy."""

raise ImportError(
    "cerebras.appliance is the vendor's own and not imitated; import MemcpyDataType and MemcpyOrder from "
    "cerebras.sdk.runtime.sdkruntimepybind"
)
