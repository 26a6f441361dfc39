"""Servers of files and objects: S3 by S3Proxy, HDFS by Hadoop's mini cluster."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import re
import urllib.parse
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

from servers.maven import JVM_OPTIONS, jars
from servers.ports import free_port
from servers.process import Server, answers

S3PROXY = ("org.gaul:s3proxy:4.1.0:jar-with-dependencies",)
HADOOP = (
    "org.apache.hadoop:hadoop-common:3.5.0",
    "org.apache.hadoop:hadoop-common:3.5.0:tests",
    "org.apache.hadoop:hadoop-hdfs:3.5.0",
    "org.apache.hadoop:hadoop-hdfs-client:3.5.0",
    "org.apache.hadoop:hadoop-hdfs:3.5.0:tests",
    "org.mockito:mockito-core:4.11.0",  # Hadoop's test classes refer to these
    "junit:junit:4.13.2",
    "org.junit.jupiter:junit-jupiter-api:5.8.2",
)


class S3Server(Server):
    """S3, in memory of a directory; refuses what is not signed with its secret."""

    access_key = "AKIDEXAMPLE"
    secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    bucket = "state"

    def command(self) -> list[str]:
        data = self.directory / "data"
        (data / self.bucket).mkdir(parents=True, exist_ok=True)
        properties = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.access_key,
            "s3proxy.credential": self.secret_key,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(data),
            "jclouds.identity": "local",
            "jclouds.credential": "local",
        }
        file = self.directory / "s3proxy.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        path = jars(S3PROXY, alone=True)
        return ["java", *JVM_OPTIONS, "-cp", path, "org.gaul.s3proxy.Main", "--properties", str(file)]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Flink's options that name this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key": self.access_key,
            "s3.secret-key": self.secret_key,
            "s3.path.style.access": "true",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables of the environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def is_ready(self) -> bool:
        return answers(self.keys)

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys of all objects that begin so, also empty ones whose key ends with a slash."""
        query = urllib.parse.urlencode({"list-type": "2", "max-keys": "1000", "prefix": prefix})
        tree = ElementTree.fromstring(self.request("GET", "", query))
        keys = [each.text or "" for each in tree.iter() if each.tag.endswith("}Key") or each.tag == "Key"]
        assert len(keys) < 1000
        return keys

    def get(self, key: str) -> bytes:
        return self.request("GET", key)

    def put(self, key: str, data: bytes) -> None:
        self.request("PUT", key, data=data)

    def request(self, method: str, key: str, query: str = "", data: bytes = b"") -> bytes:
        """Ask it as S3's documentation says (signature version 4): not with the library that is tested."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        path = urllib.parse.quote(f"/{self.bucket}/{key}" if key else f"/{self.bucket}")
        query = "&".join(sorted(query.replace("+", "%20").split("&"))) if query else ""
        digest = hashlib.sha256(data).hexdigest()
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": now}
        unsigned = {"content-type": "application/octet-stream"}  # else S3Proxy takes the body for a form
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signing = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            signing = hmac.digest(signing, part.encode(), "sha256")
        signature = hmac.digest(signing, text.encode(), "sha256").hex()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        url = f"{self.endpoint}{path}{'?' if query else ''}{query}"
        request = urllib.request.Request(
            url, data=data if method == "PUT" else None, headers=headers | unsigned, method=method
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            body: bytes = response.read()
            return body


class HdfsServer(Server):
    """A name node and a data node in one process. What is in it ends with it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._http_port = free_port()

    def command(self) -> list[str]:
        base = self.directory
        (base / "ready").unlink(missing_ok=True)
        settings = {
            "dfs.replication": "1",
            "dfs.permissions.enabled": "true",
            "dfs.namenode.safemode.extension": "0",
            "hdfs.minidfs.basedir": f"{base}/dfs",
            "hadoop.tmp.dir": f"{base}/tmp",
        }
        properties = [f"-Dhadoop.log.dir={base}/logs", f"-Dtest.build.data={base}/data"]
        command = ["java", *JVM_OPTIONS, *properties, "-cp", jars(HADOOP)]
        command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"]
        command += ["-nnport", str(self.port), "-httpport", str(self._http_port)]
        command += ["-writeDetails", str(base / "ready")]
        for key, value in settings.items():
            command += ["-D", f"{key}={value}"]
        return command

    @property
    def uri(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        return (self.directory / "ready").is_file()


def secrets_in(text: str) -> list[str]:
    """Return what of the S3 server's credentials is in a text."""
    return [
        secret for secret in (S3Server.secret_key, S3Server.access_key) if re.search(re.escape(secret), text)
    ]
