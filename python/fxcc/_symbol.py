"""Names in arguments that are no strings of the model.

Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
"""


class Symbol(str):
    """A dtype ("float32"), device, layout, memory_format, or a size as an expression ("2*s0"): a str that knows its kind."""

    __slots__ = ("kind",)

    def __new__(cls, text, kind):
        self = super().__new__(cls, text)
        self.kind = kind
        return self

    def __repr__(self):
        return f"{self.kind}({str(self)!r})"
