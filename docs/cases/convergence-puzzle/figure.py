"""Draws figure.svg: the two losses as they were told, with the floors and first losses that explain them."""

import csv
import math
from pathlib import Path

HERE = Path(__file__).parent
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 920, 420, 56, 24, 290, 44
STEPS, LOWEST, HIGHEST = 100, math.log10(0.002), math.log10(30)
CURVES = (("nvidia.csv", "NVIDIA, NeMo", "#2a78d6"), ("amd.csv", "AMD, Primus", "#c2410c"))
LEVELS = (
    (math.log(50688), "ln 50,688: uniform over a padded GPT-2", "#2a78d6"),
    (math.log(4095) / 2048, "ln 4,095 / 2,048: learned to count", "#c2410c"),
)


def x(step: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * step / STEPS


def y(loss: float) -> float:
    share = (math.log10(loss) - LOWEST) / (HIGHEST - LOWEST)
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def text(at_x: float, at_y: float, words: str, color: str = "#555", anchor: str = "start") -> str:
    return f'<text x="{at_x:.1f}" y="{at_y:.1f}" fill="{color}" text-anchor="{anchor}">{words}</text>'


def main() -> None:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        "<title>Two losses over 100 steps, on a logarithmic scale, with the floors of their data</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for loss in (10, 1, 0.1, 0.01):
        parts.append(f'<path d="M{LEFT} {y(loss):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(text(LEFT - 8, y(loss) + 4, f"{loss:g}", anchor="end"))
    parts += [text(x(step), HEIGHT - BOTTOM + 20, str(step), anchor="middle") for step in range(0, STEPS + 1, 20)]
    parts.append(text(x(STEPS / 2), HEIGHT - 6, "step", anchor="middle"))
    parts.append(text(LEFT - 44, TOP - 8, "loss, nats per token"))
    for loss, words, color in LEVELS:
        parts.append(f'<path d="M{LEFT} {y(loss):.1f}H{WIDTH - RIGHT}" stroke="{color}" stroke-dasharray="4 4"/>')
        parts.append(text(WIDTH - RIGHT + 8, y(loss) + (14 if loss > 1 else 4), words, color))
    for file, name, color in CURVES:
        rows = [(float(row["step"]), float(row["loss"])) for row in csv.DictReader((HERE / file).open())]
        path = "L".join(f"{x(step):.1f} {y(loss):.1f}" for step, loss in rows)
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(step):.1f}" cy="{y(loss):.1f}" r="3" fill="{color}"/>' for step, loss in rows]
        parts.append(text(WIDTH - RIGHT + 8, y(rows[-1][1]) - 4, f"{name}: {rows[-1][1]:g}", color))
    (HERE / "figure.svg").write_text("\n".join([*parts, "</svg>\n"]))


if __name__ == "__main__":
    main()
