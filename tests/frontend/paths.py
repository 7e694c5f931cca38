"""Source files in .pt2 archives made relative, so that a fixture tells nothing of the machine it was made on.
Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.

    python paths.py FILE.pt2...     in place

Works on the bytes: entries keep their place and size (JSON takes blanks at its end), so that an archive of an older torch stays what that
torch wrote in all but the paths and the checksums of what was changed."""
import pathlib
import re
import struct
import sys
import zipfile
import zlib

FILE = re.compile(rb'File \\"(/[^"\\]+)\\"')


def relative(path):
    """/x/site-packages/torch/nn/f.py: torch/nn/f.py; /x/tests/frontend/f.py: tests/frontend/f.py; else the name alone."""
    for mark, keep in ((b"/site-packages/", b""), (b"/tests/", b"tests/")):
        if mark in path:
            return keep + path.split(mark)[-1]
    return path.rsplit(b"/", 1)[-1]


def put_checksum(data, at, signature, offset, crc):
    if data[at:at + 4] != signature:
        raise ValueError(f"expected {signature} at byte {at}")
    data[at + offset:at + offset + 4] = struct.pack("<I", crc)


def make_relative(path):
    path = pathlib.Path(path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as z:
        entries, directory = z.infolist(), z.start_dir
    for info in entries:
        here = directory
        directory += 46 + sum(struct.unpack("<3H", data[here + 28:here + 34]))
        name, extra = struct.unpack("<2H", data[info.header_offset + 26:info.header_offset + 30])
        start = info.header_offset + 30 + name + extra
        text = bytes(data[start:start + info.file_size])
        changed = FILE.sub(lambda m: b'File \\"' + relative(m[1]) + b'\\"', text) if info.filename.endswith(".json") else text
        if changed == text:
            continue
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{path}: {info.filename} is compressed")
        changed = changed.ljust(len(text))
        crc = zlib.crc32(changed)
        data[start:start + len(text)] = changed
        put_checksum(data, here, b"PK\1\2", 16, crc)
        if info.flag_bits & 8:  # a descriptor behind the data
            put_checksum(data, start + len(text), b"PK\7\10", 4, crc)
        else:
            put_checksum(data, info.header_offset, b"PK\3\4", 14, crc)
    path.write_bytes(data)
    with zipfile.ZipFile(path) as z:
        if z.testzip():
            raise ValueError(f"{path}: {z.testzip()} is damaged")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        make_relative(name)
