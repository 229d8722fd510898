"""What intrinsics do that PE code can't: `wse.intrinsics` on flat state. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors


def tsc_value(pe: "Pe") -> "i64":
    value = pe.t - pe.counter_start if pe.counter_running != 0 else pe.counter_held
    return value & 0xFFFFFFFFFFFF


def tsc_enable(pe: "Pe") -> "None":
    pe.counter_running = 1
    pe.counter_start = pe.t
    pe.first_read = -1


def tsc_disable(pe: "Pe") -> "None":
    pe.counter_held = tsc_value(pe)
    pe.counter_running = 0


def tsc_reset(pe: "Pe") -> "None":
    pe.counter_start = pe.t
    pe.counter_held = 0


def tsc_read(pe: "Pe", address: "i64") -> "None":
    if address < 0 or address > MEMORY_BYTES - 6 or address & 1 != 0:
        bail(pe.machine, 40)
        return
    value = tsc_value(pe)
    words = cast(ptr_u16, addr(pe.memory) + address)
    words[0] = value
    words[1] = value >> 16
    words[2] = value >> 32
    if pe.first_read < 0:
        pe.first_read = pe.t
        pe.first_value = value
    pe.last_read = pe.t
    pe.last_value = value
    image = pe.image
    variables = cast(ptr_i64, addr(pe.memory) + image.held_begin)
    for i in range(0, image.held_words):
        pe.held[i] = variables[i]


def unblock_cmd_stream(pe: "Pe") -> "None":
    m = pe.machine
    pe.stream_ready = 1
    pe.released = pe.t
    if m.launch_running != 0:
        m.not_ready -= 1
        if m.not_ready == 0:
            m.launch_running = 0
            m.launch_done = 1
            poke(m)


def random16(pe: "Pe") -> "i64":
    m = pe.machine
    state = pe.prngs[pe.active_prng]
    state = m.lfsr[state & 255] ^ m.lfsr[256 + ((state >> 8) & 255)] ^ m.lfsr[512 + ((state >> 16) & 255)]
    pe.prngs[pe.active_prng] = state
    return state & 65535


def set_active_prng(pe: "Pe", index: "i64") -> "None":
    pe.active_prng = index & 3


def print_byte(pe: "Pe", byte: "i64") -> "None":
    m = pe.machine
    if addr(pe.print_bytes) == 0:
        pe.print_bytes = cast(ptr_u8, allocate(m, PRINT_BYTES >> 3))
    if byte == 10 or pe.print_length >= PRINT_BYTES:
        if m.log_count + pe.print_length + 2 > m.log_capacity:
            bail(m, 41)
            return
        m.log[m.log_count] = pe.t
        m.log[m.log_count + 1] = pe.print_length
        for i in range(0, pe.print_length):
            m.log[m.log_count + 2 + i] = pe.print_bytes[i]
        m.log_count += pe.print_length + 2
        pe.print_length = 0
    if byte != 10:
        pe.print_bytes[pe.print_length] = byte
        pe.print_length += 1


def print_memory(pe: "Pe", address: "i64", length: "i64") -> "None":
    if address < 0 or length < 0 or address + length > MEMORY_BYTES:
        bail(pe.machine, 42)
        return
    for i in range(0, length):
        print_byte(pe, pe.memory[address + i])


def print_text(pe: "Pe", text: "ptr_u8", length: "i64") -> "None":
    for i in range(0, length):
        print_byte(pe, text[i])


def set_task_priority(pe: "Pe", id_: "i64", level: "i64") -> "None":
    if id_ < 0 or id_ > 62:
        bail(pe.machine, 43)
        return
    pe.high_tasks = pe.high_tasks & ~(1 << id_)
    if level != 0:
        pe.high_tasks = pe.high_tasks | (1 << id_)


def set_main_priority(pe: "Pe", level: "i64") -> "None":
    if level < 0:
        bail(pe.machine, 44)
        return
    pe.main_priority = 1 if level == 0 else (2 if level == 1 else (3 if level == 2 else 5))


def take_teardown_pending(pe: "Pe") -> "i64":
    pending = pe.teardown_pending
    pe.teardown_pending = 0
    return pending


def fifo_read_length(pe: "Pe", index: "i64", length: "i64") -> "None":
    pe.fifos[index].read_length = length


def fifo_write_length(pe: "Pe", index: "i64", length: "i64") -> "None":
    pe.fifos[index].write_length = length


def changed_color(pe: "Pe", color: "i64") -> "Color":
    """State of a color about to be changed; the router looks at it again in the next cycle."""
    m = pe.machine
    if color < 0 or color >= COLORS:
        bail(m, 45)
        return cast(Color, m.blank)
    wake_router(m, pe, m.now + 1)
    return color_of(m, pe, color)


def color_of(m: "M", pe: "Pe", color: "i64") -> "Color":
    """State of a color, made if it has none."""
    if addr(pe.colors[color]) == m.blank:
        state = cast(Color, allocate(m, words_of(Color)))
        state.exists = 1
        pe.colors[color] = state
        for port in range(0, 4):
            channel = pe.channels[color * 4 + port]
            if addr(channel) != 0:
                channel.state = state
    return pe.colors[color]


def teardown_exit(pe: "Pe", color: "i64") -> "None":
    state = changed_color(pe, color)
    state.teardown = 0


def set_routes(pe: "Pe", color: "i64", rx: "i64", tx: "i64", mode: "i64") -> "None":
    """mode 0: set, 1: toggle, 2: clear, 3: add."""
    state = changed_color(pe, color)
    if mode == 1:
        rx = state.new_rx[0] ^ rx
        tx = state.new_tx[0] ^ tx
    elif mode == 2:
        rx = state.new_rx[0] & ~rx
        tx = state.new_tx[0] & ~tx
    elif mode == 3:
        rx = state.new_rx[0] | rx
        tx = state.new_tx[0] | tx
    state.new_rx[0] = rx & 31
    state.new_tx[0] = tx & 31
    state.new_valid[0] = 1
    resolve_color(state)


def switch_set_position(pe: "Pe", color: "i64", position: "i64", rx: "i64", tx: "i64") -> "None":
    state = changed_color(pe, color)
    if position >= 1 and position <= 3:
        state.new_rx[position] = rx & 31
        state.new_tx[position] = tx & 31
        state.new_valid[position] = 1
    resolve_color(state)


def switch_invalidate(pe: "Pe", color: "i64") -> "None":
    state = changed_color(pe, color)
    for position in range(1, 4):
        state.new_rx[position] = 0
        state.new_tx[position] = 0
        state.new_valid[position] = 0
    resolve_color(state)


def switch_set_current(pe: "Pe", color: "i64", position: "i64") -> "None":
    state = changed_color(pe, color)
    state.current = position & 3


def switch_set_ring(pe: "Pe", color: "i64", ring: "i64") -> "None":
    state = changed_color(pe, color)
    state.ring = ring != 0


def switch_set_pop(pe: "Pe", color: "i64", mode: "i64") -> "None":
    state = changed_color(pe, color)
    state.pop_mode = mode & 3


def filter_of(pe: "Pe", id_: "i64") -> "Color":
    """Filters are numbered in the order of their colors."""
    seen = 0
    for color in range(0, COLORS):
        if pe.colors[color].has_filter != 0:
            if seen == id_:
                return pe.colors[color]
            seen += 1
    bail(pe.machine, 46)
    return cast(Color, pe.machine.blank)


def filter_set(pe: "Pe", id_: "i64", value: "i64", what: "i64") -> "None":
    state = filter_of(pe, id_)
    if what == 0:
        state.counter = value
    elif what == 1:
        state.max_counter = value
    else:
        state.limit = value


def filter_get(pe: "Pe", id_: "i64", what: "i64") -> "i64":
    state = filter_of(pe, id_)
    if what == 0:
        return state.counter & 65535
    if what == 1:
        return state.counter > state.max_counter
    if what == 2:
        return state.passed & 65535
    return state.dropped & 65535


def set_transform_mask(pe: "Pe", mask: "i64") -> "None":
    pe.transform_mask = mask & 63
