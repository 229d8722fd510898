"""Time: who is woken in which cycle, in the order of asking. Kernel language: parsed, never imported.

A slot per cycle holds three lists (host, routers, elements). Slots are found through a chained hash and ordered by a
binary heap of cycles. Pools have a fixed capacity; `run` grows nothing, it asks Python to (`grow`) before they are full.
"""
# ruff: noqa
# mypy: ignore-errors

HOST_PUMP = 0
HOST_FEEDER = 1
HOST_PYTHON = 2


def bail(m: "M", reason: "i64") -> "i64":
    """Only the reference executor can go on, or explain why nobody can."""
    if m.stop == STOP_NONE or m.stop != STOP_BAIL:
        m.stop = STOP_BAIL
        m.reason = reason
    return 0


def allocate(m: "M", words: "i64") -> "i64":
    """Zeroed memory that lives as long as the program, in whole cache lines; what is used together lies together."""
    place = m.arena_next
    following = place + 64 * ((words + 7) >> 3)
    if following > m.arena_end:
        bail(m, 4)
        return m.blank
    m.arena_next = following
    return place


def ring_size(depth: "i64") -> "i64":
    """Smallest power of two that holds `depth` wavelets, at least two."""
    size = 2
    while size < depth:
        size = size * 2
    return size


def new_node(m: "M", kind: "i64", what: "i64") -> "i64":
    index = m.node_free
    if index != 0:
        m.node_free = m.nodes[index].next
    elif m.node_next < m.node_capacity:
        index = m.node_next
        m.node_next = index + 1
    else:
        bail(m, 2)  # node 0 is scratch
    node = m.nodes[index]
    m.node_live += 1
    node.next = 0
    node.kind = kind
    node.what = what
    return index


def free_node(m: "M", index: "i64") -> "i64":
    """Give a node back; the one behind it in its list."""
    node = m.nodes[index]
    following = node.next
    node.next = m.node_free
    m.node_free = index
    m.node_live -= 1
    return following


def heap_push(m: "M", cycle: "i64", slot: "i64") -> "None":
    heap = m.heap
    slots = m.heap_slots
    at = m.heap_count
    m.heap_count = at + 1
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= cycle:
            break
        heap[at] = heap[parent]
        slots[at] = slots[parent]
        at = parent
    heap[at] = cycle
    slots[at] = slot


def heap_pop(m: "M") -> "i64":
    heap = m.heap
    slots = m.heap_slots
    top = slots[0]
    count = m.heap_count - 1
    m.heap_count = count
    cycle = heap[count]
    slot = slots[count]
    at = 0
    while 1:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if cycle <= heap[child]:
            break
        heap[at] = heap[child]
        slots[at] = slots[child]
        at = child
    heap[at] = cycle
    slots[at] = slot
    return top


def slot_of(m: "M", cycle: "i64") -> "Slot":
    """Slot of a cycle, created on first use."""
    bucket = cycle & m.bucket_mask
    index = m.buckets[bucket]
    while index != 0:
        found = m.slots[index]
        if found.cycle == cycle:
            return found
        index = found.chain
    index = m.slot_free
    if index != 0:
        m.slot_free = m.slots[index].chain
    elif m.slot_next < m.slot_capacity:
        index = m.slot_next
        m.slot_next = index + 1
    else:
        bail(m, 3)  # slot 0 is scratch
        return m.slots[0]
    slot = m.slots[index]
    m.slot_live += 1
    slot.cycle = cycle
    slot.chain = m.buckets[bucket]
    slot.host_first = 0
    slot.host_last = 0
    slot.router_first = 0
    slot.router_last = 0
    slot.pe_first = 0
    slot.pe_last = 0
    m.buckets[bucket] = index
    heap_push(m, cycle, index)
    return slot


def drop_slot(m: "M", index: "i64") -> "None":
    slot = m.slots[index]
    bucket = slot.cycle & m.bucket_mask
    at = m.buckets[bucket]
    if at == index:
        m.buckets[bucket] = slot.chain
    else:
        while at != 0:
            other = m.slots[at]
            if other.chain == index:
                other.chain = slot.chain
                break
            at = other.chain
    slot.chain = m.slot_free
    m.slot_free = index
    m.slot_live -= 1


def append_router(m: "M", slot: "Slot", index: "i64") -> "None":
    node = m.nodes[index]
    node.next = 0
    if slot.router_last != 0:
        last = m.nodes[slot.router_last]
        last.next = index
    else:
        slot.router_first = index
    slot.router_last = index


def append_element(m: "M", slot: "Slot", index: "i64") -> "None":
    node = m.nodes[index]
    node.next = 0
    if slot.pe_last != 0:
        last = m.nodes[slot.pe_last]
        last.next = index
    else:
        slot.pe_first = index
    slot.pe_last = index


def wake_router(m: "M", pe: "Pe", cycle: "i64") -> "None":
    if pe.router_scheduled != cycle:
        pe.router_scheduled = cycle
        slot = slot_of(m, cycle)
        append_router(m, slot, new_node(m, 0, addr(pe)))


def wake_pe(m: "M", pe: "Pe", cycle: "i64") -> "None":
    if pe.scheduled != cycle:
        pe.scheduled = cycle
        slot = slot_of(m, cycle)
        append_element(m, slot, new_node(m, 0, addr(pe)))


def call_host(m: "M", kind: "i64", what: "i64", cycle: "i64") -> "None":
    slot = slot_of(m, cycle)
    node = new_node(m, kind, what)
    if slot.host_last != 0:
        last = m.nodes[slot.host_last]
        last.next = node
    else:
        slot.host_first = node
    slot.host_last = node


def poke(m: "M") -> "None":
    """Have the host look, in the next cycle, whether commands may begin or have ended."""
    if m.host_poked == 0:
        m.host_poked = 1
        call_host(m, HOST_PUMP, 0, m.now + 1)
