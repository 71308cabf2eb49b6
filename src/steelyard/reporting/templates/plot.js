// One plot. Colors come from the style sheet, so that light, dark and print need no drawing of their own.
const MARGIN = { top: 10, right: 12, bottom: 35, left: 46 };
const SHADES = 6;

class Plot {
  constructor(element, chart, readout, group) {
    Object.assign(this, { element, chart, readout, group });
    this.many = new Set(chart.lines.map((line) => line.style)).size < chart.lines.length;
    this.svg = make("svg", { "aria-hidden": "true", focusable: "false" });
    element.append(this.svg);
    element.addEventListener("pointerdown", (event) => this.grab(event));
    element.addEventListener("pointermove", (event) => this.move(event));
    element.addEventListener("pointerup", (event) => this.release(event));
    element.addEventListener("pointercancel", () => { this.grabbed = null; group.draw(); });
    element.addEventListener("pointerleave", (event) => { if (!this.grabbed && event.pointerType === "mouse") { this.pointer = null; group.setCursor(null); } });
    element.addEventListener("focus", () => readout.setAttribute("aria-live", "polite"));
    element.addEventListener("blur", () => readout.removeAttribute("aria-live"));
    element.addEventListener("dblclick", () => group.reset());
    element.addEventListener("keydown", (event) => this.key(event));
    this.refer();
  }

  // Places on the x axis: steps, or tokens where that is asked and known.
  refer() {
    const scaled = (part) => ({ ...part, x: this.group.tokens ? part.x.map((x) => x * part.tokens) : part.x });
    this.lines = this.chart.lines.map(scaled);
    this.spreads = this.chart.spreads.map(scaled);
    const factors = new Set(this.chart.lines.map((line) => line.tokens));
    const factor = this.group.tokens ? (factors.size === 1 ? [...factors][0] : null) : 1;
    this.bands = factor === null ? [] : this.chart.bands.map((band) => ({ ...band, first: band.first * factor, last: band.last * factor }));
    this.settled = this.chart.settled === null || factor === null ? null : this.chart.settled * factor;
    this.lines.forEach((line, at) => {
      const by = this.group.tokens ? line.tokens : 1;
      line.broken = this.chart.lines[at].broken.map(([first, last]) => [first * by, last * by]);
    });
    const all = new Set(this.chart.dots.map((dot) => dot.x));
    for (const line of this.lines) for (const x of line.x) all.add(x);
    this.steps = Float64Array.from(all).sort();
  }

  clips(x) { return !this.group.state.all && this.settled !== null && x < this.settled; }

  // The range of the values in view: without the warm-up of a time axis, and with levels that do not squeeze the curves.
  range() {
    const { first, last } = this.group.view;
    const span = (skip) => {
      let low = Infinity, high = -Infinity;
      for (const line of this.lines) {
        const end = Math.min(line.x.length, indexOf(line.x, last) + 1);
        for (let at = Math.max(0, indexOf(line.x, first) - 1); at < end; at++) {
          const y = line.y[at];
          if (y === null || (skip && this.clips(line.x[at]))) continue;
          if (y < low) low = y;
          if (y > high) high = y;
        }
      }
      for (const dot of this.chart.dots) { low = Math.min(low, dot.y); high = Math.max(high, dot.y); }
      return { low, high };
    };
    let { low, high } = span(true);
    if (low > high) ({ low, high } = span(false));
    if (low > high) { low = 0; high = 1; }
    low = Math.max(low, -1e307); high = Math.min(high, 1e307);
    const log = this.group.state.logY && low > 0;
    const spread = high - low || Math.abs(high) * 0.1 || 1;
    const bounds = this.chart.zones.flatMap((zone) => [zone.low, zone.high]).filter((value) => value !== null);
    for (const value of [...this.chart.levels.map((level) => level.value), ...bounds]) {
      if (value < low && low - value <= 3 * spread && (!log || value > 0)) low = value;
      if (value > high && value - high <= 3 * spread) high = value;
    }
    const flat = high - low <= Math.max(Math.abs(high), Math.abs(low)) * 1e-9;
    if (log) {
      const room = flat ? 2 : (high / low) ** 0.05;
      return { low: low / room, high: high * room, log };
    }
    if (flat) { low -= spread / 2; high += spread / 2; return { low, high, log }; } // a flat curve is in the middle
    const room = (high - low) * 0.06;
    return { low: low >= 0 && low - room < 0 ? Math.min(low, 0) : low - room, high: high + room, log };
  }

  draw() {
    const box = this.element.getBoundingClientRect();
    if (!box.width) return;
    const width = Math.max(box.width, 120), height = Math.max(box.height, 80);
    const { first, last } = this.group.view;
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const range = this.range();
    this.top = MARGIN.top; this.bottom = height - MARGIN.bottom;
    this.y = new Scale(range.low, range.high, this.bottom, this.top, range.log);
    const rows = this.y.ticks(Math.max(2, (this.bottom - this.top) / 36)).filter(([value]) => value >= range.low && value <= range.high);
    Labels.measure();
    this.left = Math.max(MARGIN.left, 12 + Math.max(...rows.map(([, text]) => Labels.width(text))));
    this.right = width - MARGIN.right;
    this.labels = new Labels(this.svg, { left: this.left, right: this.right, top: this.top, bottom: this.bottom }, height);
    this.x = new Scale(first, last, this.left, this.right, this.group.log);
    this.drawGrounds();
    this.drawRows(rows);
    this.drawColumns();
    this.nameAxis();
    this.drawClip();
    for (const spread of this.spreads) this.drawSpread(spread);
    for (const level of this.chart.levels) this.drawLevel(level);
    for (const line of this.lines) this.drawLine(line);
    this.drawDots();
    this.lines.forEach((line, row) => this.drawBroken(line, row));
    this.nameClipped(range);
    this.nameLevels();
    this.nameDots();
    this.over = make("g", {}, this.svg);
    this.drawCursor();
  }

  drawGrounds() {
    for (const band of this.bands) {
      const from = Math.max(this.x.at(Math.max(band.first, this.x.low)), this.left), to = Math.min(this.x.at(band.last), this.right);
      if (to > from) make("rect", { x: from, y: this.top, width: to - from, height: this.bottom - this.top, class: band.style === null ? "band" : `band band-${band.style}` }, this.svg);
    }
    for (const zone of this.chart.zones) {
      const top = zone.high === null ? this.top : Math.max(this.y.at(zone.high), this.top);
      const bottom = zone.low === null ? this.bottom : Math.min(this.y.at(zone.low), this.bottom);
      if (bottom > top) make("rect", { x: this.left, y: top, width: this.right - this.left, height: bottom - top, class: "zone" }, this.svg);
    }
  }

  drawRows(rows) {
    for (const [value, text] of rows) {
      const y = this.y.at(value);
      make("line", { x1: this.left, x2: this.right, y1: y, y2: y, class: "grid" }, this.svg);
      make("text", { x: this.left - 7, y: y + 4, "text-anchor": "end", class: "axis" }, this.svg, text);
    }
  }

  // Tick texts of the x axis: each only if it does not touch the one before it.
  drawColumns() {
    const { names } = this.chart;
    const ticks = names.length ? names.map((name, at) => [at + 1, name]) : this.x.ticks(Math.max(2, (this.right - this.left) / 50));
    let end = -Infinity;
    for (const [value, digits] of ticks) {
      if (value < this.x.low || value > this.x.high || (this.group.whole && !Number.isInteger(value))) continue;
      const text = this.group.whole && !names.length ? value.toLocaleString("en-US") : digits;
      const x = this.x.at(value), width = Labels.width(text);
      const from = Math.min(Math.max(x - width / 2, this.left - 20), this.right + MARGIN.right - width);
      if (from < end + 8) continue;
      end = from + width;
      make("line", { x1: x, x2: x, y1: this.top, y2: this.bottom, class: "grid" }, this.svg);
      make("text", { x: from, y: this.bottom + 15, class: "axis x" }, this.svg, text);
    }
  }

  nameAxis() {
    make("text", { x: this.right, y: this.bottom + 30, "text-anchor": "end", class: "axis name" }, this.svg, this.group.unit);
  }

  drawClip() {
    const name = `clip-${this.element.dataset.chart}`;
    const box = make("clipPath", { id: name }, this.svg);
    make("rect", { x: this.left, y: this.top - 2, width: this.right - this.left, height: this.bottom - this.top + 4 }, box);
    this.clip = `url(#${name})`;
  }

  part(xs) {
    const { first, last } = this.group.view;
    return [Math.max(0, indexOf(xs, first) - 1), Math.min(xs.length, indexOf(xs, last) + 1)];
  }

  drawSpread(spread) {
    const [start, end] = this.part(spread.x);
    const edge = (values) => values.slice(start, end).map((y, at) => `${this.xAt(spread.x[start + at]).toFixed(1)} ${this.yAt(y).toFixed(1)}`);
    const around = [...edge(spread.high), ...edge(spread.low).reverse()];
    if (around.length) make("path", { d: `M${around.join("L")}Z`, class: `spread spread-${spread.style}`, "clip-path": this.clip }, this.svg);
  }

  xAt(x) { return this.x.at(this.x.log ? Math.max(x, this.x.low * 0.5) : x); }
  yAt(y) { return this.y.log && y <= 0 ? this.bottom + 50 : Math.min(Math.max(this.y.at(y), -1e5), 1e5); }

  drawLevel({ value }) {
    if (value < this.y.low || value > this.y.high) return;
    const y = this.yAt(value);
    make("line", { x1: this.left, x2: this.right, y1: y, y2: y, class: "level" }, this.svg);
    this.labels.levels.push(y);
  }

  // In full or in short where that covers nothing; whatever is not named in full in the plot is named in the legend.
  // A level out of sight is named at the edge beyond which it is.
  nameLevels() {
    this.explained = [];
    for (const level of [...this.chart.levels].sort((a, b) => b.value - a.value)) {
      const above = level.value > this.y.high, below = level.value < this.y.low, y = this.yAt(level.value);
      const heights = [0, 1, 2].flatMap((row) =>
        above ? [this.top + 11 + 4 * row] : below ? [this.bottom - 4 - 4 * row] : [y - 4 - 4 * row, y + 13 + 4 * row]);
      const line = above || below ? null : y, arrow = above ? "\u2191 " : below ? "\u2193 " : "", value = level.stated ? "" : ` ${number(level.value)}`;
      const full = `${level.label}${value}`;
      if (this.labels.clear(`${arrow}${full}`, heights, line, "level-name", below)) continue;
      if (level.short) this.labels.clear(`${arrow}${level.short}${value}`, heights, line, "level-name", below);
      this.explained.push(full);
    }
  }

  // Says that the warm-up leaves the plot, next to the name of the axis, where no curve is.
  nameClipped(range) {
    let low = Infinity, high = -Infinity;
    for (const line of this.lines)
      for (let at = 0; at < line.x.length && this.clips(line.x[at]); at++)
        if (line.y[at] !== null && line.x[at] >= this.group.view.first) { low = Math.min(low, line.y[at]); high = Math.max(high, line.y[at]); }
    const text = high > range.high ? `\u2191 warm-up: up to ${number(high)}` : low < range.low ? `\u2193 warm-up: down to ${number(low)}` : "";
    if (text) make("text", { x: this.left, y: this.bottom + 30, class: "clip-name" }, this.svg, text);
  }

  // Of every column of pixels the first, lowest, highest and last value, so that no spike is lost.
  drawLine(line) {
    const [start, end] = this.part(line.x);
    const path = [];
    let pen = false, column = null, low = 0, high = 0, last = 0, parts = 0, before = null;
    const flush = () => {
      if (column === null) return;
      this.labels.stroke(...(before ?? [column, last]), column, last);
      if (high > low) this.labels.stroke(column, low, column, high);
      before = [column, last];
      if (low !== last) path.push(`L${column} ${low.toFixed(1)}`);
      if (high !== low) path.push(`L${column} ${high.toFixed(1)}`);
      path.push(`L${column} ${last.toFixed(1)}`);
      column = null;
    };
    for (let at = start; at < end; at++) {
      if (line.y[at] === null || (this.x.log && line.x[at] <= 0)) { flush(); pen = false; before = null; continue; }
      const x = Math.round(this.xAt(line.x[at]) * 2) / 2, y = this.yAt(line.y[at]);
      if (!pen || x !== column) {
        flush();
        path.push(`${pen ? "L" : "M"}${x} ${y.toFixed(1)}`);
        if (!pen) parts += 1;
        pen = true; column = x; low = high = last = y;
      } else { low = Math.min(low, y); high = Math.max(high, y); last = y; }
    }
    flush();
    const style = `curve curve-${line.style} shade-${line.shade % SHADES}${line.style % 2 ? " dashed" : ""}${this.many ? " many" : ""}`;
    make("path", { d: path.join(""), class: style, "clip-path": this.clip }, this.svg);
    if ((end - start <= 60 && !this.many) || parts > 1)
      for (let at = start; at < end && end - start <= 400; at++)
        if (line.y[at] !== null && line.x[at] >= this.x.low && line.x[at] <= this.x.high)
          make("circle", { cx: this.xAt(line.x[at]), cy: this.yAt(line.y[at]), r: 1.8, class: `dot-${line.style}`, "clip-path": this.clip }, this.svg);
  }

  drawDots() {
    for (const dot of this.chart.dots) {
      if (dot.x < this.x.low || dot.x > this.x.high) continue;
      const cx = this.xAt(dot.x), cy = this.yAt(dot.y);
      make("circle", { cx, cy, r: this.chart.dots.length > 200 ? 2.5 : 4, class: `mark mark-${dot.tone}${dot.hollow ? " hollow" : ""}` }, this.svg);
      this.labels.taken.push({ x0: cx - 4, x1: cx + 4, y0: cy - 4, y1: cy + 4 });
    }
  }

  // Next to its dot; a name further away has a line to it, and one without room is left to the readout.
  nameDots() {
    for (const { x, y, name, short, named } of [...this.chart.dots].reverse()) { // a name is to the right of its dot
      if (!named || x < this.x.low || x > this.x.high) continue;
      const cx = this.xAt(x), cy = this.yAt(y), left = cx > this.right - 80;
      const place = this.labels.place(short || name, cx + (left ? -14 : 14), cy + 4, left ? "end" : "start", "mark-name", 80);
      if (!place) continue;
      const end = left ? place.x1 : place.x0 - 2, height = place.y1 - 7;
      if (Math.abs(height - cy) > 6 || Math.abs(end - cx) > 16) make("line", { x1: cx + (left ? -4 : 4), y1: cy, x2: end, y2: height, class: "leader" }, this.svg);
    }
  }

  // Where values were NaN or infinite: a mark at each beginning and a bar as long as it lasts, one row per curve.
  drawBroken(line, row) {
    const seen = line.broken.filter(([first, last]) => last >= this.x.low && first <= this.x.high);
    if (!seen.length) return;
    const y = this.top + (row % 4) * 13;
    let drawn = -Infinity;
    for (const [first, last] of seen) {
      const from = Math.max(this.xAt(first), this.left), to = Math.min(this.xAt(last), this.right);
      if (to - from > 1) make("line", { x1: from, x2: to, y1: y, y2: y, class: "broken-span" }, this.svg);
      if (from - drawn < 3) continue;
      drawn = from;
      make("path", { d: `M${from - 4} ${y}h8l-4 7z`, class: "broken" }, this.svg);
    }
    const x = Math.max(this.xAt(seen[0][0]), this.left);
    const left = x > (this.left + this.right) / 2;
    const run = this.lines.length > 1 ? `${line.label}: ` : "";
    this.labels.place(`${run}not finite at ${this.group.unit} ${seen[0][0].toLocaleString("en")}`, x + (left ? -7 : 7), y + 11, left ? "end" : "start", "broken-name");
  }

  nearest(xs, x) {
    if (!xs.length) return null;
    const after = Math.min(indexOf(xs, x), xs.length - 1);
    const before = Math.max(0, after - 1);
    return Math.abs(xs[before] - x) <= Math.abs(xs[after] - x) ? before : after;
  }

  // The value of a curve at the cursor, or the nearest one with its place.
  valueAt(line) {
    const { cursor } = this.group;
    if (line.broken.some(([first, last]) => cursor >= first && cursor <= last)) return { text: "not finite" };
    const at = this.nearest(line.x, cursor);
    if (at === null || cursor > line.x[line.x.length - 1] || cursor < line.x[0]) return { text: "-" };
    if (line.y[at] === null) return { text: "not recorded" };
    const place = line.x[at] === cursor ? "" : ` (at ${line.x[at].toLocaleString("en")})`;
    return { text: number(line.y[at]) + place, x: line.x[at], y: line.y[at] };
  }

  drawCursor() {
    if (!this.over) return;
    this.over.replaceChildren();
    if (this.grabbed && this.grabbed.to !== undefined) {
      const [from, to] = [this.grabbed.from, this.grabbed.to].sort((a, b) => a - b);
      make("rect", { x: from, y: this.top, width: to - from, height: this.bottom - this.top, class: "selection" }, this.over);
    }
    const { cursor } = this.group;
    if (cursor === null) {
      this.show(this.legend());
      this.readout.style.setProperty("--legend", "0px"); // as high as the legend, so that a cursor moves nothing
      this.readout.style.setProperty("--legend", `${this.readout.scrollHeight}px`);
      return;
    }
    const inside = cursor >= this.x.low && cursor <= this.x.high;
    if (inside) make("line", { x1: this.xAt(cursor), x2: this.xAt(cursor), y1: this.top, y2: this.bottom, class: "cursor" }, this.over);
    const values = this.lines.map((line) => ({ line, ...this.valueAt(line) }));
    for (const { line, x, y } of values)
      if (y !== undefined && inside) make("circle", { cx: this.xAt(x), cy: this.yAt(y), r: 3.2, class: `dot-${line.style}`, "clip-path": this.clip }, this.over);
    this.show([{ label: this.where(cursor) }, ...this.dotWords(cursor), ...this.valueWords(values)]);
  }

  where(cursor) {
    const name = this.chart.names[cursor - 1];
    return name === undefined ? `${this.group.unit} ${cursor.toLocaleString("en", { maximumFractionDigits: 0 })}` : name;
  }
  dotWords(cursor) {
    return this.chart.dots.filter((dot) => dot.x === cursor).map((dot) => ({ label: dot.name, value: number(dot.y) }));
  }

  // Each curve, or of a side with three runs and more their range and the run nearest to the pointer.
  valueWords(values) {
    if (this.chart.dots.length) return [];
    const words = [];
    for (const style of new Set(values.map(({ line }) => line.style))) {
      const own = values.filter(({ line }) => line.style === style);
      const known = own.filter(({ y }) => y !== undefined).sort((a, b) => a.y - b.y);
      if (own.length < 3 || !known.length) { words.push(...own.map(({ line, text }) => ({ line, label: line.label, value: text }))); continue; }
      const range = `${number(known[0].y)} to ${number(known[known.length - 1].y)} (${known.length} of ${own.length} runs)`;
      words.push({ line: { ...own[0].line, shade: 0 }, label: own[0].line.label.split("/")[0], value: range });
    }
    if (this.pointer != null && this.many) {
      const away = ({ y }) => Math.abs(this.yAt(y) - this.pointer);
      const [closest] = values.filter(({ y }) => y !== undefined).sort((a, b) => away(a) - away(b));
      if (closest) words.push({ line: closest.line, label: `nearest: ${closest.line.label}`, value: closest.text });
    }
    return words;
  }

  // Without a cursor: what is drawn. The runs of a side that has many are one entry.
  legend() {
    const words = [];
    for (const style of new Set(this.lines.map((line) => line.style))) {
      const own = this.lines.filter((line) => line.style === style);
      if (own.length < 3) words.push(...own.map((line) => ({ line, label: line.label })));
      else words.push({ line: own[0], label: `${own[0].label.split("/")[0]}: ${own.length} runs` });
    }
    for (const spread of this.spreads) words.push({ key: `key-spread spread-${spread.style}`, label: spread.label });
    for (const band of this.bands) words.push({ key: `key-band${band.style === null ? "" : ` band-${band.style}`}`, label: `${band.label} ${band.first.toLocaleString("en")} to ${band.last.toLocaleString("en")}` });
    for (const zone of this.chart.zones) words.push({ key: "key-zone", label: zone.label });
    for (const label of this.explained) words.push({ key: "key-level", label });
    for (const label of this.chart.notes) words.push({ label });
    const kinds = new Map(this.chart.dots.map((dot) => [dot.kind, dot]));
    for (const [label, { tone, hollow }] of kinds) if (label) words.push({ key: `key-dot ${tone}${hollow ? " hollow" : ""}`, label });
    return words;
  }

  show(words) {
    this.readout.replaceChildren(...words.map(({ line, key, label, value }) => {
      const span = document.createElement("span");
      if (line || key) {
        const sign = document.createElement("span");
        sign.className = key ?? `key key-${line.style} shade-${line.shade % SHADES}${line.style % 2 ? " dashed" : ""}`;
        span.append(sign);
      }
      span.append(label);
      if (value !== undefined) { const bold = document.createElement("b"); bold.textContent = value; span.append(" ", bold); }
      return span;
    }));
  }

  inside(event) {
    const box = this.element.getBoundingClientRect();
    this.pointer = event.clientY - box.top;
    return Math.min(Math.max(event.clientX - box.left, this.left), this.right);
  }
  grab(event) {
    if (event.button !== 0) return;
    this.grabbed = { from: this.inside(event) };
    this.group.setCursor(this.snapped(this.x.value(this.grabbed.from)));
    try { this.element.setPointerCapture(event.pointerId); } catch { /* the pointer is already gone */ }
  }
  move(event) {
    const x = this.inside(event);
    if (this.grabbed) this.grabbed.to = x;
    this.group.setCursor(this.snapped(this.x.value(x)), true);
  }
  release() {
    const { grabbed } = this;
    this.grabbed = null;
    if (!grabbed || grabbed.to === undefined || Math.abs(grabbed.to - grabbed.from) < 6) { this.group.drawCursors(); return; }
    const [first, last] = [this.x.value(grabbed.from), this.x.value(grabbed.to)].sort((a, b) => a - b);
    this.group.setView({ first, last });
  }
  snapped(x) {
    const at = this.nearest(this.steps, x);
    return at === null ? x : this.steps[at];
  }

  key(event) {
    const { group } = this, { view } = group;
    const middle = group.cursor ?? (view.first + view.last) / 2, width = view.last - view.first;
    const zoom = (by) => group.setView({ first: middle - (width * by) / 2, last: middle + (width * by) / 2 });
    const reset = () => { this.grabbed = null; group.reset(); };
    const actions = {
      ArrowLeft: () => this.step(-1, event.shiftKey), ArrowRight: () => this.step(1, event.shiftKey),
      Home: () => this.go(indexOf(this.steps, view.first)), End: () => this.go(indexOf(this.steps, view.last + 1e-9) - 1),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: reset, Escape: reset,
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.pointer = null;
    actions[event.key]();
  }
  go(index) {
    if (this.steps.length) this.group.setCursor(this.steps[Math.min(Math.max(index, 0), this.steps.length - 1)]);
  }
  step(by, far) {
    const { view, cursor } = this.group;
    const edge = by > 0 ? indexOf(this.steps, view.first) - 1 : indexOf(this.steps, view.last + 1e-9);
    this.go((cursor === null ? edge : this.nearest(this.steps, cursor)) + by * (far ? 10 : 1));
    const now = this.group.cursor;
    if (now !== null && (now < view.first || now > view.last)) {
      const half = (view.last - view.first) / 2;
      this.group.setView({ first: now - half, last: now + half });
    }
  }
}
