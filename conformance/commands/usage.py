"""What the commands share: where they are added, and the answer to a call that cannot be carried out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    #: argparse keeps the class private and generic, at type-checking time alone.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


class UsageError(Exception):
    """One sentence for the user; exit code 2."""
