"""Trains the digit classifier of the demo and writes digits.pt2 and pictures.h beside itself.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

The data are scikit-learn's digits: 1,797 handwritten digits of 8 x 8 pixels, 0 to 16, from the test set of the UCI ML
hand-written digits data sets. Every fourth is held out; train.py never sees those before it reports their accuracy.

    $(tests/env) examples/digits/train.py
"""
import pathlib
import sysconfig

import numpy
import sklearn.datasets
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PICTURES = 100  # held-out pictures that the demo carries


class Digits(nn.Module):
    """Two convolutions with batch norm, a pool, a linear layer: 8 x 8 pixels to ten logits."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.dropout = nn.Dropout(0.25)
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, picture):
        return self.classifier(self.dropout(torch.flatten(self.features(picture), 1)))


def shorten_frames(program):
    """Source files in stack traces relative to the repository and to the packages, so that the file is the same anywhere."""
    packages = sysconfig.get_path("purelib")
    for node in program.graph.nodes:
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = node.meta["stack_trace"].replace(f"{ROOT}/", "").replace(f"{packages}/", "")


def main():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    data = sklearn.datasets.load_digits()
    x = torch.from_numpy(data.images.astype(numpy.float32) / 16).unsqueeze(1)
    y = torch.from_numpy(data.target.astype(numpy.int64))
    held_out = torch.arange(len(y)) % 4 == 0
    x_train, y_train, x_test, y_test = x[~held_out], y[~held_out], x[held_out], y[held_out]

    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(40):
        model.train()
        for batch in torch.randperm(len(y_train)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x_train[batch]), y_train[batch]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = model(x_test)
    print(f"held out: {(logits.argmax(1) == y_test).float().mean():.4f} of {len(y_test)}")

    program = torch.export.export(model, (x_test[:1].clone(),))
    shorten_frames(program)
    torch.export.save(program, HERE / "digits.pt2")

    with open(HERE / "pictures.h", "w") as f:
        f.write("/* pictures.h: held-out digits of scikit-learn's data set, pixels 0 to 16. Written by train.py.\n"
                " * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */\n")
        f.write(f"enum {{ N_PICTURES = {PICTURES} }};\n\n")
        f.write("static const struct picture {\n    unsigned char label, pixel[64];\n} pictures[N_PICTURES] = {\n")
        for i in range(PICTURES):
            pixels = ", ".join(str(int(v * 16)) for v in x_test[i].flatten())
            f.write(f"    {{{int(y_test[i])}, {{{pixels}}}}},\n")
        f.write("};\n")


if __name__ == "__main__":
    main()
