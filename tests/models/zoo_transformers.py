"""Transformers for the whole-model tests: torchvision's, and Hugging Face's from configurations, with random weights.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

Weights are drawn so that attention is neither uniform nor one-hot and that norms and biases count; export() refuses a model whose outputs
for two inputs differ by less than 10 % of the largest. Nothing is downloaded. Both of Hugging Face's attention implementations occur: "sdpa",
which torch.export writes as aten.scaled_dot_product_attention, and "eager", which spells it out.

Models are kept beside zoo.py's, under a name made of this file's hash.

    python zoo_transformers.py NAME...     export these (all without names), print where they lie
"""
import hashlib
import os
import pathlib
import sys
import warnings

import numpy
import torch
from torch import nn

import zoo

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}


class Last(nn.Module):
    """What a Hugging Face model gives first, by positional arguments."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *args):
        return self.model(**dict(zip(self.names, args, strict=True)))[0]


def tokens(seed, vocabulary, batch, length):
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(seed))


def padding(seed, batch, length):
    """1 for words, 0 behind the end of each sentence but the first."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    for i in range(1, batch):
        mask[i, length - 1 - (seed + i) % (length // 2):] = 0
    return mask


def bert(attention, batch=2, length=12, **config):
    from transformers import BertConfig, BertModel
    c = BertConfig(**SMALL | config, attn_implementation=attention)
    return (Last(BertModel(c, add_pooling_layer=False), "input_ids", "attention_mask"),
            lambda seed: (tokens(seed, c.vocab_size, batch, length), padding(seed, batch, length)))


def distilbert(attention, batch=2, length=12, **config):
    from transformers import DistilBertConfig, DistilBertModel
    c = DistilBertConfig(**{"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 100} | config, attn_implementation=attention)
    return (Last(DistilBertModel(c), "input_ids", "attention_mask"),
            lambda seed: (tokens(seed, c.vocab_size, batch, length), padding(seed, batch, length)))


def gpt2(attention, batch=2, length=12, **config):
    from transformers import GPT2Config, GPT2LMHeadModel
    c = GPT2Config(**{"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 1} | config,
                   attn_implementation=attention, use_cache=False)
    return Last(GPT2LMHeadModel(c), "input_ids"), lambda seed: (tokens(seed, c.vocab_size, batch, length),)


def llama(attention, batch=2, length=12, **config):
    """Rotary positions, grouped queries, RMS norm, SiLU."""
    from transformers import LlamaConfig, LlamaModel
    c = LlamaConfig(**SMALL | {"num_key_value_heads": 2} | config, attn_implementation=attention, use_cache=False)
    return Last(LlamaModel(c), "input_ids"), lambda seed: (tokens(seed, c.vocab_size, batch, length),)


def t5(attention, batch=2, length=12, **config):
    """Encoder and decoder."""
    from transformers import T5Config, T5Model
    c = T5Config(**{"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 100} | config,
                 attn_implementation=attention, use_cache=False)
    return (Last(T5Model(c), "input_ids", "attention_mask", "decoder_input_ids"),
            lambda seed: (tokens(seed, c.vocab_size, batch, length), padding(seed, batch, length), tokens(seed + 7, c.vocab_size, batch, length // 2)))


def whisper(attention, length=100, **config):
    """The encoder: convolutions over a spectrogram, then attention."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    c = WhisperConfig(**{"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "num_mel_bins": 16,
                         "max_source_positions": length // 2, "vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                         "decoder_start_token_id": 1} | config, attn_implementation=attention)
    return (Last(WhisperEncoder(c), "input_features"),
            lambda seed: (torch.randn(1, c.num_mel_bins, length, generator=torch.Generator().manual_seed(seed)),))


def vision(make, size):
    import torchvision
    return make(torchvision.models), lambda seed: (zoo.picture((1, 3, size, size), seed),)


# name: a function that returns the module and one of a seed that returns its inputs
QUICK_MODELS = {
    "bert_small": lambda: bert("sdpa"),
    "bert_small_eager": lambda: bert("eager"),
    "distilbert_small": lambda: distilbert("sdpa"),
    "gpt2_small": lambda: gpt2("sdpa"),
    "gpt2_small_eager": lambda: gpt2("eager"),
    "t5_small": lambda: t5("sdpa"),
    "whisper_small": lambda: whisper("sdpa"),
    "llama_small": lambda: llama("sdpa"),
    "llama_small_eager": lambda: llama("eager"),
    "vit_small": lambda: vision(lambda m: m.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10), 32),
    "swin_small": lambda: vision(lambda m: m.SwinTransformer([2, 2], 24, [2, 2], [2, 4], [4, 4], num_classes=10), 32),
}
FULL_MODELS = {
    "bert_base": lambda: bert("sdpa", 1, 128, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, vocab_size=30522),
    "minilm": lambda: bert("sdpa", 1, 128, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, vocab_size=30522),
    "distilbert": lambda: distilbert("sdpa", 1, 128, dim=768, n_layers=6, n_heads=12, hidden_dim=3072, vocab_size=30522),
    "gpt2": lambda: gpt2("sdpa", 1, 64, n_embd=768, n_layer=12, n_head=12, vocab_size=50257, n_positions=1024),
    "t5": lambda: t5("sdpa", 1, 64, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128),
    "whisper_tiny": lambda: whisper("sdpa", 3000, d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, num_mel_bins=80),
    "llama_block": lambda: llama("sdpa", 1, 64, hidden_size=512, num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=2,
                                 intermediate_size=1408, vocab_size=1000),
    "vit_b_16": lambda: vision(lambda m: m.vit_b_16(weights=None), 224),
    "swin_t": lambda: vision(lambda m: m.swin_t(weights=None), 224),
}
MODELS = QUICK_MODELS | FULL_MODELS
QUICK = list(QUICK_MODELS)
# Also exported after run_decompositions(), which torch 2.13 cannot do with GPT-2: its attention changes strides there.
DECOMPOSED = ["bert_small", "llama_small", "vit_small", "swin_small"]


def randomize(model):
    """Every layer keeps the size of its input; attention's scores spread a little more."""
    for name, p in model.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if name.endswith("Attention.q.weight"):  # T5 leaves scores undivided: its weights make up for that, or softmax has one winner
            nn.init.normal_(p, std=1.4 / (p.shape[1] * model.model.config.d_kv) ** 0.5)
        elif p.dim() >= 2 and "embed" not in name and "wte" not in name and "wpe" not in name and "relative" not in name:
            fan_in = p[0].numel() if leaf != "weight" or ".c_" not in name else p.shape[0]
            nn.init.normal_(p, std=(1.4 if any(k in name for k in ("query", "key", "q_proj", "k_proj", "in_proj", "c_attn", "qkv")) else 1) / fan_in**0.5)
        elif p.dim() >= 2:
            nn.init.normal_(p, std=0.7)
        elif leaf == "weight":
            nn.init.uniform_(p, 0.5, 1.5)
        else:
            nn.init.normal_(p, std=0.2)


def build(name):
    """The module in evaluation mode, and its INPUTS tuples of inputs."""
    torch.manual_seed(sum(name.encode()))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, inputs = MODELS[name]()
        model.eval()
        randomize(model)
    return model, [inputs(100 + i) for i in range(zoo.INPUTS)]


def cache_folder():
    key = hashlib.sha256(pathlib.Path(__file__).read_bytes() + torch.__version__.encode()).hexdigest()[:12]
    return zoo.cache_folder().parent / f"models-transformers-{key}"


def write(folder, name):
    model, inputs = build(name)
    with torch.no_grad():
        outputs = [[t.numpy() for t in zoo.leaves(model(*x))] for x in inputs]
    for a, b in zip(*outputs):
        scale = abs(a).max()
        if not numpy.isfinite(a).all() or abs(a - b).max() < 0.1 * scale:
            raise ValueError(f"{name}: outputs for two inputs differ by {abs(a - b).max():.3g} of {scale:.3g}: they hide errors")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, inputs[0])
        zoo.shorten_frames(program)
        torch.export.save(program, folder / f"{name}.pt2")
        if name in DECOMPOSED:
            torch.export.save(program.run_decompositions(), folder / f"{name}_decomposed.pt2")
    arrays = {f"in{i}_{j}": t.numpy() for i, x in enumerate(inputs) for j, t in enumerate(x)}
    arrays |= {f"out{i}_{j}": a for i, y in enumerate(outputs) for j, a in enumerate(y)}
    numpy.savez(folder / f"{name}.part.npz", **arrays)
    os.replace(folder / f"{name}.part.npz", folder / f"{name}.npz")  # last: it says that the rest is there


def export(name):
    return zoo.export(name) if name in zoo.MODELS else zoo.cached(cache_folder(), name, write)


if __name__ == "__main__":
    for model_name in sys.argv[1:] or MODELS:
        print(export(model_name).path, flush=True)
