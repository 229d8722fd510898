"""The C++ around a task's CUDA launcher: device buffers, copies, poison and time, generated from the spec."""

from __future__ import annotations

import ctypes
from typing import Any, Final, Literal, NamedTuple

from fabrica_bench.tasks.task import Task

OLDEST_ARCH: Final = 70
"""Compute capability 7.0: the oldest that the sources promise to build for, where nvcc still can."""


class ArgType(NamedTuple):
    """A dtype as CUDA C++ and ctypes spell it."""

    cuda: str
    ctype: Any


ARG_TYPES: Final = {
    "f32": ArgType("float", ctypes.c_float),
    "f16": ArgType("__half", ctypes.c_uint16),
    "u32": ArgType("unsigned int", ctypes.c_uint32),
    "i32": ArgType("int", ctypes.c_int32),
    "u16": ArgType("unsigned short", ctypes.c_uint16),
    "i16": ArgType("short", ctypes.c_int16),
}


class Argument(NamedTuple):
    """One argument of the launcher. `value` and `size` are passed by value, the others as device pointers."""

    name: str
    kind: Literal["input", "output", "inout", "value", "size"]
    dtype: str


def arguments(task: Task) -> list[Argument]:
    """The launcher's arguments in order, as the spec's `cuda.args` names them."""
    inputs = {tensor.name: tensor for tensor in task.spec.inputs}
    outputs = {tensor.name: tensor for tensor in task.spec.outputs}
    found = []
    for name in task.spec.cuda.args:
        if name in inputs and name in outputs:
            found.append(Argument(name, "inout", inputs[name].dtype))
        elif name in inputs:
            by_value = inputs[name].shape.replace(" ", "") == "[1]"
            found.append(Argument(name, "value" if by_value else "input", inputs[name].dtype))
        elif name in outputs:
            found.append(Argument(name, "output", outputs[name].dtype))
        else:
            found.append(Argument(name, "size", "i32"))
    return found


_PROLOGUE = """\
#include <cstring>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "{kernel}"

extern "C" const char* harness_error(int status) {{
  return cudaGetErrorString(static_cast<cudaError_t>(status));
}}

extern "C" int harness_device(char* name, int* numbers) {{
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count == 0) {{
    status = cudaErrorNoDevice;
  }}
  if (status != cudaSuccess) {{
    return status;
  }}
  cudaDeviceProp properties;
  status = cudaGetDeviceProperties(&properties, 0);
  if (status != cudaSuccess) {{
    return status;
  }}
  std::memcpy(name, properties.name, sizeof(properties.name));  // the caller gives 256 bytes
  numbers[0] = properties.major;
  numbers[1] = properties.minor;
  cudaDriverGetVersion(&numbers[2]);
  cudaRuntimeGetVersion(&numbers[3]);
  return cudaSuccess;
}}

#define TRY(call)                 \\
  if (status == cudaSuccess) {{    \\
    status = (call);              \\
  }}

"""


def harness_source(task: Task) -> str:
    """CUDA C++ with `harness_run(<launcher's arguments, host pointers>, bytes, milliseconds)`; 0 means success."""
    kernel = str(task.cuda_path.resolve())
    pointers = [argument for argument in arguments(task) if argument.kind not in ("value", "size")]
    parameters, actual = [], []
    for argument in arguments(task):
        cuda_type = ARG_TYPES[argument.dtype].cuda
        if argument.kind in ("value", "size"):
            parameters.append(f"{cuda_type} {argument.name}")
            actual.append(argument.name)
        else:
            parameters.append(f"void* host_{argument.name}")
            actual.append(f"static_cast<{cuda_type}*>(device_{argument.name})")
    lines = [f'extern "C" int harness_run({", ".join(parameters)}, const size_t* bytes, float* milliseconds) {{']
    lines.append("  cudaError_t status = cudaSuccess;")
    for index, argument in enumerate(pointers):
        lines.append(f"  void* device_{argument.name} = nullptr;")
        lines.append(f"  TRY(cudaMalloc(&device_{argument.name}, bytes[{index}]));")
        lines.append(_copy(f"device_{argument.name}", f"host_{argument.name}", index, "HostToDevice"))
    lines += [
        "  cudaEvent_t before = nullptr;",
        "  cudaEvent_t after = nullptr;",
        "  TRY(cudaEventCreate(&before));",
        "  TRY(cudaEventCreate(&after));",
        "  TRY(cudaEventRecord(before));",
        f"  TRY({task.spec.cuda.launcher}({', '.join(actual)}));",
        "  TRY(cudaEventRecord(after));",
        "  TRY(cudaDeviceSynchronize());",
        "  TRY(cudaEventElapsedTime(milliseconds, before, after));",
    ]
    for index, argument in enumerate(pointers):
        lines.append(_copy(f"host_{argument.name}", f"device_{argument.name}", index, "DeviceToHost"))
    lines += [f"  cudaFree(device_{argument.name});" for argument in pointers]
    lines += ["  return status;", "}", ""]
    return _PROLOGUE.format(kernel=kernel) + "\n".join(lines)


def _copy(target: str, source: str, index: int, way: str) -> str:
    return f"  TRY(cudaMemcpy({target}, {source}, bytes[{index}], cudaMemcpy{way}));"
