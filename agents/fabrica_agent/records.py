"""The typed records that stages hand to each other.

Every record is frozen and serialisable, so that a run can be logged, replayed and resumed stage by stage, and any stage
can be replaced by a model-driven one.
"""

from __future__ import annotations

from enum import StrEnum, unique

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of all stage records."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ---------------------------------------------------------------------------------------------------- extractor


class ParamFact(Record):
    """A compile-time parameter that the layout hands to the compute file; `type` is None where it can't be told."""

    name: str
    type: str | None


class ExportFact(Record):
    """An `@export_name` of a tensor: element type as CSL spells it, and whether the host may write it."""

    name: str
    element: str
    mutable: bool


class FunctionFact(Record):
    """An `@export_name` of a function: argument types as CSL spells them."""

    name: str
    args: tuple[str, ...]


class WindowFact(Record):
    """The timing module: its file, the parameter that returns to the host, the two stamp functions, its exports."""

    file: str
    unblock: str | None
    start: str
    end: str
    exports: tuple[str, ...]


class LayoutFacts(Record):
    """What the visible layout says.

    Attributes:
        width: PE columns, None when it isn't constant for the given sizes.
        height: PE rows.
        compute_file: The file that PEs run.
        params: Parameters of the compute file in order.
        memcpy_param: The one bound to the result of `get_params`.
        tensors: Exported arrays in order.
        functions: Exported functions in order.
        colors: Colors that the layout gets, where constant.
        routed: Whether the layout configures routes.
    """

    width: int | None
    height: int | None
    compute_file: str
    params: tuple[ParamFact, ...]
    memcpy_param: str
    tensors: tuple[ExportFact, ...]
    functions: tuple[FunctionFact, ...]
    colors: tuple[int, ...]
    routed: bool


class ArrayFact(Record):
    """An array of the host's input or output file."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Placement(Record):
    """Where the elements of a host array are on the PEs.

    Attributes:
        array: Name of the host array.
        shape: Its shape, refined where that makes the placement regular: a vector spread over 4 PEs counts as 4 rows.
        symbol: Exported tensor that holds it.
        length: Elements of the tensor on each PE.
        x: Coefficients (constant first, then per array axis) of the PE column; None if all PEs hold everything.
        y: The same for the PE row.
        offset: The same for the element index on the PE.
    """

    array: str
    shape: tuple[int, ...]
    symbol: str
    length: int
    x: tuple[int, ...] | None
    y: tuple[int, ...] | None
    offset: tuple[int, ...]


class HostFacts(Record):
    """What the host script does, as observed by running it against a stand-in for the device.

    Attributes:
        inputs: Arrays it reads.
        outputs: Arrays it writes.
        placements: Where input and output elements live; an array without a regular placement has none.
        launches: Launched functions in order.
        arguments: For the last launch of each function, what each argument is: the name of an input array of one
            element, or None.
        problem: Why the script couldn't be observed; None if it could.
    """

    inputs: tuple[ArrayFact, ...]
    outputs: tuple[ArrayFact, ...]
    placements: tuple[Placement, ...]
    launches: tuple[str, ...]
    arguments: dict[str, tuple[str | None, ...]]
    problem: str | None = None


class TaskFacts(Record):
    """Everything deterministic about a task's visible files."""

    layout: LayoutFacts
    window: WindowFact
    host: HostFacts
    entry: FunctionFact
    sizes: dict[str, dict[str, int]]


# ------------------------------------------------------------------------------------------------------- analyst


@unique
class Idiom(StrEnum):
    """What a kernel is built from, as far as the source shows it."""

    GRID_STRIDE = "grid-stride loop"
    SHARED_MEMORY = "shared memory"
    BARRIER = "block barrier"
    WARP_SHUFFLE = "warp shuffle"
    WARP_VOTE = "warp vote"
    ATOMIC = "atomic operation"
    EARLY_EXIT = "early exit of threads"
    TEMPLATE = "template"
    VECTOR_LOAD = "vector load"
    DYNAMIC_SHARED = "dynamic shared memory"
    MATH_FUNCTION = "mathematical function"


class KernelFact(Record):
    """One `__global__` function."""

    name: str
    line: int
    parameters: tuple[str, ...]
    idioms: tuple[Idiom, ...]


class LaunchParameter(Record):
    """A parameter of the host launcher."""

    name: str
    type: str
    pointer: bool
    constant: bool


class SourceAnalysis(Record):
    """Source analysis G: kernels, launches, memory, synchronisation.

    Attributes:
        entry: The host function that launches the kernels.
        parameters: Its parameters.
        returns_value: Whether it returns a floating-point result.
        kernels: Kernels in source order.
        launches: Names of launched kernels in order of appearance.
        allocations: Names of device allocations.
    """

    entry: str
    parameters: tuple[LaunchParameter, ...]
    returns_value: bool
    kernels: tuple[KernelFact, ...]
    launches: tuple[str, ...]
    allocations: tuple[str, ...]


# ----------------------------------------------------------------------------------------------------- architect


@unique
class Decomposition(StrEnum):
    """How the work is spread over the PEs."""

    SINGLE_PE = "one PE"
    REPLICATED = "every PE does the same work on its own copy"
    BLOCK_PER_PE = "one CUDA block per PE, no communication"
    GATHERED = "PEs gather the data that their results depend on, and each hands over its own part"


@unique
class BindingKind(StrEnum):
    """What a parameter of the launcher corresponds to."""

    TENSOR = "exported tensor"
    ELEMENT = "only element of an exported tensor"
    SIZE = "compile-time size"
    ARGUMENT = "argument of the device entry"
    IGNORED = "nothing"


class Binding(Record):
    """A launcher parameter and its counterpart: a host array or tensor, a size, or an entry argument by name."""

    parameter: str
    kind: BindingKind
    name: str


class Design(Record):
    """Design D: mesh, data placement, buffers.

    Attributes:
        width: PE columns.
        height: PE rows.
        decomposition: How the work is spread.
        bindings: Counterpart of each launcher parameter.
        result: Tensor that takes the launcher's return value.
        placements: Where the arrays live.
        data_bytes: Bytes of exported arrays on a PE.
        limit_bytes: Memory of a PE.
        notes: Remarks.
    """

    width: int
    height: int
    decomposition: Decomposition
    bindings: tuple[Binding, ...]
    result: str | None
    placements: tuple[Placement, ...]
    data_bytes: int
    limit_bytes: int = 48 * 1024
    notes: tuple[str, ...] = ()


# --------------------------------------------------------------------------------------------- implementer, reviewer


class Implementation(Record):
    """Complete editable files, and how they came about."""

    files: dict[str, str]
    strategy: str
    notes: tuple[str, ...] = ()


@unique
class FailureKind(StrEnum):
    """Classes of failure that a review tells apart."""

    COMPILE = "compile"
    INTERFACE = "interface"
    MEMORY = "memory"
    NUMERICAL = "numerical"
    TIMING = "timing"
    DEADLOCK = "deadlock"
    FAULT = "run-time fault"
    UNKNOWN = "unknown"


@unique
class Route(StrEnum):
    """Who has to act on a failure."""

    REDESIGN = "architect"
    REPAIR_CODE = "implementer"
    REPAIR_INTERFACE = "extractor and implementer"


class Review(Record):
    """Verdict on a failed attempt."""

    kind: FailureKind
    route: Route
    reason: str


class Accepted(Record):
    """A step of the optimizer."""

    name: str
    before: int
    after: int
