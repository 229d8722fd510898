"""The element loop of `@map`: `wse.mapping` on flat state. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors


def map_begin(pe: "Pe", s: "Site") -> "i64":
    """Resolve the operands of `@map`; address of the operation that keeps them, 0 after a stop."""
    m = pe.machine
    op = new_op(m, pe)
    op.site = s
    op.source_count = s.source_count
    op.reduction = 0
    op.remaining = -1
    op.count = 0
    feed_at = 0
    for i in range(0, s.source_count):
        end = op.sources[i]
        kind = s.source_kinds[i]
        resolve(m, pe, end, kind, s.source_refs[i], s.source_sizes[i], pe.values[feed_at], 0)
        if kind != A_DSR:
            feed_at += 1
        end.zero = 0
        end.position = 0
        end.total = most(end.length, 1)
        if end.kind == K_FABIN:
            end.queue = find_input(m, pe, end.dsd[0])
            end.transform = end.dsd[0].control_transform
            end.packed = is_packed(end)
            end.has_half = 0
        elif end.kind != K_MEMORY:
            bail(m, 80)
    dest = op.dest[0]
    dest.kind = K_NONE
    if s.dest_kind != 0:
        resolve(m, pe, dest, s.dest_kind, s.dest_ref, s.dest_size, pe.values[feed_at], 1)
        dest.zero = 0
        dest.position = 0
        dest.total = most(dest.length, 1)
        op.remaining = dest.length
        if dest.kind == K_POINTER:
            dest.kind = K_MEMORY
            op.remaining = -1
        elif dest.kind == K_FABOUT:
            d = dest.dsd[0]
            dest.color = output_color(m, pe, d)
            dest.channel = output_channel(m, pe, d.queue if d.queue > 0 else 0)
            dest.flags = CONTROL if d.control != 0 else 0
            dest.advance = d.advance_switch
            dest.transform = d.control_transform
            dest.index = 0
            dest.packed = is_packed(dest)
            dest.has_half = 0
        elif dest.kind != K_MEMORY:
            bail(m, 81)
    if m.stop == STOP_BAIL:
        op.in_use = 0
        return 0
    return addr(op)


def map_more(pe: "Pe", op: "Op") -> "i64":
    """There is another element."""
    if pe.machine.stop == STOP_BAIL or op.remaining == 0:
        return 0
    for i in range(0, op.source_count):
        if op.sources[i].length == 0:
            return 0
    return 1


def map_end(op: "Op", index: "i64") -> "End":
    if index < 0:
        return op.dest[0]
    return op.sources[index]


def map_ahead(pe: "Pe", op: "Op", index: "i64") -> "i64":
    """The operand is on the fabric and the thread ahead of the clock: it must give control back first."""
    return map_end(op, index).kind >= K_FABIN and pe.t > pe.machine.now


def map_poll(pe: "Pe", op: "Op", index: "i64") -> "i64":
    """The operand is not ready: the thread must wait for it."""
    end = map_end(op, index)
    if end.kind < K_FABIN:
        return 0
    if end_ready(pe.machine, end, index < 0) != 0:
        return 0
    pe.polled = end
    pe.polled_is_dest = index < 0
    pe.state = POLL
    if end.kind == K_FABIN:
        end.queue.watched = 1
    return 1


def release_poll(pe: "Pe") -> "None":
    end = pe.polled
    if end.kind == K_FABIN:
        end.queue.watched = addr(end.queue.op) != 0


def map_take(pe: "Pe", op: "Op", index: "i64") -> "None":
    """Read an element; its bits stay in the end."""
    end = op.sources[index]
    bits = get(pe.machine, pe, op, index)
    end.bits = bits


def map_count(op: "Op") -> "None":
    for i in range(0, op.source_count):
        op.sources[i].length -= 1


def map_put(pe: "Pe", op: "Op") -> "None":
    """Write the result that lies in the end's bits."""
    if op.remaining > 0:
        op.remaining -= 1
    put_result(pe.machine, pe, op, op.dest[0].bits, op.remaining == 0)


def map_finish(pe: "Pe", op: "Op") -> "None":
    s = op.site
    for i in range(0, s.source_count):
        if s.source_kinds[i] == A_DSR:
            finish_map_dsr(pe, s.source_refs[i], op.count)
    if s.dest_kind == A_DSR:
        finish_map_dsr(pe, s.dest_ref, op.count)
    op.in_use = 0


def finish_map_dsr(pe: "Pe", number_: "i64", count: "i64") -> "None":
    dsr = pe.dsrs[number_]
    if dsr.dsd[0].kind != FABIN and dsr.dsd[0].kind != FABOUT:
        finish_dsr(dsr, dsr.generation, count, 2)
