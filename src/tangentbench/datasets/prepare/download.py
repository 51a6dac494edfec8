"""Fetching a published file: resumed where it broke off, and only renamed into place when its sum is right."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tangentbench.atomic import CHUNK, cannot_write, flush
from tangentbench.datasets.prepare.checksums import Published, check_file
from tangentbench.errors import DataCorrupt, DataMissing

if TYPE_CHECKING:
    from requests import Response

CONNECT_SECONDS = 10
SILENCE_SECONDS = 60
ATTEMPTS = 5  # at one address, as long as each brings at least a few bytes
PAUSE_SECONDS = 1.0


class Unreachable(Exception):
    """An address that did not give the whole file this time."""


def fetch(addresses: Sequence[str], published: Published, target: Path, advice: str, progress: bool) -> None:
    """Bring the published file to `target` from the first of `addresses` that has it.

    The bytes go to a .part beside it, which a later call continues. Two processes that want the same file take turns.
    `advice` says what else a user can do if no address works.
    """
    part = target.with_name(target.name + ".part")
    try:
        with claimed(part, target) as stream:
            if stream is not None:
                download(addresses, published, stream, part, advice, progress)
                flush(part)
                part.replace(target)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise cannot_write(part, error) from error


@contextmanager
def claimed(part: Path, target: Path) -> Iterator[IO[bytes] | None]:
    """`part` opened for appending and locked, or None if another process has finished `target` meanwhile."""
    part.parent.mkdir(parents=True, exist_ok=True)
    while not target.is_file():
        with part.open("ab") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if not is_still(part, stream):
                continue  # whoever held it has renamed or removed it: look again
            try:
                yield stream
            finally:
                if is_still(part, stream) and not part.stat().st_size:
                    part.unlink()
            return
    yield None


def is_still(path: Path, stream: IO[bytes]) -> bool:
    try:
        return path.stat().st_ino == os.fstat(stream.fileno()).st_ino
    except FileNotFoundError:
        return False


def download(
    addresses: Sequence[str], published: Published, stream: IO[bytes], part: Path, advice: str, progress: bool
) -> None:
    """Fill `stream`, which appends to `part`, with the published bytes, or say why that cannot be done."""
    reasons: list[str] = []
    mismatch: DataCorrupt | None = None
    for address in addresses:
        try:
            attempts(address, published, stream, progress)
            stream.flush()
            check_file(part, published, f"it came from {address}: try again later, or {advice}")
            return
        except Unreachable as error:
            reasons.append(f"{address} ({error})")
        except DataCorrupt as error:
            stream.truncate(0)
            mismatch = mismatch or error
    raise mismatch or DataMissing(
        f"{part.stem} is not on this machine and cannot be fetched from {' or '.join(reasons)}: "
        f"connect to the network and run again, or {advice}"
    )


def attempts(address: str, published: Published, stream: IO[bytes], progress: bool) -> None:
    """Append what is missing, going on after a broken connection as long as every attempt brings something."""
    for attempt in range(ATTEMPTS):
        have = stream.seek(0, os.SEEK_END)
        try:
            continue_download(address, published.bytes, stream, progress)
            return
        except Unreachable:
            if stream.seek(0, os.SEEK_END) <= have or attempt + 1 == ATTEMPTS:
                raise
        time.sleep(PAUSE_SECONDS)


def continue_download(address: str, size: int, stream: IO[bytes], progress: bool) -> None:
    from tqdm import tqdm

    have = stream.seek(0, os.SEEK_END)
    if have >= size:
        return
    with opened(address, have) as (response, start):
        if start != have:
            stream.truncate(start)
        with tqdm(
            total=size,
            initial=start,
            unit="B",
            unit_scale=True,
            desc=address.rsplit("/", 1)[-1],
            disable=None if progress else True,
        ) as bar:
            for block in blocks(response, size - start):
                stream.write(block)
                bar.update(len(block))


@contextmanager
def opened(address: str, have: int) -> Iterator[tuple[Response, int]]:
    """The server's answer, and the position in the file its first byte has: `have` if it can resume, else 0."""
    response = request(address, {"Range": f"bytes={have}-"} if have else {})
    if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        response.close()
        response = request(address, {})
    with response:
        resumed = response.status_code == HTTPStatus.PARTIAL_CONTENT
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise Unreachable("it answered with another part of the file than was asked for")
        if not resumed and response.status_code != HTTPStatus.OK:
            raise Unreachable(f"it answered {response.status_code} {response.reason}")
        yield response, have if resumed else 0


def request(address: str, headers: dict[str, str]) -> Response:
    import requests

    # A server that compresses on the way would give other bytes than the published ones.
    headers = {"Accept-Encoding": "identity", **headers}
    try:
        return requests.get(address, headers=headers, stream=True, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
    except requests.RequestException as error:
        raise Unreachable(reason(error)) from error


def blocks(response: Response, missing: int) -> Iterator[bytes]:
    """The answer's bytes as sent, at most one more than are `missing`, so that a longer file shows in its sum."""
    from urllib3.exceptions import HTTPError

    left = missing + 1
    while left > 0:
        try:
            block = response.raw.read(min(CHUNK, left), decode_content=False)
        except (HTTPError, OSError) as error:
            raise Unreachable(reason(error)) from error
        if not block:
            return
        left -= len(block)
        yield block


def reason(error: BaseException) -> str:
    """The system's own words where there are any: the libraries wrap them in several layers of object names."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return {"ConnectTimeout": "no answer in time", "ReadTimeout": "no answer in time"}.get(
        type(error).__name__, "the connection broke"
    )
