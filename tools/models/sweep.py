#!/usr/bin/env python3
"""Inputs of many shapes for a fetched model, and what onnxruntime makes of them with its optimiser off: sweep.py FOLDER NAME

Writes FOLDER/NAME/sweep/<shape>/{input,output}_<i>.pb. Of no picture there are no results: for a batch of 0
the shapes are those of one picture, less that one. Prints the folders as `tektite run --inputs` takes them, then, on
a line of their own, those that onnxruntime refuses.
"""
import pathlib, sys, zlib

import numpy as np

import fetch, inputs

TOKENS = [(1, 1), (1, 2), (3, 1), (2, 7), (1, 16), (5, 31), (8, 33), (4, 64), (1, 127), (2, 128), (7, 129),
          (1, 255), (3, 300), (1, 511), (2, 512), (8, 512), (1, 16), (8, 33)]
# Pictures so small that nothing of a text is seen are no test: onnxruntime's sigmoid gives 0 below 1e-8.
PICTURES = [(1, 64, 96), (1, 96, 64), (1, 160, 224), (2, 64, 64), (3, 96, 160), (1, 288, 96), (1, 192, 192), (1, 352, 416), (1, 640, 64),
            (1, 64, 96), (0, 64, 64), (1, 37, 53), (1, 65, 129), (3, 33, 47)]
# Of no line at all the model can't say how long rows are: a reshape with an open extent.
LINES = [(1, 48, w) for w in (8, 9, 16, 47, 48, 100, 161, 320, 333, 640)] + [(2, 48, 99), (6, 48, 160), (1, 48, 320)]


def picture(rng, shape):
    return ((inputs.page(rng, (1, 3, *shape[1:])) - 0.5) * 4).repeat(shape[0], 0).astype(np.float32)


def feeds(name, rng, shape):
    if name == "minilm":
        batch, steps = shape
        ids = rng.integers(0, 30522, (batch, steps))
        mask = np.ones((batch, steps), np.int64)
        for i in range(1, batch):  # shorter sentences, padded
            mask[i, max(1, steps - i * steps // (batch + 1)):] = 0
        return [ids, mask, np.zeros_like(ids)]
    batch, height, width = shape
    return [picture(rng, (batch, max(height, 16), max(width, 16)))[:, :, :height, :width]]


SHAPES = {"minilm": TOKENS, "ppocr4_det": PICTURES, "ppocr6_det": PICTURES, "ppocr4_rec": LINES}


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in SHAPES:
        sys.exit(f"{__doc__}\nnames: {' '.join(SHAPES)}")
    folder, name = pathlib.Path(sys.argv[1]) / sys.argv[2], sys.argv[2]
    plain = fetch.session(folder / "model.onnx", False)
    names = [i.name for i in plain.get_inputs()]
    for shape in SHAPES[name]:
        to = folder / "sweep" / "x".join(map(str, shape))
        if (to / "done").exists():
            continue
        to.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(zlib.crc32(repr(shape).encode()))
        values = feeds(name, rng, shape)
        if 0 in shape:  # as many results of one picture, less that one
            values = feeds(name, rng, (1, *shape[1:]))
            outputs = [o[:0] for o in plain.run(None, dict(zip(names, values)))]
            values = [v[:0] for v in values]
        else:
            try:
                outputs = plain.run(None, dict(zip(names, values)))
            except Exception:  # sizes that the model isn't for
                outputs = []
        for i, v in enumerate(values):
            fetch.save(to / f"input_{i}.pb", v, names[i])
        for i, v in enumerate(outputs):
            fetch.save(to / f"output_{i}.pb", v, plain.get_outputs()[i].name)
        (to / "done").touch()
    folders = [folder / "sweep" / "x".join(map(str, s)) for s in SHAPES[name]]
    for refused in (False, True):
        print(",".join(str(f) for f in folders if refused != (f / "output_0.pb").exists()))


if __name__ == "__main__":
    main()
