"""`SdkLayout`: programs described in Python by code regions, ports and connections instead of a CSL layout block.

The layout compiler places paths between connected ports, one PE with a relay program (an adaptor) for each host stream
next to its port unless the program says where, and chooses the values of symbolic colors. Which paths, places and
values the vendor's tools choose isn't documented; programs must not depend on them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat.artifacts import LAYOUT_FILE, write_artifact, write_json
from fabrica_bench.compat.code_regions import CodeRegion, ParamValue, Port
from fabrica_bench.compat.geometry import IntVector
from fabrica_bench.compat.layout_plan import Adaptor, Plan, StreamRequest, make_plan
from fabrica_bench.compat.path_search import Place
from fabrica_bench.compat.platforms import Platform, SdkCompileArtifacts, SdkTarget
from fabrica_bench.compat.routing_positions import (
    FP16TYPE,
    Color,
    Edge,
    Route,
    RoutingPosition,
    get_edge_routing,
)
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.errors import from_os_error

if TYPE_CHECKING:
    from fabrica_bench.compat.layout_file import MemoryImage, StreamInfo
    from fabrica_bench.csl.driver import CompileOutput, Tile
    from fabrica_bench.csl.driver import ParamValue as TileParam
    from fabrica_bench.csl.ir import Program

__all__ = [
    "FP16TYPE",
    "CodeRegion",
    "Color",
    "Edge",
    "Port",
    "Route",
    "RoutingPosition",
    "SdkLayout",
    "get_edge_routing",
]

COLORS_FILE: Final = "colors.json"
PORTS_FILE: Final = "port_map.json"
ADAPTOR: Final = Path("sdk_layout") / "stream_adaptor.csl"
ORIGIN: Final = IntVector(0, 0)
BUFFER_WORDS: Final = 1024
MAX_BUFFER_WORDS: Final = 8192
"""Two thirds of a PE's memory."""
_DTYPES: Final[dict[str, npt.DTypeLike]] = {
    **{f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "iu" for bits in (8, 16, 32, 64)},
    "f16": "f2",
    "f32": "f4",
    "bool": "u1",
}


class SdkLayout:
    """A program under construction.

    Args:
        platform: Result of `get_platform`, or the architecture.
        msg_level: Accepted; no effect.
    """

    def __init__(self, platform: Platform | SdkTarget, msg_level: str = "WARNING") -> None:
        target = platform.target if isinstance(platform, Platform) else platform
        if not isinstance(target, SdkTarget):
            raise HostError(
                f"SdkLayout: {platform!r} is neither a platform nor an SdkTarget",
                remedy="pass get_platform(...) or SdkTarget.WSE3; descriptions of fabrics in files are not supported",
            )
        self._target = target
        self._regions: dict[str, CodeRegion] = {}
        self._connections: list[tuple[Port, Port]] = []
        self._streams: dict[str, StreamRequest] = {}

    # --------------------------------------------------------------------------------------------- regions

    def create_code_region(self, source: str | os.PathLike[str], name: str, width: int, height: int) -> CodeRegion:
        """A rectangle of PEs that run the CSL file `source`. Names of regions are unique."""
        if name in self._regions:
            raise HostError(f"create_code_region: there is a region {name!r} already", remedy="choose another name")
        region = self._regions[name] = CodeRegion(os.fspath(source), name, int(width), int(height))
        return region

    def hstack(self, regions: Sequence[CodeRegion], origin: IntVector = ORIGIN) -> None:
        """Place regions side by side from west to east, the first with its north-west corner at `origin`."""
        x, y = origin
        for region in regions:
            region.place(x, y)
            x += region.width

    def vstack(self, regions: Sequence[CodeRegion], origin: IntVector = ORIGIN) -> None:
        """Place regions below each other from north to south, the first with its north-west corner at `origin`."""
        x, y = origin
        for region in regions:
            region.place(x, y)
            y += region.height

    # ----------------------------------------------------------------------------------------- connections

    def connect(self, tx: Port, rx: Port) -> None:
        """Lead what leaves through the output port `tx` to the input port `rx`, PE by PE along their edges.

        Raises:
            HostError: Not such ports, connected already, or of different sizes.
        """
        for port, wanted, is_input in ((tx, "an output", False), (rx, "an input", True)):
            if not isinstance(port, Port) or port.is_input is not is_input:
                raise HostError(f"connect: {port!r} is not {wanted} port", remedy="call connect(output, input)")
        if tx.size != rx.size:
            raise HostError(
                f"connect: {tx} carries {tx.size} wavelets, {rx} carries {rx.size}", remedy="make the sizes equal"
            )
        pes = len(tx.local_pes()), len(rx.local_pes())
        if pes[0] != pes[1]:
            raise HostError(
                f"connect: {tx} spans {pes[0]} PEs, {rx} spans {pes[1]}",
                remedy="connect edges of the same length, or put a region between them",
            )
        _occupy(tx, rx.name)
        _occupy(rx, tx.name)
        self._connections.append((tx, rx))

    # --------------------------------------------------------------------------------------------- streams

    def create_input_stream(
        self, port: Port, io_loc: IntVector | None = None, io_buffer_size: int = BUFFER_WORDS
    ) -> str:
        """Let the host send to an input port of one PE. Returns the stream's name, for `SdkRuntime.send`.

        Args:
            io_loc: The free PE that the words enter through; by default one near the port.
            io_buffer_size: Words that this PE can hold.
        """
        return self._stream("create_input_stream", "h2d", port, io_loc, io_buffer_size)

    def create_output_stream(
        self, port: Port, io_loc: IntVector | None = None, io_buffer_size: int = BUFFER_WORDS
    ) -> str:
        """Let the host receive from an output port of one PE: as `create_input_stream`, for `SdkRuntime.receive`."""
        return self._stream("create_output_stream", "d2h", port, io_loc, io_buffer_size)

    def create_input_stream_from_loc(self, loc: IntVector, color: Color, prefix: str = "") -> str:
        """Let the host send `color` to the painted routes that take it from the free PE at `loc`."""
        return self._stream_at("create_input_stream_from_loc", "h2d", loc, color, prefix)

    def create_output_stream_from_loc(self, loc: IntVector, color: Color, prefix: str = "") -> str:
        """Let the host receive what a painted route of `color` sends to the free PE at `loc`."""
        return self._stream_at("create_output_stream_from_loc", "d2h", loc, color, prefix)

    def _stream(
        self, call: str, way: Literal["h2d", "d2h"], port: Port, location: IntVector | None, buffer_words: int
    ) -> str:
        if not isinstance(port, Port) or port.is_input is not (way == "h2d"):
            kind = "an input" if way == "h2d" else "an output"
            raise HostError(f"{call}: {port!r} is not {kind} port", remedy=f"make it with create_{kind[3:]}_port")
        if len(port.local_pes()) != 1:
            raise HostError(
                f"{call}: {port} spans {len(port.local_pes())} PEs, a stream reaches one",
                remedy="put a region that distributes or collects the words between the port and the stream",
            )
        if not 1 <= int(buffer_words) <= MAX_BUFFER_WORDS:
            raise HostError(f"{call}: a buffer of {buffer_words} words", remedy=f"use 1 to {MAX_BUFFER_WORDS}")
        place = None if location is None else _location(call, location)
        request = StreamRequest(port.name, way, port, port.color, place, int(buffer_words))
        self._add_stream(call, request)
        _occupy(port, "a host stream")
        return request.name

    def _stream_at(self, call: str, way: Literal["h2d", "d2h"], location: IntVector, color: Color, prefix: str) -> str:
        if not isinstance(color, Color):
            raise HostError(f"{call}: {color!r} is no Color", remedy="make one with Color(name) or region.color(name)")
        name = f"{prefix}{color.get_global_name()}"
        self._add_stream(call, StreamRequest(name, way, None, color, _location(call, location), BUFFER_WORDS))
        return name

    def _add_stream(self, call: str, request: StreamRequest) -> None:
        if request.name in self._streams:
            raise HostError(f"{call}: there is a stream {request.name!r} already", remedy="give the port a prefix")
        self._streams[request.name] = request

    # --------------------------------------------------------------------------------------------- compile

    def compile(
        self,
        out_prefix: str | os.PathLike[str] = "out",
        libs: Iterable[str | os.PathLike[str]] = (),
        cslc_prefix: str = "",
        save_port_map: bool = False,
        f16_type: FP16TYPE = FP16TYPE.F16,
    ) -> SdkCompileArtifacts:
        """Compile into the directory `out_prefix`.

        `colors.json` in it holds the value of every symbolic color, `port_map.json` the streams if asked for.

        Args:
            libs: Directories searched for `<...>` imports.
            cslc_prefix: Accepted; no effect, the compiler is part of this package.
            f16_type: Format of `f16`.

        Raises:
            HostError: The layout can't be built, or a program has errors; they are on standard error.
            FabricaError: The directory can't be written.
        """
        from fabrica_bench.compat.layout_file import LayoutFile

        plan = make_plan(list(self._regions.values()), self._connections, list(self._streams.values()), self._arch)
        output = self._compile_tiles(plan, [Path(entry) for entry in libs], f16_type)
        layout = LayoutFile(streams=tuple(self._stream_infos(plan)), memory=tuple(self._memory(output.program)))
        directory = Path(out_prefix)
        try:
            write_artifact(output.program, directory, {})
            write_json(directory / LAYOUT_FILE, layout.model_dump(mode="json"))
            write_json(directory / COLORS_FILE, plan.colors)
            if save_port_map:
                write_json(directory / PORTS_FILE, [item.model_dump() for item in layout.streams])
        except OSError as error:
            raise from_os_error(error) from error
        return SdkCompileArtifacts(directory)

    @property
    def _arch(self) -> Literal["wse2", "wse3"]:
        return "wse2" if self._target is SdkTarget.WSE2 else "wse3"

    def _compile_tiles(self, plan: Plan, libs: Sequence[Path], f16_type: FP16TYPE) -> CompileOutput:
        from fabrica_bench.csl.diagnostics import CslError, Severity, render
        from fabrica_bench.csl.driver import CompileOptions, Tile, compile_tiles

        options = CompileOptions(
            file=next(iter(self._regions.values())).source,
            arch=self._arch,
            import_paths=tuple(libs),
            fp16=f16_type.value,
        )
        tiles = {place: _tile(plan, place) for place in plan.pes}
        tiles |= {place: Tile(None, {}, colors) for place, colors in plan.routes.items() if place not in tiles}
        try:
            output = compile_tiles(options, plan.width, plan.height, tiles)
        except CslError as error:
            for item in error.diagnostics:
                sys.stderr.write(render(item) + "\n")
            count = sum(item.severity is Severity.ERROR for item in error.diagnostics)
            raise HostError(
                f"SdkLayout.compile: {count} error(s) in the CSL code", remedy="see the messages above"
            ) from None
        for item in output.warnings:
            sys.stderr.write(render(item) + "\n")
        return output

    def _stream_infos(self, plan: Plan) -> list[StreamInfo]:
        from fabrica_bench.compat.layout_file import StreamInfo

        places = {pe.adaptor.stream.name: place for place, pe in plan.pes.items() if pe.adaptor is not None}
        return [
            StreamInfo(
                name=name,
                id=number,
                direction=request.direction,
                x=places[name][0],
                y=places[name][1],
                color=plan.host_colors[request.direction],
                size=request.size,
            )
            for number, (name, request) in enumerate(self._streams.items())
        ]

    def _memory(self, program: Program) -> list[MemoryImage]:
        return [image for region in self._regions.values() for image in _symbol_images(region, program)]


def _occupy(port: Port, peer: str) -> None:
    if port.peer is not None:
        raise HostError(f"{port} is connected to {port.peer} already", remedy="a port has one other end")
    port.peer = peer


def _location(call: str, location: Any) -> IntVector:
    x, y = location
    if x < 0 or y < 0:
        raise HostError(f"{call}: there is no PE ({x}, {y})", remedy="coordinates start at 0")
    return IntVector(int(x), int(y))


def _tile(plan: Plan, place: Place) -> Tile:
    from fabrica_bench.csl.driver import ColorNumber, Tile
    from fabrica_bench.csl.sema.session import LIBRARY

    pe = plan.pes[place]
    colors = plan.routes.get(place, {})
    if pe.adaptor is not None:
        return Tile(LIBRARY / ADAPTOR, _adaptor_params(plan, pe.adaptor), colors)
    assert pe.region is not None

    def bound(value: ParamValue) -> TileParam:
        return ColorNumber(plan.colors[value.get_global_name()]) if isinstance(value, Color) else value

    return Tile(pe.region.source, {name: bound(value) for name, value in pe.params.items()}, colors)


def _adaptor_params(plan: Plan, adaptor: Adaptor) -> dict[str, TileParam]:
    from fabrica_bench.csl.driver import ColorNumber

    fabric = ColorNumber(plan.colors[adaptor.color_class])
    host = ColorNumber(plan.host_colors[adaptor.stream.direction])
    source, destination = (host, fabric) if adaptor.stream.direction == "h2d" else (fabric, host)
    return {"source": source, "destination": destination, "buffer_words": adaptor.stream.buffer_words}


def _symbol_images(region: CodeRegion, program: Program) -> Iterable[MemoryImage]:
    """Blocks of `set_symbol_all`, checked against the variables."""
    from fabrica_bench.compat.layout_file import MemoryImage

    assert region.origin is not None
    for symbol in region.symbols.values():
        rows, columns = symbol.data.shape[0] // region.height, symbol.data.shape[1] // region.width
        for j in range(region.height):
            for i in range(region.width):
                x, y = region.origin.x + i, region.origin.y + j
                variable = program.images[program.tiles[y][x]].globals.get(symbol.name)
                what = f"set_symbol_all: {symbol.name!r} of region {region.name!r}"
                if variable is None:
                    raise HostError(f"{what}: no such variable", remedy="declare it `export var`")
                block = symbol.data[j * rows : (j + 1) * rows, i * columns : (i + 1) * columns]
                data = _as_elements(what, block, variable.type_name)
                if len(data) != variable.size:
                    raise HostError(
                        f"{what} has {variable.size} bytes, the data for one PE {len(data)}",
                        remedy=f"its type is {variable.type_name}; a PE gets {rows} rows of {columns} elements",
                    )
                yield MemoryImage(x=x, y=y, symbol=symbol.name, data=_base64(data))


def _as_elements(what: str, block: npt.NDArray[Any], type_name: str) -> bytes:
    element = type_name.rsplit("]", 1)[-1].strip()
    if element not in _DTYPES:
        raise HostError(f"{what}: can't fill elements of type {element}", remedy="use an array of integers or floats")
    dtype = np.dtype(_DTYPES[element])
    if not np.can_cast(block.dtype, dtype, casting="same_kind"):
        raise HostError(f"{what}: {block.dtype} data for elements of type {element}", remedy=f"convert it to {dtype}")
    return np.ascontiguousarray(block.astype(dtype)).tobytes()


def _base64(data: bytes) -> bytes:
    import base64

    return base64.b64encode(data)
