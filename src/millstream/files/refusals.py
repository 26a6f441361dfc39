"""Why a file cannot be read or written, in words, and what to do; what servers say is shown without credentials."""

from __future__ import annotations

import re
from typing import NamedTuple

from millstream.files.cloud_settings import AZURE_SCHEMES, GCS_SCHEMES, AzureSettings, GcsSettings
from millstream.files.file_systems import S3Settings, current, parse_location
from millstream.files.remote import S3_SCHEMES

__all__ = [
    "NO_BUCKET",
    "Refusal",
    "refusal_at",
    "refusal_of_azure",
    "refusal_of_gcs",
    "refusal_of_s3",
]

NO_BUCKET = "the bucket or container does not exist"
"""What is said of those that were looked for, and not found, where nothing else was asked."""


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
        if place.scheme in GCS_SCHEMES:
            return refusal_of_gcs(current().gcs, place.bucket, error)
        if place.scheme in AZURE_SCHEMES:
            return refusal_of_azure(current().azure_for(place), place.bucket, error)
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


def refusal_of_gcs(settings: GcsSettings, bucket: str, error: Exception) -> Refusal:
    """Return what Google Cloud Storage answered; arguments as of `refusal_of_s3`."""
    text = _status(settings.scrub(str(error)).partition("\n")[0])
    server = settings.endpoint or "Google Cloud Storage"
    if re.search(r"container does not exist|NOT_FOUND.*(CreateResumableUpload|InsertObject)", text):
        reason = f'there is no bucket "{bucket}"'
        hint = "Create it, or correct its name; gs.storage.root.url tells where it is looked for."
    elif re.search(r"UNAUTHENTICATED|PERMISSION_DENIED|credentials|status code: 40[13]", text):
        reason = f"{server} refused the credentials"
        hint = (
            "Check GOOGLE_APPLICATION_CREDENTIALS on every host, or gs.auth.access-token, and that they may get, "
            "create, list and delete objects there."
        )
    elif re.search(r"UNAVAILABLE|DEADLINE_EXCEEDED|CURL error|retry-policy-exhausted", text):
        reason = f"{server} did not answer"
        hint = (
            "Check gs.storage.root.url and that every host of the job reaches it; gs.retry.total-timeout gives it "
            "more time."
        )
    else:
        reason = f"{server} reported an error"
        hint = "See what it says, and the options that begin with gs."
    return Refusal(reason, text, hint)


def _status(text: str) -> str:
    """Return what Google's client says, without how often it was asked."""
    return text.partition(" error_info={")[0] if "NOT_FOUND" not in text else text


def refusal_of_azure(settings: AzureSettings, container: str, error: Exception) -> Refusal:
    """Return what Azure answered; arguments as of `refusal_of_s3`."""
    text = settings.scrub(str(error)).partition("\n")[0]
    server = settings.endpoint or f'the storage account "{settings.account}"'
    if re.search(r"ContainerNotFound|FilesystemNotFound|container does not exist", text):
        reason = f'there is no container "{container}"'
        hint = "Create it, or correct its name, and that of the account."
    elif re.search(
        r"Authenticat|Authoriz|AccessDenied|\b40[13]\b|Credential|NoAuthenticationInformation",
        text,
    ):
        reason = f"{server} refused the credentials"
        hint = (
            "Check fs.azure.account.key, or fs.azure.sas.fixed.token, of the account (AZURE_STORAGE_KEY), and that "
            "they may read, write, list and delete blobs there."
        )
    elif re.search(r"connect|connection|resolve|timed? ?out|transport", text, re.IGNORECASE):
        reason = f"{server} did not answer"
        hint = (
            "Check the account's name and fs.azure.blob.endpoint, and that every host of the job reaches it."
        )
    else:
        reason = f"{server} reported an error"
        hint = "See what it says, and the options that begin with fs.azure."
    return Refusal(reason, text, hint)
