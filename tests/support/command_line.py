"""What the commands of the tests share: arguments that must fit, and the seed of the day."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
from collections.abc import Callable, Iterable


def at_least(least: int) -> Callable[[str], int]:
    """The type of an argument: a whole number that is no less."""

    def whole_number(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number of at least {least}, got {word!r}"
            )
        return int(word)

    return whole_number


def matching_names(
    parser: argparse.ArgumentParser, option: str, pattern: str, names: Iterable[str]
) -> list[str]:
    """The names that a pattern matches; without any, the command ends with an error."""
    every = [*names]
    found = fnmatch.filter(every, pattern)
    if not found:
        parser.error(f"{option} must match one of {', '.join(every)}, got {pattern!r}")
    return found


def seed_of_the_day() -> int:
    return int(f"{datetime.date.today():%Y%m%d}")
