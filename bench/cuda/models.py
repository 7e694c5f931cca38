"""Which models bench/cuda measures, and the kernels it holds against the memory's bandwidth.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

Names alone need no torch; build() does.
"""
import pathlib
import sys

ZOO = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "models"

# Timed against eager and inductor.
MODELS = ["resnet18", "resnet50", "mobilenet_v2", "convnext_tiny", "bert_base", "gpt2", "vit_b_16", "swin_t"]
# Small, so that compute-sanitizer can watch each access; between them, every kind of kernel.
SMALL = ["mixed", "mobilenet_v3_small", "bert_small", "gpt2_small", "t5_small", "llama_small", "vit_small", "swin_small"]
# One kernel each, over much more than a cache holds.
KERNELS = ["pointwise", "pointwise_channels", "softmax", "softmax_long", "layer_norm", "rms_norm", "group_norm"]


def kernel(name, rows):
    """A module of one kernel and its inputs, of 4096 * rows floats each (32768 * rows / 8 where rows are long)."""
    import torch
    from torch import nn

    class Pointwise(nn.Module):
        def forward(self, x, y):
            return torch.relu(x * 1.5 + y)

    class Channels(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(64)

        def forward(self, x):
            return torch.relu(self.norm(x))

    class Softmax(nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1)

    made = {
        "pointwise": (Pointwise, [(rows, 4096)] * 2),
        "pointwise_channels": (Channels, [(rows // 4, 64, 16, 16)]),
        "softmax": (Softmax, [(4 * rows, 1024)]),
        "softmax_long": (Softmax, [(rows // 8, 32768)]),
        "layer_norm": (lambda: nn.LayerNorm(1024), [(4 * rows, 1024)]),
        "rms_norm": (lambda: nn.RMSNorm(1024, eps=1e-6), [(4 * rows, 1024)]),
        "group_norm": (lambda: nn.GroupNorm(8, 64), [(rows // 4, 64, 16, 16)]),
    }[name]
    torch.manual_seed(sum(name.encode()))
    module = made[0]().eval()
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5)
    return module, tuple(torch.randn(shape) for shape in made[1])


def build(name, rows):
    """The module in evaluation mode and a tuple of inputs, from seeds: on the CPU."""
    if name in KERNELS:
        return kernel(name, rows)
    sys.path.insert(0, str(ZOO))
    import zoo
    if name in zoo.MODELS:
        model, inputs = zoo.build(name)
    else:
        import zoo_transformers
        model, inputs = zoo_transformers.build(name)
    return model, inputs[0] if isinstance(inputs[0], tuple) else (inputs[0],)


def leaves(value):
    """The tensors of what a model gives, in order."""
    if hasattr(value, "detach"):
        return [value]
    return [leaf for v in (value.values() if isinstance(value, dict) else value) for leaf in leaves(v)]


def tensors(module):
    """Parameters and buffers by path as numpy arrays, tied ones under each of theirs."""
    both = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {path: t.detach().contiguous().numpy() for path, t in both}
