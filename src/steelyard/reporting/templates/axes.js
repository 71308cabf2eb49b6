"use strict";
// Numbers, ticks and scales.
const SVG = "http://www.w3.org/2000/svg";

const make = (name, attributes, parent, text) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
};

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

// Digits enough to tell neighboring ticks apart.
const tickText = (value, step, largest) => {
  if (Math.abs(value) < step * 1e-6) return "0";
  if (largest >= 1e7 || largest < 1e-4) {
    const digits = Math.ceil(Math.log10(Math.abs(value) / step) - 1e-9);
    return value.toExponential(Math.min(Math.max(digits, 0), 8));
  }
  const digits = Math.min(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), 12);
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
};

const linearTicks = (low, high, count) => {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough);
  const values = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) values.push(at * step);
  const largest = Math.max(...values.map(Math.abs));
  return values.map((value) => [value, tickText(value, step, largest)]);
};

// 1, 2, 5, 10 on a log axis; powers of ten alone on a long one.
const logTicks = (low, high, count) => {
  const values = [];
  const short = Math.log10(high / low) * 3 <= count + 2;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const times of short ? [1, 2, 5] : [1]) values.push(times * 10 ** power);
  const inside = values.filter((value) => value >= low * 0.999999 && value <= high * 1.000001);
  const every = Math.ceil(inside.length / (count + 1));
  return inside.filter((_, at) => at % every === 0).map((value) => [value, number(value)]);
};

// From values to pixels and back.
class Scale {
  constructor(low, high, from, to, log) {
    Object.assign(this, { low, high, from, to, log: log && low > 0 });
    this.bend = this.log ? Math.log10 : (value) => value;
    this.first = this.bend(low);
    this.per = (to - from) / (this.bend(high) - this.first || 1);
  }
  at(value) { return this.from + (this.bend(value) - this.first) * this.per; }
  value(pixel) {
    const bent = this.first + (pixel - this.from) / this.per;
    return this.log ? 10 ** bent : bent;
  }
  // At least two, since one tick gives no scale.
  ticks(count) {
    let ticks = this.log ? logTicks(this.low, this.high, count) : [];
    for (let more = count; ticks.length < 2 && more < count * 8; more *= 1.5) ticks = linearTicks(this.low, this.high, more);
    return ticks;
  }
}
