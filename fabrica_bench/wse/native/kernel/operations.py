"""DSD operations under way: `wse.microthread` on flat state. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors


def end_ready(m: "M", end: "End", is_dest: "i64") -> "i64":
    kind = end.kind
    if kind == K_FABIN:
        return end.has_half != 0 or head_ready(m, end.queue) != 0
    if kind == K_FABOUT:
        channel = end.channel
        if channel.count < channel.depth:
            return 1
        channel.feeder_waits = 1
        return 0
    if kind == K_FIFO:
        if is_dest != 0:
            return end.fifo.count < end.fifo.capacity
        return end.fifo.count > 0
    return 1


def control_waits(m: "M", end: "End") -> "i64":
    if end.has_half != 0:
        return 0
    queue = end.queue
    if head_ready(m, queue) == 0:
        return 0
    return head_control(queue) != 0


def any_control(m: "M", op: "Op") -> "i64":
    for i in range(0, op.source_count):
        if op.sources[i].kind == K_FABIN:
            if control_waits(m, op.sources[i]) != 0:
                return 1
    return 0


def gate_blocks(m: "M", op: "Op", end: "End", is_dest: "i64") -> "i64":
    """0: ready; 1: the operation must wait; 2: it must issue in order to end."""
    if end_ready(m, end, is_dest) != 0:
        return 0
    if end.kind == K_FIFO:
        fifo = end.fifo
        remaining = op.remaining if op.infinite == 0 else 1
        needs = most(1, least(remaining, fifo.capacity))
        if is_dest != 0:
            fifo.push_needs = needs
        else:
            fifo.pop_needs = needs
        if end.action != F_WAIT:
            return 2
    return 1


def op_ready(m: "M", op: "Op") -> "i64":
    """May issue in this cycle: every operand is there, or the operation has to end."""
    if m.now < op.start:
        return 0
    if op.config.has_control != 0 and op.has_input != 0:
        if any_control(m, op) != 0:
            return 1
    for i in range(0, op.source_count):
        end = op.sources[i]
        if end.kind >= K_FABIN:
            state = gate_blocks(m, op, end, 0)
            if state != 0:
                return state == 2
    dest = op.dest[0]
    if dest.kind >= K_FABIN:
        state = gate_blocks(m, op, dest, 1)
        if state != 0:
            return state == 2
    return 1


def next_place(end: "End") -> "i64":
    if end.linear != 0:
        place = end.at
        end.at += end.step
        return place
    place = element_address(end.dsd[0], end.at, end.position, end.size)
    end.position += 1
    if end.position >= end.total:
        end.position = 0
    return place


def get(m: "M", pe: "Pe", op: "Op", index: "i64") -> "i64":
    end = op.sources[index]
    kind = end.kind
    if kind == K_FABIN:
        if end.has_half != 0:
            end.has_half = 0
            return end.half
        control = head_control(end.queue)
        word = pop_input(m, pe, end.queue)
        if control != 0 and end.transform != 0:
            word = word ^ (pe.transform_mask << 26)
        if end.packed != 0:
            end.has_half = 1
            end.half = word >> 16
        return word & (65535 if end.size == 2 else 0xFFFFFFFF)
    if op.reduction != 0 and index == 0:
        return op.dest[0].bits
    if kind == K_MEMORY:
        place = next_place(end)
        bits = read_int(pe, place, end.size)
        if end.zero != 0:
            write_int(pe, place, 0, end.size)
        return bits
    if kind == K_FIFO:
        return fifo_pop(pe, end.fifo)
    return end.bits


def put_result(m: "M", pe: "Pe", op: "Op", bits: "i64", last: "i64") -> "None":
    end = op.dest[0]
    kind = end.kind
    if kind == K_MEMORY:
        write_int(pe, next_place(end), bits, end.size)
    elif kind == K_FABOUT:
        if end.packed != 0:
            if end.has_half == 0 and last == 0:
                end.has_half = 1
                end.half = bits
                return
            if end.has_half != 0:
                bits = end.half | (bits << 16)
                end.has_half = 0
        elif end.index != 0:
            bits = (bits & 65535) | end.index
        flags = end.flags
        if end.transform != 0 and bits >> 30 == 3:
            bits = bits ^ (pe.transform_mask << 26)
            flags = flags | CONTROL
        if last != 0 and end.advance != 0:
            flags = flags | ADVANCE_AFTER
        inject(m, pe, end.channel, end.color, bits, flags)
    elif kind == K_POINTER:
        end.bits = bits
        write_int(pe, end.at, bits, end.size)
    elif kind == K_FIFO:
        fifo_push(pe, end.fifo, bits)


def finish_op(m: "M", pe: "Pe", op: "Op", complete: "i64") -> "None":
    """Release what the operation holds and wake what waits for its completion."""
    op.done = 1
    moved = op.count - op.remaining if op.infinite == 0 else 0
    for i in range(0, op.source_count):
        if op.sources[i].kind == K_FABIN:
            queue = op.sources[i].queue
            queue.op = cast(Op, 0)
            queue.watched = 0
    if op.dest[0].kind == K_FABOUT:
        if addr(op.dest[0].channel.op) == addr(op):
            op.dest[0].channel.op = cast(Op, 0)
    if op.thread >= 0:
        pe.threads[op.thread] = cast(Op, 0)
    finish_ends(op, moved)
    pe.result = 0 if op.stopped_early != 0 else 1
    if complete != 0 and op.config.has_done != 0:
        wake(pe, op.config.done_action, op.config.done_is_thread, op.done_id, m.now)


def control_arrived(m: "M", pe: "Pe", op: "Op") -> "i64":
    for i in range(0, op.source_count):
        if op.sources[i].kind == K_FABIN:
            if control_waits(m, op.sources[i]) != 0:
                get(m, pe, op, i)
                if op.config.control_action == W_TERMINATE:
                    finish_op(m, pe, op, 1)
                else:
                    finish_op(m, pe, op, 0)
                    wake(pe, op.config.control_action, op.config.control_is_thread, op.control_id, m.now)
                return 1
    return 0


def stop_on_fifo(m: "M", pe: "Pe", op: "Op", end: "End", is_dest: "i64") -> "None":
    if end.action == F_FAULT:
        bail(m, 61)
        return
    if is_dest != 0:
        end.fifo.write_length = op.remaining
    else:
        end.fifo.read_length = op.remaining
    op.stopped_early = end.action == F_TEST
    finish_op(m, pe, op, 1)


def gates_ready(m: "M", op: "Op") -> "i64":
    for i in range(0, op.source_count):
        if op.sources[i].kind >= K_FABIN:
            if end_ready(m, op.sources[i], 0) == 0:
                return 0
    if op.dest[0].kind >= K_FABIN:
        return end_ready(m, op.dest[0], 1)
    return 1


def issue_op(m: "M", pe: "Pe", op: "Op") -> "None":
    """Move the elements of one issue slot."""
    s = op.site
    m.issues += 1
    if s.is_filter != 0:
        was_control = control_waits(m, op.sources[0])
        get(m, pe, op, 0)
        if was_control != 0 and op.infinite == 0:
            op.remaining -= 1
            if op.remaining == 0:
                finish_op(m, pe, op, 1)
        return
    batch = op.batch
    for position in range(0, batch):
        if op.has_input != 0 and op.config.has_control != 0:
            if control_arrived(m, pe, op) != 0:
                return
        if position > 0:
            if gates_ready(m, op) == 0:
                return
        for i in range(0, op.source_count):
            end = op.sources[i]
            if end.kind == K_FIFO:
                if end_ready(m, end, 0) == 0:
                    stop_on_fifo(m, pe, op, end, 0)
                    return
        if op.dest[0].kind == K_FIFO:
            if end_ready(m, op.dest[0], 1) == 0:
                stop_on_fifo(m, pe, op, op.dest[0], 1)
                return
        last = op.remaining == 1 and op.infinite == 0
        a = get(m, pe, op, 0)
        b = 0
        c = 0
        if op.source_count > 1:
            b = get(m, pe, op, 1)
        if op.source_count > 2:
            c = get(m, pe, op, 2)
        bits = a
        if s.sequential != 0:
            bits = add_with_carry(pe, a, b)
        elif s.is_move == 0:
            bits = apply(m, s, a, b, c)
        put_result(m, pe, op, bits, last)
        if op.infinite == 0:
            op.remaining -= 1
            if last != 0:
                finish_op(m, pe, op, 1)
                return
        if m.stop == STOP_BAIL:
            return
