#!/usr/bin/env python3
"""Write ONNX's own backend tests: conformance.py DEST

Every test of the installed `onnx` package becomes DEST/<kind>/<test>/ with model.onnx and
test_data_set_0/{input,output}_<i>.pb. The kind `node` is computed by the package's Python cases, the others are
copied from it. DEST/made-of says which version they are; a folder of that version is left alone.
"""
import pathlib, shutil, sys, warnings

import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

COPIED = "simple", "pytorch-operator", "pytorch-converted"


def proto(value, info):
    kinds = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list,
             "optional_type": numpy_helper.from_optional}
    if isinstance(value, TensorProto):
        return value
    return kinds.get(info.type.WhichOneof("value"), numpy_helper.from_array)(value, info.name)


def write(case, folder):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    graph = case.model.graph
    for side, infos, values in zip(("input", "output"), (graph.input, graph.output), case.data_sets[0]):
        for i, (value, info) in enumerate(zip(values, infos)):
            (data / f"{side}_{i}.pb").write_bytes(proto(value, info).SerializeToString())


def main(dest):
    mark = dest / "made-of"
    if mark.exists() and mark.read_text() == onnx.__version__:
        return
    warnings.simplefilter("ignore")
    for case in load_node_model_tests():
        write(case, dest / "node" / case.name)
    shipped = pathlib.Path(onnx.__file__).parent / "backend/test/data"
    for kind in COPIED:
        shutil.copytree(shipped / kind, dest / kind, dirs_exist_ok=True)
    mark.write_text(onnx.__version__)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
