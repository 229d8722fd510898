"""Where SDK 1.0 and earlier had the array helpers."""

from fabrica_bench.compat.sdk_utils import calculate_cycles, input_array_to_u32, memcpy_view

__all__ = ["calculate_cycles", "input_array_to_u32", "memcpy_view"]
