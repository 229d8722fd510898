"""TaskSpec: the typed, versioned content of a task's spec.yaml.

Every quantity that depends on the size (shapes, mesh, tolerances, lower bounds) is an expression over the size
parameters, see `fabrica_bench.tasks.expressions`. Cycles are PE clock cycles. Meshes are [columns, rows].
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fabrica_bench.errors import FabricaError
from fabrica_bench.tasks import expressions
from fabrica_bench.tasks.expressions import Expression, ExpressionError

SCHEMA_VERSION: Final = 1
MAX_SPEC_BYTES: Final = 256 * 1024

Arch = Literal["wse2", "wse3"]
Workflow = Literal["W1", "W1-C", "W2"]
SetName = Literal["core", "w2", "diagnostic", "knowledge", "probe"]
SET_NAMES: Final[tuple[str, ...]] = ("full", "core", "diagnostic", "knowledge", "probe", "w2")
ARCHS: Final[tuple[Arch, ...]] = ("wse2", "wse3")
DTYPE_BITS: Final = {"f32": 32, "f16": 16, "u32": 32, "i32": 32, "u16": 16, "i16": 16}
NUMPY_DTYPE: Final = {
    "f32": "float32",
    "f16": "float16",
    "u32": "uint32",
    "i32": "int32",
    "u16": "uint16",
    "i16": "int16",
}
UNIT_ROUNDOFF: Final = {"f32": 2.0**-24, "f16": 2.0**-11}
"""Half the distance from 1 to the next number: the largest relative error of one correctly rounded operation."""

FABRIC_MARGIN: Final = (7, 2)
"""Columns and rows that host I/O adds to the program rectangle (Cerebras SDK docs 1.4, `--fabric-dims`)."""
FABRIC_OFFSETS: Final = (4, 1)


def _checked_expression(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be an expression in quotes, e.g. '2 * n'")
    text = str(value)
    Expression(text)
    return text


def _checked_shape(text: str) -> str:
    expressions.parse_list(text)
    return text


def _checked_file(name: str) -> str:
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name:
        raise ValueError("must be a file name inside the bundle, without '..'")
    return name


ExpressionText = Annotated[str, BeforeValidator(_checked_expression, json_schema_input_type=str | int | float)]
ShapeText = Annotated[str, AfterValidator(_checked_shape)]
FileName = Annotated[str, AfterValidator(_checked_file)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
Cycles = Annotated[int, Field(ge=1)]


class Model(BaseModel):
    """Strict, closed and immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Size(Model):
    """A named problem size. `params` are passed to the compiler under the same names."""

    name: Identifier
    role: Literal["correctness", "memory", "decomposition", "scaling"]
    params: dict[Identifier, Annotated[int, Field(ge=0, le=65535)]] = Field(min_length=1)
    published_cycles: Cycles | None = None
    note: Text | None = None


class Tensor(Model):
    """An input of the task, by the name under which the oracle and the runner exchange it."""

    name: Identifier
    shape: ShapeText
    dtype: Literal["f32", "f16", "u32", "i32", "u16", "i16"]
    text: Text


class Tolerance(Model):
    """Largest accepted |output - expected|, elementwise: atol + rtol * S.

    `of` says what S is: `value` |expected|; `max` the largest |expected| of the array; `magnitude` the array that the
    oracle's `magnitude` returns (the sum of the absolute values of the terms, which cancellation can't shrink).
    Both factors are expressions over the size parameters and `u`, the unit roundoff of the output's dtype.
    """

    atol: ExpressionText = "0"
    rtol: ExpressionText = "0"
    of: Literal["value", "max", "magnitude"] = "value"
    derivation: Annotated[str, Field(min_length=20)]


class OutputTensor(Tensor):
    """An output, with how closely it must match."""

    tolerance: Tolerance


class EntryArg(Model):
    """An argument of the host-launched entry; `value` names the input whose only element it is."""

    name: Identifier
    dtype: Literal["f32", "f16", "u32", "i32", "u16", "i16"]
    value: Identifier


class Entry(Model):
    """The host-launched function whose work is timed."""

    name: Identifier
    args: tuple[EntryArg, ...] = ()


class Cuda(Model):
    """The extern "C" launcher of cuda/kernel.cu.

    `args` in order, each a name of: an input of shape [1] (passed by value), another input or an output (device
    pointer; a name that is both is one in-out pointer), or a size parameter (passed as int).
    """

    launcher: Identifier
    args: tuple[Identifier, ...] = Field(min_length=1)


_DEFAULT_COMMANDS: Final[dict[Arch, FileName]] = {"wse2": "commands_wse2.sh", "wse3": "commands_wse3.sh"}


class Bundle(Model):
    """The files of csl/ and what a candidate may change."""

    layout: FileName = "layout.csl"
    compute: FileName = "pe.csl"
    plain: FileName | None = "plain.csl"
    window: FileName = "window.csl"
    runner: FileName = "run.py"
    host: FileName | None = "host.py"  # what runners share; None when the runner stands alone
    commands: Annotated[dict[Arch, FileName], Field(min_length=1)] = _DEFAULT_COMMANDS
    editable: dict[Workflow, tuple[FileName, ...]] = {
        "W1": ("pe.csl",),
        "W1-C": ("pe.csl", "layout.csl"),
        "W2": ("pe.csl",),
    }

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the bundle."""
        names = (self.layout, self.compute, self.plain, self.window, self.runner, self.host)
        return (*(name for name in names if name is not None), *self.commands.values())

    @property
    def runner_files(self) -> tuple[str, ...]:
        """The runner, and what it imports."""
        return (self.runner,) if self.host is None else (self.runner, self.host)

    @property
    def archs(self) -> tuple[Arch, ...]:
        """The targets that the reference supports."""
        return tuple(arch for arch in ARCHS if arch in self.commands)


class Frozen(Model):
    """What a candidate must keep: host-visible symbols, functions of window.csl, launch order, PE params."""

    symbols: tuple[Identifier, ...] = Field(min_length=1)
    functions: tuple[Identifier, ...] = ()
    launches: tuple[Identifier, ...] = Field(min_length=1)
    params: tuple[Identifier, ...] = ()


class Timing(Model):
    """`window`: cycles = last end stamp - first start stamp over all PEs. `correctness`: not scored by cycles."""

    kind: Literal["window", "correctness"] = "window"
    stamps: Identifier = "window_stamps"
    clock: Identifier = "window_open"


class LowerBound(Model):
    """Cycles that no correct program can undercut, from data movement and operations per PE."""

    wse2: ExpressionText
    wse3: ExpressionText
    derivation: Annotated[str, Field(min_length=20)]


class Precision(Model):
    """Formats a candidate may use inside: `storage` of inputs and outputs, narrower arithmetic only when allowed."""

    storage: Literal["f32", "f16", "u32", "i32", "u16", "i16"]
    narrower_arithmetic: bool
    text: Text


class Published(Model):
    """What the literature reports, as evidence; compare only with the same SDK and window. None for tasks of users."""

    cycles: Cycles | None
    sdk: Text
    window: Text
    source: Text


class CyclePair(Model):
    """Measured cycles of the two references: those of a verdict on inputs of `seeds.RECORD_KEY`, the median over all.

    Beside published cycles also those of the plain form on the first visible input, whose scalars (iterations, number
    of words) are the published ones; the other inputs have other scalars, and the median may be one of theirs.
    """

    expert: Cycles | None = None
    plain: Cycles | None = None
    plain_as_published: Cycles | None = None


class ReferenceCycles(Model):
    """Measured by this project: arch -> size -> cycles; None until measured. See `fabrica_bench.tasks.recording`."""

    toolchain: Text | None = None
    cycles: dict[Arch, dict[Identifier, CyclePair]] = {}
    note: Text | None = None


class Mesh(Model):
    """PE rectangle of the reference layout, expressions over the size parameters."""

    columns: ExpressionText
    rows: ExpressionText


class TaskSpec(Model):
    """Content of spec.yaml. See docs/adding-a-task.md for a commented example."""

    schema_version: Literal[1]
    task_version: Annotated[int, Field(ge=1)]
    name: TaskName
    level: Literal[1, 2, 3, 4]
    origin: Literal["original", "added", "user"]
    split: Literal["train", "test"]
    sets: tuple[SetName, ...] = ()
    family: Text
    description: Text
    sizes: tuple[Size, ...] = Field(min_length=1)
    mesh: Mesh
    inputs: tuple[Tensor, ...]
    outputs: tuple[OutputTensor, ...] = Field(min_length=1)
    distributions: dict[Identifier, Text] = Field(min_length=2)
    entry: Entry
    cuda: Cuda
    bundle: Bundle = Bundle()
    frozen: Frozen
    timing: Timing = Timing()
    lower_bound: LowerBound
    precision: Precision
    published: Published | None = None
    reference_cycles: ReferenceCycles = ReferenceCycles()

    @property
    def parameters(self) -> frozenset[str]:
        """Names of the size parameters."""
        return frozenset(self.sizes[0].params)

    def size(self, name: str) -> Size:
        """The size of that name. Raises `KeyError`."""
        return next(size for size in self.sizes if size.name == name) if name in self.size_names else _missing(name)

    @property
    def size_names(self) -> tuple[str, ...]:
        return tuple(size.name for size in self.sizes)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._check_sizes()
        self._check_tensors()
        self._check_calls()
        self._check_bundle()
        self._check_cycles()
        return self

    def _check_sizes(self) -> None:
        _unique("sizes", self.size_names)
        for size in self.sizes[1:]:
            if set(size.params) != self.parameters:
                odd = sorted(set(size.params) ^ self.parameters)
                pair = f"'{size.name}' and '{self.sizes[0].name}'"
                raise ValueError(f"sizes: {pair} must have the same params; odd: {odd}")
        self._evaluates("mesh.columns", self.mesh.columns)
        self._evaluates("mesh.rows", self.mesh.rows)
        for arch in self.bundle.archs:
            self._evaluates(f"lower_bound.{arch}", getattr(self.lower_bound, arch), real=True)

    def _check_tensors(self) -> None:
        _unique("inputs", [tensor.name for tensor in self.inputs])
        _unique("outputs", [tensor.name for tensor in self.outputs])
        for kind, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            for tensor in tensors:
                self._evaluates_shape(f"{kind}.{tensor.name}.shape", tensor.shape)
        for output in self.outputs:
            unit = {"u": UNIT_ROUNDOFF.get(output.dtype, 0.0)}
            for factor in ("atol", "rtol"):
                field = f"outputs.{output.name}.tolerance.{factor}"
                self._evaluates(field, getattr(output.tolerance, factor), unit, real=True)

    def _check_calls(self) -> None:
        inputs = {tensor.name: tensor for tensor in self.inputs}
        for arg in self.entry.args:
            if arg.value not in inputs:
                raise ValueError(f"entry.args.{arg.name}: value '{arg.value}' is not an input")
            tensor = inputs[arg.value]
            if tensor.shape.replace(" ", "") != "[1]" or tensor.dtype != arg.dtype:
                wish = f"input '{arg.value}' must have shape '[1]' and dtype {arg.dtype}"
                raise ValueError(f"entry.args.{arg.name}: {wish}")
        known = set(inputs) | {tensor.name for tensor in self.outputs} | self.parameters
        for name in self.cuda.args:
            if name not in known:
                raise ValueError(f"cuda.args: '{name}' is neither an input, an output nor a size parameter")
        _unique("cuda.args", self.cuda.args)

    def _check_bundle(self) -> None:
        for workflow, files in self.bundle.editable.items():
            for name in files:
                if name not in (self.bundle.compute, self.bundle.layout):
                    raise ValueError(f"bundle.editable.{workflow}: '{name}' is neither the compute nor the layout file")
        if self.entry.name not in self.frozen.launches:
            raise ValueError(f"frozen.launches: must contain the entry '{self.entry.name}'")
        for launched in self.frozen.launches:
            if launched not in self.frozen.symbols:
                raise ValueError(f"frozen.symbols: must contain the launched '{launched}'")
        if self.timing.kind == "window":
            for symbol in (self.timing.stamps, self.timing.clock):
                if symbol not in self.frozen.symbols:
                    raise ValueError(f"frozen.symbols: must contain '{symbol}' of the timing window")

    def _check_cycles(self) -> None:
        for arch, sizes in self.reference_cycles.cycles.items():
            for name in sizes:
                if name not in self.size_names:
                    raise ValueError(f"reference_cycles.cycles.{arch}: unknown size '{name}'")

    def _evaluates(self, field: str, text: str, extra: dict[str, float] | None = None, *, real: bool = False) -> None:
        for size in self.sizes:
            try:
                values = {**size.params, **(extra or {})}
                value = Expression(text).real(values) if real else Expression(text).integer(values)
            except ExpressionError as error:
                raise ValueError(f"{field}: {error} at size '{size.name}'") from None
            if value < 0 or (not real and value < 1):
                raise ValueError(f"{field}: '{text}' is {value} at size '{size.name}'")

    def _evaluates_shape(self, field: str, text: str) -> None:
        for size in self.sizes:
            try:
                expressions.shape(text, size.params)
            except ExpressionError as error:
                raise ValueError(f"{field}: {error} at size '{size.name}'") from None


def _missing(name: str) -> Any:
    raise KeyError(name)


def _unique(field: str, names: Any) -> None:
    names = list(names)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{field}: '{name}' is there twice")


class _Loader(yaml.SafeLoader):
    """Safe YAML without duplicate keys and without aliases."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases are not supported", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key '{key}' is there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_spec(path: Path) -> TaskSpec:
    """Read and check a spec.yaml.

    Raises:
        FabricaError: The file is missing, not UTF-8, not YAML or not a spec: one line with file, field and remedy.
    """
    data = read_yaml(path, "a task needs a spec.yaml")
    if not isinstance(data, dict):
        remedy = "start from another task's spec.yaml"
        raise FabricaError("a spec must be a mapping of fields", place=str(path), remedy=remedy)
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FabricaError(
            f"schema_version is {version!r}; this version of Fabrica-Bench reads {SCHEMA_VERSION}",
            place=str(path),
            remedy=f"write `schema_version: {SCHEMA_VERSION}` and follow its schema",
        )
    try:
        return TaskSpec.model_validate(_tuples(data))
    except ValidationError as error:
        raise _spec_error(path, error) from None


def read_yaml(path: Path, missing: str = "check the path") -> Any:
    """Parse one YAML document; duplicate keys and aliases are errors. Raises `FabricaError`.

    Args:
        path: The file.
        missing: What to do where there is no such file.
    """
    place = str(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise FabricaError("there is no such file", place=place, remedy=missing) from None
    except OSError as error:
        reason = f"can't be read: {error.strerror}"
        raise FabricaError(reason, place=place, remedy="check the path and its mode") from None
    if len(raw) > MAX_SPEC_BYTES:
        raise FabricaError(f"has {len(raw)} bytes, more than {MAX_SPEC_BYTES}", place=place, remedy="shorten it")
    try:
        return yaml.load(raw.decode("utf-8"), Loader=_Loader)  # a SafeLoader
    except UnicodeDecodeError as error:
        raise FabricaError(f"byte {error.start} is not UTF-8", place=place, remedy="save the file as UTF-8") from None
    except RecursionError:
        raise FabricaError("is nested too deeply", place=place, remedy="flatten it") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{place}:{mark.line + 1}:{mark.column + 1}" if mark else place
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise FabricaError(f"not valid YAML: {problem}", place=where, remedy="mend the syntax at that place") from None


def spec_json_schema() -> dict[str, Any]:
    """JSON Schema of spec.yaml."""
    return TaskSpec.model_json_schema()


def _tuples(value: Any) -> Any:
    """YAML sequences as tuples: strict models accept a list for a tuple field only from JSON."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


_REMEDIES: Final = {
    "missing": "add the field",
    "extra_forbidden": "remove the field or mend its spelling",
    "literal_error": "use one of the listed values",
    "string_type": "put the value in quotes",
    "int_type": "write a whole number without quotes",
    "bool_type": "write true or false",
    "tuple_type": "write a list",
    "dict_type": "write a mapping",
    "too_short": "add an entry",
    "string_pattern_mismatch": "use letters, digits and the separators of the pattern",
}


def _spec_error(path: Path, error: ValidationError) -> FabricaError:
    found, count = error.errors(), error.error_count()
    # A mistyped key is extra, and its right spelling missing: the extra one tells more.
    first = next((item for item in found if item["type"] == "extra_forbidden"), found[0])
    field = ".".join(str(part) for part in first["loc"] if part not in ("tuple", "dict"))
    message = first["msg"].removeprefix("Value error, ")
    if not field and ": " in message:
        field, message = message.split(": ", 1)
    more = f" (and {count - 1} more)" if count > 1 else ""
    return FabricaError(
        f"field '{field}': {message[:1].lower()}{message[1:]}{more}",
        place=str(path),
        remedy=_REMEDIES.get(first["type"], "see docs/adding-a-task.md"),
    )
