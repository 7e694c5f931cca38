"""Small models in training mode with their losses: transformers, and classifiers with every loss.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""
import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    """nn.TransformerEncoderLayer and a classifier; masked: the end of each row is padding."""

    def __init__(self, masked=False, **kwargs):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, **kwargs)
        self.head, self.masked = nn.Linear(16, 4), masked

    def forward(self, x, target):
        padding = torch.arange(x.shape[1]).expand(x.shape[0], -1) >= 5 if self.masked else None
        return F.cross_entropy(self.head(self.layer(x, src_key_padding_mask=padding).mean(1)), target)


class GPT(nn.Module):
    """A block with causal attention, embeddings of tokens and places; tied: the head is the embedding."""

    def __init__(self, dropout, tied, vocabulary=32, width=16, heads=2):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(16, width)
        self.norm1, self.norm2, self.drop = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(dropout)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.head = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Linear(width, vocabulary, bias=False)
        self.heads, self.p = heads, dropout
        if tied:
            self.head.weight = self.token.weight

    def forward(self, tokens, target):
        b, t = tokens.shape
        x = self.drop(self.token(tokens) + self.place(torch.arange(t)))
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(x.shape[-1], 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(b, t, -1)))
        x = x + self.drop(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))
        return F.cross_entropy(self.head(x).view(b * t, -1), target.view(-1), ignore_index=3)


class Translator(nn.Module):
    """nn.Transformer: encoder, decoder, attention across."""

    def __init__(self):
        super().__init__()
        self.net = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, activation="gelu", batch_first=True)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return F.mse_loss(self.net(x, y, tgt_mask=mask), y)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)

    def forward(self, x, y):
        z, weights = self.net(x, y, y)
        return F.l1_loss(z, y) + weights.square().sum()


class Classifier(nn.Module):
    def __init__(self, middle, loss, width=16):
        super().__init__()
        self.first, self.middle, self.last, self.loss = nn.Linear(8, 16), middle, nn.Linear(width, 5), loss

    def forward(self, x, target):
        return self.loss(self.last(self.middle(self.first(x))), target)


class Plain(nn.Module):
    """A function of a weighed input."""

    def __init__(self, f, n):
        super().__init__()
        self.weight, self.f = nn.Parameter(torch.randn(n)), f

    def forward(self, x, target):
        return self.f(x * self.weight, target)


def hugging(kind, how):
    import transformers
    if kind == "bert":
        config = transformers.BertConfig(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                                         max_position_embeddings=16, attn_implementation=how)
        model = transformers.BertForSequenceClassification(config)
    else:
        config = transformers.GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=16, attn_implementation=how)
        model = transformers.GPT2LMHeadModel(config)

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens, target):
            return self.model(input_ids=tokens, labels=target).loss
    return Loss()


def ints(high, *shape):
    return lambda: torch.randint(0, high, shape)


def floats(*shape):
    return lambda: torch.randn(shape)


def shares(*shape):
    return lambda: torch.rand(shape)


ROWS = (floats(6, 8), ints(5, 6))
PAIRS = (floats(6, 8), shares(6, 5))
VALUES = (floats(2, 7, 16), ints(16, 2, 7))
TOKENS = (ints(32, 2, 8), ints(32, 2, 8))
SEQUENCES = (floats(2, 7, 16), floats(2, 7, 16))

# name: model, inputs
MODELS = {
    "encoder": (lambda: Encoder(activation=torch.tanh), (floats(2, 7, 16), ints(4, 2))),
    "encoder norm first": (lambda: Encoder(norm_first=True, activation="gelu", masked=True), (floats(2, 7, 16), ints(4, 2))),
    "gpt": (lambda: GPT(0.0, False), TOKENS),
    "gpt tied, dropout": (lambda: GPT(0.1, True), TOKENS),
    "translator": (Translator, SEQUENCES),
    "attention": (Attention, SEQUENCES),
    "bert sdpa": (lambda: hugging("bert", "sdpa"), (ints(32, 2, 8), ints(2, 2))),
    "bert eager": (lambda: hugging("bert", "eager"), (ints(32, 2, 8), ints(2, 2))),
    "gpt2": (lambda: hugging("gpt2", "sdpa"), TOKENS),
    "cross entropy": (lambda: Classifier(nn.Tanh(), F.cross_entropy), ROWS),
    "cross entropy, smooth": (lambda: Classifier(nn.Sigmoid(), lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1)), ROWS),
    "cross entropy, weights": (lambda: Classifier(nn.GELU(), lambda y, t: F.cross_entropy(y, t, weight=torch.arange(1.0, 6.0))), ROWS),
    "cross entropy, shares": (lambda: Classifier(nn.Softplus(), F.cross_entropy), PAIRS),
    "cross entropy, images": (lambda: Plain(lambda x, t: F.cross_entropy(x.transpose(1, 2), t), 16), VALUES),
    "dropout": (lambda: Classifier(nn.Dropout(0.5), F.cross_entropy), ROWS),
    "group norm": (lambda: Classifier(nn.GroupNorm(4, 16), F.cross_entropy), ROWS),
    "rms norm": (lambda: Classifier(nn.RMSNorm(16), F.cross_entropy), ROWS),
    "glu": (lambda: Classifier(nn.GLU(), F.cross_entropy, 8), ROWS),
    "log sigmoid": (lambda: Classifier(nn.LogSigmoid(), F.cross_entropy), ROWS),
    "mse": (lambda: Classifier(nn.Tanh(), F.mse_loss), PAIRS),
    "smooth l1": (lambda: Classifier(nn.Tanh(), F.smooth_l1_loss), PAIRS),
    "huber": (lambda: Classifier(nn.Tanh(), F.huber_loss), PAIRS),
    "binary cross entropy": (lambda: Classifier(nn.Tanh(), lambda y, t: F.binary_cross_entropy(torch.sigmoid(y), t)), PAIRS),
    "logits": (lambda: Classifier(nn.Tanh(), F.binary_cross_entropy_with_logits), PAIRS),
    "divergence": (lambda: Classifier(nn.Tanh(), lambda y, t: F.kl_div(F.log_softmax(y, 1), t, reduction="batchmean")), PAIRS),
    "parts": (lambda: Plain(lambda x, t: x[:, 0].sum() + (x[:, 1:5:2] ** 2).sum() + (x[:, :3, 2:] ** 3).sum() + x[0].exp().mean(), 16), VALUES),
    "gathered": (lambda: Plain(lambda x, t: (x[:, torch.tensor([0, 1, 1, 5])] ** 2).sum() + (x.gather(1, t[:, None, :1].expand(2, 3, 16) % 7) ** 2).sum()
                               + (F.embedding(t % 7, x[0], padding_idx=1) ** 2).sum(), 16), VALUES),
    "cumulative": (lambda: Plain(lambda x, t: (x.cumsum(1) ** 2).sum() + x.logsumexp(1).sum() + (x.std(1) * x.norm(dim=1)).sum(), 16), VALUES),
    "scattered": (lambda: Plain(lambda x, t: (torch.scatter_add(x, 1, (t % 7)[:, :, None].expand(2, 7, 16), x.exp()) ** 2).sum()
                                + (x.index_add(1, torch.tensor([0, 1, 1, 5]), x[:, :4]) ** 3).sum(), 16), VALUES),
}
