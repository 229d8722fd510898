"""Lanes: several cores that each step a part of a grid. Kernel language: parsed, never imported.

A lane is a machine (`M`) of its own, with its own events and its own memory, for a run of PEs in the program's order. The
lanes of a team go through the cycles together. Each cycle has two meetings (`meet`):

    all lanes have said when they have something to do; each takes the same decision about the next cycle
        routers of the cycle; what they do to PEs of other lanes is posted in the outbox
    all routers have been stepped
        posted wavelets and wake-up calls are taken by the lane whose PEs they concern; then elements of the cycle

Nothing depends on the order in which the PEs of a cycle are visited (see `wse.router`), so neither the number of lanes
nor their speed changes a result. Of another lane's state a router reads one word, `Chan.fill`: room is judged by the
count at the start of the cycle, which this word gives whether or not the wavelet that leaves in this cycle has left.
"""
# ruff: noqa
# mypy: ignore-errors

POST_PUT = 1
POST_WAKE = 2
POST_HELD = 3

NEVER = 4611686018427387904
NOT_READY = 1099511627776  # more than PEs can count down
SPINS = 400  # looks before the core is offered to others
TRIAL = 256  # cycles after which the work for each is judged

GO_ON = 0
ASK_BAIL = 1
ASK_SERIAL = 2  # something that only a single lane does
ASK_THIN = 4  # too little to do in a cycle for several lanes
ASK_CHUNK = 8


def is_foreign(m: "M", pe: "Pe") -> "i64":
    """The PE belongs to another lane."""
    return addr(pe) < m.first_pe or addr(pe) >= m.end_pe


def foreign_target(state: "Color", neighbor: "Pe", index: "i64", color: "i64") -> "Chan":
    """Input buffer of another lane's PE, if it exists already; its owner makes it when the first wavelet is taken."""
    target = state.targets[index]
    if addr(target) == 0:
        port = opposite(index)
        swaps = neighbor.swap_x if port >= 2 else neighbor.swap_y
        if (swaps >> (color ^ 1)) & 1 != 0:
            color = color ^ 1
        target = neighbor.channels[color * 4 + port]
        state.targets[index] = target
    return target


def post(m: "M", kind: "i64", pe: "Pe") -> "Message":
    message = m.outbox[m.outbox_count]
    m.outbox_count += 1
    message.kind = kind
    message.pe = pe
    return message


def post_put(m: "M", pe: "Pe", port: "i64", color: "i64", cycle: "i64", word: "i64", flags: "i64") -> "None":
    """A wavelet for another lane's PE."""
    message = post(m, POST_PUT, pe)
    message.port = port
    message.color = color
    message.cycle = cycle
    message.word = word
    message.flags = flags


def post_wake(m: "M", pe: "Pe", cycle: "i64") -> "None":
    """Another lane's router may find room in `cycle`."""
    message = post(m, POST_WAKE, pe)
    message.cycle = cycle


def post_held(m: "M", pe: "Pe", channel: "Chan") -> "None":
    """This lane's router found no room in another lane's buffer, which may get some in this cycle still."""
    message = post(m, POST_HELD, pe)
    message.channel = channel


def take_posts(m: "M") -> "None":
    """After all routers have been stepped."""
    team = m.team
    for i in range(0, m.outbox_count):
        message = m.outbox[i]
        if message.kind == POST_HELD:
            if message.channel.fill >> 16 == m.now:
                wake_router(m, message.pe, m.now + 1)
            else:
                message.channel.feeder_waits = 1
    for lane in range(0, team.count):
        other = team.lanes[lane]
        if addr(other) != addr(m):
            for i in range(0, other.outbox_count):
                message = other.outbox[i]
                if message.kind != POST_HELD and is_foreign(m, message.pe) == 0:
                    if message.kind == POST_PUT:
                        target = input_channel(m, message.pe, message.port, message.color)
                        put(m, target, message.cycle, message.word, message.flags, target.color)
                    else:
                        wake_router(m, message.pe, message.cycle)


def meet(team: "Team") -> "None":
    """Wait until all lanes are here. What a lane wrote before is visible to all afterwards."""
    generation = atomic_load(place(team.generation))
    if atomic_add(place(team.arrivals), 1) + 1 == team.count:
        atomic_store(place(team.arrivals), 0)
        atomic_store(place(team.generation), generation + 1)
        return
    looks = 0
    while atomic_load(place(team.generation)) == generation:
        looks += 1
        if looks > SPINS:
            looks = 0
            fb_yield()


def announce(m: "M", work: "i64") -> "None":
    """Say when this lane has something to do next, and whether it has to stop."""
    m.next_cycle = NEVER
    m.next_host = NEVER
    m.verdict = GO_ON
    if m.heap_count > 0:
        m.next_cycle = m.heap[0]
        slot = m.slots[m.heap_slots[0]]
        if slot.host_first != 0:
            m.next_host = m.next_cycle
    if m.stop == STOP_BAIL:
        m.verdict = ASK_BAIL
    elif m.node_capacity - m.node_live < m.reserve or m.slot_capacity - m.slot_live < m.reserve:
        m.verdict = ASK_SERIAL
    elif m.work > work:
        m.verdict = ASK_CHUNK


def agree(m: "M", cycles: "i64") -> "i64":
    """What all lanes do next; `next_cycle` is the cycle then. `cycles`: how many they have executed."""
    team = m.team
    verdict = GO_ON
    released = 0
    work = 0
    now = NEVER
    host = NEVER
    for lane in range(0, team.count):
        other = team.lanes[lane]
        verdict = verdict | other.verdict
        released += NOT_READY - other.not_ready
        work += other.work
        now = least(now, other.next_cycle)
        host = least(host, other.next_host)
    if released == team.waiting or host <= now or now == NEVER or now > m.max_cycles:
        verdict = verdict | ASK_SERIAL
    if cycles >= TRIAL and work < team.thin * cycles:
        verdict = verdict | ASK_THIN
    m.now = m.now if verdict != GO_ON else now
    return verdict


def run_lane(m: "M", work: "i64") -> "i64":
    """Execute cycles together with the other lanes; why they stopped, which is the same for all. Called by one thread
    for each lane. `work`: how much a lane does before a look at the clock."""
    m.stop = STOP_NONE
    m.work = 0
    cycles = 0
    while 1:
        announce(m, work)
        meet(m.team)
        verdict = agree(m, cycles)
        if verdict != GO_ON:
            meet(m.team)
            return verdict
        m.outbox_count = 0
        index = 0
        if m.next_cycle == m.now:
            index = heap_pop(m)
            step_routers(m, m.slots[index])
        meet(m.team)
        if m.stop != STOP_BAIL:
            take_posts(m)
        if index != 0:
            if m.stop != STOP_BAIL:
                step_elements(m, m.slots[index])
            drop_slot(m, index)
        cycles += 1
    return GO_ON


# ------------------------------------------------------------------------------------------ events change hands


def share_list(m: "M", slot: "Slot", index: "i64", routers: "i64") -> "None":
    """Give the nodes of a list, taken out of a slot, to the machines of their PEs."""
    while index != 0:
        what = m.nodes[index].what
        into = cast(Pe, what).machine
        following = m.nodes[index].next
        target = slot
        given = index
        if addr(into) != addr(m):
            target = slot_of(into, slot.cycle)
            given = new_node(into, 0, what)
            free_node(m, index)
        if routers != 0:
            append_router(into, target, given)
        else:
            append_element(into, target, given)
        index = following


def share_slot(m: "M", slot: "Slot") -> "None":
    """Give the nodes of a slot to the machines of their PEs."""
    routers = slot.router_first
    slot.router_first = 0
    slot.router_last = 0
    share_list(m, slot, routers, 1)
    elements = slot.pe_first
    slot.pe_first = 0
    slot.pe_last = 0
    share_list(m, slot, elements, 0)


def share_events(m: "M") -> "None":
    """Give all events to the machines of their PEs. Slots that get empty stay: another machine has that cycle too."""
    for i in range(0, m.heap_count):
        share_slot(m, m.slots[m.heap_slots[i]])


def return_events(m: "M") -> "None":
    """Give all events to the machines of their PEs, of which none is `m` any more."""
    while m.heap_count > 0:
        index = heap_pop(m)
        share_slot(m, m.slots[index])
        drop_slot(m, index)


def all_released(m: "M") -> "None":
    """The last PE has called unblock_cmd_stream (see `unblock_cmd_stream`)."""
    m.launch_running = 0
    m.launch_done = 1
    poke(m)
