"""Published byte layouts as arrays: uint8 images (n, height, width, channels) and int64 labels (n,)."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tangentbench.errors import DataCorrupt

Pixels: TypeAlias = NDArray[np.uint8]

IDX_UNSIGNED_BYTE = 8
CIFAR_SIDE = 32
STL_SIDE = 96
CHANNELS = 3
MNIST_SIDE = 28


def read_idx(data: bytes, what: str) -> Pixels:
    """The array of an IDX file: two zero bytes, type, number of dimensions d, d big-endian sizes, row-major data."""
    if len(data) < 4 or data[:3] != bytes((0, 0, IDX_UNSIGNED_BYTE)):
        raise DataCorrupt(f"{what} is no IDX file of unsigned bytes: replace it by the published one")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", data[4:start]) if len(data) >= start else ()
    if len(data) - start != math.prod(shape):
        raise DataCorrupt(f"{what} does not hold the {shape} bytes its header announces: replace it")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_idx_images(data: bytes, what: str) -> Pixels:
    images = read_idx(data, what)
    if images.ndim != 3:
        raise DataCorrupt(f"{what} holds no grey images but an array of shape {images.shape}: replace it")
    return images[..., np.newaxis]


def read_idx_labels(data: bytes, what: str) -> NDArray[np.int64]:
    labels = read_idx(data, what)
    if labels.ndim != 1:
        raise DataCorrupt(f"{what} holds no labels but an array of shape {labels.shape}: replace it")
    return labels.astype(np.int64)


def read_cifar(batches: Sequence[bytes], what: str) -> tuple[Pixels, NDArray[np.int64]]:
    """Records of a label byte and 1,024 red, 1,024 green, 1,024 blue bytes, each plane row by row."""
    plane = CIFAR_SIDE * CIFAR_SIDE
    records = np.concatenate([whole_records(batch, 1 + CHANNELS * plane, what) for batch in batches])
    planes = records[:, 1:].reshape(-1, CHANNELS, CIFAR_SIDE, CIFAR_SIDE)
    return planes.transpose(0, 2, 3, 1), records[:, 0].astype(np.int64)


def read_stl_images(data: bytes, what: str) -> Pixels:
    """Red, green, blue planes of 96x96 bytes, each plane column by column."""
    records = whole_records(data, CHANNELS * STL_SIDE * STL_SIDE, what)
    columns = records.reshape(-1, CHANNELS, STL_SIDE, STL_SIDE)
    return columns.transpose(0, 3, 2, 1)


def read_stl_labels(data: bytes) -> NDArray[np.int64]:
    """One byte a label, counted from 1; ours count from 0."""
    return np.frombuffer(data, np.uint8).astype(np.int64) - 1


def read_digits_csv(data: bytes, what: str) -> tuple[Pixels, NDArray[np.int64]]:
    """Lines of 784 pixels and a label, all numbers 0 to 255, separated by commas."""
    try:
        table = np.loadtxt(data.decode("ascii").splitlines(), dtype=np.uint8, delimiter=",", ndmin=2)
    except ValueError as error:
        raise DataCorrupt(f"{what} is no table of digits ({error}): install the package again") from error
    if table.shape[1] != MNIST_SIDE * MNIST_SIDE + 1:
        raise DataCorrupt(f"{what} has {table.shape[1]} columns, not 785: install the package again")
    return table[:, :-1].reshape(-1, MNIST_SIDE, MNIST_SIDE, 1), table[:, -1].astype(np.int64)


def read_word_vectors(data: bytes, words: Sequence[str], what: str) -> NDArray[np.float32]:
    """The vectors (words, d) of GloVe's text format: a line for each word, the word and d numbers between blanks."""
    lines = [line_of_word(data, word, what) for word in words]
    try:
        vectors = [np.array(line.split()[1:], dtype=np.float32) for line in lines]
    except ValueError as error:
        raise DataCorrupt(f"{what} is no table of word vectors ({error}): replace it by the published one") from error
    if len({len(vector) for vector in vectors}) != 1 or not len(vectors[0]):
        raise DataCorrupt(f"{what} has vectors of different lengths: replace it by the published one")
    return np.stack(vectors)


def line_of_word(data: bytes, word: str, what: str) -> str:
    begin = word.encode() + b" "
    start = 0 if data.startswith(begin) else data.find(b"\n" + begin) + 1
    if start == 0 and not data.startswith(begin):
        raise DataCorrupt(f"{what} has no vector of the word '{word}': take another word or another file")
    end = data.find(b"\n", start)
    return data[start : end if end >= 0 else len(data)].decode("utf-8", "replace")


def whole_records(data: bytes, record: int, what: str) -> Pixels:
    if not data or len(data) % record:
        raise DataCorrupt(f"{what} has {len(data)} bytes, no whole number of records of {record} bytes: replace it")
    return np.frombuffer(data, np.uint8).reshape(-1, record)


def pixels_to_inputs(pixels: Pixels) -> NDArray[np.float32]:
    """Bytes k as k/255."""
    x = pixels.astype(np.float32, order="C")
    x /= np.float32(255)
    return x
