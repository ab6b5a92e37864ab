# Copyright: (c) the MIG provisioning toolkit maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect every error of a host, so that an operator sees all of them at once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from ansible_collections.nvidia.mig.plugins.module_utils.errors import InputError, InUseError, MigError


class Problems:
    """Errors found so far; equal ones of several GPUs become one.

    Use ``with problems.catch(gpu=3): ...`` around each check, then `raise_all`.
    """

    def __init__(self) -> None:
        self._found: Dict[Tuple[type, str, Optional[str], Optional[str]], Tuple[MigError, List[int]]] = {}

    def add(self, error: MigError, gpu: Optional[int] = None) -> None:
        key = (type(error), error.message, error.path, error.hint)
        dummy, gpus = self._found.setdefault(key, (error, []))
        if gpu is not None:
            gpus.append(gpu)

    @contextmanager
    def catch(self, gpu: Optional[int] = None) -> Iterator[None]:
        """Collect a MigError of the block. Its message must not name the GPU: that is added."""
        try:
            yield
        except MigError as error:
            self.add(error, gpu)

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_all(self) -> None:
        """Raise what was found: a single error as itself, several as one that lists them.

        Several are an InputError if any is, else what the first is; ``details['errors']`` has the texts.
        """
        errors = [_named(error, gpus) for error, gpus in self._found.values()]
        if not errors:
            return
        if len(errors) == 1:
            raise errors[0]
        texts = [str(error) for error in errors]
        details: Dict[str, Any] = {"errors": texts}
        for error in errors:
            for name, value in error.details.items():
                details.setdefault(name, []).extend(value)
        kinds = [type(error) for error in errors]
        kind = InputError if InputError in kinds else kinds[0]
        lines = "\n".join(f"- {text}" for text in texts)
        raise kind(f"{len(errors)} problems:\n{lines}", details=details)


def name_gpus(indexes: Iterable[int]) -> str:
    """``GPU 0``, ``GPUs 0-3, 7``."""
    numbers = sorted(set(indexes))
    runs: List[List[int]] = []
    for index in numbers:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ("GPU " if len(numbers) == 1 else "GPUs ") + ", ".join(parts)


def _named(error: MigError, gpus: List[int]) -> MigError:
    # What is in use differs by GPU, and its message names the GPU already.
    if not gpus or isinstance(error, InUseError):
        return error
    return type(error)(f"{name_gpus(gpus)}: {error.message}", error.path, error.hint, error.details)
