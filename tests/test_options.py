"""Options: the flags that a frozen dataclass makes, and what a wrong command line is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from keras_bert.options import option, parse, required


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model."""

    model: str = required("a checkpoint directory")
    dtype: Literal["float32", "mixed_bfloat16"] = option("float32", "type the layers compute in")


@dataclass(frozen=True, kw_only=True)
class Options(Model):
    """Does a thing."""

    learning_rate: float = option(5e-5, "peak learning rate, reached after warm-up")
    epochs: int = option(3, "times over the rows")
    seed: int | None = option(None, "none: another each time")
    labels: tuple[str, ...] = option((), "the labels, in order")
    lower_case: bool = option(True, "an uncased model")

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"--epochs must be at least 1: got {self.epochs}")


def test_flags_become_fields_of_their_types():
    argv = [
        "--model",
        "m",
        "--epochs",
        "2",
        "--learning_rate=1e-3",
        "--nolower_case",
        "--seed",
        "7",
        "--dtype",
        "mixed_bfloat16",
        "--labels",
        "a,b",
    ]
    want = Options(
        model="m", epochs=2, learning_rate=1e-3, lower_case=False, seed=7, dtype="mixed_bfloat16", labels=("a", "b")
    )
    assert parse(Options, argv, "thing") == want


def test_what_is_not_given_keeps_its_default_and_calls_do_not_see_each_other():
    assert parse(Options, ["--model", "m", "--epochs", "9"], "thing").epochs == 9
    assert parse(Options, ["--model", "m"], "thing") == Options(model="m")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--model", "m", "--epoch", "2"], "unknown flag --epoch; did you mean --epochs?"),
        (["--model", "m", "--nolowercase"], "unknown flag --nolowercase; did you mean --lower_case?"),
        (["--model", "m", "--zzz"], "unknown flag --zzz (`keras-bert thing --help`"),
        (["--model", "m", "--epochs", "two"], "--epochs=two: invalid literal"),
        (["--model", "m", "--epochs"], "epochs"),
        (["--model", "m", "--dtype", "int8"], "should be one of <float32|mixed_bfloat16>"),
        (["--model", "m", "extra"], "'extra' belongs to no flag"),
        ([], "--model is missing: a checkpoint directory"),
        (["--model", "m", "--epochs", "0"], "--epochs must be at least 1: got 0"),
    ],
)
def test_a_wrong_line_gets_one_clear_line(argv, message):
    with pytest.raises(ValueError) as error:
        parse(Options, argv, "thing")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_help_shows_every_flag_its_default_and_group(capsys):
    with pytest.raises(SystemExit) as end:
        parse(Options, ["--help"], "thing")
    text = capsys.readouterr().out
    assert end.value.code == 0
    for part in (
        "usage: keras-bert thing",
        "Does a thing.",
        "The model.",
        "--model TEXT",
        "a checkpoint directory (required)",
        "--dtype float32|mixed_bfloat16",
        "--[no]lower_case",
        "(default: yes)",
        "--learning_rate X",
        "(default: 5e-05)",
    ):
        assert part in text
