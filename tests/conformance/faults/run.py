"""Launch `main` once: `cs_python run.py OUT`."""

import sys

from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime

runner = SdkRuntime(sys.argv[1])
runner.load()
runner.run()
runner.launch("main", nonblock=False)
runner.stop()
