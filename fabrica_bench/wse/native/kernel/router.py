"""Routers: step by step what `wse.router` does. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors

HELD = 0
LINK_BUSY = -1
NO_LINK = 32


def direction_index(bit: "i64") -> "i64":
    if bit == NORTH:
        return 0
    if bit == SOUTH:
        return 1
    if bit == EAST:
        return 2
    return 3


def opposite(index: "i64") -> "i64":
    return index ^ 1


def input_channel(m: "M", pe: "Pe", port: "i64", color: "i64") -> "Chan":
    """Input buffer for wavelets that come in from direction `port` (0..3), color swap applied."""
    swaps = pe.swap_x if port >= 2 else pe.swap_y
    if (swaps >> (color ^ 1)) & 1 != 0:
        color = color ^ 1
    channel = pe.channels[color * 4 + port]
    if addr(channel) == 0:
        channel = new_channel(m, pe, 1 << port, color, m.buffer_depth, -1)
        channel.state = pe.colors[color]
        pe.channels[color * 4 + port] = channel
    return channel


def target_channel(m: "M", state: "Color", neighbor: "Pe", index: "i64", color: "i64") -> "Chan":
    """Input buffer of the neighbor in direction `index`."""
    target = state.targets[index]
    if addr(target) == 0:
        target = input_channel(m, neighbor, opposite(index), color)
        state.targets[index] = target
    return target


def new_channel(m: "M", pe: "Pe", port: "i64", color: "i64", depth: "i64", queue_id: "i64") -> "Chan":
    size = ring_size(depth)
    channel = cast(Chan, allocate(m, words_of(Chan) - 4 + 2 * size))
    channel.owner = pe
    channel.port = port
    channel.color = color
    channel.depth = depth
    channel.mask = size - 1
    channel.queue_id = queue_id
    channel.fill = -65536
    return channel


def put(m: "M", channel: "Chan", cycle: "i64", word: "i64", flags: "i64", color: "i64") -> "None":
    """Append a wavelet to a channel."""
    pe = channel.owner
    if channel.count == 0:
        if pe.active_count >= CHANNELS:
            bail(m, 20)
            return
        pe.active[pe.active_count] = channel
        pe.active_count += 1
        wake_router(m, pe, cycle)
    if channel.count > channel.mask:
        bail(m, 21)
        return
    at = 2 * ((channel.head + channel.count) & channel.mask)
    channel.wavelets[at] = cycle
    channel.wavelets[at + 1] = (word & 0xFFFFFFFF) | (flags << 32) | (color << 40)
    channel.count += 1
    channel.fill = channel.fill + 1
    if pe.colors[color].merges != 0:
        note_arrival(m, pe, channel.port, cycle, color)


def note_arrival(m: "M", pe: "Pe", port: "i64", cycle: "i64", color: "i64") -> "None":
    """Note an arrival of a color that has several directions; wake the router if two come in the same cycle."""
    state = pe.colors[color]
    slot = cycle & 7
    ports = 0
    if state.arrivals[slot] >> 5 == cycle:
        ports = state.arrivals[slot] & 31
    state.arrivals[slot] = (cycle << 5) | ports | port
    if ports | port == port:
        return
    colors = 0
    if pe.meeting_colors[slot] >> 24 == cycle:
        colors = pe.meeting_colors[slot] & 0xFFFFFF
    pe.meeting_colors[slot] = (cycle << 24) | colors | (1 << color)
    pe.meetings = 1
    wake_router(m, pe, cycle)


def check_meetings(m: "M", pe: "Pe") -> "None":
    """Bail out if the current routes take a color from several directions of this cycle's arrivals."""
    slot = m.now & 7
    colors = pe.meeting_colors[slot]
    if colors >> 24 != m.now:
        return
    for color in range(0, 24):
        if (colors >> color) & 1 != 0:
            state = pe.colors[color]
            ports = state.arrivals[slot] & 31 & state.rx[state.current]
            if state.teardown == 0 and ports & (ports - 1) != 0:
                bail(m, 24)


def advance_switch(state: "Color") -> "i64":
    for position in range(state.current + 1, 4):
        if state.valid[position] != 0:
            state.current = position
            return 1
    if state.ring != 0 and state.current != 0:
        state.current = 0
        return 1
    return 0


def resolve_color(state: "Color") -> "None":
    """Recompute the cumulative positions after a change."""
    rx = 0
    tx = 0
    configured = 0
    merges = 0
    for index in range(0, 4):
        valid = state.new_valid[index]
        state.valid[index] = valid
        if valid != 0:
            if index == 0:
                rx = state.new_rx[0]
                tx = state.new_tx[0]
            else:
                rx = state.new_rx[index] if state.new_rx[index] != 0 else rx
                tx = state.new_tx[index] if state.new_tx[index] != 0 else tx
        state.rx[index] = rx
        state.tx[index] = tx
        configured = configured | rx | tx
        merges = merges | (rx & (rx - 1))
    state.configured = configured != 0
    state.merges = merges != 0


def pop_command(word: "i64") -> "i64":
    commands = ((word >> 22) & 0xFF) | ((word & 0xFFFF) << 8)
    commands = (commands >> 3) | (4 << 21)
    return (word & 0xC03F0000) | ((commands & 0xFF) << 22) | (commands >> 8)


def would_admit(state: "Color", word: "i64", control: "i64") -> "i64":
    if state.filter_range != 0:
        if control != 0:
            return 1
        return state.min_idx <= (word >> 16) and (word >> 16) <= state.max_idx
    if state.transparent != 0:
        return 1
    if state.filter_control != 0:
        return control != 0 and state.counter == state.max_counter
    counted = state.count_control if control != 0 else state.count_data
    return counted == 0 or state.counter <= state.max_counter


def admit(state: "Color", word: "i64", control: "i64") -> "i64":
    answer = would_admit(state, word, control)
    if answer != 0:
        state.passed += 1
    else:
        state.dropped += 1
    counted = state.count_control if control != 0 else state.count_data
    if state.filter_range == 0 and counted != 0:
        if state.counter != state.limit:
            state.counter += 1
        else:
            state.counter = 0
            if state.filter_sparse != 0:
                if state.second_limit != 0:
                    state.limit = state.second_limit
                    state.second_limit = 0
                else:
                    state.transparent = 1
    return answer


def execute_switch(m: "M", pe: "Pe", state: "Color", color: "i64", word: "i64") -> "i64":
    """Run the first command of a control wavelet on the switch; the payload to send on."""
    opcode = (word >> 22) & 3
    moved = 0
    if opcode != 0:
        pe.switched = 1
    if opcode == 1:
        moved = advance_switch(state)
    elif opcode == 2:
        moved = state.current != 0
        state.current = 0
    elif opcode == 3:
        state.teardown = 1
        pe.teardown_pending = pe.teardown_pending | (1 << color)
        activate(pe, 29)
        wake_pe(m, pe, m.now + 1)
    mode = state.pop_mode
    if mode == 1 or (mode >= 2 and moved != 0) or (mode == 3 and opcode == 0):
        return pop_command(word)
    return word


def leave(m: "M", pe: "Pe", channel: "Chan") -> "None":
    """Remove the head; tell whoever fills the channel that a slot got free."""
    channel.head = (channel.head + 1) & channel.mask
    channel.count -= 1
    channel.fill = (m.now << 16) | channel.count
    if channel.feeder_waits == 0:
        return
    channel.feeder_waits = 0
    if channel.port == RAMP:
        wake_pe(m, pe, m.now)
    else:
        feeder = pe.neighbors[direction_index(channel.port)]
        if is_foreign(m, feeder) != 0:
            post_wake(m, feeder, m.now + 1)
        else:
            wake_router(m, feeder, m.now + 1)


def drain(m: "M", pe: "Pe", channel: "Chan", state: "Color", word: "i64") -> "i64":
    """A wavelet for the host."""
    if state.sink_wanted == 0:
        return HELD
    if m.now < state.sink_next:
        wake_router(m, pe, state.sink_next)
        return HELD
    if state.sink_count >= state.sink_capacity:
        bail(m, 22)
        return HELD
    state.sink_words[state.sink_count] = word
    state.sink_count += 1
    state.sink_wanted -= 1
    state.sink_next = m.now + m.stream_out_interval
    if state.sink_wanted == 0 and state.sink_poke != 0:
        poke(m)
    leave(m, pe, channel)
    return NO_LINK


def forward(m: "M", pe: "Pe", channel: "Chan", used: "i64") -> "i64":
    """Mask of the links used (bit 32 if none was needed), HELD, or LINK_BUSY."""
    now = m.now
    wavelet = channel.wavelets[2 * channel.head + 1]
    word = wavelet & 0xFFFFFFFF
    flags = (wavelet >> 32) & 255
    color = wavelet >> 40
    state = channel.state
    if addr(state) == 0:
        state = pe.colors[color]
    if state.has_sink != 0:
        return drain(m, pe, channel, state, word)
    if state.configured == 0 and state.teardown == 0:
        bail(m, 23)
        return HELD
    current = state.current
    if state.teardown != 0 or state.rx[current] & channel.port == 0:
        return HELD
    route = state.tx[current]
    mask = route
    if mask == 0:
        return HELD
    is_control = flags & CONTROL
    if is_control != 0 and (word >> 24) & 1 != 0:
        mask = mask & ~RAMP
    # 1. links free in this cycle?
    if mask & used != 0:
        return LINK_BUSY
    # 2. room at every target?
    bit = NORTH
    while bit <= WEST:
        if route & bit != 0:
            index = direction_index(bit)
            neighbor = pe.neighbors[index]
            if addr(neighbor) == 0:
                if state.edges[index] >= m.edge_room:
                    return HELD
            else:
                if is_foreign(m, neighbor) != 0:
                    target = foreign_target(state, neighbor, index, color)
                else:
                    target = target_channel(m, state, neighbor, index, color)
                if addr(target) != 0:
                    fill = atomic_load(place(target.fill))
                    freed = fill >> 16 == now
                    if (fill & 65535) + freed >= target.depth:
                        if freed != 0:
                            return LINK_BUSY
                        if is_foreign(m, neighbor) != 0:
                            post_held(m, pe, target)
                        else:
                            target.feeder_waits = 1
                        return HELD
        bit = bit * 2
    if mask & RAMP != 0:
        deliver = 1
        if state.has_filter != 0:
            deliver = would_admit(state, word, is_control)
        if deliver != 0 and can_receive(m, pe, color, cast(Feeder, 0)) == 0:
            return HELD
    # 3. the switch executes the first command; copies for others carry the rest of the list
    onward = word
    if is_control != 0:
        onward = execute_switch(m, pe, state, color, word)
    # 4. send
    arrival = now + m.hop
    bit = NORTH
    while bit <= WEST:
        if route & bit != 0:
            index = direction_index(bit)
            neighbor = pe.neighbors[index]
            if addr(neighbor) == 0:
                state.edges[index] += 1
            elif is_foreign(m, neighbor) != 0:
                post_put(m, neighbor, opposite(index), color, arrival, onward, is_control)
            else:
                target = state.targets[index]
                put(m, target, arrival, onward, is_control, target.color)
        bit = bit * 2
    if mask & RAMP != 0:
        passes = 1
        if state.has_filter != 0:
            passes = admit(state, word, is_control)
        if passes != 0:
            receive(m, pe, color, now + m.ramp, word, is_control)
    if flags & ADVANCE_AFTER != 0:
        advance_switch(state)
        pe.switched = 1
    # 5. leave the channel
    m.wavelets += 1
    leave(m, pe, channel)
    return mask if mask != 0 else NO_LINK


def turn(m: "M", channel: "Chan") -> "i64":
    if channel.wavelets[2 * channel.head] < m.now:
        return 0
    return (channel.port << 16) | ((channel.color + 1) << 8) | (channel.queue_id + 1)


def order_turns(m: "M", pe: "Pe") -> "None":
    """Behind the channels that wait, in their order, those whose heads arrive now by direction, color and queue."""
    for i in range(1, pe.active_count):
        channel = pe.active[i]
        key = turn(m, channel)
        at = i
        while at > 0:
            if turn(m, pe.active[at - 1]) <= key:
                break
            pe.active[at] = pe.active[at - 1]
            at -= 1
        pe.active[at] = channel


def step_router(m: "M", pe: "Pe") -> "None":
    """Forward what can go in this cycle."""
    now = m.now
    if pe.router_stepped == now:
        return
    pe.router_stepped = now
    if pe.meetings != 0:
        check_meetings(m, pe)
        if m.stop == STOP_BAIL:
            return
    m.router_steps += 1
    m.work += 1
    used = 0
    ramp_in = 0
    wake = 0
    kept = 0
    served_count = 0
    count = pe.active_count
    if count > 1:
        order_turns(m, pe)
    for i in range(0, count):
        channel = pe.active[i]
        due = channel.wavelets[2 * channel.head]
        served = 0
        if due > now:
            if wake == 0 or due < wake:
                wake = due
        else:
            from_ramp = channel.port == RAMP
            if from_ramp != 0 and ramp_in != 0:
                wake = now + 1
            else:
                result = forward(m, pe, channel, used)
                if result > 0:
                    used = used | result
                    ramp_in = ramp_in | from_ramp
                    served = 1
                elif result == LINK_BUSY:
                    wake = now + 1
        if served != 0:
            m.served[served_count] = channel
            served_count += 1
        else:
            pe.active[kept] = channel
            kept += 1
    for i in range(0, served_count):
        channel = m.served[i]
        if channel.count > 0:
            pe.active[kept] = channel
            kept += 1
            due = channel.wavelets[2 * channel.head]
            if due < now + 1:
                due = now + 1
            if wake == 0 or due < wake:
                wake = due
    pe.active_count = kept
    if pe.switched != 0 and kept > 0:
        pe.switched = 0
        wake = now + 1
    if wake != 0:
        wake_router(m, pe, wake)
