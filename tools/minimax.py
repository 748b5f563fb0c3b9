#!/usr/bin/env python3
"""The polynomials of src/ops/math: near-minimax fits with coefficients rounded to f32, one after another, the rest fitted again.

    tools/minimax.py [name ...]      needs numpy and mpmath; prints the largest weighted error and the coefficients, low powers first
"""
import sys
import mpmath as mp
import numpy as np

mp.mp.prec = 120
ln2 = mp.log(2)


def lawson(a, b, weight, rounds):
    """Minimises max |weight * (a c - b)| by reweighted least squares."""
    importance, best, scale = np.ones(len(b)), None, np.abs(a).max(axis=0)
    for _ in range(rounds):
        w = np.sqrt(importance) * weight
        c = np.linalg.lstsq(a / scale * w[:, None], b * w, rcond=None)[0] / scale
        error = np.abs(weight * (a @ c - b))
        if best is None or error.max() < best[0]:
            best = error.max(), c
        importance *= error / error.max() + 1e-9
        importance /= importance.max()
    return best[1]


def fit(f, low, high, terms, weight, first=(), even=False, single=True, points=1000):
    """f(x) ~ sum c[k] v^k, v = x or x^2 (even); `first`: coefficients that are given; weight(x): of the absolute error."""
    low, high = mp.mpf(low), mp.mpf(high)
    xs = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + 0.5) / points) for i in range(points)]
    target = np.array([float(f(x)) for x in xs])
    w = np.array([float(weight(x)) for x in xs])
    v = np.array([float(x * x if even else x) for x in xs])
    columns = [v**k for k in range(terms)]
    got, sofar = list(first), sum((c * columns[k] for k, c in enumerate(first)), np.zeros(points))
    while len(got) < terms:
        c = lawson(np.stack(columns[len(got):], 1), target - sofar, w, 120 if len(got) > len(first) else 300)[0]
        got.append(float(np.float32(c)) if single else float(c))
        sofar = sofar + got[-1] * columns[len(got) - 1]
    error = np.log2(np.abs(w * (sofar - target)).max())
    return error, [str(np.float32(c)) if single else repr(c) for c in got]


def fit_quotient(f, high, above, below, points=1500, rounds=400):
    """f(x) ~ P(x^2) / Q(x^2) on [0, high] with `above` and `below` coefficients, by relative error; Q(0) = 1. Rounded at the end."""
    x = high / 2 - (high / 2 - 1e-3) * np.cos(np.pi * (np.arange(points) + 0.5) / points)
    target, v = np.array([float(f(mp.mpf(float(t)))) for t in x]), (x / high)**2
    p, q = np.stack([v**k for k in range(above)], 1), np.stack([v**k for k in range(1, below)], 1)
    importance, bottom, best = np.ones(points), np.ones(points), (np.inf, None)
    for _ in range(rounds):
        w = np.sqrt(importance) / np.abs(target * bottom)
        a = np.concatenate([p, -target[:, None] * q], 1) * w[:, None]
        scale = np.abs(a).max(axis=0)
        c = np.linalg.lstsq(a / scale, target * w, rcond=None)[0] / scale
        bottom = 1 + q @ c[above:]
        error = np.abs(p @ c[:above] / bottom / target - 1)
        best = min(best, (error.max(), c), key=lambda b: b[0])
        importance *= error / error.max() + 1e-9
        importance /= importance.max()
    c = best[1]
    powers = lambda n: high**(-2.0 * np.arange(n))
    numbers = list(c[:above] * powers(above)) + list(np.concatenate([[1], c[above:]]) * powers(below))
    return np.log2(best[0]), [str(np.float32(n)) for n in numbers]


def relative(f, power):
    """The weight that makes an error of v in `... + x^power * v` relative to f."""
    return lambda x: abs(x**power / f(x))


def erfc_exponent(x):
    return -mp.log(mp.erfc(x)) / x - 1


def erfc_weight(x):
    return x * mp.erfc(x) / mp.erf(x)


octant = mp.pi / 4 * mp.mpf("1.002")
small = "1e-4"
one_minus = lambda c: lambda x: -mp.expm1(-c * x) / (c * x)

FITS = {
    "exp": lambda: fit(mp.exp, "-0.694", "0.694", 8, lambda x: 1 / mp.exp(x), (1, 1)),
    "exp, fast, doubled": lambda: fit(lambda x: 2 * mp.exp(x), "-0.347", "0.347", 6, lambda x: 0.5 / mp.exp(x), (2, 2)),
    "sigmoid: exp": lambda: fit(mp.exp, "-0.3468", "0.3468", 7, lambda x: 1 / mp.exp(x), (1, 1)),
    "expm1: (exp(r) - 1 - r) / r^2": lambda: fit(lambda x: (mp.expm1(x) - x) / x**2, "-0.3468", "0.3468", 5, relative(mp.expm1, 2)),
    "the same, fast": lambda: fit(lambda x: (mp.expm1(x) - x) / x**2, "-0.3468", "0.3468", 4, relative(mp.expm1, 2)),
    "log: (log(1 + f) - f + f^2 / 2) / f^3": lambda: fit(lambda x: (mp.log1p(x) - x + x * x / 2) / x**3, "-0.2929", "0.4143", 8, relative(mp.log1p, 3)),
    "log, fast": lambda: fit(lambda x: (mp.log1p(x) - x + x * x / 2) / x**3, "-0.2929", "0.4143", 6, relative(mp.log1p, 3)),
    "erf: g": lambda: fit(erfc_exponent, small, 4, 9, erfc_weight),
    "erf: (1 - exp(-r)) / r": lambda: fit(one_minus(1), "-0.347", "0.347", 6, lambda x: 1 / one_minus(1)(x), (1,)),
    "erf, fast: erf(x) / x, above and below": lambda: fit_quotient(lambda x: mp.erf(x) / x, 3.75, 6, 5),
    "tanh: (1 - exp(-2r)) / 2r": lambda: fit(one_minus(2), "-0.1735", "0.1735", 6, lambda x: 1 / one_minus(2)(x), (1,)),
    "tanh, fast: tanh(x) / x, above and below": lambda: fit_quotient(lambda x: mp.tanh(x) / x, 8.6, 5, 5),
    "sin: (sin(r) - r) / r^3": lambda: fit(lambda x: (mp.sin(x) - x) / x**3, small, octant, 3, relative(mp.sin, 3), even=True),
    "cos: (cos(r) - 1) / r^2": lambda: fit(lambda x: (mp.cos(x) - 1) / x**2, "1e-3", octant, 4, relative(mp.cos, 2), even=True),
    "tan: (tan(r) - r) / r^3": lambda: fit(lambda x: (mp.tan(x) - x) / x**3, small, octant, 7, relative(mp.tan, 3), even=True),
    "asin: (asin(r) - r) / r^3": lambda: fit(lambda x: (mp.asin(x) - x) / x**3, small, "0.501", 5, relative(mp.asin, 3), even=True),
    "atan: (atan(r) - r) / r^3": lambda: fit(lambda x: (mp.atan(x) - x) / x**3, small, 1, 9, relative(mp.atan, 3), even=True),
    "sinh: (sinh(r) - r) / r^3": lambda: fit(lambda x: (mp.sinh(x) - x) / x**3, small, "0.3468", 2, relative(mp.sinh, 3), even=True),
    "cosh: (cosh(r) - 1) / r^2": lambda: fit(lambda x: (mp.cosh(x) - 1) / x**2, "1e-3", "0.3468", 3, relative(mp.cosh, 2), even=True),
    "asinh: (asinh(r) - r) / r^3": lambda: fit(lambda x: (mp.asinh(x) - x) / x**3, small, "1.1755", 9, relative(mp.asinh, 3), even=True),
    "acosh: (acosh(1 + t) / sqrt(2t) - 1) / t": lambda: fit(lambda x: (mp.acosh(1 + x) / mp.sqrt(2 * x) - 1) / x, small, "0.5", 5, lambda x: x * mp.sqrt(2 * x) / mp.acosh(1 + x)),
    "atanh: (atanh(r) - r) / r^3": lambda: fit(lambda x: (mp.atanh(x) - x) / x**3, small, "0.5", 6, relative(mp.atanh, 3), even=True),
    "pow: log2(1 + f) / f": lambda: fit(lambda x: mp.log1p(x) / x / ln2, "-0.2929", "0.4143", 13, lambda x: abs(x / mp.log1p(x)), single=False),
    "pow: 2^r": lambda: fit(lambda x: mp.mpf(2)**x, -1, 1, 8, lambda x: mp.mpf(2)**-x, (1,)),
}

if __name__ == "__main__":
    for name, run in FITS.items():
        if len(sys.argv) > 1 and not any(name.startswith(a) for a in sys.argv[1:]):
            continue
        error, coefficients = run()
        print(f"{name}: 2^{error:.2f}\n    {', '.join(coefficients)}")
