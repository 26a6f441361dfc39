"""Where a collection of MongoDB is, and what the server's errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience

__all__ = ["MongoAddress", "MongoClient", "check_uri", "load_pymongo"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_SCHEMES = ("mongodb://", "mongodb+srv://")
_SELECT_MS = 5_000
_ANSWER_MS = 30_000

_UNAUTHORIZED, _AUTHENTICATION_FAILED = 13, 18
_UNIQUE, _INVALID = 11_000, 121
_HINTS = {
    _AUTHENTICATION_FAILED: "Check user and password in the URI, and authSource: the database that knows the user.",
    _UNAUTHORIZED: "Have somebody grant it to the user: the role readWrite, or read, on the database.",
    _UNIQUE: "Another document has the same value of a unique index: correct the records, or choose their id by "
    "set_id(...), so that they overwrite each other.",
    _INVALID: "The document does not pass the collection's validator: correct such records, or the validator.",
}
_AWAY = "Check that the server runs and can be reached from the driver and from where slots run."


def load_pymongo(module: str = "pymongo") -> Any:
    """Return a module of pymongo, or bson.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package(module, extra="mongodb", what="MongoDB sources and sinks")


@dataclass(frozen=True, slots=True)
class MongoAddress:
    """Which collection; the URI may hold a password, so it is shown nowhere.

    Attributes:
        uri: `mongodb://user:password@host:27017/?option=value`.
        database: Its database.
        collection: Its name.
        patience: How long the server is waited for.
    """

    uri: str = field(repr=False)
    database: str
    collection: str
    patience: Patience = field(default_factory=Patience, repr=False)

    @staticmethod
    def of(uri: str | None, database: str | None, collection: str | None, patience: Patience) -> MongoAddress:
        """Check what a program says.

        Raises:
            ConfigurationError: If something is missing, or the URI is none.
        """
        for what, value, setter in (
            ("URI", uri, "set_uri('mongodb://host:27017')"),
            ("database", database, "set_database('shop')"),
            ("collection", collection, "set_collection('orders')"),
        ):
            if not value:
                raise ConfigurationError(f"MongoDB's {what} is not said", hint=f"Call {setter}.")
        assert uri and database and collection
        return MongoAddress(uri, database, collection, patience)

    def __str__(self) -> str:
        return f"{self.database}.{self.collection}"


def check_uri(uri: str) -> str:
    """Return a URI.

    Raises:
        ConfigurationError: If it is none of MongoDB's.
    """
    if not isinstance(uri, str) or not uri.startswith(_SCHEMES):
        raise ConfigurationError(
            "the URI of MongoDB does not begin with mongodb:// or mongodb+srv://",
            detail="It is mongodb://user:password@host:27017/?option=value.",
        )
    return uri


class MongoClient:
    """A connection: waits while the server is away, and says what its errors mean. For one thread.

    Args:
        address: Which collection.
        error_type: What is raised: a SourceError or a SinkError.
    """

    def __init__(self, address: MongoAddress, error_type: type[MillstreamError]) -> None:
        pymongo = load_pymongo()
        self._errors = pymongo.errors
        self._address = address
        self._error_type = error_type
        try:
            self._client = pymongo.MongoClient(
                address.uri,
                serverSelectionTimeoutMS=_SELECT_MS,
                connectTimeoutMS=_SELECT_MS,
                socketTimeoutMS=_ANSWER_MS,
                appname="millstream",
                uuidRepresentation="standard",
                connect=False,
            )
            self.collection = self._client[address.database][address.collection]
        except (self._errors.PyMongoError, ValueError, TypeError):
            raise ConfigurationError(
                "the URI of MongoDB, or a name, has a part that does not fit",
                detail="It is mongodb://user:password@host:27017/?option=value, with options of pymongo.",
                hint="Write characters such as @, / and : of a password as %40, %2F and %3A.",
            ) from None  # the cause may show a part of the password

    def call(self, what: str, action: Callable[[Any], Result]) -> Result:
        """Return what an action gives; it is repeated while the server is away.

        Args:
            what: What is being done: `writing 5 documents`.
            action: Takes the collection; may be repeated.

        Raises:
            MillstreamError: If the server refuses it, or stays away.
        """
        try:
            return self._address.patience.call(
                lambda: action(self.collection),
                is_passing=self._is_passing,
                what=f"MongoDB, {what} of {self._address}",
                log=log,
            )
        except self._errors.PyMongoError as error:
            raise self.explain(what, error) from error

    def explain(self, what: str, error: Exception, code: int | None = None) -> MillstreamError:
        """Return the error that says what one of pymongo's means.

        Args:
            what: What was being done.
            error: It.
            code: The server's number, if the error does not have it itself.
        """
        code = getattr(error, "code", None) if code is None else code
        hint = _HINTS.get(code) if code is not None else None
        return self._error_type(
            f"MongoDB refused or did not answer, {what} of {self._address}: {type(error).__name__}",
            detail=" ".join(str(error).split())[:500],
            hint=hint or (_AWAY if self._is_passing(error) else None),
        )

    def close(self) -> None:
        """End it."""
        self._client.close()

    def _is_passing(self, error: Exception) -> bool:
        errors = self._errors
        if isinstance(error, errors.BulkWriteError):
            return False
        if isinstance(error, errors.ServerSelectionTimeoutError):
            return "CERTIFICATE_VERIFY_FAILED" not in str(error)
        return isinstance(
            error, (errors.ConnectionFailure, errors.WTimeoutError, errors.ExecutionTimeout)
        ) or (isinstance(error, errors.PyMongoError) and error.has_error_label("RetryableWriteError"))
