"""Input and output queues, FIFOs, flags: what `wse.ports`, `queues`, `element` do. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors

TEARDOWN_TASK = 29
MOST_DUE = 32  # activations under way; beyond that the reference executor takes over


def can_activate(pe: "Pe", id_: "i64") -> "i64":
    """Stop the machine if no task is bound to the id."""
    if id_ < 0 or id_ > 62:
        bail(pe.machine, 30)
        return 0
    if pe.image.local_tasks[id_] < 0 and id_ != TEARDOWN_TASK:
        bail(pe.machine, 30)
        return 0
    return 1


def activate(pe: "Pe", id_: "i64") -> "None":
    if can_activate(pe, id_) != 0:
        pe.active_tasks = pe.active_tasks | (1 << id_)


def block(pe: "Pe", is_thread: "i64", id_: "i64") -> "None":
    if is_thread != 0:
        if id_ < 0 or id_ > 62:
            bail(pe.machine, 31)
            return
        pe.blocked_threads = pe.blocked_threads | (1 << id_)
    else:
        pe.blocked_tasks = pe.blocked_tasks | (1 << (id_ & 31))


def unblock(pe: "Pe", is_thread: "i64", id_: "i64") -> "None":
    if is_thread != 0:
        if id_ < 0 or id_ > 62:
            bail(pe.machine, 31)
            return
        pe.blocked_threads = pe.blocked_threads & ~(1 << id_)
        m = pe.machine
        wake_pe(m, pe, m.now + 1)
    else:
        pe.blocked_tasks = pe.blocked_tasks & ~(1 << (id_ & 31))


def activate_late(pe: "Pe", id_: "i64") -> "None":
    m = pe.machine
    if pe.late_at != m.now:
        pe.late_tasks = 0
        pe.late_at = m.now
    if id_ >= 0 and id_ < 63:
        pe.late_tasks = pe.late_tasks | (pe.active_tasks & (1 << id_))
    activate(pe, id_)


def activate_due(m: "M", pe: "Pe") -> "None":
    """Set the flags that are due by now."""
    kept = 0
    for i in range(0, pe.due_count):
        if pe.due_at[i] <= m.now:
            activate_late(pe, pe.due_id[i])
        else:
            pe.due_id[kept] = pe.due_id[i]
            pe.due_at[kept] = pe.due_at[i]
            kept += 1
    pe.due_count = kept


def wake(pe: "Pe", action: "i64", is_thread: "i64", id_: "i64", cycle: "i64") -> "None":
    """What a completion or a control wavelet asks for in `cycle`."""
    if action == W_ACTIVATE:
        m = pe.machine
        if m.task_wake == 0:
            activate_late(pe, id_)
        elif can_activate(pe, id_) != 0:
            if pe.due_count == MOST_DUE:
                bail(m, 39)
                return
            pe.due_id[pe.due_count] = id_
            pe.due_at[pe.due_count] = cycle + m.task_wake
            pe.due_count += 1
            wake_pe(m, pe, cycle + m.task_wake)
    elif action == W_UNBLOCK:
        unblock(pe, is_thread, id_)


# ------------------------------------------------------------------------------------------ input queues


def add_input(m: "M", pe: "Pe", number_: "i64", color: "i64") -> "InQ":
    index = pe.input_count
    if index >= MAX_INPUTS or color < 0 or color >= COLORS:
        bail(m, 32)
        return cast(InQ, m.blank)
    pe.input_count = index + 1
    depth = m.implicit_depth
    if number_ >= 0 and number_ < m.input_depth_count:
        depth = m.input_depths[number_]
    size = ring_size(depth + m.input_extra)
    queue = cast(InQ, allocate(m, words_of(InQ) - 4 + 2 * size))
    pe.inputs[index] = queue
    queue.number = number_
    queue.color = color
    queue.capacity = depth + m.input_extra
    queue.mask = size - 1
    queue.task_id = color if m.arch_wse2 != 0 else number_
    pe.by_color[color] = index
    return queue


def queue_for(m: "M", pe: "Pe", color: "i64") -> "InQ":
    """Queue that takes this color's words, or null."""
    index = pe.by_color[color]
    if index >= 0:
        return pe.inputs[index]
    if m.arch_wse2 != 0:
        return add_input(m, pe, -1, color)
    return cast(InQ, 0)


def can_receive(m: "M", pe: "Pe", color: "i64", feeder: "Feeder") -> "i64":
    queue = queue_for(m, pe, color)
    if addr(queue) == 0:
        return 0
    if queue.count < queue.capacity:
        return 1
    if addr(feeder) != 0:
        queue.feeder = feeder
    else:
        queue.router_waits = 1
    return 0


def receive(m: "M", pe: "Pe", color: "i64", cycle: "i64", word: "i64", is_control: "i64") -> "None":
    queue = pe.inputs[pe.by_color[color]]
    if queue.count > queue.mask:
        bail(m, 33)
        return
    at = 2 * ((queue.head + queue.count) & queue.mask)
    queue.wavelets[at] = cycle
    queue.wavelets[at + 1] = (word & 0xFFFFFFFF) | (is_control << 32)
    queue.count += 1
    if pe.listening != 0 or queue.watched != 0:
        wake_pe(m, pe, cycle)


def pop_input(m: "M", pe: "Pe", queue: "InQ") -> "i64":
    """Take the oldest word; the caller looks at its control flag before."""
    word = head_word(queue)
    queue.head = (queue.head + 1) & queue.mask
    queue.count -= 1
    if queue.router_waits != 0:
        queue.router_waits = 0
        wake_router(m, pe, m.now + 1)
    feeder = queue.feeder
    if addr(feeder) != 0:
        queue.feeder = cast(Feeder, 0)
        wake_feeder(m, feeder, m.now + 1)
    if queue.flushing != 0 and queue.count == 0:
        queue.flushing = 0
        flush_done(m, pe, 0, queue.number)
    return word


def head_cycle(queue: "InQ") -> "i64":
    return queue.wavelets[2 * queue.head]


def head_word(queue: "InQ") -> "i64":
    return queue.wavelets[2 * queue.head + 1] & 0xFFFFFFFF


def head_control(queue: "InQ") -> "i64":
    return queue.wavelets[2 * queue.head + 1] >> 32


def head_ready(m: "M", queue: "InQ") -> "i64":
    return queue.count > 0 and head_cycle(queue) <= m.now


def find_input(m: "M", pe: "Pe", d: "Dsd") -> "InQ":
    """Queue that a fabin DSD reads."""
    if m.arch_wse2 != 0:
        color = d.color
        if color < 0:
            color = -1
            for i in range(0, pe.input_count):
                if pe.inputs[i].number == d.queue and color < 0:
                    color = pe.inputs[i].color
        if color < 0 or color >= COLORS:
            bail(m, 34)
            return cast(InQ, m.blank)
        index = pe.by_color[color]
        if index >= 0:
            return pe.inputs[index]
        return add_input(m, pe, d.queue, color)
    for i in range(0, pe.input_count):
        queue = pe.inputs[i]
        if d.queue >= 0:
            if queue.number == d.queue:
                return queue
        elif queue.color == d.color:
            return queue
    bail(m, 34)
    return cast(InQ, m.blank)


# ------------------------------------------------------------------------------------------ output queues


def output_channel(m: "M", pe: "Pe", number_: "i64") -> "Chan":
    if number_ < 0 or number_ >= m.output_depth_count or number_ >= 8:
        bail(m, 35)
        return cast(Chan, m.blank)
    channel = pe.outputs[number_]
    if addr(channel) == 0:
        channel = new_channel(m, pe, RAMP, -1, m.output_depths[number_] + m.output_extra, number_)
        pe.outputs[number_] = channel
    return channel


def output_color(m: "M", pe: "Pe", d: "Dsd") -> "i64":
    number_ = d.queue if d.queue > 0 else 0
    color = d.color
    if m.arch_wse2 == 0 and number_ < 8:
        if pe.output_colors[number_] >= 0:
            color = pe.output_colors[number_]
    if color < 0 or color >= COLORS:
        bail(m, 36)
        return 0
    return color


def inject(m: "M", pe: "Pe", channel: "Chan", color: "i64", word: "i64", flags: "i64") -> "None":
    if ((pe.swap_x & pe.swap_y) >> (color ^ 1)) & 1 != 0:
        color = color ^ 1
    put(m, channel, m.now + 1 + m.ramp, word, flags, color)


# ------------------------------------------------------------------------------------------ queue maintenance


def flush_done(m: "M", pe: "Pe", side: "i64", number_: "i64") -> "None":
    if number_ < 0 or number_ > 62:
        bail(m, 37)
        return
    if side == 0:
        pe.flushed_input = pe.flushed_input | (1 << number_)
    else:
        pe.flushed_output = pe.flushed_output | (1 << number_)
    activate(pe, TEARDOWN_TASK)
    wake_pe(m, pe, m.now + 1)


def check_output_flush(m: "M", pe: "Pe") -> "None":
    for number_ in range(0, 8):
        if (pe.flushing_outputs >> number_) & 1 != 0:
            channel = pe.outputs[number_]
            waiting = 0
            if addr(channel) != 0:
                waiting = channel.count
            if waiting == 0:
                pe.flushing_outputs = pe.flushing_outputs & ~(1 << number_)
                flush_done(m, pe, 1, number_)
            else:
                channel.feeder_waits = 1


def queue_flush(pe: "Pe", side: "i64", number_: "i64") -> "None":
    m = pe.machine
    if side != 0:
        if number_ < 0 or number_ > 7:
            bail(m, 37)
            return
        pe.flushing_outputs = pe.flushing_outputs | (1 << number_)
        check_output_flush(m, pe)
        return
    for i in range(0, pe.input_count):
        queue = pe.inputs[i]
        if queue.number == number_:
            queue.flushing = 1
            if queue.count == 0:
                queue.flushing = 0
                flush_done(m, pe, 0, number_)
            return
    flush_done(m, pe, 0, number_)


def queue_flush_exit(pe: "Pe", side: "i64", number_: "i64") -> "None":
    if number_ < 0 or number_ > 62:
        bail(pe.machine, 37)
        return
    if side == 0:
        pe.flushed_input = pe.flushed_input & ~(1 << number_)
    else:
        pe.flushed_output = pe.flushed_output & ~(1 << number_)


def queue_flush_status(pe: "Pe", side: "i64") -> "i64":
    return pe.flushed_input if side == 0 else pe.flushed_output


def queue_status(pe: "Pe", side: "i64") -> "i64":
    empty = 255
    full = 0
    if side == 0:
        for i in range(0, pe.input_count):
            queue = pe.inputs[i]
            if queue.number >= 0 and queue.number < 8:
                if queue.count > 0:
                    empty = empty & ~(1 << queue.number)
                if queue.count >= queue.capacity:
                    full = full | (1 << queue.number)
    else:
        for number_ in range(0, 8):
            channel = pe.outputs[number_]
            if addr(channel) != 0:
                if channel.count > 0:
                    empty = empty & ~(1 << number_)
                if channel.count >= channel.depth:
                    full = full | (1 << number_)
    return empty | (full << 8)


def rebind_queue(pe: "Pe", side: "i64", number_: "i64", color: "i64") -> "None":
    m = pe.machine
    if color < 0 or color >= COLORS or number_ < 0 or number_ > 7:
        bail(m, 38)
        return
    if side != 0:
        channel = pe.outputs[number_]
        if addr(channel) != 0:
            if channel.count > 0:
                bail(m, 38)
                return
        pe.output_colors[number_] = color
        return
    found = -1
    for i in range(0, pe.input_count):
        if found < 0 and pe.inputs[i].number == number_:
            found = i
    if found < 0:
        add_input(m, pe, number_, color)
    else:
        queue = pe.inputs[found]
        if queue.count > 0:
            bail(m, 38)
            return
        pe.by_color[queue.color] = -1
        queue.color = color
        pe.by_color[color] = found
    wake_router(m, pe, m.now + 1)


# ------------------------------------------------------------------------------------------ FIFOs


def fifo_push(pe: "Pe", fifo: "Fifo", bits: "i64") -> "None":
    place = (fifo.head + fifo.count) % fifo.capacity
    write_int(pe, fifo.address + place * fifo.element_bytes, bits, fifo.element_bytes)
    fifo.count += 1
    if fifo.pop_needs != 0 and fifo.count >= fifo.pop_needs:
        fifo.pop_needs = 0
        if fifo.activate_push >= 0:
            activate(pe, fifo.activate_push)


def fifo_pop(pe: "Pe", fifo: "Fifo") -> "i64":
    bits = read_int(pe, fifo.address + fifo.head * fifo.element_bytes, fifo.element_bytes)
    fifo.head = (fifo.head + 1) % fifo.capacity
    fifo.count -= 1
    if fifo.push_needs != 0 and fifo.capacity - fifo.count >= fifo.push_needs:
        fifo.push_needs = 0
        if fifo.activate_pop >= 0:
            activate(pe, fifo.activate_pop)
    return bits


# ------------------------------------------------------------------------------------------ streams of the host


def wake_feeder(m: "M", feeder: "Feeder", cycle: "i64") -> "None":
    if cycle < feeder.next:
        cycle = feeder.next
    if feeder.count > 0 and feeder.scheduled != cycle:
        feeder.scheduled = cycle
        call_host(m, HOST_FEEDER, addr(feeder), cycle)


def feed(m: "M", feeder: "Feeder") -> "None":
    if feeder.count == 0 or m.now < feeder.next:
        return
    if can_receive(m, feeder.pe, feeder.color, feeder) == 0:
        return
    word = feeder.words[feeder.head]
    feeder.head += 1
    feeder.count -= 1
    receive(m, feeder.pe, feeder.color, m.now + m.ramp, word, 0)
    feeder.next = m.now + m.stream_in_interval
    if feeder.count > 0:
        wake_feeder(m, feeder, feeder.next)
    else:
        poke(m)
