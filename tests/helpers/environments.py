"""A second Python environment whose `bin` holds the project's own `cslc` and `cs_python`."""

from __future__ import annotations

import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make_environment(folder: Path) -> Path:
    """Create it and return its `bin`; packages are those of this environment, nothing is downloaded."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    binaries = folder / "bin"
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    roots = [str(ROOT), *(entry for entry in sys.path if entry.endswith("-packages")), sysconfig.get_path("purelib")]
    (site / "shared.pth").write_text("\n".join(dict.fromkeys(roots)) + "\n", encoding="utf-8")
    for tool in ("cslc", "cs_python"):
        script = binaries / tool
        script.write_text(
            f"#!{binaries / 'python'}\nimport sys\nfrom fabrica_bench.compat.{tool} import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)
    return binaries
