"""Times a model in several peers at once: each in its own process (its virtual environment under $PEERS; `ref` is onnxruntime with its
optimizer off, `tektite` and `tektite_unfused` the program in $TEKTITE), loaded and checked against `ref`, then timed in turn, round
after round, the others stopped meanwhile. One thread: the last core; more: the first ones."""
import fcntl, json, os, select, signal, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.environ.get("PEERS") or os.path.normpath(os.path.join(HERE, "..", "..", "build", "peers"))
VENV = {"ref": "ort", "tektite": "ort", "tektite_unfused": "ort", "inductor": "torch"}


def cpu():
    d = {}
    for line in open("/proc/cpuinfo"):
        k, _, v = line.partition(":")
        if k.strip() in ("model name", "flags"):
            d.setdefault(k.strip(), v.strip())
    keep = ("avx", "fma", "sse4", "amx", "f16c", "bmi", "vaes", "neon", "sve")
    return {"model": d.get("model name"), "flags": [f for f in d.get("flags", "").split() if f.startswith(keep)],
            "cores": os.cpu_count()}


class Lock:
    def __enter__(self):
        self.f = open(os.path.join(PEERS, "lock"), "w")
        fcntl.flock(self.f, fcntl.LOCK_EX)

    def __exit__(self, *a):
        self.f.close()


class Worker:
    def __init__(self, peer, model, threads, log):
        v = os.path.join(PEERS, VENV.get(peer, peer))
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="2", TVM_NUM_THREADS=str(threads))
        env.pop("OPENBLAS_CORETYPE", None)
        if VENV.get(peer) == "torch":
            nv = subprocess.run(f"ls -d {v}/lib/python3*/site-packages/nvidia/*/lib", shell=True, capture_output=True, text=True).stdout.split()
            env["LD_LIBRARY_PATH"] = ":".join(nv)
            env["TORCHINDUCTOR_CACHE_DIR"] = f"{PEERS}/work/inductor-{os.getpid()}"   # cold compile
            env["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        cores = str(os.cpu_count() - 1) if threads == 1 else "0-%d" % (threads - 1)
        self.peer = peer
        self.p = subprocess.Popen(["taskset", "-c", cores, v + "/bin/python", os.path.join(HERE, "worker.py"), peer, model, str(threads)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env, text=True, start_new_session=True)

        self.weight(-10)

    def weight(self, nice):
        """Keeps other work on the machine out of a timed section (root only; each worker has its own autogroup)."""
        try:
            os.setpriority(os.PRIO_PGRP, self.p.pid, nice)
            open(f"/proc/{self.p.pid}/autogroup", "w").write(str(nice))
        except OSError:
            pass

    def read(self, timeout):
        r, _, _ = select.select([self.p.stdout], [], [], timeout)
        line = self.p.stdout.readline() if r else ""
        return json.loads(line) if line else {"ok": False, "error": "timeout" if not r else f"died, exit code {self.p.wait()}"}

    def ask(self, timeout=300, **c):
        self.sig(signal.SIGCONT)
        try:
            self.p.stdin.write(json.dumps(c) + "\n")
            self.p.stdin.flush()
        except BrokenPipeError:
            return {"ok": False, "error": "died"}
        r = self.read(timeout)
        self.sig(signal.SIGSTOP)
        return r

    def sig(self, s):
        try:
            os.killpg(self.p.pid, s)
        except ProcessLookupError:
            pass

    def kill(self):
        self.sig(signal.SIGKILL)
        self.p.wait()


def nameOf(model):
    """A file's own name, or its folder's where it is called model.onnx."""
    stem = os.path.splitext(os.path.basename(model))[0]
    return os.path.basename(os.path.dirname(os.path.abspath(model))) if stem == "model" else stem


def race(model, peers, threads, rounds, seconds, log, patience=300):
    """{peer: what its process said, median_ms, rounds_ms, vs_tektite}; `seconds`: of a slice, a peer and round."""
    name = nameOf(model)
    res, ws = {}, []
    os.makedirs(PEERS + "/work", exist_ok=True)
    ref = f"{PEERS}/work/{name}.npz"
    w = Worker("ref", model, 2, log)
    r = w.read(600)
    if r.get("ok"):
        w.ask(cmd="save", ref=ref)
    w.kill()
    for p in peers:
        w = Worker(p, model, threads, log)
        with Lock():
            r = w.read(patience)
        w.sig(signal.SIGSTOP)
        if r.get("ok") and os.path.exists(ref):
            e = w.ask(cmd="check", ref=ref)
            r["err"] = e
            if not 0 <= e.get("rel", -1) < 2e-3:
                r["wrong"] = True
        res[p] = r
        if r.get("ok"):
            ws.append(w)
        else:
            w.kill()
        print(f"  {name} t{threads} {p}: {json.dumps(r)[:300]}", file=sys.stderr, flush=True)
    ts = {w.peer: [] for w in ws}
    for w in ws:
        w.weight(-20)
    for rnd in range(rounds + 1):            # round 0 is warm-up
        for w in ws:
            once = statistics.median(ts[w.peer]) / 1e9 if ts[w.peer] else res[w.peer]["once_s"]
            n = max(1, min(5000, int(seconds / max(once, 1e-7))))
            if once > 1 and (rnd == 0 or len(ts[w.peer]) >= 2):   # hopelessly slow here: two timings do
                continue
            with Lock():
                r = w.ask(cmd="run", n=n if rnd else max(1, n // 4))
            if "ns" not in r:
                res[w.peer].setdefault("error", r.get("error"))
            elif rnd:
                ts[w.peer] += r["ns"]
                res[w.peer].setdefault("rounds_ms", []).append(statistics.median(r["ns"]) / 1e6)
            elif n == 1 or r["ns"]:
                res[w.peer]["once_s"] = min(r["ns"]) / 1e9
    for w in ws:
        res[w.peer].update(w.ask(cmd="rss"))
        t = ts[w.peer]
        if t:
            res[w.peer].update(median_ms=statistics.median(t) / 1e6, min_ms=min(t) / 1e6, reps=len(t))
        w.kill()
    mine = res.get("tektite", {}).get("rounds_ms")
    for p, r in res.items():                       # how much faster than each: median ratio and its 95 % interval
        if mine and p != "tektite" and len(r.get("rounds_ms", [])) == len(mine):
            r["vs_tektite"] = interval([b / a for a, b in zip(mine, r["rounds_ms"])])
    return res


def interval(x):
    """Median of paired ratios and the 95 % interval of the median (order statistics of the binomial), [low, median, high]."""
    x, n = sorted(x), len(x)
    k = max(0, int(n / 2 - 0.98 * n ** 0.5 - 0.5))
    return [round(v, 3) for v in (x[k], statistics.median(x), x[n - 1 - k])]


def mean(ratios):
    """Geometric; of none, no number"""
    return statistics.geometric_mean(ratios) if ratios else float("nan")
