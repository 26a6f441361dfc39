"""Why a file cannot be read or written, in words, and what to do; what servers say is shown without credentials."""

from __future__ import annotations

import re
from typing import NamedTuple

from millstream.files.file_systems import S3Settings, current, parse_location
from millstream.files.remote import S3_SCHEMES

__all__ = ["Refusal", "refusal_at", "refusal_of_s3"]


class Refusal(NamedTuple):
    """Why something was refused.

    Attributes:
        reason: In words; empty if there are none beside the detail.
        detail: What was said, without credentials.
        hint: What to do.
    """

    reason: str
    detail: str
    hint: str

    def after(self, message: str) -> str:
        """Return a message with the reason behind it."""
        return f"{message}: {self.reason}" if self.reason else message


def refusal_at(location: str, error: Exception, hint: str) -> Refusal:
    """Return why something at a location was refused.

    Args:
        location: A path or URI.
        error: What came of it.
        hint: What to do where the error does not tell.

    Raises:
        ConfigurationError: If the location cannot be understood.
    """
    if "://" in location:
        place = parse_location(location)
        if place.scheme in S3_SCHEMES:
            return refusal_of_s3(current().s3_for(place), place.authority, error)
    return Refusal("", str(error), hint)


def refusal_of_s3(settings: S3Settings, bucket: str, error: Exception) -> Refusal:
    """Return what S3 answered.

    Args:
        settings: How it was reached.
        bucket: The bucket.
        error: What pyarrow made of the answer.
    """
    text = settings.scrub(str(error)).partition("\n")[0]
    server = settings.endpoint or "Amazon's servers"
    if "NO_SUCH_BUCKET" in text:
        reason = f'there is no bucket "{bucket}"'
        hint = "Create it, or correct its name; s3.endpoint (AWS_ENDPOINT_URL) tells where it is looked for."
    elif re.search(
        r"SIGNATURE|ACCESS_KEY_ID|ACCESS_DENIED|TOKEN|UNAUTHORIZED|HTTP status 40[13]|FORBIDDEN", text
    ):
        reason = f"{server} refused the credentials"
        hint = (
            "Check s3.access-key and s3.secret-key (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), and that they may "
            "get, put, list and delete objects there."
        )
    elif re.search(r"NETWORK_CONNECTION|curlCode|ENDPOINT_RESOLUTION", text):
        reason = f"{server} did not answer"
        hint = "Check s3.endpoint (AWS_ENDPOINT_URL) and that every host of the job reaches it."
    elif re.search(r"REDIRECT|AUTHORIZATION_HEADER_MALFORMED|HTTP status 301|region", text):
        reason, hint = "the bucket is in another region", "Set s3.region (AWS_REGION)."
    else:
        reason = f"{server} reported an error"
        hint = "See what it says, and the options that begin with s3."
    return Refusal(reason, text, hint)
