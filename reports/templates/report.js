// Draws the list of attempts as far as it is in view, and an attempt's details when it is opened.
"use strict";
(() => {
  const ROW = 30; // height of a row in CSS pixels, as in the style sheet
  const SPARE = 8; // rows drawn beyond either end of the view
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("rows").textContent);
  const F = Object.fromEntries(data.fields.map((name, index) => [name, index]));
  const rows = data.rows;
  const grid = $("grid"), view = $("view"), space = $("space"), head = $("head");
  const number = new Intl.NumberFormat("en-US");
  const COLUMNS = [
    ["entry", "entry"], ["task", "task"], ["level", "level", "n"], ["attempt", "attempt", "n"], ["outcome", "outcome"],
    ["marks", "checks"], ["cycles", "cycles", "n"], ["reference_cycles", "reference", "n"], ["speedup", "speed-up", "n"],
    ["first_pass", "first pass", "n"], ["seconds", "seconds", "n"],
  ];
  const haystack = rows.map((r) =>
    [r[F.entry], r[F.task], `#${r[F.attempt]}`, r[F.outcome], r[F.reason], r[F.target]].join(" ").toLowerCase());
  let order = rows.map((_, index) => index);
  let sorted = null, down = false, selected = 0, drawn = "";

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  };

  const shown = (row, field) => {
    const value = row[F[field]];
    if (value === null) return "–";
    if (field === "speedup") return value.toFixed(3);
    if (field === "marks") return value.replace(/\+/g, "✓").replace(/-/g, "✗").replace(/\./g, "·");
    return typeof value === "number" && field !== "level" ? number.format(value) : String(value);
  };

  const rowElement = (index, position) => {
    const row = rows[index];
    const cells = COLUMNS.map(([field, , kind]) => {
      const cell = element("span", { class: kind || "", role: "gridcell" }, shown(row, field));
      if (field === "outcome") {
        cell.className = row[F.outcome] === "valid" ? "good" : "bad";
        cell.title = row[F.reason] || "";
      }
      if (field === "marks") {
        cell.className = "signs";
        cell.title = data.predicates.map((name, i) => name + " " +
          { "+": "holds", "-": "fails", ".": "was not evaluated" }[row[F.marks][i]]).join(", ");
      }
      return cell;
    });
    const made = element("div", { class: "row", role: "row", "aria-rowindex": position + 2 }, ...cells);
    made.setAttribute("aria-selected", String(position === selected));
    made.dataset.position = position;
    return made;
  };

  const draw = (force) => {
    const first = Math.max(0, Math.floor(grid.scrollTop / ROW) - SPARE);
    const last = Math.min(order.length, Math.ceil((grid.scrollTop + grid.clientHeight) / ROW) + SPARE);
    const state = `${first} ${last}`;
    if (!force && state === drawn) return;
    drawn = state;
    view.style.transform = `translateY(${first * ROW}px)`;
    view.replaceChildren(...order.slice(first, last).map((index, i) => rowElement(index, first + i)));
  };

  const refresh = () => {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const level = $("level").value, outcome = $("outcome").value, entry = $("entry").value;
    order = [];
    for (let i = 0; i < rows.length; i++) {
      const r = rows[i];
      if (level && String(r[F.level]) !== level) continue;
      if (outcome && r[F.outcome] !== outcome) continue;
      if (entry && r[F.entry] !== entry) continue;
      if (words.every((word) => haystack[i].includes(word))) order.push(i);
    }
    if (sorted !== null) {
      const at = F[sorted];
      // What has no value stays last in either direction.
      order.sort((a, b) => {
        const x = rows[a][at], y = rows[b][at];
        if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
        const sign = x < y ? -1 : x > y ? 1 : 0;
        return (down ? -sign : sign) || a - b;
      });
    }
    selected = 0;
    grid.scrollTop = 0;
    space.style.height = `${order.length * ROW}px`;
    grid.setAttribute("aria-rowcount", String(order.length + 1));
    $("count").textContent = `${number.format(order.length)} of ${number.format(rows.length)} attempts`;
    draw(true);
  };

  const select = (position) => {
    selected = Math.min(Math.max(position, 0), order.length - 1);
    const top = selected * ROW, bottom = top + 2 * ROW;
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (bottom > grid.scrollTop + grid.clientHeight) grid.scrollTop = bottom - grid.clientHeight;
    draw(true);
  };

  // ---------------------------------------------------------------------------------------- data blocks

  const blocks = new Map();
  const block = (name) => {
    if (!blocks.has(name)) blocks.set(name, read($(name)));
    return blocks.get(name);
  };
  const read = async (source) => {
    const text = source.textContent;
    if (source.type === "application/json") return JSON.parse(text);
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const BLOCK = 64;
  const item = async (kind, index) => (await block(`${kind}-${Math.floor(index / BLOCK)}`))[index % BLOCK];
  const text = (index) => item("text", index);

  // ---------------------------------------------------------------------------------------- differences

  // Longest common subsequence of lines between the common head and tail: candidates are short.
  const difference = (before, after) => {
    const split = (content) => content.replace(/\n$/, "").split("\n");
    const a = split(before), b = split(after);
    let head = 0, tail = 0;
    while (head < a.length && head < b.length && a[head] === b[head]) head++;
    while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
    const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail), lines = [];
    const context = (from, to) => { for (let i = Math.max(0, from); i < to; i++) lines.push(["same", `  ${a[i]}`]); };
    context(head - 3, head);
    if (x.length * y.length > 4e6) {
      x.forEach((line) => lines.push(["del", `- ${line}`]));
      y.forEach((line) => lines.push(["add", `+ ${line}`]));
    } else {
      const width = y.length + 1, table = new Uint32Array((x.length + 1) * width);
      for (let i = x.length - 1; i >= 0; i--)
        for (let j = y.length - 1; j >= 0; j--)
          table[i * width + j] = x[i] === y[j] ? table[(i + 1) * width + j + 1] + 1
            : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
      let i = 0, j = 0;
      while (i < x.length || j < y.length) {
        if (i < x.length && j < y.length && x[i] === y[j]) { lines.push(["same", `  ${x[i++]}`]); j++; }
        else if (j >= y.length || (i < x.length && table[(i + 1) * width + j] >= table[i * width + j + 1]))
          lines.push(["del", `- ${x[i++]}`]);
        else lines.push(["add", `+ ${y[j++]}`]);
      }
    }
    context(a.length - tail, Math.min(a.length, a.length - tail + 3));
    return lines;
  };

  const code = (content) => element("pre", {}, element("code", {}, content));
  const fold = (title, ...children) => element("details", {}, element("summary", {}, title), ...children);

  const fileViews = async (files, before) => {
    const made = [];
    for (const [name, index] of Object.entries(files)) {
      const now = await text(index);
      if (before && before[name] !== undefined && before[name] !== index) {
        const lines = difference(await text(before[name]), now).map(([kind, line]) => element("span", { class: kind }, line));
        made.push(element("h3", {}, "Change of ", element("code", {}, name)));
        made.push(element("pre", { class: "diff" }, element("code", {}, ...lines)));
      } else if (before && before[name] === index) {
        made.push(element("p", { class: "dim" }, `${name} is as before.`));
      }
      made.push(fold(`${name} in full`, code(now)));
    }
    return made;
  };

  const evaluationView = async (evaluation, count) => {
    const profiled = evaluation.action === "profile";
    const actions = { compile: "compile", run_visible: "run on visible inputs", profile: "profile" };
    const title = `Evaluation ${count}: ${actions[evaluation.action] || evaluation.action}`;
    const box = fold(title);
    box.firstChild.append(element("span", { class: `tag ${evaluation.ok ? "good" : "bad"}` }, evaluation.ok ? "ok" : "failed"),
      element("span", { class: "dim" }, ` ${evaluation.outcome.split("\n")[0].slice(0, 160)}` +
        (evaluation.cycles === null ? "" : ` · ${number.format(evaluation.cycles)} cycles`)));
    if (evaluation.diagnostics.length) {
      const found = await Promise.all(evaluation.diagnostics.map(text));
      box.append(element("h3", {}, "Diagnostics"), code(found.join("\n")));
    }
    if (evaluation.log !== null) box.append(element("h3", {}, profiled ? "Profile" : "Log"), code(await text(evaluation.log)));
    box.append(...await fileViews(evaluation.files, evaluation.before));
    return box;
  };

  const details = async (index) => {
    const row = rows[index], detail = await item("detail", index), made = [];
    const add = (...children) => made.push(...children);
    add(element("p", { class: row[F.outcome] === "valid" ? "good" : "bad" }, detail.reason || "valid"));
    add(element("p", { class: "dim" }, `${row[F.entry]} · level ${row[F.level]} · target ${row[F.target]} · model ${detail.model || "none"} · ` +
      `${row[F.evaluations]} evaluations · ${row[F.seconds]} s` + (detail.usage === null ? "" :
        ` · ${number.format(detail.usage.input_tokens + detail.usage.output_tokens)} tokens` +
        (detail.usage.cost_usd === null ? "" : ` · $${detail.usage.cost_usd.toFixed(4)}`)) +
      (detail.share === null ? "" : ` · ${Math.round(100 * detail.share)} % of the reference's distinctive text`)));
    if (detail.evidence.length) add(element("h3", {}, "Evidence of the verdict"));
    for (const [predicate, holds, lines] of detail.evidence) {
      const word = holds === null ? "was not evaluated" : holds ? "holds" : "fails";
      const kind = holds === null ? "none" : holds ? "good" : "bad";
      const found = await Promise.all(lines.map(text));
      add(element("div", {}, element("b", {}, predicate), " ", element("span", { class: kind }, word),
        element("ul", { class: "evidence" }, ...found.map((line) => element("li", {}, line)))));
    }
    if (detail.samples) {
      const table = element("table", { class: "facts" }, element("tr", {}, ...["input", "cycles", "reference"].map((name) => element("th", { class: "num" }, name))));
      detail.samples[0].forEach((cycles, i) => table.append(element("tr", {}, ...[i + 1, number.format(cycles), number.format(detail.samples[1][i])].map((cell) => element("td", { class: "num" }, String(cell))))));
      add(element("h3", {}, "Cycles by input"), table);
    }
    if (detail.notes.length) add(element("h3", {}, "Notes of the agent"), element("ul", { class: "evidence" }, ...detail.notes.map((note) => element("li", {}, note))));
    if (Object.keys(detail.files).length) add(element("h3", {}, detail.before ? "Candidate, against the attempt before" : "Candidate"), ...await fileViews(detail.files, detail.before));
    let count = 0;
    if (detail.evaluations.length) add(element("h3", {}, "Evaluations"));
    for (const evaluation of detail.evaluations) add(await evaluationView(evaluation, ++count));
    if (detail.events.length) {
      add(element("h3", {}, "Prompts and log of the agent"));
      for (const [name, index] of detail.events) add(fold(name, code(await text(index))));
    }
    for (const failure of detail.failures) add(element("p", { class: "dim" }, `An earlier try ended without a verdict ${failure}`));
    if (detail.commitments.length) add(element("p", { class: "dim" }, `Held-out seeds are committed to as ${detail.commitments.map((c) => `${c}…`).join(" ")}`));
    return made;
  };

  const title = (row) => row[F.attempt] === 1 ? row[F.task] : `${row[F.task]} #${row[F.attempt]}`;

  const open = async (position) => {
    if (position < 0 || position >= order.length) return;
    select(position);
    const index = order[position];
    $("panel-title").textContent = title(rows[index]);
    $("panel-body").replaceChildren(...await details(index));
    $("panel-body").scrollTop = 0;
    if (!$("panel").open) $("panel").showModal();
    history.replaceState(null, "", `#attempt-${index + 1}`);
  };

  // --------------------------------------------------------------------------------------------- events

  for (const [field, name, kind] of COLUMNS) {
    const button = element("button", { type: "button", class: kind || "" }, name);
    button.addEventListener("click", () => {
      if (sorted === field) down = !down; else { sorted = field; down = kind === "n" && field !== "level" && field !== "attempt"; }
      for (const other of head.children) other.removeAttribute("aria-sort");
      button.parentElement.setAttribute("aria-sort", down ? "descending" : "ascending");
      for (const other of head.querySelectorAll("button")) other.textContent = other.textContent.replace(/ [▲▼]$/, "");
      button.textContent += down ? " ▼" : " ▲";
      refresh();
    });
    head.append(element("div", { role: "columnheader", class: kind || "" }, button));
  }
  for (const [id, field] of [["level", "level"], ["outcome", "outcome"], ["entry", "entry"]]) {
    for (const value of [...new Set(rows.map((row) => row[F[field]]))].sort()) $(id).append(element("option", { value: String(value) }, String(value)));
    $(id).addEventListener("change", refresh);
  }
  $("search").addEventListener("input", refresh);
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); grid.focus(); }
  });
  grid.addEventListener("scroll", () => draw(false), { passive: true });
  grid.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) open(Number(row.dataset.position));
  });
  grid.addEventListener("keydown", (event) => {
    if (event.target !== grid) return;
    const page = Math.max(1, Math.floor(grid.clientHeight / ROW) - 2);
    const moves = { ArrowDown: selected + 1, ArrowUp: selected - 1, PageDown: selected + page, PageUp: selected - page, Home: 0, End: order.length - 1 };
    if (event.key in moves) { event.preventDefault(); select(moves[event.key]); }
    else if (event.key === "Enter") { event.preventDefault(); open(selected); }
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing && !$("panel").open) { event.preventDefault(); $("search").focus(); }
    if ($("panel").open && (event.key === "ArrowLeft" || event.key === "ArrowRight") && !typing)
      open(selected + (event.key === "ArrowRight" ? 1 : -1));
  });
  $("close").addEventListener("click", () => $("panel").close());
  $("panel").addEventListener("close", () => { history.replaceState(null, "", "#attempts"); grid.focus(); });
  new ResizeObserver(() => draw(false)).observe(grid);
  window.addEventListener("beforeprint", () => {
    const table = element("table", {}, element("tr", {}, ...COLUMNS.map(([, name, kind]) => element("th", { class: kind ? "num" : "" }, name))));
    for (const index of order) table.append(element("tr", {}, ...COLUMNS.map(([field, , kind]) => element("td", { class: kind ? "num" : "" }, shown(rows[index], field)))));
    $("printed").replaceChildren(table);
  });
  window.addEventListener("afterprint", () => $("printed").replaceChildren());
  refresh();
  const asked = /^#attempt-(\d+)$/.exec(location.hash);
  if (asked) open(order.indexOf(Number(asked[1]) - 1));
})();
