"""mask_picture_test.py FOLDER: examples/mask_picture.py on masks whose pictures are known. FOLDER is for scratch files."""

import contextlib
import io
import pathlib
import struct
import sys
import unittest
import zlib

import mask_picture

FOLDER = pathlib.Path(sys.argv[1])


def npy(kind, shape, data):
    header = str({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def pixels(path):
    """Palette entries of a PNG that mask_picture wrote, as rows."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body, check = data[at + 8:at + 8 + size], data[at + 8 + size:at + 12 + size]
        assert struct.unpack(">I", check)[0] == zlib.crc32(kind + body)
        chunks[kind], at = body, at + 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    raw = zlib.decompress(chunks[b"IDAT"])
    assert len(raw) == height * (width + 1) and len(chunks[b"PLTE"]) == 3 * 256
    return [raw[y * (width + 1) + 1:(y + 1) * (width + 1)] for y in range(height)]


class MaskPictureTest(unittest.TestCase):
    def setUp(self):
        FOLDER.mkdir(parents=True, exist_ok=True)

    def draw(self, data, *options):
        (FOLDER / "mask.npy").write_bytes(data)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            mask_picture.main([str(FOLDER / "mask.npy"), "--out", str(FOLDER), *options])
        return said.getvalue()

    def refused(self, text, data, *options):
        with self.assertRaisesRegex(mask_picture.MaskError, text):
            self.draw(data, *options)

    def test_a_pixel_is_a_pair(self):
        said = self.draw(npy("|u1", (1, 2, 2, 3), bytes([1, 0, 0, 0, 7, 1] + [0] * 6)), "--side", "3")
        self.assertEqual(pixels(FOLDER / "mask_b0_h0.png"), [bytes([254, 0, 0]), bytes([0, 254, 254])])
        self.assertEqual(pixels(FOLDER / "mask_b0_h1.png"), [bytes(3)] * 2)
        self.assertIn("keeps 3 of 6 pairs, sparsity 0.5000", said)
        self.assertIn("keeps 0 of 6 pairs, sparsity 1.0000", said)

    def test_words_are_the_bits_that_they_hold(self):
        words = struct.pack("<4I", 1 << 31, 0b101, 0xffffffff, 0b110 | 1 << 20)  # padding of the second row is dirty
        self.draw(npy("<u4", (2, 2), words), "--kv-blocks", "35", "--side", "35")
        first, second = pixels(FOLDER / "mask_b0_h0.png")
        self.assertEqual([j for j, level in enumerate(first) if level], [31, 32, 34])
        self.assertEqual([j for j, level in enumerate(second) if not level], [32])

    def test_large_masks_are_shares_of_tiles(self):
        rows = [[1, 1, 0, 0, 1], [1, 0, 0, 0, 1], [0, 0, 1, 1, 1]]
        self.draw(npy("|b1", (3, 5), bytes(sum(rows, []))), "--side", "3")
        self.assertEqual(pixels(FOLDER / "mask_b0_h0.png"),
                         [bytes([round(254 * 3 / 4), 0, 254]), bytes([0, 254, 254])])

    def test_small_masks_are_enlarged_and_heads_are_put_together(self):
        self.draw(npy("|u1", (1, 3, 2, 2), bytes([1, 0, 0, 1] + [1] * 4 + [0] * 4)), "--side", "8", "--together", "--heads", "0-1")
        picture = pixels(FOLDER / "mask.png")
        gap, full = [255] * 4, [254] * 4
        self.assertEqual(picture, [bytes([254, 254, 0, 0] + gap + full)] * 2 + [bytes([0, 0, 254, 254] + gap + full)] * 2)

    def test_what_is_no_mask_is_refused_by_what_would_be_one(self):
        self.refused("not a .npy", b"PK")
        self.refused("'<f4'; a mask is of bytes", npy("<f4", (2, 2), bytes(16)))
        self.refused("--kv-blocks", npy("<u4", (2, 2), bytes(16)))
        self.refused("65 needs 3", npy("<u4", (2, 2), bytes(16)), "--kv-blocks", "65")
        self.refused("1 axes", npy("|u1", (4,), bytes(4)))
        self.refused("ends before", npy("|u1", (4, 4), bytes(15)))
        self.refused("head 3", npy("|u1", (2, 2, 2), bytes(8)), "--heads", "3")
        self.refused("without blocks", npy("|u1", (0, 4), b""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
