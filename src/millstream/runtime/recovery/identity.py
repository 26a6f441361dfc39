"""What tells a job among those that share a directory, from one start of its driver to the next.

::

    given                                  file names begin with
    a name, `pipeline.name`                <name>-<digest of it>
    `high-availability.cluster-id` too     <cluster id>-<digest of both>
    neither                                <program>.<digest of the program's path and arguments>

A name of any characters has a file of its own: the first part is for people, the digest tells. A second and third job
of one name in one program have `-2` and `-3` behind it.

The plan is no part of it: a program that was mended since it was lost goes on as the same job.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Sequence

from millstream.base.errors import ConfigurationError
from millstream.config import options
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration
from millstream.files.stores import open_store

__all__ = ["check_unambiguous", "file_stem_of"]

_READABLE = 40
_DIGEST_BYTES = 10
_HINT = f"Give the job a name: {options.PIPELINE_NAME.key}, execute(name), or {keys.HA_CLUSTER_ID.key}."


def file_stem_of(configuration: Configuration, name: str | None, *, number: int) -> str:
    """Return how the names of a job's files begin.

    Args:
        configuration: All options.
        name: The job's name; None if nobody gave it one.
        number: Which job of that name it is in its program, from 1.

    Raises:
        ConfigurationError: If nothing tells the job from others: no name, and no program in a file.
    """
    cluster_id = configuration.get(keys.HA_CLUSTER_ID)
    if cluster_id:
        stem = _stem(cluster_id, "-", (cluster_id, name))
    elif name is not None:
        stem = _stem(name, "-", (name,))
    else:
        path, *arguments = _program()
        stem = _stem(os.path.splitext(os.path.basename(path))[0], ".", (path, *arguments))
    return stem if number == 1 else f"{stem}-{number}"


def check_unambiguous(directory: str, stem: str) -> None:
    """Check that a job without a name that is to recover, and has left nothing, is not one that left something.

    A program that was moved, or has other arguments than the run that was lost, would silently begin anew.

    Raises:
        ConfigurationError: If a program of that name, at another path or with other arguments, has left a job.
        CheckpointStorageError: If the directory cannot be listed.
    """
    program, _, digest = stem.partition(".")
    if not digest:
        return
    own = digest.partition("-")[0]
    others = re.compile(
        rf"{re.escape(program)}\.(?!{own})[0-9a-f]{{{2 * _DIGEST_BYTES}}}(-\d+)?(@\d+)?(~\d+)?\.recovery"
    )
    found = [name for name in open_store(directory).names("") if others.fullmatch(name)]
    if found:
        raise ConfigurationError(
            f'a job without a name is to recover, and "{directory}" holds what another path of program "{program}", '
            "or other arguments, left",
            detail=f"Without a name a job is known by its program's path and arguments. Found: {', '.join(found)}.",
            hint=f"Start it as the run that was lost, or remove the file to begin anew. {_HINT}",
        )


def _program() -> list[str]:
    """Return the absolute path of the program that runs, and its arguments."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        raise ConfigurationError(
            f"a job without a name cannot be told from others in {keys.HA_DIRECTORY.key}",
            detail="Its program is in no file: a notebook, an interactive session, standard input.",
            hint=_HINT,
        )
    return [os.path.realpath(path), *sys.argv[1:]]


def _stem(readable: str, separator: str, key: Sequence[str | None]) -> str:
    digest = hashlib.blake2b(json.dumps(key).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_-]+', '_', readable)[:_READABLE]}{separator}{digest}"
