"""Members of `Expression` that make functions of text."""

from __future__ import annotations

from typing import Any, Self

from millstream.table.expressions.building import Built

__all__ = ["StringsMembers"]


class StringsMembers(Built):
    """Functions of text; what is no expression becomes a literal."""

    def concat(self, other: Any) -> Self:
        """Return `CONCAT(self, other)`."""
        return self._call("CONCAT", "concat", self, other)

    def starts_with(self, start_expr: Any) -> Self:
        """Return `STARTSWITH(self, start_expr)`."""
        return self._call("STARTSWITH", "startsWith", self, start_expr)

    def ends_with(self, end_expr: Any) -> Self:
        """Return `ENDSWITH(self, end_expr)`."""
        return self._call("ENDSWITH", "endsWith", self, end_expr)

    def substring(self, begin_index: Any, length: Any = None) -> Self:
        """Return `SUBSTRING(self, begin_index, length)`."""
        return self._call("SUBSTRING", "substring", self, begin_index, length)

    def substr(self, begin_index: Any, length: Any = None) -> Self:
        """Return `SUBSTR(self, begin_index, length)`."""
        return self._call("SUBSTR", "substr", self, begin_index, length)

    def translate(self, from_str: Any, to_str: Any) -> Self:
        """Return `TRANSLATE(self, from_str, to_str)`."""
        return self._call("TRANSLATE", "translate", self, from_str, to_str)

    @property
    def char_length(self) -> Self:
        """Return `CHAR_LENGTH(self)`."""
        return self._call("CHAR_LENGTH", "charLength", self)

    @property
    def upper_case(self) -> Self:
        """Return `UPPER(self)`."""
        return self._call("UPPER", "upper", self)

    @property
    def lower_case(self) -> Self:
        """Return `LOWER(self)`."""
        return self._call("LOWER", "lower", self)

    @property
    def init_cap(self) -> Self:
        """Return `INITCAP(self)`."""
        return self._call("INITCAP", "initCap", self)

    def lpad(self, length: Any, pad: Any) -> Self:
        """Return `LPAD(self, length, pad)`."""
        return self._call("LPAD", "lpad", self, length, pad)

    def rpad(self, length: Any, pad: Any) -> Self:
        """Return `RPAD(self, length, pad)`."""
        return self._call("RPAD", "rpad", self, length, pad)

    def overlay(self, new_string: Any, starting: Any, length: Any = None) -> Self:
        """Return `OVERLAY(self, new_string, starting, length)`."""
        return self._call("OVERLAY", "overlay", self, new_string, starting, length)

    def regexp(self, regex: Any) -> Self:
        """Return `REGEXP(self, regex)`."""
        return self._call("REGEXP", "regexp", self, regex)

    def regexp_count(self, regex: Any) -> Self:
        """Return `REGEXP_COUNT(self, regex)`."""
        return self._call("REGEXP_COUNT", "regexpCount", self, regex)

    def regexp_replace(self, regex: Any, replacement: Any) -> Self:
        """Return `REGEXP_REPLACE(self, regex, replacement)`."""
        return self._call("REGEXP_REPLACE", "regexpReplace", self, regex, replacement)

    def regexp_extract(self, regex: Any, extract_index: Any = None) -> Self:
        """Return `REGEXP_EXTRACT(self, regex, extract_index)`."""
        return self._call("REGEXP_EXTRACT", "regexpExtract", self, regex, extract_index)

    def regexp_extract_all(self, regex: Any, extract_index: Any = None) -> Self:
        """Return `REGEXP_EXTRACT_ALL(self, regex, extract_index)`."""
        return self._call("REGEXP_EXTRACT_ALL", "regexpExtractAll", self, regex, extract_index)

    def regexp_instr(self, regex: Any) -> Self:
        """Return `REGEXP_INSTR(self, regex)`."""
        return self._call("REGEXP_INSTR", "regexpInstr", self, regex)

    def regexp_substr(self, regex: Any) -> Self:
        """Return `REGEXP_SUBSTR(self, regex)`."""
        return self._call("REGEXP_SUBSTR", "regexpSubstr", self, regex)

    @property
    def from_base64(self) -> Self:
        """Return `FROM_BASE64(self)`."""
        return self._call("FROM_BASE64", "fromBase64", self)

    @property
    def to_base64(self) -> Self:
        """Return `TO_BASE64(self)`."""
        return self._call("TO_BASE64", "toBase64", self)

    @property
    def ascii(self) -> Self:
        """Return `ASCII(self)`."""
        return self._call("ASCII", "ascii", self)

    @property
    def chr(self) -> Self:
        """Return `CHR(self)`."""
        return self._call("CHR", "chr", self)

    def decode(self, charset: Any) -> Self:
        """Return `DECODE(self, charset)`."""
        return self._call("DECODE", "decode", self, charset)

    def encode(self, charset: Any) -> Self:
        """Return `ENCODE(self, charset)`."""
        return self._call("ENCODE", "encode", self, charset)

    def left(self, length: Any) -> Self:
        """Return `LEFT(self, length)`."""
        return self._call("LEFT", "left", self, length)

    def right(self, length: Any) -> Self:
        """Return `RIGHT(self, length)`."""
        return self._call("RIGHT", "right", self, length)

    def locate(self, s: Any, pos: Any = None) -> Self:
        """Return `LOCATE(self, s, pos)`."""
        return self._call("LOCATE", "locate", self, s, pos)

    def url_decode(self) -> Self:
        """Return `URL_DECODE(self)`."""
        return self._call("URL_DECODE", "urlDecode", self)

    def url_encode(self) -> Self:
        """Return `URL_ENCODE(self)`."""
        return self._call("URL_ENCODE", "urlEncode", self)

    def parse_url(self, part_to_extract: Any, key: Any = None) -> Self:
        """Return `PARSE_URL(self, part_to_extract, key)`."""
        return self._call("PARSE_URL", "parseUrl", self, part_to_extract, key)

    def printf(self, *obj: Any) -> Self:
        """Return `PRINTF(self, obj...)`."""
        return self._call("PRINTF", "printf", self, *obj)

    def ltrim(self, trim_str: Any = None) -> Self:
        """Return `LTRIM(self, trim_str)`."""
        return self._call("LTRIM", "ltrim", self, trim_str)

    def rtrim(self, trim_str: Any = None) -> Self:
        """Return `RTRIM(self, trim_str)`."""
        return self._call("RTRIM", "rtrim", self, trim_str)

    def btrim(self, trim_str: Any = None) -> Self:
        """Return `BTRIM(self, trim_str)`."""
        return self._call("BTRIM", "btrim", self, trim_str)

    def repeat(self, n: Any) -> Self:
        """Return `REPEAT(self, n)`."""
        return self._call("REPEAT", "repeat", self, n)

    @property
    def reverse(self) -> Self:
        """Return `REVERSE(self)`."""
        return self._call("REVERSE", "reverse", self)

    def split_index(self, separator: Any, index: Any) -> Self:
        """Return `SPLIT_INDEX(self, separator, index)`."""
        return self._call("SPLIT_INDEX", "splitIndex", self, separator, index)

    def str_to_map(self, list_delimiter: Any = None, key_value_delimiter: Any = None) -> Self:
        """Return `STR_TO_MAP(self, list_delimiter, key_value_delimiter)`."""
        return self._call("STR_TO_MAP", "strToMap", self, list_delimiter, key_value_delimiter)

    def elt(self, expr: Any, *exprs: Any) -> Self:
        """Return `ELT(self, expr, exprs...)`."""
        return self._call("ELT", "elt", self, expr, *exprs)

    def split(self, delimiter: Any) -> Self:
        """Return `SPLIT(self, delimiter)`."""
        return self._call("SPLIT", "split", self, delimiter)

    @property
    def md5(self) -> Self:
        """Return `MD5(self)`."""
        return self._call("MD5", "md5", self)

    @property
    def sha1(self) -> Self:
        """Return `SHA1(self)`."""
        return self._call("SHA1", "sha1", self)

    @property
    def sha224(self) -> Self:
        """Return `SHA224(self)`."""
        return self._call("SHA224", "sha224", self)

    @property
    def sha256(self) -> Self:
        """Return `SHA256(self)`."""
        return self._call("SHA256", "sha256", self)

    @property
    def sha384(self) -> Self:
        """Return `SHA384(self)`."""
        return self._call("SHA384", "sha384", self)

    @property
    def sha512(self) -> Self:
        """Return `SHA512(self)`."""
        return self._call("SHA512", "sha512", self)

    def sha2(self, hash_length: Any) -> Self:
        """Return `SHA2(self, hash_length)`."""
        return self._call("SHA2", "sha2", self, hash_length)
