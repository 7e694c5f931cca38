"""Makes fixtures/old/torch-VERSION.pt2 with the torch that runs it; see README.md. Needs nothing else of the repository.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE."""
import pathlib
import sys

import torch
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 2)
        self.register_buffer("shift", torch.arange(4.0), persistent=False)
        for n, p in enumerate(self.parameters()):
            p.data = (torch.arange(p.numel(), dtype=torch.float32) * 0.01 + n).reshape(p.shape)

    def forward(self, x):
        return self.fc(torch.relu_(self.bn(self.conv(x))).mean((2, 3)) + self.shift)


out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures" / "old")
out.mkdir(parents=True, exist_ok=True)
torch.export.save(torch.export.export(Small().eval(), (torch.zeros(1, 3, 4, 4),)), out / f"torch-{torch.__version__.split('+')[0]}.pt2")
