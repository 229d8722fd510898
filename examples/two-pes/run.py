"""Copies numbers to both PEs, launches `pass_on`, and compares what the right PE holds with NumPy."""

import argparse

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

parser = argparse.ArgumentParser()
parser.add_argument("--name", required=True)
args = parser.parse_args()

n = 16
x = np.arange(2 * n, dtype=np.float32)
runner = SdkRuntime(args.name)
data = runner.get_id("data")
runner.load()
runner.run()
how = dict(streaming=False, order=MemcpyOrder.ROW_MAJOR, data_type=MemcpyDataType.MEMCPY_32BIT, nonblock=False)
runner.memcpy_h2d(data, x, 0, 0, 2, 1, n, **how)
runner.launch("pass_on", np.float32(2.0), nonblock=False)
result = np.zeros(n, np.float32)
runner.memcpy_d2h(result, data, 1, 0, 1, 1, n, **how)
runner.stop()
np.testing.assert_allclose(result, 2 * x[:n] + x[n:])
print("SUCCESS!")
