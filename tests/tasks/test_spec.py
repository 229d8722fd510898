"""spec.yaml: what is accepted, and the one line that each fault gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabrica_bench.errors import FabricaError
from fabrica_bench.tasks import load_spec, spec_json_schema, tasks_root
from fabrica_bench.tasks.spec import MAX_SPEC_BYTES, TaskSpec

Spec = dict[str, Any]
SPECS = sorted(tasks_root().glob("*/spec.yaml"))


@pytest.fixture
def spec() -> Spec:
    """A valid spec to be broken: that of SAXPY-1PE."""
    return yaml.safe_load((tasks_root() / "saxpy-1pe" / "spec.yaml").read_text(encoding="utf-8"))


def _fault(tmp_path: Path, spec: Spec) -> FabricaError:
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    with pytest.raises(FabricaError) as caught:
        load_spec(path)
    assert caught.value.place == str(path)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.parent.name)
def test_every_spec_loads_and_survives_json(path: Path) -> None:
    loaded = load_spec(path)
    assert TaskSpec.model_validate_json(loaded.model_dump_json()) == loaded


def test_the_json_schema_is_closed_and_complete() -> None:
    schema = spec_json_schema()
    json.dumps(schema)
    assert schema["additionalProperties"] is False
    assert {"name", "sizes", "inputs", "outputs", "entry", "lower_bound"} <= set(schema["required"])


def _set(*path: str | int, value: Any) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        target: Any = spec
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


def _drop(*path: str | int) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        target: Any = spec
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]

    return change


def _rename(old: str, new: str) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        spec[new] = spec.pop(old)

    return change


FAULTS: dict[str, tuple[Callable[[Spec], None], str, str]] = {
    "missing field": (_drop("level"), "field 'level': field required", "add the field"),
    "unknown field": (_set("levle", value=1), "field 'levle': extra inputs are not permitted", "spelling"),
    "mistyped field": (_rename("level", "levle"), "field 'levle': extra inputs", "spelling"),
    "wrong level": (_set("level", value=7), "field 'level': input should be 1, 2, 3 or 4", "listed values"),
    "text for a number": (_set("sizes", 0, "params", "n", value="512"), "field 'sizes.0.params.n'", "without quotes"),
    "negative param": (_set("sizes", 0, "params", "n", value=-1), "field 'sizes.0.params.n'", "adding-a-task"),
    "unknown set": (_set("sets", value=["cor"]), "field 'sets.0'", "listed values"),
    "bad task name": (_set("name", value="SAXPY 1PE"), "field 'name'", "letters"),
    "no sizes": (_set("sizes", value=[]), "field 'sizes'", "add an entry"),
    "one distribution": (_set("distributions", value={"normal": "x"}), "field 'distributions'", "add an entry"),
    "scalar for a list": (_set("inputs", value="x"), "field 'inputs'", "list"),
    "size twice": (_set("sizes", 1, "name", value="small"), "field 'sizes': 'small' is there twice", "adding"),
    "sizes differ": (
        _set("sizes", 1, "params", value={"m": 4}),
        "field 'sizes': 'medium' and 'small' must have the same params; odd: ['m', 'n']",
        "adding",
    ),
    "shape without brackets": (_set("inputs", 1, "shape", value="n"), "must be a bracketed list", "adding"),
    "shape with unknown name": (
        _set("inputs", 1, "shape", value="[k]"),
        "field 'inputs.x.shape': 'k' uses 'k', which is not defined",
        "adding",
    ),
    "empty extent": (_set("inputs", 1, "shape", value="[n - 512]"), "has an extent of 0 at size 'small'", "adding"),
    "shape with code": (_set("inputs", 1, "shape", value="[n.real]"), "which is not arithmetic", "adding"),
    "input twice": (_set("inputs", 2, "name", value="x"), "field 'inputs': 'x' is there twice", "adding"),
    "tolerance with unknown name": (
        _set("outputs", 0, "tolerance", "rtol", value="eps"),
        "field 'outputs.y.tolerance.rtol': 'eps' uses 'eps', which is not defined",
        "adding",
    ),
    "negative tolerance": (_set("outputs", 0, "tolerance", "atol", value="-1"), "'-1' is -1", "adding"),
    "tolerance without derivation": (
        _drop("outputs", 0, "tolerance", "derivation"),
        "field 'outputs.0.tolerance.derivation': field required",
        "add the field",
    ),
    "boolean expression": (_set("lower_bound", "wse3", value=True), "must be an expression in quotes", "adding"),
    "entry value is no input": (
        _set("entry", "args", 0, "value", value="beta"),
        "field 'entry.args.alpha': value 'beta' is not an input",
        "adding",
    ),
    "entry value is a vector": (_set("entry", "args", 0, "value", value="x"), "must have shape '[1]'", "adding"),
    "cuda argument unknown": (_set("cuda", "args", value=["z"]), "field 'cuda.args': 'z' is neither", "adding"),
    "entry is not launched": (
        _set("frozen", "launches", value=["window_open"]),
        "field 'frozen.launches': must contain the entry 'compute'",
        "adding",
    ),
    "launched but not exported": (
        _set("frozen", "symbols", value=["x", "y", "window_open", "window_stamps"]),
        "field 'frozen.symbols': must contain the launched 'compute'",
        "adding",
    ),
    "editable file unknown": (
        _set("bundle", value={"editable": {"W1": ["run.py"]}}),
        "field 'bundle.editable.W1': 'run.py' is neither the compute nor the layout file",
        "adding",
    ),
    "path out of the bundle": (_set("bundle", value={"runner": "../run.py"}), "inside the bundle", "adding"),
    "cycles of an unknown size": (
        _set("reference_cycles", value={"cycles": {"wse3": {"huge": {"expert": 1}}}}),
        "field 'reference_cycles.cycles.wse3': unknown size 'huge'",
        "adding",
    ),
    "mesh of zero": (_set("mesh", "rows", value="n - n"), "field 'mesh.rows': 'n - n' is 0", "adding"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_file_field_and_remedy(tmp_path: Path, spec: Spec, name: str) -> None:
    change, message, remedy = FAULTS[name]
    change(spec)
    fault = _fault(tmp_path, spec)
    assert message in fault.message
    assert remedy in (fault.remedy or "")


def test_several_faults_are_counted(tmp_path: Path, spec: Spec) -> None:
    del spec["level"], spec["family"]
    assert "(and 1 more)" in _fault(tmp_path, spec).message


def test_another_schema_version_is_refused(tmp_path: Path, spec: Spec) -> None:
    spec["schema_version"] = 2
    assert "schema_version is 2" in _fault(tmp_path, spec).message


def test_a_list_is_not_a_spec(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("- 1\n", encoding="utf-8")
    with pytest.raises(FabricaError, match="must be a mapping of fields"):
        load_spec(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"name: [", "not valid YAML"),
        (b"name: a\nname: b\n", "key 'name' is there twice"),
        (b"a: &x [1]\nb: *x\n", "aliases are not supported"),
        (b"name: \xff\n", "byte 6 is not UTF-8"),
        (b"x: " + b"y" * MAX_SPEC_BYTES, "more than"),
        (b"a: !!python/object:os.system x\n", "not valid YAML"),
        (b"[" * 3000, "n"),
    ],
)
def test_broken_files_are_refused_at_their_place(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(text)
    with pytest.raises(FabricaError, match=message) as caught:
        load_spec(path)
    assert (caught.value.place or "").startswith(str(path))


def test_a_missing_spec_is_named(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match="there is no such file"):
        load_spec(tmp_path / "spec.yaml")
