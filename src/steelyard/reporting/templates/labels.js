// Texts of one plot: none covers another, and those that can choose their place cover no curve and no dotted line.
const CELL = 3;

class Labels {
  constructor(svg, box, height) {
    Object.assign(this, { svg, box, taken: [], levels: [] });
    this.columns = Math.ceil(box.right / CELL) + 1;
    this.ink = new Uint8Array(this.columns * (Math.ceil(height / CELL) + 1));
  }
  // The font of the texts, which is smaller on paper.
  static measure() {
    Labels.ruler ??= document.createElement("canvas").getContext("2d");
    Labels.ruler.font = `${window.matchMedia("print").matches ? 9 : 11}px ${getComputedStyle(document.body).fontFamily}`;
  }
  static width(text) { return Labels.ruler.measureText(text).width * 1.04 + 2; }

  // A piece of a curve, which texts should leave visible.
  stroke(x0, y0, x1, y1) {
    const { left, right, top, bottom } = this.box;
    const pieces = Math.min(Math.ceil(Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0)) / 2), 4000) || 1;
    for (let at = 0; at <= pieces; at++) {
      const x = x0 + ((x1 - x0) * at) / pieces, y = y0 + ((y1 - y0) * at) / pieces;
      if (x >= left && x <= right && y >= top && y <= bottom) this.ink[Math.floor(y / CELL) * this.columns + Math.floor(x / CELL)] = 1;
    }
  }
  inked({ x0, x1, y0, y1 }) {
    for (let row = Math.floor(y0 / CELL); row <= Math.floor(y1 / CELL); row++)
      for (let column = Math.floor(x0 / CELL); column <= Math.floor(x1 / CELL); column++) if (this.ink[row * this.columns + column]) return true;
    return false;
  }
  free({ x0, x1, y0, y1 }) { return !this.taken.some((other) => x0 < other.x1 && x1 > other.x0 && y0 < other.y1 && y1 > other.y0); }
  inside({ y0, y1 }) { return y0 >= this.box.top && y1 <= this.box.bottom; }
  clean(place) {
    if (!this.inside(place) || !this.free(place) || this.inked(place)) return false;
    return !this.levels.some((y) => y > place.y0 + 1 && y < place.y1 - 1);
  }
  around(x0, y, width) { return { x0, x1: x0 + width, y0: y - 11, y1: y + 3 }; }
  put(text, place, style) {
    this.taken.push(place);
    make("text", { x: place.x0, y: place.y1 - 3, class: style }, this.svg, text);
    return place;
  }

  // Whether nothing is between a text and the dotted line that it names.
  next(place, line) {
    const [y0, y1] = line > place.y1 ? [place.y1, line - 2] : [line + 2, place.y0];
    return !this.levels.some((y) => y > y0 - 1 && y < y1 + 1 && Math.abs(y - line) > 0.5) && (y1 <= y0 || !this.inked({ ...place, y0, y1 }));
  }

  // At the first clean height next to its line, from the right end to the left; null without one.
  clear(text, heights, line, style, leftFirst = false) {
    const width = Labels.width(text), room = this.box.right - this.box.left - width - 8;
    if (room < 0) return null;
    for (const y of heights)
      for (let at = 0; at <= 12; at++) {
        const share = leftFirst ? at / 12 : 1 - at / 12;
        const place = this.around(this.box.left + 4 + room * share, y, width);
        if (this.clean(place) && (line === null || this.next(place, line))) return this.put(text, place, style);
      }
    return null;
  }

  // At the place or the nearest height that is free, preferably of curves too; null without room.
  place(text, x, y, anchor, style, reach = Infinity) {
    const room = this.box.right - this.box.left - 8;
    while (text.length > 4 && Labels.width(text) > room) text = `${text.slice(0, -2).trimEnd()}\u2026`;
    const width = Labels.width(text);
    let x0 = anchor === "end" ? x - width : anchor === "middle" ? x - width / 2 : x;
    x0 = Math.min(Math.max(x0, this.box.left + 2), this.box.right - width - 2);
    for (const fits of [(place) => this.clean(place), (place) => this.inside(place) && this.free(place)])
      for (let off = 0; off <= Math.min(reach, this.box.bottom - this.box.top); off += 3)
        for (const at of off ? [y + off, y - off] : [y]) {
          const place = this.around(x0, at, width);
          if (fits(place)) return this.put(text, place, style);
        }
    return null;
  }
}
