#!/usr/bin/env python3
"""Holds the arithmetic of bench/compare to numbers worked out by hand; times nothing, needs no peer."""
import importlib.machinery, importlib.util, os, sys, xml.dom.minidom

sys.dont_write_bytecode = True
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "compare")
loader = importlib.machinery.SourceFileLoader("compare", path)
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
loader.exec_module(compare)

limits = {"cores": 2, "fma_gflops_1": 100, "l3_read_gbs_1": 50, "read4_gbs_1": 20, "triad_nt_gbs_1": 30, "copy_nt_gbs_1": 25, "exp_gelems_1": 4}


def least(flops, read, written, exps=0):
    ms, kind = compare.bound({"flops": flops, "read": read, "written": written, "exps": exps}, limits, 1)
    return round(ms, 9), kind


assert least(1e9, 1e6, 1e6) == (10, "flops")
assert least(0, 5e6, 5e6) == (0.2, "bytes"), "from the last cache"
assert least(0, 100e6, 0) == (5, "bytes"), "reads alone"
assert least(0, 100e6, 100e6) == (8, "bytes"), "a copy"
assert least(0, 200e6, 100e6) == (10, "bytes"), "two reads a write"
assert least(0, 1e6, 1e6, 8e6) == (2, "exp")
# Of 30 ratios the nine smallest and the nine largest lie outside (the binomial distribution at 95 %).
assert compare.race.interval([k / 10 for k in range(30)]) == [0.9, 1.45, 2.0], compare.race.interval([k / 10 for k in range(30)])

peers = {"tektite": {"median_ms": 2.0}, "ort": {"median_ms": 3.0, "vs_tektite": [1.4, 1.5, 1.6]}, "ref": {"median_ms": 1.0, "vs_tektite": [0.5, 0.5, 0.5]},
         "openvino": {"median_ms": 2.5, "vs_tektite": [1.2, 1.25, 1.3]}, "jax": {"median_ms": 1.5, "vs_tektite": [0.7, 0.75, 0.8], "wrong": True}}
row = compare.row(peers, {"flops": 1e8, "read": 1, "written": 1, "exps": 0}, limits, 1)
assert (row["best"], row["ratio"], row["share"]) == ("openvino", [1.2, 1.25, 1.3], 0.5), row
data = {"date": "", "command": "", "cpu": {"cores": 2, "kind": ""}, "rounds": 30, "versions": "", "limits": limits, "rows": {"1": {"x": row}}}
assert "| x | 2.00 | openvino | 2.50 | 1.25 | 1.20 – 1.30 | 1.00 flops | 50 % | 1.50 | 1.25 |" in compare.table(data, ["ort", "openvino"])
for svg in (compare.plot.ratios("a < b", [("x", {"1 thread": row["ratio"]})], ["1 thread"]), compare.plot.lines("t", "n", "ms", {"a": [(1, 2), (4, 8)]})):
    xml.dom.minidom.parseString(svg)
