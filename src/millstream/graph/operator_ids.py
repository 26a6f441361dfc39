"""Stable ids of operators: from the user's uid if there is one, else from the place in the graph.

The place is: what kind of operator it is, the ids of its inputs in order, and how many equal siblings came
before. So a program that did not change gives the same ids, as in Flink's StreamGraphHasherV2.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from millstream.graph.transformation import Transformation

__all__ = ["OperatorIds", "operator_id_of_uid"]


def operator_id_of_uid(uid: str) -> str:
    """Return the 32 hexadecimal digits under which the state of an operator with that uid is kept."""
    return _hash(f"uid:{uid}")


class OperatorIds:
    """Names the operators of one graph; ask for them in order, inputs first."""

    def __init__(self) -> None:
        self._siblings: Counter[str] = Counter()

    def name(self, transformation: Transformation, input_ids: Sequence[str]) -> str:
        """Return 32 hexadecimal digits that name an operator's state."""
        if transformation.uid_hash is not None:
            return transformation.uid_hash.lower()
        if transformation.uid is not None:
            return operator_id_of_uid(transformation.uid)
        place = f"place:{transformation.spec.kind}:{','.join(input_ids)}"
        self._siblings[place] += 1
        return _hash(f"{place}:{self._siblings[place]}")


def _hash(seed: str) -> str:
    return hashlib.blake2b(seed.encode(), digest_size=16).hexdigest()
