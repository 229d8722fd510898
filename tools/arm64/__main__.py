#!/usr/bin/env python3
"""An arm64 Python with this project's dependencies, emulated on another processor, to compare results between the two.

    python tools/arm64 FOLDER
    FOLDER/python -m fabrica_bench doctor

Needs Debian 12 or later with the package qemu-user-static, and arm64 among its architectures (as root:
`dpkg --add-architecture arm64 && apt-get update && apt-get install qemu-user-static`). FOLDER gets the unpacked
packages of an arm64 Python, the wheels for arm64, and `python`, a script that runs this checkout's code with both. As
that script is also what Python calls itself, the processes that it starts are arm64 ones too.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EMULATOR = "qemu-aarch64-static"
# Debian 12's Python, and the libraries that it and the wheels load.
VERSION = "3.11"
PACKAGES = (
    f"python{VERSION} python{VERSION}-minimal libpython{VERSION}-stdlib libpython{VERSION}-minimal "
    "libc6 libgcc-s1 libstdc++6 libgomp1 zlib1g libbz2-1.0 liblzma5 libexpat1 libssl3 libffi8 "
    "libsqlite3-0 libuuid1 libcrypt1 libdb5.3 libncursesw6 libtinfo6 libreadline8"
).split()
TEST_REQUIREMENTS = ["pytest", "pytest-xdist", "hypothesis"]
PLATFORMS = ["manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64"]


class Failure(Exception):
    """Something that the user can mend; the text says how."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool. Returns 0, or 1 with a line on standard error if something is missing."""
    parser = argparse.ArgumentParser(
        prog="arm64", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="is made; an arm64 Python from an earlier call is replaced")
    folder: Path = parser.parse_args(argv).folder.resolve()
    try:
        prepare(folder)
    except Failure as failure:
        sys.stderr.write(f"arm64: error: {failure}\n")
        return 1
    print(folder / "python")
    return 0


def prepare(folder: Path) -> None:
    """Fill `folder`. Raises `Failure`."""
    emulator = shutil.which(EMULATOR)
    if emulator is None:
        raise Failure(f"{EMULATOR} is not on PATH; install Debian's qemu-user-static")
    parts = [folder / name for name in ("packages", "root", "wheels", "site")]
    for part in parts:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    packages, root, wheels, site = parts
    step(["apt-get", "download", *(f"{name}:arm64" for name in PACKAGES)], packages)
    for package in sorted(packages.glob("*.deb")):
        step(["dpkg", "-x", str(package), str(root)], packages)
    step([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), *wheel_options()], folder)
    for wheel in sorted(wheels.glob("*.whl")):
        unpack(wheel, site)
    script = folder / "python"
    script.write_text(launcher(emulator, script, root, site), encoding="utf-8")
    script.chmod(0o755)
    found = subprocess.run([script, "-c", "import platform; print(platform.machine())"], capture_output=True, text=True)
    if found.stdout.strip() != "aarch64":
        raise Failure(f"{script} doesn't run: {(found.stderr or found.stdout).strip()[-500:]}")


def step(command: list[str], folder: Path) -> None:
    """Run `command` in `folder`. Raises `Failure` with the end of what it printed."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Failure(f"{command[0]} is not on PATH; this needs Debian or one of its descendants") from error
    if done.returncode:
        raise Failure(f"`{' '.join(command[:4])} ...` failed:\n{(done.stdout + done.stderr).strip()[-1000:]}")


def wheel_options() -> list[str]:
    """Arguments for `pip download`: the project's dependencies and the tests', as wheels for arm64 alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    platforms = [part for name in (*PLATFORMS, "any") for part in ("--platform", name)]
    return [
        "--only-binary=:all:",
        "--python-version",
        VERSION,
        *platforms,
        *project["dependencies"],
        *TEST_REQUIREMENTS,
    ]


def unpack(wheel: Path, site: Path) -> None:
    """Lay the files of `wheel` under `site`, as an installation into site-packages would."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for data in site.glob("*.data"):
        for kind in ("purelib", "platlib"):
            if (data / kind).is_dir():
                shutil.copytree(data / kind, site, dirs_exist_ok=True)
        shutil.rmtree(data)


def launcher(emulator: str, script: Path, root: Path, site: Path) -> str:
    """Text of the script. With `-0`, Python takes the script for its own executable, and starts children through it."""
    path = ":".join(str(part) for part in (ROOT, ROOT / "tests", ROOT / "agents", site))
    return (
        "#!/bin/sh\n"
        f"exec {emulator} -0 {script} -L {root} -E PYTHONHOME={root}/usr -E PYTHONPATH={path} "
        f'{root}/usr/bin/python{VERSION} "$@"\n'
    )


if __name__ == "__main__":
    if platform.machine() == "aarch64":
        sys.exit("arm64: error: this machine is an arm64 one; run the comparison directly")
    sys.exit(main())
