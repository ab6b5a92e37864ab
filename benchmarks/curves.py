"""Curves over the hours of a day, as an SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 880, 330, 60, 46, 40
_COLORS = ("#9aa5b1", "#d64545", "#e9b949", "#2680c2", "#3f9142")
_INK, _GRID = "#1f2933", "#e4e7eb"


def draw(title: str, unit: str, hours: float, curves: Mapping[str, Sequence[float]], full: float) -> str:
    """Draw them, each evenly over the hours; ``full`` is a line that none can pass for long."""
    top = 1.05 * max(full, *(max(own) for own in curves.values()))
    right, base = _WIDTH - 20, _HEIGHT - _BOTTOM

    def across(part: float) -> float:
        return _LEFT + (right - _LEFT) * part

    def up(value: float) -> float:
        return base - (base - _TOP) * value / top

    box = f"0 0 {_WIDTH} {_HEIGHT}"
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": box, "font-family": "sans-serif"}
    svg = ElementTree.Element("svg", {**attributes, "role": "img", "aria-labelledby": "title"})
    ElementTree.SubElement(svg, "title", id="title").text = title
    _add(svg, "rect", width=_WIDTH, height=_HEIGHT, fill="#ffffff")
    for hour in range(0, int(hours) + 1, max(1, int(hours) // 12)):
        _add(svg, "line", x1=across(hour / hours), x2=across(hour / hours), y1=_TOP, y2=base, stroke=_GRID)
        _text(svg, across(hour / hours), base + 18, f"{hour}:00", "middle")
    _add(svg, "line", x1=_LEFT, x2=right, y1=base, y2=base, stroke=_INK)
    _add(svg, "line", x1=_LEFT, x2=right, y1=up(full), y2=up(full), stroke=_INK, stroke_dasharray="4 4")
    _text(svg, _LEFT - 6, up(full) + 4, f"{full:,.0f}", "end")
    _text(svg, _LEFT - 6, base + 4, "0", "end")
    _text(svg, _LEFT, 18, title, "start", bold=True)
    place = float(_LEFT)
    for (name, values), color in zip(curves.items(), _COLORS):
        # A point in five is as fine as it can be seen.
        few = list(values)[:: max(1, len(values) // 300)]
        points = " ".join(f"{across(at / (len(few) - 1)):.1f},{up(own):.1f}" for at, own in enumerate(few))
        _add(svg, "polyline", points=points, fill="none", stroke=color, stroke_width=2)
        _add(svg, "rect", x=place, y=28, width=18, height=4, fill=color)
        _text(svg, place + 24, 34, name, "start")
        place += 40 + 7 * len(name)
    _text(svg, right, 34, unit, "end")
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def _add(parent: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    texts = {
        name.replace("_", "-"): f"{value:.1f}" if isinstance(value, float) else str(value)
        for name, value in attributes.items()
    }
    return ElementTree.SubElement(parent, tag, texts)


def _text(
    parent: ElementTree.Element, x: float, y: float, text: str, anchor: str, bold: bool = False
) -> None:
    weight = {"font_weight": "bold"} if bold else {}
    _add(parent, "text", x=x, y=y, font_size=12, text_anchor=anchor, fill=_INK, **weight).text = text
