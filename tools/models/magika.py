#!/usr/bin/env python3
"""What the magika model eats and says: magika.py input FILE DIR CACHE, magika.py label FILE DIR CACHE

`input` writes DIR/input_0.npy for a file: the first bytes and the last, white space at the file's two ends left out, each
window filled up with a padding token on its far side. `label` reads DIR/output_0.npy, a score for each label, and prints
what kind of file it is. Sizes and labels are those of the package's config.min.json.
"""
import json, pathlib, sys

import numpy as np

import fetch, wheels


def config(cache):
    _, (package,), path, _ = fetch.table()["magika"]
    return json.loads(wheels.read(package, path.replace("model.onnx", "config.min.json"), cache))


def windows(data, c):
    block, short = c["block_size"], len(data) <= c["block_size"]
    head = data[:block].strip() if short else data[:block].lstrip()
    tail = data[-block:].strip() if short else data[-block:].rstrip()
    head, tail = head[:c["beg_size"]], tail[-c["end_size"]:]
    pad = lambda size: [c["padding_token"]] * size
    return [*head, *pad(c["beg_size"] - len(head)), *pad(c["end_size"] - len(tail)), *tail]


def main():
    verb, file, folder, cache = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    c = config(cache)
    if verb == "input":
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "input_0.npy", np.array([windows(file.read_bytes(), c)], np.int32))
        return
    scores, seen = np.load(folder / "output_0.npy").ravel(), np.load(folder / "input_0.npy").ravel()
    label, score = c["target_labels_space"][scores.argmax()], scores.max()
    doubt = (", but it is too short to tell" if seen[c["min_file_size_for_dl"] - 1] == c["padding_token"] else
             ", not sure" if score < c["thresholds"].get(label, c["medium_confidence_threshold"]) else "")
    print(f"magika: {file} is {label} ({score:.1%}{doubt})")


if __name__ == "__main__":
    main()
