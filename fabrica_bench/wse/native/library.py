"""Machine code: the compiled kernel, PE programs, and the cache that keeps both on disk."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from fabrica_bench.wse.native.kernel_language import Kernel, StructLayout

_SOURCES = (
    "state",
    "events",
    "numbers",
    "router",
    "ports",
    "intrinsics",
    "operands",
    "memory_operations",
    "starting",
    "operations",
    "map",
    "element",
    "loop",
    "lanes",
)
_LIBM = {
    "exp": 1,
    "log": 1,
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "tanh": 1,
    "sqrt": 1,
    "ceil": 1,
    "floor": 1,
    "pow": 2,
    "fmod": 2,
}
#: characters of a module from which on compile time counts for more than the speed of its code
_LARGE = 2_000_000
_QUICK = -1
_MOST_FILES = 4000  # some 20 KB each
#: bump when the meaning of cached code changes in a way its text doesn't show
_FORMAT = "1"
_OBJECT_NAME = re.compile(r"[0-9a-f]{64}\.o")


def cache_directory() -> Path | None:
    """Where machine code is kept: `FABRICA_CACHE_DIR`, else the user's cache folder; None if it cannot be made."""
    base = os.environ.get("FABRICA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(base) if base else Path.home() / ".cache"
        folder = root / "fabrica-bench" / "native"
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):
        return None
    return folder


def private_directory() -> Path | None:
    """Where this process puts the code that it compiles, instead of the cache: `FABRICA_PRIVATE_CODE`, if it is set.

    For processes that run programs nobody trusts: they read the common cache and write into a folder that only later
    runs of the same program read, so that no program can hand code to another.
    """
    chosen = os.environ.get("FABRICA_PRIVATE_CODE")
    return Path(chosen) if chosen else None


def adopt_code(private: Path) -> int:
    """Move object files from a private folder into the cache; returns how many.

    Only for a folder that was filled by a program of our own: machine code can't be checked.
    """
    folder = cache_directory()
    if folder is None or not private.is_dir():
        return 0
    moved = 0
    for path in sorted(private.glob("*.o")):
        if _OBJECT_NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            try:
                temporary = folder / f"{path.name}.{os.getpid()}.tmp"
                temporary.write_bytes(path.read_bytes())
                temporary.replace(folder / path.name)
            except OSError:
                break  # a cache that can't be written keeps nothing
            moved += 1
    return moved


class CodeCache:
    """Object files by the hash of what they were made from.

    The private folder is looked up at each use: a process that forks after it loaded the kernel has none itself.
    """

    def __init__(self) -> None:
        self._folder = cache_directory()
        self._pruned = False

    def _prune(self) -> None:
        """Keep the newer half of too many files, once in a process."""
        if self._folder is None or self._pruned:
            return
        self._pruned = True
        try:
            files = list(self._folder.glob("*.o"))
            if len(files) > _MOST_FILES:
                for path in sorted(files, key=lambda path: path.stat().st_mtime)[: len(files) // 2]:
                    path.unlink(missing_ok=True)
        except OSError:
            return  # another process prunes, or this one may only read

    def get(self, key: str) -> bytes | None:
        """The object file, or None. The common cache comes first: a private folder can't replace what is in it."""
        for folder in (self._folder, private_directory()):
            if folder is not None:
                try:
                    return (folder / f"{key}.o").read_bytes()
                except OSError:
                    continue
        return None

    def put(self, key: str, content: bytes) -> None:
        """Keep an object file; a folder that cannot be written to keeps nothing."""
        private = private_directory()
        folder = private or self._folder
        if folder is None:
            return
        if private is None:
            self._prune()
        try:
            handle, name = tempfile.mkstemp(dir=folder)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, folder / f"{key}.o")
        except OSError:
            if private is None:
                self._folder = None


def digest(parts: Iterable[str]) -> str:
    """Key of what was compiled from `parts`."""
    text = hashlib.sha256()
    for part in (_FORMAT, llvmlite.__version__, llvm.get_process_triple(), llvm.get_host_cpu_name(), *parts):
        text.update(part.encode())
        text.update(b"\0")
    return text.hexdigest()


class Library:
    """The kernel in memory, and a linker for PE programs.

    Attributes:
        structs: layouts of the kernel's structures, in 64-bit words.
    """

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._cache = CodeCache()
        self._engines: dict[str, Any] = {}
        self._addresses: dict[str, int] = {}
        self._functions: dict[str, Callable[..., int]] = {}
        self._target = llvm.Target.from_default_triple()
        self._add_libm()
        folder = resources.files("fabrica_bench.wse.native").joinpath("kernel")
        texts = [(name, folder.joinpath(f"{name}.py").read_text(encoding="utf-8")) for name in _SOURCES]
        self._kernel = Kernel(texts)
        self.structs: dict[str, StructLayout] = self._kernel.structs
        self.kernel_key = digest(text for _, text in texts)
        self._load_kernel()

    def _add_libm(self) -> None:
        """Make the C library's mathematics visible under names of our own: the functions Python's `math` calls."""
        process = ctypes.CDLL(None)
        for name in _LIBM:
            address = ctypes.cast(getattr(process, name), ctypes.c_void_p).value
            assert address is not None
            llvm.add_symbol(f"fb_libm_{name}", address)
        give_way = ctypes.cast(process.sched_yield, ctypes.c_void_p).value
        assert give_way is not None
        llvm.add_symbol("fb_yield", give_way)

    def _load_kernel(self) -> None:
        externals = {f"fb_libm_{name}": ("f64", ["f64"] * count) for name, count in _LIBM.items()}
        externals["fb_yield"] = ("i64", [])

        def text() -> str:
            return str(self._kernel.compile(llvm.get_process_triple(), externals))

        engine = self._link(self.kernel_key, text, 3)
        for name, signature in self._kernel.functions.items():
            if signature.node is None:
                continue
            address = engine.get_function_address(f"fb_{name}")
            llvm.add_symbol(f"fb_{name}", address)
            self._addresses[name] = address

    def _link(self, key: str, text: Callable[[], str], level: int) -> Any:
        """Engine with the code of a module: the one this process has already, or one from the cache."""
        if key in self._engines:
            return self._engines[key]
        machine = self._machine(level)
        content = self._cache.get(key)
        if content is None:
            content = _object_file(text(), machine, level)
            self._cache.put(key, content)
        empty = llvm.parse_assembly("")
        engine = llvm.create_mcjit_compiler(empty, machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        engine.finalize_object()
        self._engines[key] = engine
        return engine

    def _machine(self, level: int) -> Any:
        return self._target.create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=max(level, 0),
            codemodel="jitdefault",
        )

    def make(self, text: str, *, quick: bool = False) -> bytes:
        """The object file of a module, made anew and not kept; `quick` as of `load`."""
        level = _level(text, quick)
        return _object_file(text, self._machine(level), level)

    def load(self, text: str, *, quick: bool = False) -> Callable[[str], int]:
        """Compile a module that calls kernel functions; returns the address of a function by name.

        `quick`: in a quarter of the time, for code that takes up to four times as long to do the same.
        """
        key = (self.kernel_key, text, "quick") if quick else (self.kernel_key, text)
        engine = self._link(digest(key), lambda: text, _level(text, quick))
        return lambda name: int(engine.get_function_address(name))

    def call(self, name: str, *args: int) -> int:
        """Call a kernel function; pointers are addresses."""
        function = self._functions.get(name)
        if function is None:
            prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))
            function = self._functions[name] = prototype(self._addresses[name])
        return int(function(*args))


def _level(text: str, quick: bool) -> int:
    """How much LLVM is to optimise, `_QUICK` to 3."""
    return _QUICK if quick else 2 if len(text) < _LARGE else 1


def _object_file(text: str, machine: Any, level: int) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    _optimise(module, machine, level)
    return bytes(machine.emit_object(module))


def _optimise(module: Any, machine: Any, level: int) -> None:
    options = llvm.create_pipeline_tuning_options(max(level, 0))
    builder = llvm.create_pass_builder(machine, options)
    if level != _QUICK:
        builder.getModulePassManager().run(module, builder)
        return
    # What pays for itself at once: fewer instructions to choose machine code for.
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


@cache
def library() -> Library:
    """The library of this process, made on first use."""
    return Library()
