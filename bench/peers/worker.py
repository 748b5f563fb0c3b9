"""One peer, one model, one process. race.py starts it: worker.py PEER MODEL THREADS; then JSON lines on stdin/stdout.

Commands: {"cmd": "check", "ref": path} | {"cmd": "run", "n": N} | {"cmd": "rss"}; ends at end of input."""
import json, os, resource, sys, time, zlib
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def native(command, path, threads, wire, more=()):
    """A peer that is a program: `$TEKTITE bench MODEL --worker --threads N --inputs DIR [--unfused]` speaks the same JSON lines itself
    (first {"ok", "compile_s", "once_s", "version", "base_rss_mb"}; then answers "run" with {"ns": [...]}, "rss" with {"rss_mb"},
    and {"cmd": "save", "dir": D} by writing output_<i>.npy). Inputs come as DIR/input_<i>.npy in the model's order. This
    process only passes lines on, and compares the outputs."""
    import subprocess, tempfile
    d = tempfile.mkdtemp()
    for i, v in enumerate(graph_inputs(path).values()):
        np.save(f"{d}/input_{i}.npy", v)
    p = subprocess.Popen([*command.split(), "bench", path, "--worker", "--threads", str(threads), "--inputs", d, *more],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(**c):
        p.stdin.write(json.dumps(c) + "\n")
        p.stdin.flush()
        return json.loads(p.stdout.readline() or '{"ok": false, "error": "died"}')
    say = lambda **k: print(json.dumps(k), file=wire, flush=True)
    first = json.loads(p.stdout.readline() or '{"ok": false, "error": "died before it was ready"}')
    say(**first)
    for line in sys.stdin if first.get("ok") else ():
        c = json.loads(line)
        if c["cmd"] == "check":
            r, n = ask(cmd="save", dir=d), len([f for f in os.listdir(d) if f.startswith("output_")])
            say(**(compare(c["ref"], [np.load(f"{d}/output_{i}.npy") for i in range(n)]) if r.get("ok") else r))
        else:
            say(**ask(**c))


def compare(ref, outs):
    """Largest absolute error over all outputs, and relative to each output's largest magnitude."""
    z, err = np.load(ref), {"abs": 0.0, "rel": 0.0}
    for k, o in zip(z.files, outs):
        r, o = np.asarray(z[k], np.float64), np.asarray(o, np.float64)
        if r.shape != o.shape and r.size != o.size:
            return {"abs": -1.0, "rel": -1.0, "shape": f"{o.shape} not {r.shape}"}
        d = float(np.max(np.abs(r - o.reshape(r.shape)), initial=0))
        d = d if d == d else float("inf")
        err = {"abs": max(err["abs"], d), "rel": max(err["rel"], d / (float(np.max(np.abs(r), initial=0)) + 1e-30))}
    return err


def graph_inputs(path):
    """Inputs by name, the same in every peer: those stored beside the model (test_data_set_0), else random ones."""
    import onnx
    import onnx.numpy_helper
    g = onnx.load(path, load_external_data=False).graph
    inits, r = {t.name for t in g.initializer}, {}
    stored = os.path.join(os.path.dirname(path), "test_data_set_0")
    for i, v in enumerate(v for v in g.input if v.name not in inits):
        if os.path.exists(f"{stored}/input_{i}.npy"):
            r[v.name] = np.load(f"{stored}/input_{i}.npy")
            continue
        if os.path.exists(f"{stored}/input_{i}.pb"):
            t = onnx.TensorProto()
            t.ParseFromString(open(f"{stored}/input_{i}.pb", "rb").read())
            r[v.name] = np.array(onnx.numpy_helper.to_array(t))
            continue
        tt = v.type.tensor_type
        shape = [d.dim_value or 1 for d in tt.shape.dim]
        dt = onnx.helper.tensor_dtype_to_np_dtype(tt.elem_type)
        rng = np.random.default_rng(zlib.crc32(v.name.encode()))
        if np.issubdtype(dt, np.floating):
            a = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.5)
        elif "mask" in v.name:
            a = np.ones(shape)
        elif "type" in v.name or "segment" in v.name:
            a = np.zeros(shape)
        elif dt == np.bool_:
            a = rng.random(shape) < 0.5
        elif v.name == "sr":
            a = np.full(shape, 16000)
        else:
            a = rng.integers(0, 1000, shape)
        r[v.name] = np.ascontiguousarray(a.astype(dt)).reshape(shape)
    return r


def ort(path, x, n, opt=True):
    import onnxruntime as rt
    o = rt.SessionOptions()
    o.intra_op_num_threads, o.log_severity_level = n, 3
    o.graph_optimization_level = getattr(rt.GraphOptimizationLevel, "ORT_ENABLE_ALL" if opt else "ORT_DISABLE_ALL")
    s = rt.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    names = [v.name for v in s.get_outputs()]
    first = s.run(names, x)
    io = s.io_binding()
    for k, v in x.items():
        io.bind_ortvalue_input(k, rt.OrtValue.ortvalue_from_numpy(v))
    outs = [rt.OrtValue.ortvalue_from_numpy(np.empty_like(v)) for v in first]
    for k, v in zip(names, outs):
        io.bind_ortvalue_output(k, v)
    return (lambda: s.run_with_iobinding(io)), (lambda: [v.numpy() for v in outs]), rt.__version__


def openvino(path, x, n):
    import openvino as ov
    c = ov.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": n, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
    r = c.create_infer_request()
    for p in c.inputs:
        a = next(x[k] for k in p.get_names() if k in x)
        r.set_tensor(p, ov.Tensor(a, shared_memory=True))
    r.infer()
    return (lambda: r.infer(share_outputs=True)), (lambda: [r.get_tensor(p).data.copy() for p in c.outputs]), ov.__version__


def jax(path, x, n):
    import jax
    from interp import Jax, Net
    net, B = Net(path), Jax()
    w = {k: jax.device_put(net.consts[k]) for k in net.weights}
    xs = {k: jax.device_put(v) for k, v in x.items()}
    f = jax.jit(lambda xs, w: net.run(B, xs, w)).lower(xs, w).compile()
    out = [None]

    def call():
        out[0] = jax.block_until_ready(f(xs, w))
    call()
    return call, (lambda: [np.asarray(v) for v in out[0]]), jax.__version__


def inductor(path, x, n):
    import torch
    import torch._inductor.config as ic
    from interp import Net, Torch
    torch.set_num_threads(n)
    net, B = Net(path), Torch()

    class M(torch.nn.Module):
        def __init__(s):
            super().__init__()
            s.names = sorted(net.weights)
            for i, k in enumerate(s.names):
                s.register_buffer(f"w{i}", torch.from_numpy(net.consts[k].copy()))

        def forward(s, *xs):
            w = {k: getattr(s, f"w{i}") for i, k in enumerate(s.names)}
            return net.run(B, dict(zip(net.inputs, xs)), w)
    xs, out = [torch.from_numpy(x[k]) for k in net.inputs], [None]
    with torch.inference_mode(False), torch.no_grad():
        m = M().eval()
        ic.freezing = True   # weights become constants and are packed ahead; not Inductor's default
        ep = torch.export.export(m, tuple(xs), strict=False)
        f = torch.compile(ep.module(), fullgraph=True, dynamic=False)

    def call():
        with torch.no_grad():
            out[0] = f(*xs)
    call()
    return call, (lambda: [v.numpy() for v in out[0]]), torch.__version__




def tvm(path, x, n):
    os.environ["TVM_NUM_THREADS"] = str(n)
    import onnx, tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
    mod = from_onnx(onnx.load(path))
    mcpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": n})
    with target:
        ex = tvm.compile(mod, target)
    dev = tvm.cpu()
    vm = relax.VirtualMachine(ex, dev)
    names = [v.name for v in mod["main"].params]
    args, out = [tvm.runtime.tensor(x[k], dev) for k in names if k in x], [None]
    main = vm["main"]

    def call():
        out[0] = main(*args)

    def fetch():
        o = out[0]
        return [o.numpy()] if hasattr(o, "numpy") else [v.numpy() for v in o]
    call()
    return call, fetch, tvm.__version__


def iree(path, x, n):
    import subprocess, tempfile
    import iree.compiler as ic
    import iree.runtime as rt
    d = tempfile.mkdtemp()
    mlir, vmfb = d + "/m.mlir", d + "/m.vmfb"
    subprocess.run([sys.executable, "-m", "iree.compiler.tools.import_onnx", path, "-o", mlir, "--opset-version", "17"], check=True)
    ic.compile_file(mlir, output_file=vmfb, input_type="onnx", target_backends=["llvm-cpu"],
                    extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"])
    if n > 1:
        rt.flags.parse_flags(f"--task_topology_group_count={n}")
    cfg = rt.Config("local-sync" if n == 1 else "local-task")
    m = rt.VmModule.mmap(cfg.vm_instance, vmfb)
    ctx = rt.SystemContext(config=cfg)
    ctx.add_vm_module(m)
    bm = getattr(ctx.modules, m.name)
    fname = [f for f in m.function_names if not f.endswith("$async") and not f.startswith("__")][0]
    f, out = bm[fname], [None]
    args = [rt.asdevicearray(cfg.device, v) for v in x.values()]

    def call():
        out[0] = f(*args)
    call()

    def fetch():
        o = out[0] if isinstance(out[0], (list, tuple)) else [out[0]]
        return [np.asarray(v.to_host()) for v in o]
    import importlib.metadata as im
    return call, fetch, im.version("iree-base-compiler")


def main():
    peer, path, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sys.path.insert(0, HERE)
    wire = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    say = lambda **k: print(json.dumps(k), file=wire, flush=True)
    rss = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if peer.startswith("tektite"):
        return native(os.environ.get("TEKTITE", "tektite"), path, n, wire, ["--unfused"] * peer.endswith("_unfused"))
    x = graph_inputs(path)
    ref = peer == "ref"
    if not ref:   # imports are not part of compile time
        __import__({"ort": "onnxruntime", "inductor": "torch", "iree": "iree.compiler"}.get(peer, peer))
        if peer.startswith("inductor"):
            import torch._inductor.compile_fx  # noqa: F401
    base, t = rss(), time.perf_counter()
    try:
        call, fetch, ver = ort(path, x, n, opt=False) if ref else globals()[peer](path, x, n)
        compile_s = time.perf_counter() - t
        t = time.perf_counter()
        call()
        say(ok=True, compile_s=round(compile_s, 3), once_s=time.perf_counter() - t, version=ver, base_rss_mb=round(base))
    except BaseException as e:  # noqa: BLE001
        import traceback
        traceback.print_exc()
        say(ok=False, error=f"{type(e).__name__}: {e}"[:600])
        return
    now = time.perf_counter_ns
    for line in sys.stdin:
        c = json.loads(line)
        if c["cmd"] == "run":
            ts = []
            for _ in range(c["n"]):
                t = now()
                call()
                ts.append(now() - t)
            say(ns=ts)
        elif c["cmd"] == "save":
            np.savez(c["ref"], *fetch())
            say(ok=True)
        elif c["cmd"] == "check":
            say(**compare(c["ref"], fetch()))
        elif c["cmd"] == "rss":
            say(rss_mb=round(rss()))


if __name__ == "__main__":
    main()
