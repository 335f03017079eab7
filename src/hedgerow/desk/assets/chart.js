// A learning curve as SVG: points with intervals, joined by a line.
import { draw, count, percent } from "./dom.js";

const WIDE = 720;
const NARROW = 380; // on a phone: a drawing that is scaled down has no readable figures
const HEIGHT = 300;
const EDGE = { left: 52, right: 16, top: 14, bottom: 42 };

// points: {x, y, low, high, title}; x and y are what the axes are called.
export function drawCurve(points, { x, y }) {
  const width = innerWidth < 760 ? NARROW : WIDE;
  const most = Math.max(...points.map((one) => one.x)) || 1;
  const low = Math.max(0, Math.floor(10 * Math.min(...points.map((one) => one.low ?? one.y))) / 10);
  const high = Math.min(1, Math.ceil(10 * Math.max(...points.map((one) => one.high ?? one.y))) / 10);
  const span = high - low || 1;
  const across = (value) => EDGE.left + (value / most) * (width - EDGE.left - EDGE.right);
  const up = (value) => HEIGHT - EDGE.bottom - ((value - low) / span) * (HEIGHT - EDGE.top - EDGE.bottom);
  const steps = Math.round(span * 10) > 5 ? 0.2 : 0.1;
  const ticks = [];
  for (let at = low; at <= high + 1e-9; at += steps) ticks.push(Math.round(at * 100) / 100);
  const line = points.map((one, place) => `${place ? "L" : "M"}${across(one.x)} ${up(one.y)}`).join("");
  const band = points.every((one) => one.low !== null)
    ? [...points.map((one) => `${across(one.x)} ${up(one.high)}`), ...points.toReversed().map((one) => `${across(one.x)} ${up(one.low)}`)]
    : [];
  return draw(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart", role: "img", "aria-label": `${y} by ${x}; the table below has the figures` },
    ticks.map((at) => [
      draw("line", { x1: EDGE.left, x2: width - EDGE.right, y1: up(at), y2: up(at), class: "grid" }),
      draw("text", { x: EDGE.left - 8, y: up(at) + 4, "text-anchor": "end", text: percent(at) }),
    ]).flat(),
    findSteps(most).map((at) => draw("text", { x: across(at), y: HEIGHT - EDGE.bottom + 18, "text-anchor": at > 0.95 * most ? "end" : "middle", text: count(at) })),
    draw("text", { x: (width + EDGE.left) / 2, y: HEIGHT - 6, "text-anchor": "middle", text: x }),
    band.length ? [draw("polygon", { points: band.join(" "), class: "band" })] : [],
    draw("path", { d: line, class: "line" }),
    points.map((one) => [
      one.low === null ? [] : [draw("line", { x1: across(one.x), x2: across(one.x), y1: up(one.low), y2: up(one.high), class: "whisker" })],
      draw("circle", { cx: across(one.x), cy: up(one.y), r: 4.5, class: "point" }, draw("title", { text: one.title })),
    ].flat()).flat(),
  );
}

// Round numbers from 0 to `most`, at most five or so.
function findSteps(most) {
  const power = 10 ** Math.floor(Math.log10(most / 2));
  const step = Math.max(1, power * [1, 2, 5, 10].find((one) => most / (one * power) <= 5));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}
