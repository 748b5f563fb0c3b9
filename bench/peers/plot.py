"""Plots as SVG text: bars of ratios with their intervals, and lines on logarithmic axes."""
import math

COLOURS = ["#2f6fb2", "#d1762b", "#3c9a5f", "#a94f8e", "#7a7a7a"]


def page(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


def text(x, y, s, anchor="start", extra=""):
    s = str(s).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{s}</text>'


def line(x1, y1, x2, y2, colour="#ccc", width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def ratios(title, rows, series):
    """rows: [(name, {series: (low, middle, high)})]; a bar each from 1, a whisker for the interval; the axis is logarithmic."""
    left, right, top, band = 150, 40, 50, 9 * len(series) + 8
    width, height = 900, top + band * len(rows) + 40
    values = [v for _, r in rows for v in r.values()]
    low = min([0.5] + [v[0] for v in values]) * 0.95
    high = max([2.0] + [v[2] for v in values]) * 1.05
    at = lambda v: left + (width - left - right) * math.log(v / low) / math.log(high / low)
    out = [text(left, 20, title, extra='font-size="14"')]
    for i, s in enumerate(series):
        out.append(f'<rect x="{left + 130 * i}" y="28" width="10" height="10" fill="{COLOURS[i]}"/>' + text(left + 130 * i + 14, 37, s))
    for tick in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32):
        if low <= tick <= high:
            out += [line(at(tick), top, at(tick), height - 30, "#333" if tick == 1 else "#ddd"), text(at(tick), height - 15, tick, "middle")]
    for k, (name, r) in enumerate(rows):
        y = top + band * k + 4
        out.append(text(left - 8, y + 9, name, "end"))
        for i, s in enumerate(series):
            if s not in r:
                continue
            a, b, c = (at(v) for v in r[s])
            out.append(f'<rect x="{min(b, at(1)):.1f}" y="{y + 9 * i:.1f}" width="{abs(b - at(1)):.1f}" height="7" fill="{COLOURS[i]}"/>')
            out.append(line(a, y + 9 * i + 3.5, c, y + 9 * i + 3.5, "black"))
    return page(width, height, out)


def lines(title, across, up, curves):
    """curves: {name: [(x, y)]}; both axes are logarithmic."""
    left, right, top, width, height = 70, 160, 40, 640, 360
    points = [p for c in curves.values() for p in c]
    if not points:
        return page(width, height, [text(left, 20, title)])
    xs, ys = [p[0] for p in points], [p[1] for p in points]

    def scale(values, start, length):
        low, high = min(values) * 0.9, max(values) * 1.1
        return lambda v: start + length * math.log(v / low) / math.log(high / low)
    x, y = scale(xs, left, width - left - right), scale(ys, height - 50, -(height - 50 - top))
    out = [text(left, 20, title, extra='font-size="14"'), text((left + width - right) / 2, height - 8, across, "middle"),
           text(8, top - 8, up)]
    for v in sorted(set(xs)):
        out += [line(x(v), top, x(v), height - 50, "#eee"), text(x(v), height - 32, v, "middle")]
    for e in range(math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))) + 1):
        for m in (1, 2, 5):
            v = m * 10.0 ** e
            if min(ys) * 0.9 <= v <= max(ys) * 1.1:
                out += [line(left, y(v), width - right, y(v), "#ddd"), text(left - 6, y(v) + 4, f"{v:g}", "end")]
    for i, (name, c) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in c)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}"/>' for a, b in c]
        out.append(text(width - right + 10, top + 16 * i + 10, name, extra=f'fill="{colour}"'))
    return page(width, height, out)
