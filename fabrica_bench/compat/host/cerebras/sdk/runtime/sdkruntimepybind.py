"""Host API of the simulator under the vendor's module name."""

from fabrica_bench.compat.platforms import (
    MemcpyDataType,
    MemcpyOrder,
    SdkCompileArtifacts,
    SdkTarget,
    SimfabConfig,
    get_platform,
    get_simulator,
    get_system,
)
from fabrica_bench.compat.runtime import SdkRuntime, Task
from fabrica_bench.compat.sdk_layout import (
    FP16TYPE,
    Color,
    Edge,
    Route,
    RoutingPosition,
    SdkLayout,
    get_edge_routing,
)

__all__ = [
    "FP16TYPE",
    "Color",
    "Edge",
    "MemcpyDataType",
    "MemcpyOrder",
    "Route",
    "RoutingPosition",
    "SdkCompileArtifacts",
    "SdkLayout",
    "SdkRuntime",
    "SdkTarget",
    "SimfabConfig",
    "Task",
    "get_edge_routing",
    "get_platform",
    "get_simulator",
    "get_system",
]
