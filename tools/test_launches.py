#!/usr/bin/env python3
"""Holds plans for a large GPU to their figures: launches, and main-memory bytes over the least possible.

    build/venv/bin/python tools/test_launches.py TEKTITE [NAME...]

Architectures are built as models with weights of one block over and over: plans don't depend on their values. Exits 77 (skipped) without onnx."""
import json, os, pathlib, subprocess, sys, tempfile, zlib

try:
    import numpy as np
    import onnx
except ImportError:
    print("skipped: no onnx")
    sys.exit(77)

sys.dont_write_bytecode = True
root = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(root / "tools/models"), str(root / "bench/peers")]
import build, workloads

LAUNCHES = {  # at most
    "minilm": 46, "bert_base": 87, "vit_base": 87, "gpt2": 87, "resnet50": 54, "vgg16": 16, "efficientnet_b0": 66, "lstm_10x100": 1,
    "attn_512": 1, "attn_2048": 1, "softmax": 1, "layernorm": 1, "instnorm": 1, "l2norm16m": 1, "distributive": 1, "ew_chain10": 1,
    "bn_dropout": 1, "conv_relu": 1,
}
LEAST_BYTES = {"softmax", "layernorm", "instnorm", "l2norm16m", "distributive", "ew_chain10", "bn_dropout", "attn_512", "attn_2048"}
BYTES = 1.1  # of the least possible


class Quick(build.Graph):
    block = np.random.default_rng(1).standard_normal(4099, np.float32)

    def array(self, name, shape, std=0.1, mean=0.0):
        own = np.roll(self.block, zlib.crc32(".".join(self.path + [name]).encode()) % len(self.block))  # equal weights would be one
        return np.resize(own, shape) * np.float32(std) + np.float32(mean)


def make(name, folder):
    """Where the model is, and the folder of its inputs if their shapes are not the model's own"""
    if name == "minilm":  # real weights: fetched
        fetched = root / "build/models/minilm"
        return (fetched / "model.onnx", fetched / "test_data_set_0") if (fetched / "model.onnx").exists() else (None, None)
    file = folder / "model.onnx"
    if name in build.MODELS:
        graph = Quick(name)
        build.MODELS[name](graph)
        graph.save(file)
    else:
        graph = workloads.G(name)
        next(fn for fn in workloads.ALL if fn.__name__ == name)(graph)
        os.replace(graph.save(str(folder)), file)
    return file, None


def wrong(name, model, inputs, tektite):
    more = ["--inputs", str(inputs)] if inputs else []
    done = subprocess.run([tektite, "explain", str(model), "--target", "gpu-class", "--json", *more], capture_output=True, text=True)
    if done.returncode:
        return [done.stderr.strip()]
    said = json.loads(done.stdout)
    over = said["bytes"] / said["bytes_minimum"]
    print(f"{name}: {said['launches']} launches, {LAUNCHES[name]} at most; {over:.2f} times the least bytes", flush=True)
    found = []
    if said["launches"] > LAUNCHES[name]:
        found.append(f"{said['launches']} launches, expected at most {LAUNCHES[name]}")
    if name in LEAST_BYTES and over > BYTES:
        found.append(f"{over:.2f} times the least bytes, expected at most {BYTES}")
    return found


def main():
    tektite, names = sys.argv[1], sys.argv[2:] or list(LAUNCHES)
    failed = False
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            model, inputs = make(name, pathlib.Path(folder))
            for fault in wrong(name, model, inputs, tektite) if model else []:
                print(f"{name}: {fault}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
