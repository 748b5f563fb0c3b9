"""What `tektite explain --json` says of models: for the benches that count."""
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from race import nameOf as name_of

TEKTITE = str(Path(__file__).resolve().parent.parent / "build" / "tektite")
DIMS = ["--dim", "batch=1", "--dim", "sequence=128"]
MEMORY_BOUND = 1.0  # flops of a product or sum for each byte of unfused traffic, at most


def models_of(paths):
    """(name, file) of each; a folder is taken for its *.onnx and */model.onnx."""
    out = []
    for p in map(Path, paths):
        out += sorted([*p.glob("*.onnx"), *p.glob("*/model.onnx")]) if p.is_dir() else [p]
    return [(name_of(str(p)), p) for p in out]


def stored(model):
    """Options that give the inputs stored beside a model, which decide its dims."""
    folder = Path(model).parent / "test_data_set_0"
    return ["--inputs", str(folder)] if folder.is_dir() and Path(model).suffix == ".onnx" else []


def parts_of(tektite, model, *options, seconds=None):
    """The reports of a model's parts, one if it has none; a line that says what went wrong. Where no inputs are stored, dims are those of DIMS, if it has them."""
    for dims in [stored(model)] if stored(model) else [DIMS, []]:
        try:
            done = subprocess.run([tektite, "explain", str(model), "--json", *dims, *options], capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"longer than {seconds} s"
        if done.returncode == 0:
            said = json.loads(done.stdout)
            return said if isinstance(said, list) else [said]
    return (done.stderr.strip().splitlines() or ["failed"])[-1]


def kernels_of(parts):
    return [k for p in parts for k in p["kernels"]]


def moved(kernel_or_counts):
    return kernel_or_counts["bytes_read"] + kernel_or_counts["bytes_written"]


def memory_binds(parts, unfused_bytes):
    return sum(k["flops"] for k in kernels_of(parts)) <= MEMORY_BOUND * max(1, unfused_bytes)
