"""Compute elements: `wse.pe` and `wse.element` on flat state. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors


# ------------------------------------------------------------------------------------------ 1. microthreads


def is_held(pe: "Pe", op: "Op") -> "i64":
    return op.thread >= 0 and (pe.blocked_threads >> op.thread) & 1 != 0


def main_wins(m: "M", pe: "Pe", op: "Op") -> "i64":
    if pe.state != RUN:
        pe.main_had_slot = 0
        return 0
    if op.priority < pe.main_priority and m.main_alternates != 0 and pe.main_had_slot == 0:
        pe.main_had_slot = 1
        return 1
    pe.main_had_slot = 0
    pe.t += 1
    return 0


def remove_op(pe: "Pe", op: "Op") -> "None":
    kept = 0
    for i in range(0, pe.op_count):
        if addr(pe.ops[i]) != addr(op):
            pe.ops[kept] = pe.ops[i]
            kept += 1
    pe.op_count = kept


def append_op(m: "M", pe: "Pe", op: "Op") -> "None":
    if pe.op_count >= MAX_OPS:
        bail(m, 70)
        return
    pe.ops[pe.op_count] = op
    pe.op_count += 1


def last_is_running(pe: "Pe") -> "i64":
    for i in range(0, pe.op_count):
        if pe.ops[i].serial == pe.last_op:
            return 1
    return 0


def run_op(m: "M", pe: "Pe", op: "Op") -> "None":
    now = m.now
    serial = op.serial
    pe.issued = now
    issue_op(m, pe, op)
    remove_op(pe, op)
    if op.done != 0:
        if op.is_async == 0:
            pe.state = RUN
            pe.t = now + 1
            wake_pe(m, pe, now + 1)
        op.in_use = 0
    else:
        append_op(m, pe, op)
    if pe.last_op != serial and last_is_running(pe) != 0:
        pe.switch_debt += m.switch_quarters
        pe.free_from = now + 1 + (pe.switch_debt >> 2)
        pe.switch_debt = pe.switch_debt & 3
    pe.last_op = serial


def issue(m: "M", pe: "Pe") -> "None":
    now = m.now
    best = cast(Op, 0)
    wake_at = 0
    for i in range(0, pe.op_count):
        op = pe.ops[i]
        if op.start > now:
            wake_at = op.start if wake_at == 0 else least(wake_at, op.start)
        else:
            better = 1
            if addr(best) != 0:
                better = op.priority > best.priority
            if better != 0:
                if op_ready(m, op) != 0:
                    if is_held(pe, op) == 0:
                        best = op
    if addr(best) != 0:
        if now < pe.free_from:
            wake_at = pe.free_from
        elif main_wins(m, pe, best) != 0:
            wake_at = now + 1
        else:
            run_op(m, pe, best)
            wake_at = most(now + 1, pe.free_from)
    else:
        for i in range(0, pe.op_count):
            op = pe.ops[i]
            for k in range(0, op.source_count):
                if op.sources[k].kind == K_FABIN:
                    queue = op.sources[k].queue
                    if queue.count > 0:
                        if head_cycle(queue) > now:
                            wake_pe(m, pe, head_cycle(queue))
    if wake_at != 0 and pe.op_count > 0:
        wake_pe(m, pe, wake_at)


# ------------------------------------------------------------------------------------------ 2. main thread


def begin_function(m: "M", pe: "Pe", index: "i64") -> "Frame":
    """Lay out the frame of a task or launched function; the caller fills its arguments."""
    function = pe.image.functions[index]
    frame = pe.frames
    if addr(frame) + 8 * function.frame_words > pe.frame_end:
        bail(m, 71)
    frame.function = function.address
    frame.resume = 0
    frame.previous = cast(Frame, 0)
    pe.frame = frame
    pe.began = index
    return frame


def begin_task(m: "M", pe: "Pe", index: "i64", cycle: "i64") -> "Frame":
    frame = begin_function(m, pe, index)
    pe.state = RUN
    pe.listening = 0
    pe.t = cycle
    return frame


def run_code(m: "M", pe: "Pe") -> "i64":
    """Run the activation until it returns (R_RETURN) or gives control back."""
    while 1:
        frame = pe.frame
        result = call_at(frame.function, pe, frame)
        if result == R_RETURN:
            pe.frame = frame.previous
            if addr(pe.frame) == 0:
                return R_RETURN
        elif result != R_CALL:
            return result
        if m.stop == STOP_BAIL:
            return R_STOP
    return R_STOP


def resume(m: "M", pe: "Pe") -> "None":
    pe.limit = m.now if pe.op_count > 0 else m.now + RUN_AHEAD
    m.segments += 1
    before = pe.t
    result = run_code(m, pe)
    m.busy += pe.t - before
    m.work += 8 + ((pe.t - before) >> 10)  # what is long takes time too
    if result == R_RETURN:
        pe.state = END
        pe.ended = pe.t
        pe.t += m.task_end
        return
    if addr(pe.pending) != 0:
        pe.state = START


def start_operation(m: "M", pe: "Pe") -> "None":
    now = m.now
    op = pe.pending
    pe.pending = cast(Op, 0)
    attach(m, pe, op)
    if m.stop == STOP_BAIL:
        return
    if op.is_async != 0:
        pe.state = RUN
        pe.t = op.start + m.dsd_launch
        pe.result = 1
    elif op.done != 0:
        pe.state = RUN
        pe.t = op.start
    else:
        op.priority = pe.main_priority
        pe.state = OPERATION
    if op.done == 0:
        start = op.start
        append_op(m, pe, op)
        if pe.state == OPERATION and start <= now and pe.issued < now:
            issue(m, pe)  # its registers are loaded and the slot is free: the first element goes at once
        wake_pe(m, pe, most(start, now + 1))
    else:
        op.in_use = 0


def finish_task(m: "M", pe: "Pe") -> "None":
    pe.state = IDLE
    pe.task_ended = m.now
    pe.listening = 1
    if m.host_pending != 0 and m.not_ready == 0:
        poke(m)


# ------------------------------------------------------------------------------------------ 3. task picker


def call_at_place(m: "M", pe: "Pe", index: "i64") -> "Call":
    if addr(pe.calls) == 0:
        pe.calls = cast(Call, allocate(m, words_of(Call) * MAX_CALLS))
    return pe.calls[index]


def append_call(m: "M", pe: "Pe", function: "i64") -> "None":
    if pe.call_count >= MAX_CALLS:
        bail(m, 72)
        return
    call = call_at_place(m, pe, pe.call_count)
    call.function = function
    call.is_launch = 0
    pe.call_count += 1


def dispatch_handlers(m: "M", pe: "Pe") -> "None":
    pending = pe.teardown_pending
    image = pe.image
    for color in range(0, 32):
        if image.teardown_handlers[color] >= 0 and (pending >> color) & 1 != 0:
            pe.teardown_pending = pe.teardown_pending & ~(1 << color)
            append_call(m, pe, image.teardown_handlers[color])
    for i in range(0, image.empty_count):
        flushed = pe.flushed_input if image.empty_side[i] == 0 else pe.flushed_output
        if (flushed >> image.empty_queue[i]) & 1 != 0:
            append_call(m, pe, image.empty_handler[i])


def start_cost(m: "M", pe: "Pe") -> "i64":
    """Cycles until a task that is picked now starts. Right behind another it was picked while that one ended."""
    return m.task_redispatch if m.now == pe.task_ended else m.task_dispatch


def argument(m: "M", kind: "i64", bits: "i64") -> "i64":
    """Frame form of a scalar from its bit pattern; `kind` is 4 * bits + (0 unsigned, 1 signed, 2 f32, 3 half)."""
    class_ = kind & 3
    width = kind >> 2
    if class_ == 2:
        return fbits(f32_value(bits))
    if class_ == 3:
        return fbits(m.half_values[bits & 65535])
    shift = 64 - width
    if class_ == 1:
        return (bits << shift) >> shift
    return shift_right(bits << shift, shift)


def begin_wavelet_task(m: "M", pe: "Pe", queue: "InQ") -> "None":
    is_control = head_control(queue)
    word = pop_input(m, pe, queue)
    image = pe.image
    index = -1
    if is_control != 0:
        entry = ((word >> 16) & 63) + queue.table_offset
        if entry >= 0 and entry < 128:
            index = image.control_tasks[entry]
    else:
        id_ = queue.task_id
        index = image.data_tasks[id_]
        if image.rotating[id_] >= 0:
            if pe.rotating_counters[id_] >= image.rotating_limit[id_]:
                pe.rotating_counters[id_] = 0
                index = image.rotating[id_]
            else:
                pe.rotating_counters[id_] += 1
    if index < 0:
        bail(m, 73)
        return
    frame = begin_task(m, pe, index, m.now + start_cost(m, pe))
    function = image.functions[index]
    if function.param_count == 1:
        kind = function.param_kinds[0]
        frame.slots[0] = argument(m, kind, word if kind >> 2 == 32 else word & 65535)
    elif function.param_count == 2:
        frame.slots[0] = argument(m, function.param_kinds[0], word & 65535)
        frame.slots[1] = argument(m, function.param_kinds[1], word >> 16)
    elif function.param_count > 2:
        bail(m, 74)


def pick_task(pe: "Pe", data_ready: "i64") -> "i64":
    ready = (pe.active_tasks | data_ready) & ~pe.blocked_tasks
    if ready == 0:
        return -1
    urgent = ready & pe.high_tasks
    if urgent != 0:
        ready = urgent
    later = 0
    if pe.last_task < 63:
        later = shift_right(ready, pe.last_task + 1)
    chosen = 0
    if later != 0:
        chosen = pe.last_task + 1 + low_bit(later)
    else:
        chosen = low_bit(ready)
    pe.last_task = chosen
    return chosen


def pick(m: "M", pe: "Pe") -> "i64":
    """Start the next task; 0 if there is none."""
    now = m.now
    image = pe.image
    if pe.call_count > 0:
        call = pe.calls[0]
        frame = begin_task(m, pe, call.function, now + (m.task_launch if call.is_launch != 0 else start_cost(m, pe)))
        function = image.functions[call.function]
        for i in range(0, function.param_count):
            frame.slots[i] = call.args[i]
        pe.call_count -= 1
        for i in range(0, pe.call_count):
            copy_words(addr(pe.calls[i]), addr(pe.calls[i + 1]), words_of(Call))
        return 1
    if pe.due_count != 0:
        activate_due(m, pe)
    ready = 0
    for i in range(0, pe.input_count):
        queue = pe.inputs[i]
        if queue.count > 0 and addr(queue.op) == 0 and queue.watched == 0:
            arrival = head_cycle(queue)
            if arrival > now:
                wake_pe(m, pe, arrival)
            elif (pe.blocked_tasks >> queue.task_id) & 1 == 0:
                is_control = head_control(queue)
                if is_control != 0 and (head_word(queue) >> 16) & 63 == 31:
                    pop_input(m, pe, queue)
                    wake_pe(m, pe, now + 1)
                elif is_control != 0 or image.data_tasks[queue.task_id] >= 0:
                    if (ready >> queue.task_id) & 1 == 0:
                        pe.ready_queue[queue.task_id] = i
                    ready = ready | (1 << queue.task_id)
    chosen = pick_task(pe, ready)
    if chosen < 0:
        return 0
    if (ready >> chosen) & 1 != 0:
        begin_wavelet_task(m, pe, pe.inputs[pe.ready_queue[chosen]])
        return 1
    if pe.late_at == now and (pe.late_tasks >> chosen) & 1 != 0:
        pe.late_tasks = pe.late_tasks & ~(1 << chosen)
    else:
        pe.active_tasks = pe.active_tasks & ~(1 << chosen)
    if image.local_tasks[chosen] >= 0:
        begin_task(m, pe, image.local_tasks[chosen], now + start_cost(m, pe))
    else:
        dispatch_handlers(m, pe)
    return 1


def step_pe(m: "M", pe: "Pe") -> "None":
    """Execute one cycle."""
    now = m.now
    if pe.stepped == now:
        return
    pe.stepped = now
    m.work += 2
    if pe.flushing_outputs != 0:
        check_output_flush(m, pe)
    if pe.op_count > 0:
        issue(m, pe)
    while m.stop != STOP_BAIL:
        state = pe.state
        if state == IDLE:
            if pick(m, pe) == 0:
                return
        elif state == OPERATION:
            return
        elif state == POLL:
            if end_ready(m, pe.polled, pe.polled_is_dest) == 0:
                return
            release_poll(pe)
            pe.t = now
            pe.state = RUN
        else:
            if pe.t > now:
                wake_pe(m, pe, pe.t)
                return
            if state == RUN:
                resume(m, pe)
            elif state == START:
                start_operation(m, pe)
            else:
                finish_task(m, pe)
