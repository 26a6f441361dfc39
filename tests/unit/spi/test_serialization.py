from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError
from millstream.spi.serialization import Encoder, SimpleStringSchema


@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1", "UTF-16"])
def test_a_batch_is_encoded_as_its_records_one_by_one(charset):
    encoder = Encoder.simple_string_encoder(charset)
    assert encoder.encode_all(["ä", 1, None]) == b"".join(map(encoder.encode, ["ä", 1, None]))
    assert encoder.encode_all([]) == b""


def test_users_encoder_writes_record_by_record():
    class Hex(Encoder):
        def encode(self, element):
            return f"{element:x};".encode()

    assert Hex().encode_all([10, 255]) == b"a;ff;"


def test_strings_pass_through_bytes_of_a_charset():
    schema = SimpleStringSchema("ISO-8859-1")
    assert schema.serialize_all(["ä"]) == [b"\xe4"]
    assert schema.deserialize_all([b"\xe4"]) == ["ä"]


def test_charset_that_does_not_exist_is_named():
    with pytest.raises(ConfigurationError, match="charset 'klingon' does not exist"):
        SimpleStringSchema("klingon")
