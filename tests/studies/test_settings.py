"""Settings as records: what does not fit is said with the file, the key and the reason."""

from __future__ import annotations

from typing import Any, Literal, Self

import msgspec
import pytest

from tangentbench.errors import InvalidConfig
from tangentbench.studies.settings import Positive, Settings, WrongSetting, read_settings


class Pair(tuple[int, int]):
    """Written as "3 x 4"."""

    @classmethod
    def parse(cls, text: str) -> Self:
        sides = text.split(" x ")
        if len(sides) != 2:
            raise ValueError(f"'{text}' is not two sides: write it like '3 x 4'")
        return cls((int(sides[0]), int(sides[1])))


class Group(Settings):
    rate: float


class Everything(Settings):
    widths: tuple[Positive, ...] = (1,)
    kinds: tuple[Literal["plain", "pooled"], ...] = ()
    counts: dict[Literal["train", "test"], Positive] = msgspec.field(default_factory=dict)
    loss: Literal["squared"] | None = None
    group: Group = Group(rate=1.0)
    optional: Group | None = None
    pair: Pair = Pair((1, 1))

    def __post_init__(self) -> None:
        if len(self.kinds) > len(self.widths):
            raise WrongSetting("kinds", "there are more kinds than widths")


def read(**raw: Any) -> Everything:
    return read_settings(Everything, raw, "catalogue.yaml", "settings")


def test_what_the_yaml_says_becomes_the_record() -> None:
    assert read(widths=[3, 4], pair="3 x 4", group={"rate": 2}) == Everything(
        widths=(3, 4), pair=Pair((3, 4)), group=Group(rate=2.0)
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"widths": [3, 0]}, r"at settings\.widths\[1\]: expected `int` >= 1"),
        ({"kinds": ["pooled", "flat"]}, r"settings\.kinds\[1\]: 'flat' is not known here \(allowed: plain, pooled\)"),
        ({"counts": {"trian": 1}}, r"settings\.counts: 'trian' is not known here \(allowed: test, train\)"),
        ({"counts": {"train": 0}}, r"settings\.counts\[\.\.\.\]: expected `int` >= 1"),
        ({"loss": "hinge"}, r"settings\.loss: 'hinge' is not known here \(allowed: squared\)"),
        ({"group": {"step": 1.0}}, r"settings\.group: unknown setting step \(allowed: rate\)"),
        ({"optional": {"step": 1.0}}, r"settings\.optional: unknown setting step \(allowed: rate\)"),
        ({"group": {}}, r"settings\.group: missing setting rate"),
        ({"pair": "3 times 4"}, r"settings\.pair: '3 times 4' is not two sides: write it like '3 x 4'"),
        ({"kinds": ["plain", "plain"]}, r"settings\.kinds: there are more kinds than widths"),
    ],
)
def test_what_does_not_fit_is_said_with_file_key_and_reason(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"^catalogue\.yaml at .*{message.removeprefix('at ')}$"):
        read(**raw)
