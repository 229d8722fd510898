"""Array helpers under the vendor's module name."""

from fabrica_bench.compat.sdk_utils import (
    calculate_cycles,
    cast_uint32,
    get_api_info_dict,
    input_array_to_u32,
    memcpy_view,
)

__all__ = ["calculate_cycles", "cast_uint32", "get_api_info_dict", "input_array_to_u32", "memcpy_view"]
