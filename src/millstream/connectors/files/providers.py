"""How a file source finds files and shares them out, under PyFlink's names; there is one way of each.

A file is read by one subtask from begin to end, and goes to whichever has the fewest: what Flink's providers choose
between is not seen in results.
"""

from __future__ import annotations

from millstream.base.errors import ConfigurationError

__all__ = ["FileEnumeratorProvider", "FileSplitAssignerProvider", "check_provider"]


class FileEnumeratorProvider:
    """How files are found and cut.

    Example:
        >>> from millstream.datastream.connectors.file_system import FileEnumeratorProvider
        >>> from millstream.datastream.connectors.file_system import FileSource, StreamFormat
        >>> builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/lines")
        >>> whole = FileEnumeratorProvider.default_non_splittable_file_enumerator()
        >>> source = builder.set_file_enumerator(whole).build()  # each file is read by one subtask
    """

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Allow files to be cut; they are left whole."""
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Leave files whole."""
        return FileEnumeratorProvider()


class FileSplitAssignerProvider:
    """Which subtask reads which file.

    Example:
        >>> from millstream.datastream.connectors.file_system import FileSource, FileSplitAssignerProvider
        >>> from millstream.datastream.connectors.file_system import StreamFormat
        >>> builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/lines")
        >>> builder = builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
    """

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Prefer subtasks near a file; none is nearer than another here."""
        return FileSplitAssignerProvider()


def check_provider(given: object, kind: type) -> None:
    """Check what a source was given.

    Raises:
        ConfigurationError: If it is of another class.
    """
    if not isinstance(given, kind):
        raise ConfigurationError(f"{type(given).__name__} is no {kind.__name__}")
