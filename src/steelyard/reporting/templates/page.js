// Groups of plots that share an x axis, the switches, the contents and paper.
(() => {
  const data = JSON.parse(document.getElementById("curves").textContent);
  const state = { all: false, tokens: false, logX: false, logY: false };

  // Plots with the same x axis share cursor and zoom.
  class Group {
    constructor(name) { Object.assign(this, { name, state, plots: [], cursor: null }); }
    get steps() { return this.name === "step"; }
    get tokens() { return this.steps && state.tokens; }
    get unit() { return this.tokens ? "tokens" : this.name; }
    get log() { return state.logX && this.everything.first > 0; }
    get whole() { return this.plots.some((plot) => plot.chart.dots.length); }
    get seconds() { return this.name.startsWith("s "); }

    // What the axis spans; of an axis in seconds without what came before the warm-up's end.
    measure() {
      let first = Infinity, last = -Infinity;
      for (const { steps } of this.plots) if (steps.length) { first = Math.min(first, steps[0]); last = Math.max(last, steps[steps.length - 1]); }
      if (this.steps && state.logX && first <= 0) first = Math.min(...this.plots.flatMap(({ steps }) => [...steps].filter((step) => step > 0).slice(0, 1)));
      const settled = this.seconds && !state.all ? Math.min(...this.plots.map((plot) => plot.chart.settled ?? Infinity)) : Infinity;
      if (settled > first && settled < last) first = settled;
      if (this.whole) { first -= 0.5; last += 0.5; }
      this.everything = { first, last: Math.max(last, first + 1) };
      this.view = { ...this.everything };
    }
    refer() { this.cursor = null; for (const plot of this.plots) plot.refer(); this.measure(); }
    draw() { for (const plot of this.plots) plot.draw(); }
    drawCursors() { for (const plot of this.plots) plot.drawCursor(); }
    setCursor(x, always) { if (x !== this.cursor || always) { this.cursor = x; this.drawCursors(); } }
    reset() { this.setView(this.everything); }
    setView({ first, last }) {
      const all = this.everything, least = Math.min(4, all.last - all.first);
      if (last - first < least) { const middle = (first + last) / 2; first = middle - least / 2; last = middle + least / 2; }
      if (first < all.first) { last = Math.min(all.last, last + all.first - first); first = all.first; }
      if (last > all.last) { first = Math.max(all.first, first + all.last - last); last = all.last; }
      this.view = { first, last };
      for (const { reset } of this.plots) reset.hidden = first <= all.first && last >= all.last;
      this.draw();
    }
  }

  const groups = new Map();
  for (const element of document.querySelectorAll("[data-chart]")) {
    const at = element.dataset.chart, chart = data[at];
    if (!groups.has(chart.x)) groups.set(chart.x, new Group(chart.x));
    const group = groups.get(chart.x);
    const plot = new Plot(element, chart, document.querySelector(`[data-readout="${at}"]`), group);
    plot.reset = document.querySelector(`[data-reset="${at}"]`);
    plot.reset.addEventListener("click", () => { group.reset(); element.focus(); }); // the button disappears, the focus must not
    group.plots.push(plot);
  }
  // A link of the contents leads below the switches, which stay at the top of the screen.
  const clear = () => {
    const sticky = switches && getComputedStyle(switches).position === "sticky" ? switches.offsetHeight : 0;
    document.documentElement.style.setProperty("--bar", `${sticky}px`);
  };
  const drawAll = () => { for (const group of groups.values()) group.draw(); };
  for (const group of groups.values()) group.measure();

  // A switch is shown if it changes something.
  const steps = groups.get("step");
  const useful = {
    all: data.some((chart) => chart.settled !== null),
    tokens: Boolean(steps) && steps.plots.every(({ chart }) => [...chart.lines, ...chart.spreads].every((part) => part.tokens)),
    logX: Boolean(steps), logY: Boolean(steps),
  };
  const switches = document.getElementById("switches");
  if (switches && Object.values(useful).some(Boolean)) {
    switches.hidden = false;
    for (const label of switches.querySelectorAll("[data-switch]")) {
      const name = label.dataset.switch, box = label.querySelector("input");
      label.hidden = !useful[name];
      box.checked = false;
      box.addEventListener("change", () => {
        state[name] = box.checked;
        for (const group of groups.values()) { group.refer(); group.setView(group.everything); }
      });
    }
  }

  let waiting = false;
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; clear(); drawAll(); }); } };
  const watcher = new ResizeObserver(redraw);
  for (const charts of document.querySelectorAll(".charts")) watcher.observe(charts);
  window.matchMedia("print").addEventListener("change", drawAll);
  clear();
  drawAll();

  // A link of the contents opens what it leads to.
  const open = () => {
    const part = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    if (part && part.tagName === "DETAILS") part.open = true;
  };
  window.addEventListener("hashchange", open);
  open();

  // Paper has what is open. With the appendix everything is opened, and closed again afterwards.
  const sheets = "main > details, main .part, main .evidence, main .numbers";
  let opened = [];
  const appendix = () => {
    document.documentElement.classList.add("appendix");
    opened = [...document.querySelectorAll(sheets)].filter((part) => !part.open);
    for (const part of opened) part.open = true;
    drawAll();
  };
  const button = document.getElementById("print-all");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => { appendix(); window.print(); });
  }
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("appendix");
    for (const part of opened) part.open = false;
    opened = [];
    drawAll();
  });
  window.addEventListener("beforeprint", drawAll);
  if (new URLSearchParams(location.search).has("appendix")) appendix();
})();
