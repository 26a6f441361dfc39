"""Stable ids of operators: from the user's uid if there is one, else from the place in the graph.

The place is: what kind of operator it is, and the ids of its inputs in order, and how many equal siblings came
before. So a program that did not change gives the same ids, as in Flink's StreamGraphHasherV2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from millstream.graph.transformation import Transformation

__all__ = ["operator_id"]


def operator_id(transformation: Transformation, input_ids: Sequence[str]) -> str:
    """Return 32 hexadecimal digits that name an operator's state."""
    if transformation.uid_hash is not None:
        return transformation.uid_hash
    if transformation.uid is not None:
        seed = f"uid:{transformation.uid}"
    else:
        seed = f"place:{transformation.id}:{type(transformation.spec).__name__}:{','.join(input_ids)}"
    return hashlib.blake2b(seed.encode(), digest_size=16).hexdigest()
