"""What `execution.target` may name."""

from __future__ import annotations

import re
from difflib import get_close_matches

from millstream.base.errors import ConfigurationError

__all__ = ["check_target"]

_FORMS = (
    r"local",
    r"local\[(\*|\d+)( *, *\d+)?\]",
    r"local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]",
    r"spark://.+",
    r"k8s://.+",
    r"sc://.*",
    r"yarn",
)
_MEANT = {
    "local": "local",
    "local[*]": "local[*]",
    "local-cluster": "local-cluster[2,1,1024]",
    "yarn": "yarn",
    "spark://": "spark://host:port",
    "k8s://": "k8s://host:port",
    # Flink's own
    "remote": "spark://host:port",
    "kubernetes-session": "k8s://host:port",
    "kubernetes-application": "k8s://host:port",
    "yarn-per-job": "yarn",
    "yarn-session": "yarn",
    "yarn-application": "yarn",
}


def check_target(target: str) -> None:
    """Check that there may be such a place to run.

    Raises:
        ConfigurationError: If not; says what may have been meant.
    """
    if any(re.fullmatch(form, target) for form in _FORMS):
        return
    near = get_close_matches(target.lower(), _MEANT, n=1, cutoff=0.7)
    meant = f'Did you mean "{_MEANT[near[0]]}"? ' if near else ""
    raise ConfigurationError(
        f'target "{target}" is not a place to run jobs',
        detail="There are local (this process, no JVM) and Spark masters: local[n], local[*], "
        "local-cluster[workers,cores,megabytes], spark://host:port, yarn, k8s://host:port.",
        hint=f"{meant}`--target` or `execution.target` names it.",
    )
