#!/usr/bin/env python3
"""docs/operators.md: the operators, from which version of their set on, and the tests that run each.

operators.py TEKTITE          writes the file
operators.py TEKTITE --check  fails where it isn't what this would write; exits 77 (skipped) where ONNX's tests aren't there
"""
import collections
import os
import re
import subprocess
import sys

import onnx

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
conformance = os.path.join(root, "build", "conformance")
lists = os.path.join(root, "tests", "conformance")


def names(path):
    return [line.split()[0] for line in open(path) if line.strip() and not line.startswith("#")]


def operators_of(graph):
    for node in graph.node:
        yield (node.domain if node.domain != "ai.onnx" else "", node.op_type)
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from operators_of(inner)


def backend_tests():
    """For each operator: how many of ONNX's tests use it, and how many of these pass in all ways."""
    failing = set(names(os.path.join(lists, "expected.txt")))
    used, passed = collections.Counter(), collections.Counter()
    for test in names(os.path.join(lists, "scope.txt")):
        model = onnx.load(os.path.join(conformance, test, "model.onnx"), load_external_data=False)
        for operator in set(operators_of(model.graph)):
            used[operator] += 1
            passed[operator] += test not in failing
    return used, passed


def own_tests():
    """For each operator's name: the files of tests/ops that have a case of it."""
    files = collections.defaultdict(list)
    folder = os.path.join(root, "tests", "ops")
    for file in sorted(os.listdir(folder)):
        if file.endswith(".test"):
            for name in sorted(set(re.findall(r"^op (\S+)", open(os.path.join(folder, file)).read(), re.M))):
                files[name.split(".")[-1].split("(")[0]].append(file[:-5])
    return files


def table(tektite):
    used, passed = backend_tests()
    own = own_tests()
    rows = subprocess.run([tektite, "ops", "--markdown"], check=True, capture_output=True, text=True).stdout.splitlines()
    out = [
        "# Operators",
        "",
        "Written by `tools/operators.py`. ONNX's tests: those in `tests/conformance/scope.txt` that use the operator, and how many of them pass interpreted,",
        "fused and unfused. Own tests: files of `tests/ops`, whose expected values are NumPy's or ONNX Runtime's.",
        "",
        "| operator | from version | as scalar text | ONNX's tests | own tests |",
        "|---|---|---|---|---|",
    ]
    for row in rows[2:]:
        name = row.split("|")[1].strip()
        domain, _, operator = name.rpartition(".")
        key = (domain, operator)
        tests = f"{passed[key]} of {used[key]}" if used[key] else ""
        out.append(f"{row} {tests} | {', '.join(own.get(operator, []))} |")
    return "\n".join(out) + "\n"


def main():
    tektite, check = sys.argv[1], "--check" in sys.argv
    if not os.path.exists(os.path.join(conformance, "made-of")):
        print("skipped: there is no build/conformance (./test makes it)")
        return 77
    path = os.path.join(root, "docs", "operators.md")
    text = table(tektite)
    if not check:
        open(path, "w").write(text)
    elif open(path).read() != text:
        print("docs/operators.md is not what `tools/operators.py build/tektite` writes")
        return 1
    return 0


sys.exit(main())
