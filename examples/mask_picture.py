#!/usr/bin/env python3
"""Pictures of a saved mask: one PNG a head, query blocks down, key blocks across. Needs nothing beside Python.

    python3 examples/mask_picture.py mask.npy [--out DIR] [--heads 0,3-5] [--side N] [--kv-blocks N] [--together]

mask.npy is any of these, saved by numpy.save or by examples/support/mask_file.hpp, with or without the leading axes:
  - bools or bytes [batch, heads, q_blocks, kv_blocks], as mask_to_bytes() writes them: not zero = kept;
  - mask words, uint32 or int32 [batch, heads, q_blocks, ceil(kv_blocks / 32)], as build_mask() writes them; --kv-blocks says
    how many key blocks there are, since the last word of a row is padded.

A pixel is one block pair where the mask is at most --side blocks on its longer side, and else the kept share of a tile of pairs:
black nothing, pale yellow all. Small masks are enlarged.
"""

import argparse
import ast
import math
import pathlib
import struct
import sys
import zlib

# From black over purple and orange to pale yellow, as examples/support/heat_map.hpp.
STOPS = ((0, 0, 5), (87, 15, 110), (186, 54, 84), (250, 140, 10), (252, 255, 163))
GAP, GAP_LEVEL = 4, 255  # pixels between heads in one picture, and their entry of the palette
TYPES = {"|u1": 1, "|b1": 1, "|i1": 1, "<u4": 4, "<i4": 4}
BITS = [bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256)]


class MaskError(Exception):
    """A file that is no mask. str() says why, and what would be one."""


class Mask:
    """An open mask file: `batch` x `heads` of q_blocks x kv_blocks, read a row at a time."""

    def __init__(self, file, kv_blocks=None):
        self.file, path = file, pathlib.Path(file.name)
        if self.file.read(6) != b"\x93NUMPY":
            raise MaskError(f"{path} is not a .npy file")
        major = self.file.read(2)[0]
        size = struct.unpack("<H", self.file.read(2))[0] if major == 1 else struct.unpack("<I", self.file.read(4))[0]
        header = ast.literal_eval(self.file.read(size).decode("latin1"))
        self.start = self.file.tell()
        kind, shape = header["descr"], header["shape"]
        if header["fortran_order"]:
            raise MaskError(f"{path} is in Fortran order; save numpy.ascontiguousarray(mask)")
        if kind not in TYPES:
            raise MaskError(f"{path} holds {kind!r}; a mask is of bytes, bools or 32-bit words")
        if not 2 <= len(shape) <= 4:
            raise MaskError(f"{path} has {len(shape)} axes; a mask is [batch, heads, q_blocks, kv_blocks] or its last 2 or 3")
        self.batch, self.heads, self.q_blocks, columns = (1,) * (4 - len(shape)) + tuple(shape)
        self.is_words = TYPES[kind] == 4
        if self.is_words and kv_blocks is None:
            raise MaskError(f"{path} holds words, whose rows are padded: say --kv-blocks")
        self.kv_blocks = kv_blocks if self.is_words else columns
        if self.is_words and -(-self.kv_blocks // 32) != columns:
            raise MaskError(f"{path} has {columns} words a row; --kv-blocks {kv_blocks} needs {-(-kv_blocks // 32)}")
        self.row_bytes = columns * TYPES[kind]
        need = self.batch * self.heads * self.q_blocks * self.row_bytes
        if path.stat().st_size - self.start < need:
            raise MaskError(f"{path} ends before its shape {shape} does")

    def rows(self, batch, head):
        """Rows of one head as bytes, a key block each; 0 = dropped."""
        self.file.seek(self.start + (batch * self.heads + head) * self.q_blocks * self.row_bytes)
        for _ in range(self.q_blocks):
            row = self.file.read(self.row_bytes)
            yield b"".join(map(BITS.__getitem__, row))[:self.kv_blocks] if self.is_words else row


def levels(mask, batch, head, tile):
    """Heat of every tile of a head, 0 to 254, as rows of bytes; and the kept pairs."""
    starts = range(0, mask.kv_blocks, tile)
    lines, kept, rows, total = [], [0] * len(starts), 0, 0
    for i, row in enumerate(mask.rows(batch, head)):
        for x, start in enumerate(starts):
            part = row[start:start + tile]
            kept[x] += len(part) - part.count(0)
        rows += 1
        if rows == tile or i + 1 == mask.q_blocks:
            total += sum(kept)
            lines.append(bytes(round(254 * k / (rows * min(tile, mask.kv_blocks - start)))
                               for k, start in zip(kept, starts)))
            kept, rows = [0] * len(starts), 0
    return lines, total


def palette():
    colours = []
    for level in range(255):
        at = 4 * level / 254
        i = min(3, int(at))
        colours += [round(a + (at - i) * (b - a)) for a, b in zip(STOPS[i], STOPS[i + 1])]
    return bytes(colours) + b"\xff\xff\xff"


def png(lines):
    """A PNG whose pixels are entries of the palette."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"PLTE", palette()) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def enlarge(lines, times):
    return [bytes(level for level in line for _ in range(times)) for line in lines for _ in range(times)]


def side_by_side(pictures):
    """Heads in a grid that is about as wide as high, with white between them."""
    height, width = len(pictures[0]), len(pictures[0][0])
    across = min(len(pictures), math.ceil(math.sqrt(len(pictures) * height / width)))
    blank = [bytes([GAP_LEVEL]) * width] * height
    grid = []
    for first in range(0, len(pictures), across):
        band = (pictures[first:first + across] + [blank] * across)[:across]
        if grid:
            grid += [bytes([GAP_LEVEL]) * len(grid[0])] * GAP
        grid += [(bytes([GAP_LEVEL]) * GAP).join(parts) for parts in zip(*band)]
    return grid


def numbers(text):
    """'0,3-5' as [0, 3, 4, 5]."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mask", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="folder of the pictures (.)")
    parser.add_argument("--heads", type=numbers, help="such as 0,3-5 (all)")
    parser.add_argument("--side", type=int, default=1024, help="most pixels of the longer side of a head (1024)")
    parser.add_argument("--kv-blocks", type=int, help="key blocks of a mask of words")
    parser.add_argument("--together", action="store_true", help="all heads in one picture")
    return parser.parse_args(argv)


def main(argv=None):
    options = arguments(argv)
    with open(options.mask, "rb") as file:
        draw(Mask(file, options.kv_blocks), options)


def draw(mask, options):
    """Writes the pictures of `options`, and a line on each."""
    if min(mask.q_blocks, mask.kv_blocks) < 1 or options.side < 1:
        raise MaskError("there is nothing to see in a mask without blocks, or on no pixels")
    heads = options.heads or list(range(mask.heads))
    if max(heads) >= mask.heads:
        raise MaskError(f"--heads asks for head {max(heads)}; {options.mask} has {mask.heads}, counted from 0")
    longest, pairs = max(mask.q_blocks, mask.kv_blocks), mask.q_blocks * mask.kv_blocks
    tile, times = -(-longest // options.side), max(1, options.side // 2 // longest)
    options.out.mkdir(parents=True, exist_ok=True)
    pictures = []
    for batch in range(mask.batch):
        for head in heads:
            lines, kept = levels(mask, batch, head, tile)
            pictures.append(enlarge(lines, times))
            print(f"batch {batch} head {head} keeps {kept} of {pairs} pairs, sparsity {1 - kept / pairs:.4f}")
            if not options.together:
                write(options.out / f"{options.mask.stem}_b{batch}_h{head}.png", pictures[-1])
    if options.together:
        write(options.out / f"{options.mask.stem}.png", side_by_side(pictures))


def write(path, lines):
    path.write_bytes(png(lines))
    print(path)


if __name__ == "__main__":
    try:
        main()
    except (MaskError, OSError) as error:
        sys.exit(f"mask_picture: {error}")
