"""`tangentbench bound`: the numbers are the theory's, and bad input is one clear sentence."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tangentbench.cli.bound import command
from tangentbench.cli.main import main
from tangentbench.theory.nearly_linear import Proxy, Setting, bound, learning_time

ISSUED = (
    "--depth 2 --dim 49 --samples 60000 --epsilon 0.001 --beta 0.001 --kappa 2 --precision 32 --delta 0.01 --rho 1 "
    "--s 0.5 --gamma 1e-6"
)


def run(line: str) -> str:
    result = CliRunner().invoke(command, line.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_json_has_the_parts_of_the_theory() -> None:
    printed = json.loads(run(f"{ISSUED} --time 12 --json"))
    setting = Setting(depth=2, epsilon=0.001, beta=0.001, rho=1.0, s=0.5)
    parts = bound(12.0, setting, Proxy(2, 49, 32), samples=60000, failure_probability=0.01, gamma=1e-6)
    for name in ("upsilon", "phi", "u", "v", "deviation", "gap"):
        assert printed[name] == pytest.approx(float(getattr(parts, name)))
    assert printed["gap"] == pytest.approx(printed["upsilon"] + printed["deviation"])


def test_without_a_time_the_linear_learning_time_is_taken() -> None:
    assert json.loads(run(f"{ISSUED} --json"))["time"] == pytest.approx(learning_time(0.9, 0.001, 0.5, 2))


def test_several_times_give_a_row_each() -> None:
    rows = json.loads(run(f"{ISSUED} --time 1,2 --time 4 --json"))
    assert [row["time"] for row in rows] == [1, 2, 4]
    assert rows[0]["gap"] < rows[1]["gap"] < rows[2]["gap"]
    table = run(f"{ISSUED} --time 1,2 --time 4")
    assert "deviation" in table and "can beat guessing" in table


def test_an_infinite_bound_is_valid_json() -> None:
    printed = json.loads(run("--depth 3 --dim 49 --samples 60000 --epsilon 0.01 --beta 0.5 --s 0.5 --time 100 --json"))
    assert printed["gap"] is None and printed["upsilon"] > 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("--epsilon 2", "epsilon = 2 is outside"),
        ("--kappa 3", "kappa = 3 is outside"),
        ("--gamma -1", "gamma = -1 is outside"),
        ("--rho 0.2", "rho = 0.2 is outside"),
        ("--s 0", "s = 0 is outside"),
        ("--samples 0", "samples = 0 is outside"),
        ("--delta 1", "delta = 1 is outside"),
        ("--beta 2", "alpha = 0.9 is outside"),
    ],
)
def test_bad_numbers_are_one_sentence(change: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["bound", *ISSUED.split(), *change.split()])
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert says in error and "Traceback" not in error


@pytest.mark.parametrize("time", ["soon", "1,,2", "-3", "nan"])
def test_a_bad_time_is_explained(time: str) -> None:
    result = CliRunner().invoke(command, [*ISSUED.split(), "--time", time])
    assert result.exit_code == 2 and "--time" in result.output
