from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError
from millstream.config.targets import check_target


@pytest.mark.parametrize(
    "target",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[2,3]",
        "local-cluster[2,1,1024]",
        "spark://a:1,b:2",
        "yarn",
        "k8s://https://h:1",
    ],
)
def test_places_that_there_are(target):
    check_target(target)


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("lokal", "local"),
        ("Local", "local"),
        ("local[x]", "local[*]"),
        ("local-cluster", "local-cluster[2,1,1024]"),
        ("YARN", "yarn"),
        ("yarn-per-job", "yarn"),
        ("remote", "spark://host:port"),
    ],
)
def test_what_was_meant_is_told(target, meant):
    with pytest.raises(ConfigurationError, match="is not a place") as error:
        check_target(target)
    assert f'Did you mean "{meant}"?' in error.value.hint


def test_nothing_is_guessed_from_what_is_like_nothing():
    with pytest.raises(ConfigurationError) as error:
        check_target("mesos://host")
    assert "Did you mean" not in error.value.hint
