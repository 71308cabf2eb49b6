"use strict";
// Draws the curves of a report: every plot shares one x range and one cursor. Colours come from the style sheet, so that
// light, dark and print need no drawing of their own.
(() => {
  // Paper cannot be unfolded: what is folded on the screen is printed open.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("main > details:not([open])")];
    for (const one of folded) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of folded) one.open = false; });

  const data = JSON.parse(document.getElementById("curves").textContent);
  if (!data.length) return;
  const SVG = document.querySelector("svg").namespaceURI;
  const MARGIN = { top: 10, right: 12, bottom: 22, left: 58 };
  const LETTER = 6.4; // the width of a letter of an axis, about

  const make = (name, attributes, parent, text) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };

  const everything = (() => {
    let first = Infinity, last = -Infinity;
    for (const chart of data)
      for (const line of chart.lines)
        if (line.x.length) { first = Math.min(first, line.x[0]); last = Math.max(last, line.x[line.x.length - 1]); }
    return { first, last: Math.max(last, first + 1) };
  })();
  let view = { ...everything };
  let cursor = null;

  // Every step that some curve has, so that a cursor reaches the end of the longest run.
  const union = (lines) => {
    const all = new Set();
    for (const line of lines) for (const x of line.x) all.add(x);
    return Float64Array.from(all).sort();
  };
  const short = (text) => (text.length > 42 ? `${text.slice(0, 40)}…` : text);

  // The first index whose x is at least `at`.
  const indexOf = (xs, at) => {
    let low = 0, high = xs.length;
    while (low < high) { const middle = (low + high) >> 1; if (xs[middle] < at) low = middle + 1; else high = middle; }
    return low;
  };

  const number = (value) => {
    if (!Number.isFinite(value)) return "-";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(3);
    return value.toLocaleString("en", size >= 10000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 5 });
  };

  const ticks = (low, high, count) => {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    const found = [];
    for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at++) found.push(at * step);
    return { found, step };
  };

  // Digits enough to tell neighbouring ticks apart.
  const tickText = (value, step, largest) => {
    if (Math.abs(value) < step * 1e-6) return "0";
    if (largest >= 1e7 || largest < 1e-4) {
      const digits = Math.ceil(Math.log10(Math.abs(value) / step) - 1e-9);
      return value.toExponential(Math.min(Math.max(digits, 0), 8));
    }
    const digits = Math.min(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), 12);
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };

  class Plot {
    constructor(element, chart, readout) {
      Object.assign(this, { element, chart, readout, steps: union(chart.lines), margin: MARGIN.left });
      const styles = chart.lines.map((line) => line.style);
      this.many = styles.length > new Set(styles).size;
      this.svg = make("svg", { "aria-hidden": "true", focusable: "false" }, null);
      element.append(this.svg);
      element.addEventListener("pointerdown", (event) => this.grab(event));
      element.addEventListener("pointermove", (event) => this.move(event));
      element.addEventListener("pointerup", (event) => this.release(event));
      element.addEventListener("pointercancel", () => { this.grabbed = null; drawAll(); });
      element.addEventListener("pointerleave", (event) => { if (!this.grabbed && event.pointerType === "mouse") setCursor(null); });
      element.addEventListener("focus", () => readout.setAttribute("aria-live", "polite"));
      element.addEventListener("blur", () => readout.removeAttribute("aria-live"));
      element.addEventListener("dblclick", () => setView(everything));
      element.addEventListener("keydown", (event) => this.key(event));
    }

    // What is in view: the data's range, and a level only where it does not squeeze the curve flat.
    range() {
      let low = Infinity, high = -Infinity;
      for (const line of this.chart.lines) {
        const end = Math.min(line.x.length, indexOf(line.x, view.last) + 1);
        for (let at = Math.max(0, indexOf(line.x, view.first) - 1); at < end; at++) {
          const y = line.y[at];
          if (y !== null) { if (y < low) low = y; if (y > high) high = y; }
        }
      }
      if (low > high) { low = 0; high = 1; }
      low = Math.max(low, -1e307); high = Math.min(high, 1e307);
      const spread = high - low || Math.abs(high) * 0.1 || 1;
      for (const { value } of this.chart.levels) {
        if (value < low && low - value <= 3 * spread) low = value;
        if (value > high && value - high <= 3 * spread) high = value;
      }
      if (high - low < Math.abs(high) * 1e-9) { low -= spread / 2; high += spread / 2; }
      const room = (high - low) * 0.06;
      return { low: low >= 0 && low - room < 0 ? Math.min(low, 0) : low - room, high: high + room };
    }

    size() {
      const box = this.element.getBoundingClientRect();
      return { width: Math.max(box.width, 120), height: Math.max(box.height, 80) };
    }

    xOf(step) { return this.margin + ((step - view.first) / (view.last - view.first)) * this.inner.width; }
    yOf(value) { return MARGIN.top + (1 - (value - this.y.low) / (this.y.high - this.y.low)) * this.inner.height; }
    stepOf(x) {
      const part = (x - this.margin) / this.inner.width;
      return view.first + Math.min(1, Math.max(0, part)) * (view.last - view.first);
    }

    draw() {
      const { width, height } = this.size();
      this.inner = { width: 0, height: height - MARGIN.top - MARGIN.bottom };
      this.y = this.range();
      const rows = ticks(this.y.low, this.y.high, Math.max(2, this.inner.height / 45));
      const largest = Math.max(...rows.found.map(Math.abs));
      this.rows = rows.found.map((value) => [value, tickText(value, rows.step, largest)]);
      this.margin = Math.max(MARGIN.left, 14 + LETTER * Math.max(...this.rows.map(([, text]) => text.length)));
      this.inner.width = width - this.margin - MARGIN.right;
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.drawBands(); this.drawGrid(); this.drawClip(); this.drawSpreads(); this.drawLevels();
      this.chart.lines.forEach((line, at) => this.drawLine(line, at));
      this.over = make("g", {}, this.svg);
      this.drawCursor();
    }

    drawBands() {
      for (const band of this.chart.bands) {
        const from = Math.max(this.xOf(band.first), this.margin);
        const to = Math.min(this.xOf(band.last), this.margin + this.inner.width);
        if (to <= from) continue;
        const box = { x: from, y: MARGIN.top, width: to - from, height: this.inner.height, class: "band" };
        make("title", {}, make("rect", box, this.svg), `${band.label}: ${band.first} to ${band.last}`);
      }
    }

    drawGrid() {
      const bottom = MARGIN.top + this.inner.height, right = this.margin + this.inner.width;
      for (const [value, text] of this.rows) {
        const y = this.yOf(value);
        make("line", { x1: this.margin, x2: right, y1: y, y2: y, class: "grid" }, this.svg);
        make("text", { x: this.margin - 6, y: y + 4, "text-anchor": "end", class: "axis" }, this.svg, text);
      }
      make("text", { x: this.margin - 6, y: bottom + 15, "text-anchor": "end", class: "axis" }, this.svg, this.chart.x);
      const columns = ticks(view.first, view.last, Math.max(2, this.inner.width / 90));
      for (const value of columns.found.filter(Number.isInteger)) {
        const x = this.xOf(value);
        make("line", { x1: x, x2: x, y1: MARGIN.top, y2: bottom, class: "grid" }, this.svg);
        const anchor = x > right - 24 ? "end" : x < this.margin + 24 ? "start" : "middle";
        make("text", { x, y: bottom + 15, "text-anchor": anchor, class: "axis" }, this.svg, value.toLocaleString("en"));
      }
    }

    drawClip() {
      const name = `clip-${data.indexOf(this.chart)}`;
      const box = make("clipPath", { id: name }, this.svg);
      make("rect", { x: this.margin, y: 0, width: this.inner.width, height: MARGIN.top + this.inner.height }, box);
      this.clip = `url(#${name})`;
    }

    // From the lowest to the highest run of a side.
    drawSpreads() {
      for (const spread of this.chart.spreads) {
        const start = Math.max(0, indexOf(spread.x, view.first) - 1);
        const end = Math.min(spread.x.length, indexOf(spread.x, view.last) + 1);
        const edge = (values) => values.slice(start, end).map((y, at) => `${this.xOf(spread.x[start + at]).toFixed(1)} ${this.yOf(y).toFixed(1)}`);
        const around = [...edge(spread.high), ...edge(spread.low).reverse()];
        if (around.length) make("path", { d: `M${around.join("L")}Z`, class: `spread spread-${spread.style}`, "clip-path": this.clip }, this.svg);
      }
    }

    // A level out of sight is named at the edge it lies beyond.
    drawLevels() {
      const taken = [];
      const free = (y) => y > MARGIN.top && y < MARGIN.top + this.inner.height && !taken.some((one) => Math.abs(one - y) < 12);
      // The nearest free line; none is left where too many levels crowd, and those are in the numbers below.
      const place = (y) => { for (let off = 0; off < 60; off += 12) for (const at of [y + off, y - off]) if (free(at)) { taken.push(at); return at; } return null; };
      const right = this.margin + this.inner.width;
      const room = Math.floor((this.inner.width - 12) / 5.8);
      let last = 0; // names follow each other as their levels do
      for (const { label, value } of [...this.chart.levels].sort((a, b) => b.value - a.value)) {
        const above = value > this.y.high, below = value < this.y.low;
        let y = this.yOf(value);
        if (!above && !below) make("line", { x1: this.margin, x2: right, y1: y, y2: y, class: "level" }, this.svg);
        y = above ? MARGIN.top + 9 : below ? MARGIN.top + this.inner.height - 5 : y - 4;
        if (y < MARGIN.top + 9) y = this.yOf(value) + 12;
        const arrow = above ? "\u2191 " : below ? "\u2193 " : "";
        const side = below ? { x: this.margin + 6, "text-anchor": "start" } : { x: right - 4, "text-anchor": "end" };
        const figure = ` ${number(value)}`, line = place(below ? y : Math.max(y, last + 12));
        if (line !== null && !below) last = line;
        let name = `${arrow}${label}`;
        if (name.length + figure.length > room) name = `${name.slice(0, Math.max(room - figure.length - 1, 3))}…`;
        if (line !== null) make("text", { ...side, y: line, class: "level-name" }, this.svg, name + figure);
      }
    }

    // Of every column of pixels the first, lowest, highest and last value: no spike is lost here either.
    drawLine(line, at) {
      const start = Math.max(0, indexOf(line.x, view.first) - 1);
      const end = Math.min(line.x.length, indexOf(line.x, view.last) + 1);
      const path = [];
      let pen = false, column = null, low = 0, high = 0, last = 0;
      const flush = () => {
        if (column === null) return;
        if (low !== last) path.push(`L${column} ${low.toFixed(1)}`);
        if (high !== low) path.push(`L${column} ${high.toFixed(1)}`);
        path.push(`L${column} ${last.toFixed(1)}`);
        column = null;
      };
      let lonely = 0;
      for (let i = start; i < end; i++) {
        if (line.y[i] === null) { flush(); pen = false; continue; }
        const x = Math.round(this.xOf(line.x[i]) * 2) / 2, y = this.yOf(line.y[i]);
        if (!pen) { flush(); path.push(`M${x} ${y.toFixed(1)}`); pen = true; column = x; low = high = last = y; lonely += 1; continue; }
        if (x !== column) { flush(); path.push(`L${x} ${y.toFixed(1)}`); column = x; low = high = last = y; continue; }
        low = Math.min(low, y); high = Math.max(high, y); last = y;
      }
      flush();
      const style = `curve curve-${line.style}${line.style % 2 ? " dashed" : ""}${this.many ? " many" : ""}`;
      make("path", { d: path.join(""), class: style, "clip-path": this.clip }, this.svg);
      if ((end - start <= 60 && !this.many) || lonely > 1)
        for (let i = start; i < end && end - start <= 400; i++)
          if (line.y[i] !== null && line.x[i] >= view.first && line.x[i] <= view.last)
            make("circle", { cx: this.xOf(line.x[i]), cy: this.yOf(line.y[i]), r: 1.8, class: `dot-${line.style}` }, this.svg);
      this.drawBroken(line, at);
    }

    // Where values were NaN or infinite: a mark at each beginning, a bar as long as it lasts, one row a curve.
    drawBroken(line, row) {
      const right = this.margin + this.inner.width;
      const seen = line.broken.filter(([first, last]) => last >= view.first && first <= view.last);
      if (!seen.length) return;
      const y = MARGIN.top + (row % 4) * 13;
      let drawn = -Infinity;
      for (const [first, last] of seen) {
        const from = Math.max(this.xOf(first), this.margin), to = Math.min(this.xOf(last), right);
        if (to - from > 1) make("line", { x1: from, x2: to, y1: y, y2: y, class: "broken-span" }, this.svg);
        if (from - drawn < 3) continue;
        drawn = from;
        make("path", { d: `M${from - 4} ${y}h8l-4 7z`, class: "broken" }, this.svg);
      }
      const x = Math.max(this.xOf(seen[0][0]), this.margin);
      const anchor = x > this.margin + this.inner.width / 2 ? "end" : "start";
      const whose = this.chart.lines.length > 1 ? `${short(line.label)}: ` : "";
      const text = `${whose}not finite at step ${seen[0][0].toLocaleString("en")}`;
      make("text", { x: x + (anchor === "end" ? -7 : 7), y: y + 9, "text-anchor": anchor, class: "broken-name" }, this.svg, text);
    }

    nearest(xs, step) {
      if (!xs.length) return null;
      const after = Math.min(indexOf(xs, step), xs.length - 1);
      const before = Math.max(0, after - 1);
      return Math.abs(xs[before] - step) <= Math.abs(xs[after] - step) ? before : after;
    }

    // What a curve says at the cursor: its own value there, or the nearest one drawn with the step it is of.
    valueAt(line) {
      if (line.broken.some(([first, last]) => cursor >= first && cursor <= last)) return { text: "not finite" };
      const i = this.nearest(line.x, cursor);
      if (i === null || cursor > line.x[line.x.length - 1] || cursor < line.x[0]) return { text: "-" };
      if (line.y[i] === null) return { text: "not given" };
      const at = line.x[i] === cursor ? "" : ` (step ${line.x[i].toLocaleString("en")})`;
      return { text: number(line.y[i]) + at, x: line.x[i], y: line.y[i] };
    }

    drawCursor() {
      this.over.replaceChildren();
      if (this.grabbed && this.grabbed.to !== undefined) {
        const [from, to] = [this.grabbed.from, this.grabbed.to].sort((a, b) => a - b);
        make("rect", { x: from, y: MARGIN.top, width: to - from, height: this.inner.height, class: "selection" }, this.over);
      }
      const words = [];
      if (cursor !== null) {
        const x = this.xOf(cursor), inside = cursor >= view.first && cursor <= view.last;
        if (inside) make("line", { x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + this.inner.height, class: "cursor" }, this.over);
        words.push([null, `${this.chart.x} ${Math.round(cursor).toLocaleString("en")}`]);
        this.chart.lines.forEach((line) => {
          const { text, x: step, y } = this.valueAt(line);
          if (y !== undefined && inside) make("circle", { cx: this.xOf(step), cy: this.yOf(y), r: 3.2, class: `dot-${line.style}` }, this.over);
          words.push([line.style, line.label, text]);
        });
      } else {
        words.push(...this.legend());
        for (const spread of this.chart.spreads) words.push([`spread-${spread.style}`, spread.label]);
        for (const band of this.chart.bands) words.push(["band", `${band.label} ${band.first.toLocaleString("en")} to ${band.last.toLocaleString("en")}`]);
      }
      this.say(words);
    }

    // The runs of a side that has many are one entry: their curves share colour and dashes.
    legend() {
      const sides = new Map();
      for (const { style, label } of this.chart.lines) sides.set(style, [...(sides.get(style) ?? []), label]);
      return [...sides].flatMap(([style, labels]) =>
        labels.length < 3 ? labels.map((label) => [style, label]) : [[style, `${labels[0].split(" ")[0]}, ${labels.length} runs`]]);
    }

    say(words) {
      this.readout.replaceChildren(...words.map(([style, label, value]) => {
        const span = document.createElement("span");
        if (style !== null) {
          const key = document.createElement("span");
          key.className = style === "band" ? "key-band" : String(style).startsWith("spread") ? `key-spread ${style}` : `key key-${style}${style % 2 ? " dashed" : ""}`;
          span.append(key);
        }
        span.append(label);
        if (value !== undefined) { const bold = document.createElement("b"); bold.textContent = value; span.append(" ", bold); }
        return span;
      }));
    }

    at(event) { return event.clientX - this.element.getBoundingClientRect().left; }
    grab(event) {
      if (event.button !== 0) return;
      this.grabbed = { from: this.at(event) };
      setCursor(this.snapped(this.stepOf(this.grabbed.from)));
      try { this.element.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
    }
    move(event) {
      const x = this.at(event);
      if (this.grabbed) { this.grabbed.to = Math.min(Math.max(x, this.margin), this.margin + this.inner.width); }
      setCursor(this.snapped(this.stepOf(x)));
    }
    release(event) {
      const grabbed = this.grabbed;
      this.grabbed = null;
      if (!grabbed || grabbed.to === undefined || Math.abs(grabbed.to - grabbed.from) < 6) { drawCursors(); return; }
      const [first, last] = [this.stepOf(grabbed.from), this.stepOf(grabbed.to)].sort((a, b) => a - b);
      setView({ first, last });
    }
    snapped(step) {
      const i = this.nearest(this.steps, step);
      return i === null ? step : this.steps[i];
    }

    key(event) {
      const middle = cursor ?? (view.first + view.last) / 2;
      const width = view.last - view.first;
      const zoom = (by) => setView({ first: middle - (width * by) / 2, last: middle + (width * by) / 2 });
      const reset = () => { this.grabbed = null; setView(everything); };
      const actions = {
        ArrowLeft: () => this.step(-1, event.shiftKey), ArrowRight: () => this.step(1, event.shiftKey),
        Home: () => this.go(indexOf(this.steps, view.first)), End: () => this.go(indexOf(this.steps, view.last + 1e-9) - 1),
        "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: reset, Escape: reset,
      };
      if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[event.key]();
    }
    go(index) {
      if (this.steps.length) setCursor(this.steps[Math.min(Math.max(index, 0), this.steps.length - 1)]);
    }
    step(by, far) {
      const edge = by > 0 ? indexOf(this.steps, view.first) - 1 : indexOf(this.steps, view.last + 1e-9);
      const now = cursor === null ? edge : this.nearest(this.steps, cursor);
      this.go(now + by * (far ? 10 : 1));
      if (cursor !== null && (cursor < view.first || cursor > view.last)) {
        const half = (view.last - view.first) / 2;
        setView({ first: cursor - half, last: cursor + half });
      }
    }
  }

  const plots = [...document.querySelectorAll("[data-chart]")].map((element) => {
    const at = Number(element.dataset.chart);
    return new Plot(element, data[at], document.querySelector(`[data-readout="${at}"]`));
  });
  const resets = [...document.querySelectorAll("[data-reset]")];

  function drawAll() { for (const plot of plots) plot.draw(); }
  function drawCursors() { for (const plot of plots) plot.drawCursor(); }
  function setCursor(step) { if (step !== cursor || plots.some((plot) => plot.grabbed)) { cursor = step; drawCursors(); } }
  function setView({ first, last }) {
    const least = Math.min(4, everything.last - everything.first);
    if (last - first < least) { const middle = (first + last) / 2; first = middle - least / 2; last = middle + least / 2; }
    if (first < everything.first) { last = Math.min(everything.last, last + everything.first - first); first = everything.first; }
    if (last > everything.last) { first = Math.max(everything.first, first + everything.last - last); last = everything.last; }
    view = { first, last };
    const zoomed = first > everything.first || last < everything.last;
    for (const button of resets) button.hidden = !zoomed;
    drawAll();
  }
  for (const button of resets)
    button.addEventListener("click", () => {
      setView(everything);
      button.closest("figure").querySelector(".plot").focus(); // the button goes, and the focus must not go with it
    });

  let waiting = false;
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; drawAll(); }); } };
  new ResizeObserver(redraw).observe(document.querySelector(".charts"));
  window.addEventListener("beforeprint", drawAll);
  window.matchMedia("print").addEventListener("change", drawAll);
  drawAll();
})();
