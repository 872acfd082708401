"""Options: frozen dataclasses, from which each command's flags are made.

A command's options are one frozen dataclass; a field is a flag, its type decides the kind of flag (`Literal` becomes an
enum, `bool` becomes `--x` and `--nox`, `T | None` may stay unset) and it carries its own help. Commands share groups of
options by inheritance: `class ClassifyOptions(ModelOptions, DataOptions, TrainingOptions)`.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from absl import flags

T = TypeVar("T")


def option(default: T, help: str) -> T:
    """A dataclass field that is also a flag, with its default and the sentence `--help` shows."""
    return dataclasses.field(default=default, metadata={"help": help})


def required(help: str) -> Any:
    """A dataclass field that is also a flag, and has to be given."""
    return dataclasses.field(metadata={"help": help})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """What groups of options inherit, so that each group's checks run in every command that shares it.

    A group's `__post_init__` raises ValueError for a value out of its range, and begins with `super().__post_init__()`.
    """

    def __post_init__(self) -> None:
        pass


def at_least_1(options: Any, *names: str) -> None:
    """For `__post_init__`: counts that may be unset, but not 0 or less.

    Raises:
        ValueError: one is; the message names it.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1: got {value}")


def parse(cls: type[T], argv: Sequence[str], command: str) -> T:
    """The options that a command line gives: `parse(ClassifyOptions, ["--epochs", "3"], "classify")`.

    Args:
        cls: a frozen dataclass made with `option` and `required` (keyword-only, so that groups can be combined).
        argv: the words after the command's name.
        command: the command's name, for the help.

    Raises:
        ValueError: an unknown flag (the message names the nearest one), a value of the wrong type, a word that belongs
            to no flag, a required flag that is missing, or what the dataclass itself finds wrong.
        SystemExit: `--help` was asked for, and printed.
    """
    fields = flag_fields(cls)
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    for field, kind in fields:
        define(values, field, kind)
    flags.DEFINE_bool("help", False, "show this", flag_values=values, short_name="h")
    try:
        rest = values([command, *argv])[1:]
    except flags.UnrecognizedFlagError as error:
        raise ValueError(unknown_flag(error.flagname, [field.name for field, _ in fields], command)) from None
    except flags.Error as error:
        raise ValueError(f"{one_line(error)}; `keras-bert {command} --help` lists the flags") from None
    if values["help"].value:
        print(help_text(cls, command), file=sys.stdout)
        raise SystemExit(0)
    if rest:
        raise ValueError(
            f"{rest[0]!r} belongs to no flag; every value follows its flag, as in --model DIR "
            f"(`keras-bert {command} --help` lists them)"
        )
    for field, _ in fields:
        if is_required(field) and not values[field.name].present:
            raise ValueError(f"--{field.name} is missing: {field.metadata['help']}")
    given = {field.name: values[field.name].value for field, _ in fields if values[field.name].present}
    kinds = {field.name: kind for field, kind in fields}
    return cls(**{name: as_tuple(name, value, kinds[name]) for name, value in given.items()})


def as_tuple(name: str, value: Any, kind: Any) -> Any:
    """A list's words as the tuple that the field is declared as; any other value as it is.

    Raises:
        ValueError: a word is no number where numbers are wanted.
    """
    if not isinstance(value, list):
        return value
    item = typing.get_args(without_none(kind)[0])[0]
    try:
        return tuple(item(word) for word in value)
    except ValueError:
        raise ValueError(f"--{name} takes whole numbers, with commas between: got {','.join(value)!r}") from None


def flag_fields(cls: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    """Each field of an options class with its resolved type, groups in the order they are named in the class."""
    hints = typing.get_type_hints(cls)
    place = {name: index for index, group in enumerate(groups(cls)) for name in vars(group).get("__annotations__", {})}
    fields = [field for field in dataclasses.fields(cls) if field.init]
    return sorted(((field, hints[field.name]) for field in fields), key=lambda pair: place.get(pair[0].name, -1))


def groups(cls: Any) -> list[Any]:
    """The classes an options class is made of, its own fields first."""
    return [base for base in cls.__mro__ if dataclasses.is_dataclass(base)]


def define(values: flags.FlagValues, field: dataclasses.Field[Any], kind: Any) -> None:
    """One flag, of the kind the field's type asks for."""
    default: Any = None if is_required(field) else field.default
    help = field.metadata["help"]
    kind, _ = without_none(kind)
    if typing.get_origin(kind) is Literal:
        flags.DEFINE_enum(field.name, default, list(typing.get_args(kind)), help, flag_values=values)
    elif typing.get_origin(kind) is tuple:
        flags.DEFINE_list(field.name, list(default or ()), help, flag_values=values)
    else:
        kinds: dict[Any, Callable[..., Any]] = {
            bool: flags.DEFINE_bool,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            str: flags.DEFINE_string,
        }
        kinds[kind](field.name, default, help, flag_values=values)


def without_none(kind: Any) -> tuple[Any, bool]:
    """`T | None` → (T, True); any other type → (itself, False)."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return kind, False
    rest = [part for part in typing.get_args(kind) if part is not type(None)]
    assert len(rest) == 1, f"an option is of one type, or that type and None: {kind}"
    return rest[0], True


def is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def unknown_flag(name: str, known: Sequence[str], command: str) -> str:
    """One line for a flag that is not there, with the nearest that is."""
    near = difflib.get_close_matches(name.removeprefix("no"), [*known], n=1) or difflib.get_close_matches(
        name, known, 1
    )
    hint = f"; did you mean --{near[0]}?" if near else ""
    return f"unknown flag --{name}{hint} (`keras-bert {command} --help` lists them all)"


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def help_text(cls: Any, command: str) -> str:
    """What `keras-bert COMMAND --help` prints: each group under the first line of its docstring."""
    parts = [f"usage: keras-bert {command} --flags\n\n{first_line(cls)}"]
    kinds = {field.name: (field, kind) for field, kind in flag_fields(cls)}
    for group in groups(cls):
        own = [kinds[name] for name in vars(group).get("__annotations__", {}) if name in kinds]
        if own:
            title = "" if group is cls else f"{first_line(group)}\n"
            parts.append(title + "\n".join(flag_help(field, kind) for field, kind in own))
    return "\n\n".join(parts)


def flag_help(field: dataclasses.Field[Any], kind: Any) -> str:
    """A flag's lines: its form on one, its help below."""
    plain, _ = without_none(kind)
    if plain is bool:
        form = f"--[no]{field.name}"
    elif typing.get_origin(plain) is Literal:
        form = f"--{field.name} {'|'.join(map(str, typing.get_args(plain)))}"
    else:
        words = {int: "N", float: "X", str: "TEXT", tuple[int, ...]: "N,M,…"}
        form = f"--{field.name} {words.get(plain, 'A,B,…')}"
    return f"  {form}\n" + textwrap.fill(field.metadata["help"] + default_text(field), 100, **INDENT)


def default_text(field: dataclasses.Field[Any]) -> str:
    if is_required(field):
        return " (required)"
    if field.default is None or field.default == "" or field.default == ():
        return ""
    if isinstance(field.default, tuple):
        return f" (default: {','.join(map(str, field.default))})"
    if isinstance(field.default, bool):
        return f" (default: {'yes' if field.default else 'no'})"
    return f" (default: {field.default})"


def first_line(cls: Any) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


INDENT: dict[str, Any] = {"initial_indent": "        ", "subsequent_indent": "        "}
