"""Models that grow: sizes.py OUT_DIR, in the environment `ort`. One prints as KIND SIZE PATH."""
import os, sys
from workloads import G, _attention


def mlp(name, batch, width, layers):
    g = G(name)
    x = g.inp("x", batch, width)
    for _ in range(layers):
        x = g.Relu(g.linear(x, batch, width, width))
    g.out(x, batch, width)
    return g


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)

    def save(kind, size, g):
        print(kind, size, g.save(folder))
    for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        save("batch", batch, mlp(f"batch{batch}", batch, 512, 4))
    for steps in (32, 64, 128, 256, 512, 1024, 2048):
        g = G(f"sequence{steps}")
        _attention(g, 8, steps, 64)
        save("sequence", steps, g)
    for layers in (1, 4, 16, 64, 256, 1024):
        save("layers", layers, mlp(f"layers{layers}", 1, 64, layers))


if __name__ == "__main__":
    main()
