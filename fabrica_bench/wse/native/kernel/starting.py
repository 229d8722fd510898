"""The beginning of DSD operations: the record of one, its queues and its microthread. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors


def new_op(m: "M", pe: "Pe") -> "Op":
    for i in range(0, MAX_OPS):
        op = pe.pool[i]
        if addr(op) == 0:
            op = cast(Op, allocate(m, words_of(Op)))
            pe.pool[i] = op
        if op.in_use == 0:
            op.in_use = 1
            return op
    bail(m, 54)
    return pe.pool[0]


def iterations(s: "Site", op: "Op") -> "i64":
    plain = 1
    others = 0
    for i in range(0, s.source_count):
        end = op.sources[i]
        if end.length != 0:
            return end.length
        if end.kind != K_SCALAR and end.kind != K_POINTER and end.kind != K_FIFO:
            plain = 0
        if end.kind != K_FIFO:
            others = 1
    if s.dest_kind != 0:
        dest = op.dest[0]
        if dest.length != 0:
            return dest.length
        if dest.kind != K_POINTER and dest.kind != K_SCALAR and dest.kind != K_FIFO:
            plain = 0
        if dest.kind != K_FIFO:
            others = 1
    return plain & others


def dsd_operation(pe: "Pe", s: "Site") -> "i64":
    """Execute a memory operation, or leave an operation in `pe.pending`; 1: the thread must give control back."""
    m = pe.machine
    op = new_op(m, pe)
    op.site = s
    op.source_count = s.source_count
    feed_at = 0
    dest = op.dest[0]
    if s.dest_kind != 0:
        resolve(m, pe, dest, s.dest_kind, s.dest_ref, s.dest_size, pe.values[0], 1)
        if s.dest_kind != A_DSR and s.dest_kind != A_FIFO:
            feed_at += 1
    else:
        dest.kind = K_NONE
        dest.has_dsd = 0
        dest.dsr = cast(Dsr, 0)
        dest.length = 0
    for i in range(0, s.source_count):
        kind = s.source_kinds[i]
        resolve(m, pe, op.sources[i], kind, s.source_refs[i], s.source_sizes[i], pe.values[feed_at], 0)
        if kind != A_DSR and kind != A_FIFO:
            feed_at += 1
    config = s.config[0]
    op.config = config
    op.done_id = 0
    op.control_id = 0
    op.index = 0
    if config.has_done != 0:
        op.done_id = pe.values[feed_at]
        feed_at += 1
    if config.has_control != 0:
        op.control_id = pe.values[feed_at]
        feed_at += 1
    if config.has_index != 0:
        op.index = pe.values[feed_at]
    if m.stop == STOP_BAIL:
        op.in_use = 0
        return 1
    count = iterations(s, op)
    if count > MAX_ELEMENTS or count < 0:
        op.in_use = 0
        bail(m, 51)
        return 1
    fabric = 0
    if s.dest_kind != 0:
        fabric = dest.kind >= K_FABIN
        if dest.kind == K_MEMORY and dest.has_dsd != 0 and dest.dsd[0].wavelet_index_offset != 0:
            dest.at += 2 * op.index
    for i in range(0, s.source_count):
        end = op.sources[i]
        fabric = fabric | (end.kind >= K_FABIN)
        if end.kind == K_MEMORY and end.has_dsd != 0 and end.dsd[0].wavelet_index_offset != 0:
            end.at += 2 * op.index
    if fabric != 0:
        prepare_op(m, op, s, count)
        pe.pending = op
        return 1
    if s.dest_kind == 0 or dest.kind == K_SCALAR:
        op.in_use = 0
        bail(m, 55)
        return 1
    pe.t += memory_cycles(s, op, count)
    if count != 0:
        run_memory(m, pe, s, op, count)
    pe.result = 1
    m.issues += 1
    if config.has_done != 0:
        wake(pe, config.done_action, config.done_is_thread, op.done_id, pe.t)
    op.in_use = 0
    return pe.t > pe.limit or m.stop == STOP_BAIL


def dsd_priority(end: "End") -> "i64":
    if end.has_dsd != 0:
        return end.dsd[0].priority
    return 0


def prepare_op(m: "M", op: "Op", s: "Site", count: "i64") -> "None":
    """What `FabricOp.__init__` does. Async settings come from the fabric operand's DSR, if it is an explicit one."""
    found = 0
    for i in range(-1, s.source_count):
        end = op.dest[0]
        if i >= 0:
            end = op.sources[i]
        if found == 0 and addr(end.dsr) != 0 and (end.kind == K_FABIN or end.kind == K_FABOUT):
            found = 1
            op.config = end.dsr.config
            op.done_id = end.dsr.done_id
            op.control_id = end.dsr.control_id
    m.serial += 1
    op.serial = m.serial
    op.is_async = op.config.is_async
    op.infinite = count == 32767
    op.count = count
    op.remaining = count
    op.setup = setup_cycles(s, op)
    op.start = 0
    op.thread = -1
    op.done = 0
    op.stopped_early = 0
    priority = op.config.priority
    if priority == 0:
        priority = dsd_priority(op.dest[0])
    for i in range(0, s.source_count):
        if priority == 0:
            priority = dsd_priority(op.sources[i])
    op.priority = 0 if priority <= 1 else (2 if priority == 2 else 4)
    op.batch = 1
    op.reduction = 0


def is_packed(end: "End") -> "i64":
    return end.size == 2 and end.dsd[0].simd != 0


def prepare_end(m: "M", pe: "Pe", op: "Op", end: "End", is_dest: "i64", zero: "i64") -> "None":
    end.zero = 0
    end.position = 0
    if end.kind == K_MEMORY:
        end.zero = zero
        if end.linear == 0:
            total = op.count if op.count > 0 else end.length
            end.total = total if total > 1 else 1
    elif end.kind == K_POINTER:
        if is_dest == 0:
            bail(m, 56)
    elif end.kind == K_FIFO:
        action = end.fifo.full_action if is_dest != 0 else end.fifo.empty_action
        if action == F_TEST and op.is_async != 0:
            action = F_WAIT
        end.action = action
    elif end.kind == K_FABOUT:
        if is_dest == 0:
            bail(m, 57)
            return
        d = end.dsd[0]
        end.color = output_color(m, pe, d)
        end.channel = output_channel(m, pe, d.queue if d.queue > 0 else 0)
        if d.queue >= 0:
            if addr(end.channel.op) != 0 and addr(end.channel.op) != addr(op):
                bail(m, 65)
                return
            end.channel.op = op
        end.flags = CONTROL if d.control != 0 else 0
        end.advance = d.advance_switch
        end.transform = d.control_transform
        end.index = op.index << 16 if d.wavelet_index_offset != 0 else 0
        end.packed = is_packed(end)
        end.has_half = 0
    elif end.kind == K_FABIN:
        if is_dest != 0:
            bail(m, 57)
            return
        end.queue = find_input(m, pe, end.dsd[0])
        end.transform = end.dsd[0].control_transform
        end.packed = is_packed(end)
        end.has_half = 0


def claim_queue(m: "M", queue: "InQ", op: "Op") -> "None":
    if addr(queue.op) != 0 and addr(queue.op) != addr(op):
        bail(m, 58)
        return
    queue.op = op
    queue.watched = 1


def thread_of(m: "M", pe: "Pe", op: "Op") -> "i64":
    if op.config.ut_id >= 0:
        return op.config.ut_id
    for i in range(-1, op.source_count):
        end = op.dest[0]
        if i >= 0:
            end = op.sources[i]
        if end.kind == K_FABIN or end.kind == K_FABOUT:
            return end.dsd[0].queue if end.dsd[0].queue > 0 else 0
    for number_ in range(0, 62):
        if addr(pe.threads[number_]) == 0:
            return number_
    return 63


def attach(m: "M", pe: "Pe", op: "Op") -> "None":
    """Bind queues and the microthread; the first element may issue once the DSRs are loaded."""
    s = op.site
    now = m.now
    op.start = now + op.setup
    dest = op.dest[0]
    zero_first = 0
    zero_second = 0
    if dest.has_dsd != 0:
        zero_first = dest.dsd[0].zero_first
        zero_second = dest.dsd[0].zero_second
    if s.dest_kind != 0:
        prepare_end(m, pe, op, dest, 1, 0)
    count = s.source_count
    gates = dest.kind >= K_FABIN
    fabric = dest.kind == K_FABOUT
    packed = 1
    if fabric != 0:
        packed = is_packed(dest)
    op.has_input = 0
    for i in range(0, count):
        end = op.sources[i]
        second = i == 1
        if count == 1:
            second = 1
        zero = (zero_second != 0 and second != 0) or (zero_first != 0 and i == 0 and second == 0)
        prepare_end(m, pe, op, end, 0, zero)
        if m.stop == STOP_BAIL:
            return
        if end.kind >= K_FABIN:
            gates += 1
        if end.kind == K_FABIN:
            op.has_input = 1
            fabric = 1
            packed = packed & is_packed(end)
    op.gates = gates
    if s.is_reduction != 0 and dest.kind == K_POINTER:
        op.reduction = 1
        dest.bits = op.sources[0].bits
    for i in range(0, count):
        if op.sources[i].kind == K_FABIN:
            claim_queue(m, op.sources[i].queue, op)
    if op.is_async != 0:
        op.thread = thread_of(m, pe, op)
        if op.thread < 0 or op.thread > 61:
            bail(m, 59)
            return
        if addr(pe.threads[op.thread]) != 0:
            bail(m, 60)
            return
        pe.threads[op.thread] = op
    if fabric == 0:
        op.batch = s.width
    else:
        op.batch = 2 if packed != 0 else 1
    if op.count == 0 and op.infinite == 0:
        finish_op(m, pe, op, 1)
