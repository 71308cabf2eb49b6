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
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { top: 10, right: 12, bottom: 22, left: 58 };
  const CURVES = 5;

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
  const tickText = (value, step) => {
    if (Math.abs(value) >= 1e7) return value.toExponential(1);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };

  class Plot {
    constructor(element, chart, readout) {
      Object.assign(this, { element, chart, readout });
      this.svg = make("svg", { "aria-hidden": "true", focusable: "false" }, null);
      element.append(this.svg);
      element.addEventListener("pointerdown", (event) => this.grab(event));
      element.addEventListener("pointermove", (event) => this.move(event));
      element.addEventListener("pointerup", (event) => this.release(event));
      element.addEventListener("pointercancel", () => { this.grabbed = null; drawAll(); });
      element.addEventListener("pointerleave", () => { if (!this.grabbed) { setCursor(null); } });
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

    xOf(step) { return MARGIN.left + ((step - view.first) / (view.last - view.first)) * this.inner.width; }
    yOf(value) { return MARGIN.top + (1 - (value - this.y.low) / (this.y.high - this.y.low)) * this.inner.height; }
    stepOf(x) {
      const part = (x - MARGIN.left) / this.inner.width;
      return view.first + Math.min(1, Math.max(0, part)) * (view.last - view.first);
    }

    draw() {
      const { width, height } = this.size();
      this.inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
      this.y = this.range();
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.drawBands(); this.drawGrid(); this.drawLevels();
      this.chart.lines.forEach((line, at) => this.drawLine(line, at));
      this.over = make("g", {}, this.svg);
      this.drawCursor();
    }

    drawBands() {
      for (const band of this.chart.bands) {
        const from = Math.max(this.xOf(band.first), MARGIN.left);
        const to = Math.min(this.xOf(band.last), MARGIN.left + this.inner.width);
        if (to <= from) continue;
        const box = { x: from, y: MARGIN.top, width: to - from, height: this.inner.height, class: "band" };
        make("title", {}, make("rect", box, this.svg), `${band.label}: ${band.first} to ${band.last}`);
      }
    }

    drawGrid() {
      const bottom = MARGIN.top + this.inner.height, right = MARGIN.left + this.inner.width;
      const rows = ticks(this.y.low, this.y.high, Math.max(2, this.inner.height / 45));
      for (const value of rows.found) {
        const y = this.yOf(value);
        make("line", { x1: MARGIN.left, x2: right, y1: y, y2: y, class: "grid" }, this.svg);
        make("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end", class: "axis" }, this.svg, tickText(value, rows.step));
      }
      make("text", { x: MARGIN.left - 6, y: bottom + 15, "text-anchor": "end", class: "axis" }, this.svg, this.chart.x);
      const columns = ticks(view.first, view.last, Math.max(2, this.inner.width / 90));
      for (const value of columns.found.filter(Number.isInteger)) {
        const x = this.xOf(value);
        make("line", { x1: x, x2: x, y1: MARGIN.top, y2: bottom, class: "grid" }, this.svg);
        const anchor = x > right - 24 ? "end" : x < MARGIN.left + 24 ? "start" : "middle";
        make("text", { x, y: bottom + 15, "text-anchor": anchor, class: "axis" }, this.svg, value.toLocaleString("en"));
      }
    }

    // A level out of sight is named at the edge it lies beyond.
    drawLevels() {
      const taken = [];
      const place = (y) => { while (taken.some((one) => Math.abs(one - y) < 12)) y += 12; taken.push(y); return y; };
      const right = MARGIN.left + this.inner.width;
      for (const { label, value } of this.chart.levels) {
        const above = value > this.y.high, below = value < this.y.low;
        let y = this.yOf(value);
        if (!above && !below) make("line", { x1: MARGIN.left, x2: right, y1: y, y2: y, class: "level" }, this.svg);
        y = above ? MARGIN.top + 9 : below ? MARGIN.top + this.inner.height - 5 : y - 4;
        if (y < MARGIN.top + 9) y = this.yOf(value) + 12;
        const arrow = above ? "\u2191 " : below ? "\u2193 " : "";
        const side = below ? { x: MARGIN.left + 6, "text-anchor": "start" } : { x: right - 4, "text-anchor": "end" };
        make("text", { ...side, y: place(y), class: "level-name" }, this.svg, `${arrow}${label} ${number(value)}`);
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
      const clip = `clip-${data.indexOf(this.chart)}`;
      if (at === 0) {
        const box = make("clipPath", { id: clip }, this.svg);
        make("rect", { x: MARGIN.left, y: 0, width: this.inner.width, height: MARGIN.top + this.inner.height }, box);
      }
      const style = `curve curve-${at % CURVES}${at % 2 ? " dashed" : ""}`;
      make("path", { d: path.join(""), class: style, "clip-path": `url(#${clip})` }, this.svg);
      if (end - start <= 60 || lonely > 1)
        for (let i = start; i < end && end - start <= 400; i++)
          if (line.y[i] !== null && line.x[i] >= view.first && line.x[i] <= view.last)
            make("circle", { cx: this.xOf(line.x[i]), cy: this.yOf(line.y[i]), r: 1.8, class: `dot-${at % CURVES}` }, this.svg);
      this.drawBroken(line);
    }

    drawBroken(line) {
      const seen = line.broken.filter((step) => step >= view.first && step <= view.last);
      if (!seen.length) return;
      let last = -Infinity;
      for (const step of seen) {
        const x = this.xOf(step);
        if (x - last < 3) continue;
        last = x;
        make("path", { d: `M${x - 4} ${MARGIN.top}h8l-4 7z`, class: "broken" }, this.svg);
      }
      const x = this.xOf(seen[0]);
      const anchor = x > MARGIN.left + this.inner.width / 2 ? "end" : "start";
      make("text", { x: x + (anchor === "end" ? -7 : 7), y: MARGIN.top + 8, "text-anchor": anchor, class: "broken-name" }, this.svg, `not finite from step ${seen[0].toLocaleString("en")}`);
    }

    nearest(line, step) {
      if (!line.x.length) return null;
      const after = Math.min(indexOf(line.x, step), line.x.length - 1);
      const before = Math.max(0, after - 1);
      return Math.abs(line.x[before] - step) <= Math.abs(line.x[after] - step) ? before : after;
    }

    drawCursor() {
      this.over.replaceChildren();
      if (this.grabbed && this.grabbed.to !== undefined) {
        const [from, to] = [this.grabbed.from, this.grabbed.to].sort((a, b) => a - b);
        make("rect", { x: from, y: MARGIN.top, width: to - from, height: this.inner.height, class: "selection" }, this.over);
      }
      const words = [];
      if (cursor !== null && cursor >= view.first && cursor <= view.last) {
        const x = this.xOf(cursor);
        make("line", { x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + this.inner.height, class: "cursor" }, this.over);
        words.push([null, `${this.chart.x} ${Math.round(cursor).toLocaleString("en")}`]);
        this.chart.lines.forEach((line, at) => {
          const i = this.nearest(line, cursor);
          if (i === null) return;
          const y = line.y[i];
          if (y !== null) make("circle", { cx: this.xOf(line.x[i]), cy: this.yOf(y), r: 3.2, class: `dot-${at % CURVES}` }, this.over);
          words.push([at, line.label, y === null ? (line.broken.includes(line.x[i]) ? "not finite" : "not given") : number(y)]);
        });
      } else {
        this.chart.lines.forEach((line, at) => words.push([at, line.label]));
        for (const band of this.chart.bands) words.push(["band", `${band.label} ${band.first.toLocaleString("en")} to ${band.last.toLocaleString("en")}`]);
      }
      this.say(words);
    }

    say(words) {
      this.readout.replaceChildren(...words.map(([at, label, value]) => {
        const span = document.createElement("span");
        if (at !== null) {
          const key = document.createElement("span");
          key.className = at === "band" ? "key-band" : `key key-${at % CURVES}${at % 2 ? " dashed" : ""}`;
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
      try { this.element.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
    }
    move(event) {
      const x = this.at(event);
      if (this.grabbed) { this.grabbed.to = Math.min(Math.max(x, MARGIN.left), MARGIN.left + this.inner.width); }
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
      const line = this.chart.lines.find((one) => one.x.length);
      const i = line ? this.nearest(line, step) : null;
      return i === null ? step : line.x[i];
    }

    key(event) {
      const line = this.chart.lines.find((one) => one.x.length);
      const middle = cursor ?? (view.first + view.last) / 2;
      const width = view.last - view.first;
      const actions = {
        ArrowLeft: () => this.step(line, -1, event.shiftKey), ArrowRight: () => this.step(line, 1, event.shiftKey),
        Home: () => setCursor(this.snapped(view.first)), End: () => setCursor(this.snapped(view.last)),
        "+": () => setView({ first: middle - width / 4, last: middle + width / 4 }),
        "=": () => setView({ first: middle - width / 4, last: middle + width / 4 }),
        "-": () => setView({ first: middle - width, last: middle + width }),
        0: () => setView(everything), Escape: () => setView(everything),
      };
      if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[event.key]();
    }
    step(line, by, far) {
      if (!line) return;
      const now = cursor === null ? (by > 0 ? -1 : line.x.length) : this.nearest(line, cursor);
      const next = Math.min(Math.max(now + by * (far ? 10 : 1), 0), line.x.length - 1);
      setCursor(line.x[next]);
      if (cursor < view.first || cursor > view.last) {
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
  for (const button of resets) button.addEventListener("click", () => setView(everything));

  let waiting = false;
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; drawAll(); }); } };
  new ResizeObserver(redraw).observe(document.querySelector(".charts"));
  window.addEventListener("beforeprint", drawAll);
  window.matchMedia("print").addEventListener("change", drawAll);
  drawAll();
})();
