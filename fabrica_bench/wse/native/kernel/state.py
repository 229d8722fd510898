"""State of the machine, as the kernel sees it. Kernel language (see `kernel_language`): parsed, never imported.

Names follow the reference simulator's (`router`, `pe`, `ports`, `queues`, `microthread`, `registers`), whose behaviour
this kernel repeats step by step. Cycles are absolute. Booleans are 0 or 1. -1 means "none" for ids.
"""
# ruff: noqa
# mypy: ignore-errors

MEMORY_BYTES = 49152
RUN_AHEAD = 65536
MAX_ELEMENTS = 1048576  # of one operation; more is a fault (`wse.dsd`)
COLORS = 24
CHANNELS = 104  # 24 colors x 4 directions + 8 output queues
PRINT_BYTES = 1024
MAX_OPS = 24
MAX_INPUTS = 40
MAX_CALLS = 40
MAX_SEGMENTS_PER_CALL = 4194304

NORTH = 1
SOUTH = 2
EAST = 4
WEST = 8
RAMP = 16

CONTROL = 1
ADVANCE_AFTER = 2

# why `run` gives control back
STOP_NONE = 0
STOP_BAIL = 1  # something only the reference executor can do or explain
STOP_IDLE = 2  # nobody has anything to do
STOP_HOST = 3  # a host action for Python is due
STOP_LAUNCH_DONE = 4  # the last PE called unblock_cmd_stream in the cycle just executed
STOP_BUDGET = 5  # the cycle limit is exceeded
STOP_CHUNK = 6  # time to look at the wall clock
STOP_UNTIL = 7  # the next event lies behind the end the caller asked for
STOP_GROW = 8  # a pool is nearly full

# states of a main thread
IDLE = 0
RUN = 1
START = 2
OPERATION = 3
POLL = 4
END = 5

# what a PE function returns
R_RETURN = 0
R_CALL = 1
R_YIELD = 2
R_STOP = 3

# kinds of DSDs
MEM1D = 1
MEM4D = 2
CIRCBUF = 3
FABIN = 4
FABOUT = 5

# kinds of operands and ends
K_NONE = 0
K_MEMORY = 1
K_SCALAR = 2
K_POINTER = 3
K_FABIN = 4
K_FABOUT = 5
K_FIFO = 6
# kinds of arguments in a site
A_DSD = 1
A_DSR = 2
A_FIFO = 3
A_SCALAR = 4
A_POINTER = 5

# element types
T_U16 = 0
T_I16 = 1
T_U32 = 2
T_HALF = 3
T_F32 = 4

# actions of a wake
W_ACTIVATE = 0
W_UNBLOCK = 1
W_TERMINATE = 2

# what a FIFO operation does that finds too little
F_WAIT = 0
F_TEST = 1
F_OTHER = 2
F_FAULT = 3


class Dsd:
    kind: "i64"
    rank: "i64"
    extents: "i64[4]"
    base: "i64"
    stride_count: "i64"
    strides: "i64[4]"
    wraparound: "i64"
    queue: "i64"
    color: "i64"
    control: "i64"
    advance_switch: "i64"
    control_transform: "i64"
    wavelet_index_offset: "i64"
    zero_first: "i64"
    zero_second: "i64"
    simd: "i64"
    priority: "i64"


DSD_WORDS = 23


class Config:
    is_async: "i64"
    has_done: "i64"
    done_action: "i64"
    done_is_thread: "i64"
    has_control: "i64"
    control_action: "i64"
    control_is_thread: "i64"
    has_index: "i64"
    ut_id: "i64"
    priority: "i64"


CONFIG_WORDS = 10


class Site:
    op: "i64"
    is_filter: "i64"
    is_move: "i64"
    is_reduction: "i64"
    sequential: "i64"
    source_count: "i64"
    dest_kind: "i64"
    dest_ref: "i64"
    dest_size: "i64"
    dest_type: "i64"
    source_kinds: "i64[3]"
    source_refs: "i64[3]"
    source_sizes: "i64[3]"
    source_types: "i64[3]"
    config: "Config[1]"
    width: "i64"
    dsr_load: "i64"
    dsr_gap: "i64"
    scalar_operand: "i64"
    launch: "i64"
    conflict: "i64"
    period: "i64"
    read_bytes: "i64"
    read_shared: "i64"
    write_bytes: "i64"
    stride_span: "i64"
    stride_8: "i64"
    stride_4: "i64"
    stride_7: "i64"
    scalar_dest: "f64"


class Dsr:
    valid: "i64"
    generation: "i64"
    save_address: "i64"
    done_id: "i64"
    control_id: "i64"
    config: "Config*"
    dsd: "Dsd[1]"


class Fn:
    address: "i64"
    frame_words: "i64"
    param_count: "i64"
    param_kinds: "i64[16]"


class Fifo:
    address: "i64"
    element_bytes: "i64"
    capacity: "i64"
    activate_push: "i64"
    activate_pop: "i64"
    empty_action: "i64"
    full_action: "i64"
    count: "i64"
    head: "i64"
    read_length: "i64"
    write_length: "i64"
    pop_needs: "i64"
    push_needs: "i64"


class Image:
    functions: "Fn*"
    function_count: "i64"
    local_tasks: "i64[64]"
    data_tasks: "i64[64]"
    control_tasks: "i64[128]"
    rotating: "i64[64]"
    rotating_limit: "i64[64]"
    teardown_handlers: "i64[32]"
    empty_count: "i64"
    empty_side: "i64[32]"
    empty_queue: "i64[32]"
    empty_handler: "i64[32]"
    stack_floor: "i64"
    dsr_count: "i64"
    control_stride: "i64"
    held_begin: "i64"  # the variables of a PE, see `Pe.held`
    held_words: "i64"


class Chan:
    # made on first use (`events.allocate`), with a ring of `mask + 1` wavelets of two words each: the cycle from which
    # on it may leave, and its payload | flags << 32 | color << 40
    owner: "Pe*"
    port: "i64"
    color: "i64"
    depth: "i64"
    mask: "i64"
    op: "Op*"
    head: "i64"
    count: "i64"
    fill: "i64"  # what a neighbor may see: the cycle in which a wavelet left << 16 | count; in one word
    feeder_waits: "i64"
    state: "Color*"  # of the color that all its wavelets have; null for what comes from the element
    queue_id: "i64"
    wavelets: "i64[4]"


class Color:
    # two cache lines that every wavelet needs
    exists: "i64"
    configured: "i64"
    current: "i64"
    teardown: "i64"
    pop_mode: "i64"
    ring: "i64"
    has_filter: "i64"
    has_sink: "i64"
    rx: "i64[4]"
    tx: "i64[4]"
    targets: "Chan*[4]"  # where the neighbors take it in, once it is known
    # the rest
    valid: "i64[4]"
    new_rx: "i64[4]"
    new_tx: "i64[4]"
    new_valid: "i64[4]"
    edges: "i64[4]"
    merges: "i64"  # received from several directions in some position
    arrivals: "i64[8]"  # by cycle: the cycle << 5 | directions
    filter_range: "i64"
    filter_sparse: "i64"
    count_data: "i64"
    count_control: "i64"
    filter_control: "i64"
    counter: "i64"
    limit: "i64"
    second_limit: "i64"
    max_counter: "i64"
    min_idx: "i64"
    max_idx: "i64"
    transparent: "i64"
    passed: "i64"
    dropped: "i64"
    sink_wanted: "i64"
    sink_next: "i64"
    sink_count: "i64"
    sink_capacity: "i64"
    sink_poke: "i64"
    sink_words: "ptr_i64"
    whole_lines: "align"


class InQ:
    # made on first use; a wavelet in the ring is the cycle of its arrival, and its payload | control << 32
    number: "i64"
    color: "i64"
    capacity: "i64"
    mask: "i64"
    head: "i64"
    count: "i64"
    watched: "i64"
    op: "Op*"
    task_id: "i64"
    router_waits: "i64"
    feeder: "Feeder*"
    table_offset: "i64"
    flushing: "i64"
    wavelets: "i64[4]"


class Feeder:
    pe: "Pe*"
    color: "i64"
    next: "i64"
    scheduled: "i64"
    head: "i64"
    count: "i64"
    words: "ptr_i64"


class End:
    kind: "i64"
    size: "i64"
    at: "i64"
    step: "i64"
    linear: "i64"
    position: "i64"
    total: "i64"
    zero: "i64"
    bits: "i64"
    queue: "InQ*"
    channel: "Chan*"
    color: "i64"
    flags: "i64"
    advance: "i64"
    transform: "i64"
    index: "i64"
    packed: "i64"
    has_half: "i64"
    half: "i64"
    fifo: "Fifo*"
    action: "i64"
    # the resolved operand
    length: "i64"
    has_dsd: "i64"
    generation: "i64"
    dsr: "Dsr*"
    dsd: "Dsd[1]"


class Op:
    in_use: "i64"
    serial: "i64"
    site: "Site*"
    is_async: "i64"
    infinite: "i64"
    count: "i64"
    remaining: "i64"
    setup: "i64"
    start: "i64"
    thread: "i64"
    done: "i64"
    stopped_early: "i64"
    priority: "i64"
    batch: "i64"
    config: "Config*"
    done_id: "i64"
    control_id: "i64"
    index: "i64"
    source_count: "i64"
    reduction: "i64"
    gates: "i64"
    has_input: "i64"
    dest: "End[1]"
    sources: "End[3]"


class Frame:
    function: "i64"
    resume: "i64"
    previous: "Frame*"
    stack: "i64"
    slots: "i64[4]"


FRAME_HEADER = 4


class Call:
    function: "i64"
    is_launch: "i64"
    args: "i64[16]"


class Pe:
    # router
    router_scheduled: "i64"
    router_stepped: "i64"
    active_count: "i64"
    switched: "i64"
    neighbors: "Pe*[4]"
    # colors that are swapped with their partner on the way in, by direction: a bit each
    swap_x: "i64"
    swap_y: "i64"
    meetings: "i64"
    active: "Chan*[104]"
    # element
    own_line: "align"
    scheduled: "i64"
    stepped: "i64"
    state: "i64"
    t: "i64"
    limit: "i64"
    op_count: "i64"
    issued: "i64"
    task_ended: "i64"
    last_op: "i64"
    switch_debt: "i64"
    free_from: "i64"
    main_had_slot: "i64"
    main_priority: "i64"
    blocked_threads: "i64"
    flushing_outputs: "i64"
    listening: "i64"
    input_count: "i64"
    active_tasks: "i64"
    late_tasks: "i64"
    late_at: "i64"
    due_count: "i64"
    due_id: "i64[32]"
    due_at: "i64[32]"
    blocked_tasks: "i64"
    high_tasks: "i64"
    last_task: "i64"
    pending: "Op*"
    polled: "End*"
    polled_is_dest: "i64"
    call_count: "i64"
    ops: "Op*[24]"
    # generated code
    memory: "ptr_u8"
    sp: "i64"
    stack_floor: "i64"
    machine: "M*"
    result: "i64"
    value: "i64"
    frame: "Frame*"
    frame_end: "i64"
    image: "Image*"
    frames: "Frame*"
    dsrs: "Dsr*"
    fifos: "Fifo*"
    x: "i64"
    y: "i64"
    values: "i64[16]"
    dsd_value: "Dsd[1]"
    # seldom used
    meeting_colors: "i64[8]"  # by cycle: the cycle << 24 | colors that arrive from several directions
    stream_ready: "i64"
    began: "i64"  # number of the function that the main thread began with
    teardown_pending: "i64"
    flushed_input: "i64"
    flushed_output: "i64"
    transform_mask: "i64"
    carry: "i64"
    counter_running: "i64"
    counter_start: "i64"
    counter_held: "i64"
    active_prng: "i64"
    prngs: "i64[4]"
    # evidence for those who judge a program's own time stamps; see `wse.evidence`
    first_read: "i64"
    first_value: "i64"
    last_read: "i64"
    last_value: "i64"
    released: "i64"
    ended: "i64"
    held: "ptr_i64"  # what its variables were at the last reading
    print_length: "i64"
    print_bytes: "ptr_u8"
    calls: "Call*"
    config_words: "i64"
    by_color: "i64[24]"
    output_colors: "i64[8]"
    colors: "Color*[24]"
    channels: "Chan*[96]"
    inputs: "InQ*[40]"
    outputs: "Chan*[8]"
    pool: "Op*[24]"
    ready_queue: "i64[64]"
    rotating_counters: "i64[64]"
    threads: "Op*[64]"
    whole_lines: "align"


class Message:
    kind: "i64"
    pe: "Pe*"
    port: "i64"
    color: "i64"
    cycle: "i64"
    word: "i64"
    flags: "i64"
    channel: "Chan*"


class Team:
    # each word that several cores write has a cache line of its own
    count: "i64"
    waiting: "i64"  # PEs whose release ends the launch
    thin: "i64"  # steps of a cycle below which lanes do not pay
    arrived: "align"
    arrivals: "i64"
    gate_line: "align"
    generation: "i64"
    lanes_line: "align"
    lanes: "M*[16]"
    whole_lines: "align"


class Node:
    next: "i64"
    kind: "i64"
    what: "i64"


class Slot:
    cycle: "i64"
    chain: "i64"
    host_first: "i64"
    host_last: "i64"
    router_first: "i64"
    router_last: "i64"
    pe_first: "i64"
    pe_last: "i64"


class M:
    now: "i64"
    stop: "i64"
    reason: "i64"
    arch_wse2: "i64"
    hop: "i64"
    ramp: "i64"
    buffer_depth: "i64"
    edge_room: "i64"
    max_cycles: "i64"
    serial: "i64"
    # costs the kernel itself needs
    task_dispatch: "i64"
    task_redispatch: "i64"
    task_wake: "i64"
    task_launch: "i64"
    task_end: "i64"
    dsd_launch: "i64"
    switch_quarters: "i64"
    main_alternates: "i64"
    input_extra: "i64"
    output_extra: "i64"
    implicit_depth: "i64"
    input_depths: "i64[16]"
    input_depth_count: "i64"
    output_depths: "i64[16]"
    output_depth_count: "i64"
    stream_in_interval: "i64"
    stream_out_interval: "i64"
    # half format
    half_values: "ptr_f64"
    half_bias: "i64"
    half_mantissa: "i64"
    half_top: "i64"
    half_quiet: "i64"
    lfsr: "ptr_i64"
    # what PEs get on first use
    arena_next: "i64"
    arena_end: "i64"
    blank: "i64"  # zeroes that stand for what does not exist
    served: "Chan*[104]"  # scratch of a router's step
    batch: "Pe*[16]"  # PEs about to be stepped
    # program
    pes: "Pe*"
    pe_count: "i64"
    # the part of the grid that this machine steps; see `lanes`
    first_pe: "i64"
    end_pe: "i64"
    team: "Team*"
    outbox: "Message*"
    outbox_count: "i64"
    next_cycle: "i64"
    next_host: "i64"
    verdict: "i64"
    # host side
    host_pending: "i64"
    host_poked: "i64"
    not_ready: "i64"
    launch_running: "i64"
    launch_done: "i64"
    host_item: "i64"
    host_what: "i64"
    in_cycle: "i64"
    current_slot: "i64"
    # events
    slots: "Slot*"
    slot_capacity: "i64"
    slot_free: "i64"
    slot_next: "i64"
    slot_live: "i64"
    buckets: "ptr_i64"
    bucket_mask: "i64"
    nodes: "Node*"
    node_capacity: "i64"
    node_free: "i64"
    node_next: "i64"
    node_live: "i64"
    reserve: "i64"
    heap: "ptr_i64"
    heap_slots: "ptr_i64"
    heap_count: "i64"
    # printed lines
    log: "ptr_i64"
    log_count: "i64"
    log_capacity: "i64"
    # statistics
    segments: "i64"
    router_steps: "i64"
    issues: "i64"
    wavelets: "i64"
    busy: "i64"
    work: "i64"
