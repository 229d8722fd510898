"""Random programs of several PEs whose words all arrive: connected by construction, so that they run to their end.

Every color is one path over the fabric, with a source at its start and receivers along it. All transfers stand in one
order, and every PE takes part in its own in that order, so the earliest unfinished transfer can always go on. A
receiver takes words with vector operations or with a data task; a PE with a data task never waits inside an operation,
because its task would not run meanwhile.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from fuzz.programs import STATE, Writer

_STEPS = {"EAST": (1, 0), "WEST": (-1, 0), "SOUTH": (0, 1), "NORTH": (0, -1)}
_OPPOSITE = {"EAST": "WEST", "WEST": "EAST", "SOUTH": "NORTH", "NORTH": "SOUTH"}
_FIRST_COLOR = 3
_FIRST_QUEUE = 2
_FIRST_TASK = 10
_WORDS = 8
Place = tuple[int, int]


@dataclass
class _Channel:
    """A color: the PEs on its path, the direction from each to the next, and who receives."""

    color: int
    path: list[Place]
    directions: list[str]
    receivers: set[Place]
    words: list[int]
    by_task: set[Place] = field(default_factory=set)


class _Transfer(NamedTuple):
    channel: _Channel
    count: int


class Fabric(NamedTuple):
    """Files of a program, and the sum of the words that each PE receives: its variable `sum` at the end."""

    files: dict[str, str]
    sums: dict[Place, int]


def random_fabric(rng: random.Random) -> Fabric:
    """A program of at most 12 PEs and 4 colors."""
    width, height = rng.randint(1, 4), rng.randint(1, 3)
    if width * height == 1:
        width = 2
    channels = [_channel(rng, _FIRST_COLOR + number, width, height) for number in range(rng.randint(1, 4))]
    transfers = [_Transfer(rng.choice(channels), rng.randint(1, _WORDS)) for _ in range(rng.randint(1, 7))]
    places = [(x, y) for y in range(height) for x in range(width)]
    files = {"layout.csl": _layout(channels, places, width, height)}
    files |= {_file(place): _pe(rng, place, channels, transfers) for place in places}
    sums = {
        place: sum(sum(each.channel.words[: each.count]) for each in transfers if place in each.channel.receivers)
        & 0xFFFFFFFF
        for place in places
    }
    return Fabric(files, sums)


def _channel(rng: random.Random, color: int, width: int, height: int) -> _Channel:
    """A path that never crosses itself."""
    path = [(rng.randrange(width), rng.randrange(height))]
    directions: list[str] = []
    for _ in range(rng.randint(1, 6)):
        x, y = path[-1]
        steps = {name: (x + dx, y + dy) for name, (dx, dy) in _STEPS.items()}
        free = [
            name for name, (nx, ny) in steps.items() if 0 <= nx < width and 0 <= ny < height and (nx, ny) not in path
        ]
        if not free:
            break
        directions.append(rng.choice(free))
        path.append(steps[directions[-1]])
    receivers = {path[-1]} | {place for place in path[1:-1] if rng.random() < 0.4}
    words = [rng.choice((0, 1, 0xFFFF, 0x10000, 0xFFFFFFFF, rng.randrange(1 << 32))) for _ in range(_WORDS)]
    return _Channel(color, path, directions, receivers, words, {place for place in receivers if rng.random() < 0.4})


def _file(place: Place) -> str:
    return f"pe_{place[0]}_{place[1]}.csl"


def _layout(channels: list[_Channel], places: list[Place], width: int, height: int) -> str:
    size = f".width = {width}, .height = {height}"
    lines = [f'const memcpy = @import_module("<memcpy/get_params>", .{{ {size} }});', "layout {"]
    lines.append(f"  @set_rectangle({width}, {height});")
    lines += [
        f'  @set_tile_code({x}, {y}, "{_file((x, y))}", .{{ .memcpy_params = memcpy.get_params({x}) }});'
        for x, y in places
    ]
    for channel in channels:
        came_from = ["RAMP", *(_OPPOSITE[name] for name in channel.directions)]
        for number, (x, y) in enumerate(channel.path):
            to = channel.directions[number : number + 1] + ["RAMP"] * ((x, y) in channel.receivers)
            routes = f".rx = .{{ {came_from[number]} }}, .tx = .{{ {', '.join(to)} }}"
            color = f"@get_color({channel.color})"
            lines.append(f"  @set_color_config({x}, {y}, {color}, .{{ .routes = .{{ {routes} }} }});")
    return "\n".join([*lines, '  @export_name("main", fn()void);', "}", ""])


def _pe(rng: random.Random, place: Place, channels: list[_Channel], transfers: list[_Transfer]) -> str:
    """The program of a PE: a chain of steps, one for each transfer that it waits for."""
    write = Writer(rng, safe=True)
    may_wait = not any(place in channel.by_task for channel in channels)
    head, setup, tasks = _queues(place, channels, transfers)
    steps = [
        each
        for each in transfers
        if place == each.channel.path[0] or place in each.channel.receivers - each.channel.by_task
    ]
    functions: list[str] = []
    summing = ""  # adds what the step before has received
    for number, (channel, count) in enumerate(steps):
        size = f".extent = {count}"
        color = f".fabric_color = @get_color({channel.color})"
        if place == channel.path[0]:
            memory = f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |k|{{{count}}} -> words{channel.color}[k] }})"
            fabric = f"@get_dsd(fabout_dsd, .{{ {color}, {size}, .output_queue = oq{channel.color} }})"
            operands = f"out_{number}, memory_{number}"
            head.append(f"const out_{number} = {fabric};")
        else:
            memory = f"@get_dsd(mem1d_dsd, .{{ .tensor_access = |k|{{{count}}} -> received[k] }})"
            fabric = f"@get_dsd(fabin_dsd, .{{ {color}, {size}, .input_queue = iq{channel.color} }})"
            operands = f"memory_{number}, in_{number}"
            head.append(f"const in_{number} = {fabric};")
        head.append(f"const memory_{number} = {memory};")
        if may_wait and rng.random() < 0.5:
            body = f"@mov32({operands});\n  step_{number + 1}();"
        else:
            body = f"@mov32({operands}, .{{ .async = true, .activate = task_{number} }});"
            tasks.append(f"task task_{number}() void {{ step_{number + 1}(); }}")
            setup.append(f"@bind_local_task(task_{number}, @get_local_task_id({_FIRST_TASK + number}));")
        functions.append(f"fn step_{number}() void {{\n  {summing}{write.block(2)}\n  {body}\n}}")
        is_source = place == channel.path[0]
        summing = "" if is_source else f"for (@range(u16, {count})) |k| {{ sum += received[k]; }}\n  "
    functions.append(f"fn step_{len(steps)}() void {{\n  {summing}{write.block(1)}\n  finish();\n}}")
    helper = f"fn helper(n: u16) void {{\n  {write.block(1)}\n}}".replace("helper(u);", "u += n;")
    main = "fn main() void { step_0(); }"
    ends = "fn finish() void { unfinished -= 1; if (unfinished == 0) { sys_mod.unblock_cmd_stream(); } }"
    setup.append("@export_symbol(main);")
    parts = [STATE + "\n".join(head), helper, ends, *reversed(functions), *tasks, main]
    return "\n".join([*parts, "comptime {", *(f"  {line}" for line in setup), "}", ""])


def _queues(
    place: Place, channels: list[_Channel], transfers: list[_Transfer]
) -> tuple[list[str], list[str], list[str]]:
    """Declarations, comptime statements and data tasks for the ends of channels at a PE."""
    head = ["export var sum: u32 = 0;", f"var received = @zeros([{_WORDS}]u32);"]
    setup: list[str] = []
    tasks: list[str] = []
    unfinished = 1
    for number, channel in enumerate(channels):
        color, queue = channel.color, _FIRST_QUEUE + number
        initialize = f".{{ .color = @get_color({color}) }});"
        if place == channel.path[0]:
            head.append(f"const oq{color} = @get_output_queue({queue});")
            head.append(f"var words{color} = [{_WORDS}]u32{{ {', '.join(map(str, channel.words))} }};")
            setup.append(f'if (@is_arch("wse3")) {{ @initialize_queue(oq{color}, {initialize} }}')
        elif place in channel.receivers:
            head.append(f"const iq{color} = @get_input_queue({queue});")
            setup.append(f"@initialize_queue(iq{color}, {initialize}")
            expected = sum(each.count for each in transfers if each.channel is channel)
            if place in channel.by_task and expected:
                unfinished += 1
                id_ = f'if (@is_arch("wse3")) @get_data_task_id(iq{color}) else @get_data_task_id(@get_color({color}))'
                head += [f"var missing{color}: u16 = {expected};", f"const data{color} = {id_};"]
                last = f"missing{color} -= 1; if (missing{color} == 0) {{ finish(); }}"
                tasks.append(f"task take{color}(word: u32) void {{ sum += word; {last} }}")
                setup.append(f"@bind_data_task(take{color}, data{color});")
    head.append(f"var unfinished: u16 = {unfinished};")
    return head, setup, tasks
