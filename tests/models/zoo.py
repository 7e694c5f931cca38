"""The models that whole-model tests and bench/ use, with weights that do not hide errors.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

A freshly initialised network tells little: activations shrink to 1e-14 or outputs hardly depend on inputs. So weights
are drawn with gain, affine terms and heads are random, batch-norm statistics come from one random batch, and export()
refuses a model whose outputs for two inputs differ by less than 10 % of the largest magnitude.

Exported models and their reference outputs are kept in the user's cache folder under a name made of this file's hash and
torch's version.

    python zoo.py NAME...     export these (all without names), print where they lie
"""
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import sys
import sysconfig

import numpy
import torch
import torchvision
from torch import nn

INPUTS = 2  # inputs a model is checked with


class SimpleCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        return self.pool(self.relu(self.conv(x)))


class BigModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(20) for layer in (
            nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())))

    def forward(self, x):
        return self.layers(x)


class MnistCNN(nn.Module):
    """PyTorch's MNIST example."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = nn.functional.relu(self.conv2(nn.functional.relu(self.conv1(x))))
        x = self.dropout1(nn.functional.max_pool2d(x, 2)).flatten(1)
        return nn.functional.log_softmax(self.fc2(self.dropout2(nn.functional.relu(self.fc1(x)))), 1)


class Mixed(nn.Module):
    """What torchvision's classifiers lack: an hourglass with transposed convolution, both upsamplings, group and layer norm,
    padding modes, dilation, every activation, several outputs in a dict, in-place arithmetic."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(4, 16)
        self.acts = nn.ModuleList([
            nn.SiLU(), nn.Hardswish(), nn.Hardsigmoid(), nn.GELU(), nn.GELU("tanh"), nn.LeakyReLU(0.1), nn.ELU(0.7), nn.PReLU(16),
            nn.Softplus(), nn.Mish(), nn.Tanh(), nn.Sigmoid()])
        self.convs = nn.ModuleList([nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=4) for _ in self.acts])
        self.down = nn.Conv2d(16, 24, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(24, 12, 4, stride=2, padding=1)
        self.merge = nn.Conv2d(12 + 16 + 24 + 24, 8, 1)
        self.head = nn.Linear(8, 5)
        self.layer_norm = nn.LayerNorm(8)

    def forward(self, x):
        x = nn.functional.relu6(self.norm(self.stem(x)))
        for conv, act in zip(self.convs, self.acts):
            x = x + 0.5 * act(conv(x))
        low = self.down(nn.functional.pad(x, (1, 2, 2, 1), value=0.25))[:, :, :self.size(x) // 2, :self.size(x) // 2]
        y = torch.cat([
            self.up(low).relu_(), x,
            nn.functional.interpolate(low, scale_factor=2, mode="nearest"),
            nn.functional.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)], 1)
        y = self.merge(y)
        y += 1
        tokens = self.layer_norm(y.flatten(2).transpose(1, 2))
        weights = torch.softmax(tokens @ tokens.transpose(1, 2) / 8, -1)
        return {"map": y * 2, "class": (self.head((weights @ tokens).mean(1)), nn.functional.adaptive_avg_pool2d(y, (3, 2)))}

    @staticmethod
    def size(x):
        return x.shape[-1]


def torchvision_model(name, size=224, **kwargs):
    return lambda: (getattr(torchvision.models, name)(weights=None, **kwargs), (1, 3, size, size))


# name: a function that returns the module and the shape of its input
MODELS = {
    "simple_cnn": lambda: (SimpleCNN(), (1, 3, 32, 32)),
    "big_model": lambda: (BigModel(), (1, 64, 32, 32)),
    "mnist_cnn": lambda: (MnistCNN(), (1, 1, 28, 28)),
    "mixed": lambda: (Mixed(), (2, 3, 32, 32)),
    "alexnet": torchvision_model("alexnet"),
    "vgg11_bn": torchvision_model("vgg11_bn"),
    "resnet18": torchvision_model("resnet18"),
    "resnet50": torchvision_model("resnet50"),
    "resnext50_32x4d": torchvision_model("resnext50_32x4d"),
    "wide_resnet50_2": torchvision_model("wide_resnet50_2"),
    "squeezenet1_1": torchvision_model("squeezenet1_1"),
    "densenet121": torchvision_model("densenet121"),
    "googlenet": torchvision_model("googlenet", init_weights=False),
    "inception_v3": torchvision_model("inception_v3", 299, init_weights=False),
    "mobilenet_v2": torchvision_model("mobilenet_v2"),
    "mobilenet_v3_small": torchvision_model("mobilenet_v3_small"),
    "mobilenet_v3_large": torchvision_model("mobilenet_v3_large"),
    "mnasnet1_0": torchvision_model("mnasnet1_0"),
    "shufflenet_v2_x1_0": torchvision_model("shufflenet_v2_x1_0"),
    "efficientnet_b0": torchvision_model("efficientnet_b0"),
    "regnet_y_400mf": torchvision_model("regnet_y_400mf"),
    "convnext_tiny": torchvision_model("convnext_tiny"),
}

# The subset for CI: one of each kind of block, small enough for two cores.
QUICK = ["simple_cnn", "big_model", "mnist_cnn", "mixed", "resnet18", "squeezenet1_1", "densenet121", "mobilenet_v2",
         "mobilenet_v3_small", "shufflenet_v2_x1_0", "regnet_y_400mf", "efficientnet_b0"]

# Also exported after run_decompositions().
DECOMPOSED = ["simple_cnn", "mnist_cnn", "mixed", "resnet18", "mobilenet_v3_small", "shufflenet_v2_x1_0", "convnext_tiny"]


@dataclasses.dataclass
class Exported:
    name: str
    path: pathlib.Path            # the .pt2
    decomposed: pathlib.Path      # the .pt2 after run_decompositions, where the model is in DECOMPOSED
    reference: pathlib.Path       # .npz: for i in 0, 1: inputs in{i}_{j}, outputs out{i}_{j}
    inputs: list                  # INPUTS lists of arrays
    outputs: list                 # the same of eager's outputs


def picture(shape, seed):
    """A batch of picture-like inputs: a coarse pattern under noise, of varied contrast."""
    g = torch.Generator().manual_seed(seed)
    coarse = torch.randn(shape[0], shape[1], 5, 5, generator=g)
    smooth = nn.functional.interpolate(coarse, shape[2:], mode="bicubic", align_corners=True)
    return smooth * (0.5 + torch.rand(shape[0], 1, 1, 1, generator=g)) + 0.3 * torch.randn(shape, generator=g)


def randomize(model):
    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.1)
        elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
    for name, parameter in model.named_parameters():
        if name.endswith("layer_scale"):
            nn.init.uniform_(parameter, 0.1, 0.5)


def spread(module, _, output):
    """A forward hook: gives each output channel mean 0 and deviation 1 over this batch, plus a random bias, through the weights.
    Without norms, the activations of a deep ReLU network grow alike whatever the input."""
    dims = [d for d in range(output.dim()) if d != 1]
    mean, deviation = output.mean(dims), output.std(dims) + 1e-6
    shape = [-1 if d == 1 else 1 for d in range(output.dim())]
    bias = 0.3 * torch.randn_like(mean)
    module.weight.div_(deviation.view(-1, *[1] * (module.weight.dim() - 1)))
    module.bias.copy_((module.bias - mean) / deviation + bias)
    return (output - mean.view(shape)) / deviation.view(shape) + bias.view(shape)


def take_statistics(model, shape, seed):
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    batch = picture((4, *shape[1:]), seed)
    if any(isinstance(m, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)) for m in model.modules()):
        hooks = []
    else:
        hooks = [m.register_forward_hook(spread) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    for m in norms:
        m.train()
        m.momentum = 1.0
    if norms or hooks:
        model(batch)
    for m in norms:
        m.eval()
        m.momentum = 0.1
    for h in hooks:
        h.remove()


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [leaf for v in values for leaf in leaves(v)]


def shorten_frames(program):
    """Source files relative to the packages, so that what is emitted is the same on every machine."""
    here, packages = str(pathlib.Path(__file__).resolve().parent), sysconfig.get_path("purelib")
    for node in program.graph.nodes:
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = node.meta["stack_trace"].replace(f"{here}/", "").replace(f"{packages}/", "")


def build(name):
    """The module in eval mode, and its INPUTS inputs."""
    torch.manual_seed(sum(name.encode()))
    with torch.no_grad():
        model, shape = MODELS[name]()
        model.eval()
        randomize(model)
        take_statistics(model, shape, 7)
    return model, [picture(shape, 100 + i) for i in range(INPUTS)]


def cache_folder():
    key = hashlib.sha256(pathlib.Path(__file__).read_bytes() + torch.__version__.encode()).hexdigest()[:12]
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "fxcc" / f"models-{key}"


def write(folder, name):
    model, inputs = build(name)
    with torch.no_grad():
        outputs = [[t.numpy() for t in leaves(model(x))] for x in inputs]
    for a, b in zip(*outputs):
        scale = abs(a).max()
        if not numpy.isfinite(a).all() or abs(a - b).max() < 0.1 * scale:
            raise ValueError(f"{name}: outputs for two inputs differ by {abs(a - b).max():.3g} of {scale:.3g}: they hide errors")
    program = torch.export.export(model, (inputs[0],))
    shorten_frames(program)
    torch.export.save(program, folder / f"{name}.pt2")
    if name in DECOMPOSED:
        program = program.run_decompositions()
        torch.export.save(program, folder / f"{name}_decomposed.pt2")
    arrays = {}
    for i in range(INPUTS):
        arrays[f"in{i}_0"] = inputs[i].numpy()
        arrays.update({f"out{i}_{j}": a for j, a in enumerate(outputs[i])})
    numpy.savez(folder / f"{name}.part.npz", **arrays)
    os.replace(folder / f"{name}.part.npz", folder / f"{name}.npz")  # last: it says that the rest is there


def cached(folder, name, write):
    """A model kept in a folder, where write(folder, name) puts it when it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    reference = folder / f"{name}.npz"
    with open(folder / f"{name}.lock", "w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not reference.exists():
            write(folder, name)
    with numpy.load(reference) as arrays:
        inputs, outputs = ([[arrays[k] for k in arrays.files if k.startswith(f"{which}{i}_")] for i in range(INPUTS)] for which in ("in", "out"))
    return Exported(name, folder / f"{name}.pt2", folder / f"{name}_decomposed.pt2", reference, inputs, outputs)


def export(name):
    return cached(cache_folder(), name, write)


if __name__ == "__main__":
    for model_name in sys.argv[1:] or MODELS:
        print(export(model_name).path, flush=True)
