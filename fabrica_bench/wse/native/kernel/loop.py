"""The event loop, and what the host calls: `wse.fabric` and `wse.machine` on flat state. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors

BATCH = 16  # PEs whose state is fetched ahead of their steps
ELEMENT = 960  # bytes before a PE's element


# ------------------------------------------------------------------------------------------ the event loop


def step_slot(m: "M", index: "i64") -> "i64":
    """Execute the lists of a slot from where they stand; 1 if Python has to do something first."""
    slot = m.slots[index]
    while slot.host_first != 0:
        node = m.nodes[slot.host_first]
        kind = node.kind
        what = node.what
        slot.host_first = free_node(m, slot.host_first)
        if slot.host_first == 0:
            slot.host_last = 0
        if kind == HOST_FEEDER:
            feed(m, cast(Feeder, what))
        else:
            m.host_item = kind
            m.host_what = what
            return 1
        if m.stop == STOP_BAIL:
            return 0
    step_routers(m, slot)
    if m.stop != STOP_BAIL:
        step_elements(m, slot)
    return 0


def step_routers(m: "M", slot: "Slot") -> "None":
    while slot.router_first != 0:
        count = 0
        while slot.router_first != 0 and count < BATCH:
            pe = cast(Pe, m.nodes[slot.router_first].what)
            m.batch[count] = pe
            count += 1
            prefetch(addr(pe))
            prefetch(addr(pe) + 64)
            slot.router_first = free_node(m, slot.router_first)
        if slot.router_first == 0:
            slot.router_last = 0
        expect_routers(m, count)
        for i in range(0, count):
            step_router(m, m.batch[i])
            if m.stop == STOP_BAIL:
                return


def step_elements(m: "M", slot: "Slot") -> "None":
    while slot.pe_first != 0:
        count = 0
        while slot.pe_first != 0 and count < BATCH:
            pe = cast(Pe, m.nodes[slot.pe_first].what)
            m.batch[count] = pe
            count += 1
            expect_element(pe)
            slot.pe_first = free_node(m, slot.pe_first)
        if slot.pe_first == 0:
            slot.pe_last = 0
        expect_elements(m, count)
        for i in range(0, count):
            step_pe(m, m.batch[i])
            if m.stop == STOP_BAIL:
                return


def expect_routers(m: "M", count: "i64") -> "None":
    """Bring what the steps of a batch will touch into the cache: on large grids, waiting for memory is most of the
    time, and the PEs of a cycle do not depend on each other."""
    for i in range(0, count):
        pe = m.batch[i]
        if pe.active_count > 0:
            channel = pe.active[0]
            prefetch(addr(channel))
            prefetch(addr(channel) + 64)
    for i in range(0, count):
        pe = m.batch[i]
        if pe.active_count > 0:
            state = pe.active[0].state
            if addr(state) != 0:
                prefetch(addr(state))
                prefetch(addr(state) + 64)
                prefetch(addr(state) + 128)


def expect_element(pe: "Pe") -> "None":
    prefetch(addr(pe) + ELEMENT)
    prefetch(addr(pe) + ELEMENT + 64)
    prefetch(addr(pe) + ELEMENT + 128)
    prefetch(addr(pe) + ELEMENT + 192)


def expect_elements(m: "M", count: "i64") -> "None":
    for i in range(0, count):
        pe = m.batch[i]
        if pe.op_count > 0:
            start = addr(pe.ops[0])
            for line in range(0, 8):
                prefetch(start + 64 * line)
        elif pe.state == RUN:
            prefetch(addr(pe.frame))
            prefetch(addr(pe.image))
    for i in range(0, count):
        pe = m.batch[i]
        if pe.op_count > 0:
            op = pe.ops[0]
            expect_end(pe, op.dest[0])
            for k in range(0, op.source_count):
                expect_end(pe, op.sources[k])


def expect_end(pe: "Pe", end: "End") -> "None":
    if end.kind == K_MEMORY:
        prefetch(addr(pe.memory) + end.at)
    elif end.kind == K_FABIN:
        prefetch(addr(end.queue))
        prefetch(addr(end.queue) + 64)
    elif end.kind == K_FABOUT:
        prefetch(addr(end.channel))
        prefetch(addr(end.channel) + 64)


def run(m: "M", work: "i64", until: "i64") -> "i64":
    """Execute cycles until something needs Python; the reason. `work`: how much to do before a look at the clock;
    `until`: first cycle not to be executed, or -1."""
    m.stop = STOP_NONE
    m.work = 0
    while 1:
        if m.in_cycle == 0:
            if m.launch_done != 0:
                return STOP_LAUNCH_DONE
            if m.heap_count == 0:
                return STOP_IDLE
            if m.node_capacity - m.node_live < m.reserve or m.slot_capacity - m.slot_live < m.reserve:
                return STOP_GROW
            if m.work > work or m.log_count > m.log_capacity // 2:
                return STOP_CHUNK
            if until >= 0 and m.now >= until:
                return STOP_UNTIL
            if m.heap[0] > m.max_cycles:
                return STOP_BUDGET
            m.current_slot = heap_pop(m)
            m.now = m.slots[m.current_slot].cycle
            m.in_cycle = 1
        if step_slot(m, m.current_slot) != 0:
            return STOP_HOST
        if m.stop == STOP_BAIL:
            return STOP_BAIL
        drop_slot(m, m.current_slot)
        m.in_cycle = 0
    return STOP_NONE


# ------------------------------------------------------------------------------------------ for the host


def launch(m: "M", pe: "Pe", function: "i64", args: "ptr_i64") -> "None":
    """Put a host call before the calls that wait."""
    if pe.call_count >= MAX_CALLS:
        bail(m, 76)
        return
    i = pe.call_count
    while i > 0:
        copy_words(addr(pe.calls[i]), addr(pe.calls[i - 1]), words_of(Call))
        i -= 1
    call = call_at_place(m, pe, 0)
    call.function = function
    call.is_launch = 1
    copy_words(addr(call) + 16, addr(args), 16)
    pe.call_count += 1
    pe.stream_ready = 0
    wake_pe(m, pe, m.now)


def launch_all(m: "M", functions: "ptr_i64", args: "ptr_i64", images: "ptr_i64") -> "i64":
    """Launch on every PE whose image has the function; how many have not."""
    silent = 0
    for i in range(0, m.pe_count):
        image = images[i]
        if functions[image] < 0:
            silent += 1
        else:
            launch(m, m.pes[i], functions[image], cast(ptr_i64, addr(args) + 128 * image))
    return silent


def exchange_code(m: "M", table: "ptr_i64", count: "i64") -> "None":
    """Have suspended functions go on in other machine code. `table`: pairs of old and new addresses, by old address."""
    for i in range(0, m.pe_count):
        frame = m.pes[i].frame
        while addr(frame) != 0:
            low = 0
            high = count
            while low < high:
                middle = (low + high) >> 1
                if table[2 * middle] < frame.function:
                    low = middle + 1
                else:
                    high = middle
            if low < count and table[2 * low] == frame.function:
                frame.function = table[2 * low + 1]
            frame = frame.previous


def leftovers(m: "M", table: "ptr_i64", capacity: "i64") -> "i64":
    """Places where wavelets wait: PE, port (0: input queue), number of the queue, color, count. How many there are."""
    found = 0
    for i in range(0, m.pe_count):
        pe = m.pes[i]
        for k in range(0, pe.active_count):
            channel = pe.active[k]
            if found < capacity:
                table[found * 5] = i
                table[found * 5 + 1] = channel.port
                table[found * 5 + 2] = channel.queue_id
                table[found * 5 + 3] = channel.wavelets[2 * channel.head + 1] >> 40
                table[found * 5 + 4] = channel.count
                found += 1
        for k in range(0, pe.input_count):
            queue = pe.inputs[k]
            if queue.count > 0 and found < capacity:
                table[found * 5] = i
                table[found * 5 + 1] = 0
                table[found * 5 + 2] = queue.number
                table[found * 5 + 3] = queue.color
                table[found * 5 + 4] = queue.count
                found += 1
    return found


def wake_all_active(m: "M") -> "None":
    for i in range(0, m.pe_count):
        if m.pes[i].active_tasks != 0:
            wake_pe(m, m.pes[i], 0)


def push_feeder(m: "M", feeder: "Feeder") -> "None":
    """The host put words behind those not yet delivered."""
    cycle = m.now + 1
    if feeder.next > cycle:
        cycle = feeder.next
    wake_feeder(m, feeder, cycle)
