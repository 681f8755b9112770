"""Records of TensorBoard's event files, encoded here because the package's own code takes tenths of a second to import.

A record is TensorFlow's (``tensorflow/core/lib/io/record_writer.h``): length, its checksum, content, its checksum. The
content is an ``Event`` of ``tensorboard/compat/proto/event.proto`` in the wire format of protocol buffers.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from ctypes import c_float

_POLYNOMIAL = 0x82F63B78
"""That of CRC-32C, with its bits reversed."""

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
"""Wire types of protocol buffers."""

_TABLE: list[int] = []


def start_of_file(step: int) -> bytes:
    """Return the records at the start of a file: its version, and that points of earlier files from a step on are hidden."""
    session = _field(7, _bytes(_field(1, _varint(1), _VARINT)))  # SessionLog.START
    return _record(step, _field(3, _bytes(b"brain.Event:2"))) + _record(step, session)


def point(step: int, values: Mapping[str, float]) -> bytes:
    """Return the record of one point for each of some curves."""
    summary = b"".join(
        _field(1, _bytes(_field(1, _bytes(tag.encode())) + _field(2, bytes(c_float(value)), _FOUR_BYTES)))
        for tag, value in values.items()
    )
    return _record(step, _field(5, _bytes(summary)))


def _record(step: int, content: bytes) -> bytes:
    """Return the record of an event of now."""
    event = _field(1, struct.pack("<d", time.time()), _EIGHT_BYTES) + _field(2, _varint(step), _VARINT) + content
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


def _field(number: int, value: bytes, wire_type: int = _BYTES) -> bytes:
    return _varint(number << 3 | wire_type) + value


def _bytes(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Return a number from 0 on in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _checksum(data: bytes) -> bytes:
    """Return the masked CRC-32C of ``tensorflow/core/lib/hash/crc32c.h``."""
    if not _TABLE:
        for remainder in range(256):
            for _ in range(8):
                remainder = remainder >> 1 ^ (_POLYNOMIAL if remainder & 1 else 0)
            _TABLE.append(remainder)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
