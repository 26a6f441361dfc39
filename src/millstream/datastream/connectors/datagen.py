"""Generated records (Java's `DataGeneratorSource`; PyFlink has none)."""

from millstream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
