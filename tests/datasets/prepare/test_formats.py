"""Byte layouts: what is written pixel by pixel comes back at its place."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from tangentbench.datasets.prepare import formats
from tangentbench.errors import DataCorrupt


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_idx_is_row_major() -> None:
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    read = formats.read_idx_images(idx(images), "images")
    assert read.shape == (2, 3, 4, 1)
    assert np.array_equal(read[..., 0], images)
    assert formats.read_idx_labels(idx(np.array([3, 1, 2], np.uint8)), "labels").tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x08",
        b"\x00\x00\x0d\x01\x00\x00\x00\x01\x00",  # floats
        b"\x00\x00\x08\x03\x00\x00",  # the header ends too early
        idx(np.zeros((2, 3, 4), np.uint8))[:-1],
        idx(np.zeros((2, 3, 4), np.uint8)) + b"\x00",
        idx(np.zeros(4, np.uint8)),  # labels, not images
        b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 2**31, 4),  # a product that overflows 64 bits
        b"\x1f\x8b" + gzip.compress(b"x", mtime=0)[2:],
    ],
)
def test_a_file_that_is_no_idx_of_images_is_refused(data: bytes) -> None:
    with pytest.raises(DataCorrupt, match="the file"):
        formats.read_idx_images(data, "the file")


def test_cifar_planes_are_red_green_blue_row_by_row() -> None:
    record = np.zeros(3073, np.uint8)
    record[0] = 7
    record[1 + 5 * 32 + 9] = 11  # red, row 5, column 9
    record[1 + 1024 + 31 * 32] = 22  # green, row 31, column 0
    record[1 + 2048 + 31] = 33  # blue, row 0, column 31
    images, labels = formats.read_cifar([bytes(3073), record.tobytes()], "a batch")
    assert images.shape == (2, 32, 32, 3)
    assert labels.tolist() == [0, 7]
    assert (images[1, 5, 9, 0], images[1, 31, 0, 1], images[1, 0, 31, 2]) == (11, 22, 33)
    assert int(images.sum(dtype=int)) == 66


def test_stl_planes_are_column_by_column_and_labels_count_from_one() -> None:
    image = np.zeros(3 * 96 * 96, np.uint8)
    image[90 * 96 + 4] = 11  # red, column 90, row 4
    image[2 * 96 * 96 + 3] = 33  # blue, column 0, row 3
    images = formats.read_stl_images(image.tobytes(), "train_X.bin")
    assert images.shape == (1, 96, 96, 3)
    assert (images[0, 4, 90, 0], images[0, 3, 0, 2]) == (11, 33)
    assert formats.read_stl_labels(bytes((1, 10))).tolist() == [0, 9]


@pytest.mark.parametrize("size", [0, 1, 3072, 3074])
def test_half_a_record_is_refused(size: int) -> None:
    with pytest.raises(DataCorrupt, match="no whole number of records"):
        formats.read_cifar([bytes(size)], "a batch")


def test_digits_csv() -> None:
    line = ",".join(["0", "255", *["3"] * 782, "9"])
    images, labels = formats.read_digits_csv(f"{line}\n{line}\n".encode(), "digits")
    assert images.shape == (2, 28, 28, 1)
    assert images[1, 0, :3, 0].tolist() == [0, 255, 3]
    assert labels.tolist() == [9, 9]
    for bad in (b"1,2,3\n", b"a,b\n", b"1,300\n"):
        with pytest.raises(DataCorrupt, match="digits"):
            formats.read_digits_csv(bad, "digits")


def test_pixels_become_fractions_of_255() -> None:
    x = formats.pixels_to_inputs(np.array([0, 51, 255], np.uint8).reshape(1, 1, 3, 1))
    assert x.dtype == np.float32
    assert x.ravel().tolist() == [0.0, np.float32(0.2), 1.0]
