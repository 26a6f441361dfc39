"""What `mkdocs` does besides for this site: pages and files from outside `docs/`, and links to them.

Links in the documents are those of the repository, so that they work where the repository is read. Here each becomes
the link between the same two files in the site, where what is in `docs/` is at the top.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
BESIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "SECURITY.md",
    "benchmarks/**/*.py",
    "benchmarks/**/*.md",
    "benchmarks/results/*.json",
    "deploy/**/*",
    "examples/**/*",
    "pyproject.toml",
)
"""Files from outside `docs/` that documents may link to."""
API = {
    "Streams": "millstream.datastream",
    "Functions": "millstream.datastream.functions",
    "State": "millstream.datastream.state",
    "Windows": "millstream.datastream.window",
    "Aggregates by expression": "millstream.datastream.expressions",
    "Common": "millstream.common",
    "Watermarks": "millstream.common.watermark_strategy",
    "Files": "millstream.datastream.connectors.file_system",
    "Kafka": "millstream.datastream.connectors.kafka",
    "Databases": "millstream.datastream.connectors.jdbc",
    "Cassandra": "millstream.datastream.connectors.cassandra",
    "Delta": "millstream.datastream.connectors.delta",
    "Dynamic Kafka": "millstream.datastream.connectors.dynamic_kafka",
    "DynamoDB": "millstream.datastream.connectors.dynamodb",
    "Elasticsearch": "millstream.datastream.connectors.elasticsearch",
    "Generated records": "millstream.datastream.connectors.datagen",
    "HTTP": "millstream.datastream.connectors.http",
    "Hybrid": "millstream.datastream.connectors.hybrid_source",
    "Iceberg": "millstream.datastream.connectors.iceberg",
    "Kinesis": "millstream.datastream.connectors.kinesis",
    "MongoDB": "millstream.datastream.connectors.mongodb",
    "MQTT": "millstream.datastream.connectors.mqtt",
    "MySQL": "millstream.datastream.connectors.mysql",
    "NATS": "millstream.datastream.connectors.nats",
    "Number sequences": "millstream.datastream.connectors.number_seq",
    "PostgreSQL": "millstream.datastream.connectors.postgres",
    "Pulsar": "millstream.datastream.connectors.pulsar",
    "RabbitMQ": "millstream.datastream.connectors.rabbitmq",
    "Redis": "millstream.datastream.connectors.redis",
    "Spark": "millstream.datastream.connectors.spark",
    "WebSocket": "millstream.datastream.connectors.websocket",
    "Parts of connectors": "millstream.datastream.connectors.base",
    "Avro": "millstream.datastream.formats.avro",
    "CSV": "millstream.datastream.formats.csv",
    "JSON": "millstream.datastream.formats.json",
    "MessagePack": "millstream.datastream.formats.msgpack",
    "ORC": "millstream.datastream.formats.orc",
    "Parquet": "millstream.datastream.formats.parquet",
    "Protocol Buffers": "millstream.datastream.formats.protobuf",
    "Tables": "millstream.table",
    "Functions of SQL": "millstream.table.udf",
    "Process table functions": "millstream.table.process_functions",
    "Windows of tables": "millstream.table.window",
    "Catalogs": "millstream.table.catalog",
    "Patterns": "millstream.cep",
    "Testing": "millstream.testing",
    "State tools": "millstream.state_processor",
    "Sources of your own": "millstream.spi.source",
    "Sinks of your own": "millstream.spi.sink",
}
"""Modules with a page of reference; all that their `__all__` names is on it."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```)", re.S | re.M)


def on_files(files: Any, config: Any) -> Any:
    """Add what is beside `docs/`."""
    for pattern in BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                place = path.relative_to(ROOT).as_posix()
                files.append(File(place, str(ROOT), config["site_dir"], config["use_directory_urls"]))
    for title, module in API.items():
        names = importlib.import_module(module).__all__
        text = f"# {title}\n\n`{module}`\n\n" + "\n\n".join(f"::: {module}.{name}" for name in names)
        files.append(File.generated(config, f"api/{module}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Have links lead to where files are in the site."""
    if page.file.generated_by is not None:
        return markdown
    source = Path(page.file.abs_src_path).relative_to(ROOT).as_posix()
    if source.startswith(("benchmarks/", "docs/decisions/")):
        page.meta.setdefault("search", {"boost": 0.2})  # who searches wants to know how something is done
    here = posixpath.dirname(page.file.src_uri)

    def in_site(found: re.Match[str]) -> str:
        shown, label, target, anchor = found.groups()
        if re.match(r"[a-z]+:|/", target):
            return found.group(0)
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        path = ROOT / place
        if path.is_dir():
            index = [name for name in ("index.md", "README.md") if (path / name).exists()]
            if not index:
                return label
            place = f"{place}/{index[0]}"
        place = "index.md" if place == "README.md" else place.removeprefix("docs/")
        return f"{shown}[{label}]({posixpath.relpath(place, here or '.')}{anchor or ''})"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(in_site, part) for part in parts)


def _without_foreign_scripts(html: str) -> str:
    """Leave out the one script that the theme would load from elsewhere: it has searching work from `file://` too."""
    return re.sub(r'<script src="https://[^"]*"></script>', "", html)


@event_priority(-100)  # behind the theme's own
def on_post_page(output: str, page: Any, config: Any) -> str:
    """Have a page load nothing from elsewhere."""
    return _without_foreign_scripts(output)


@event_priority(-100)
def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Have pages without a text, such as that of an unknown address, load nothing from elsewhere."""
    return _without_foreign_scripts(output_content)
