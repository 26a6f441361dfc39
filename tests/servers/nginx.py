"""nginx, as it stands before servers: it asks for a password, has TLS, and limits how large requests are."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from servers.packages import install
from servers.process import Server, answers

_CONFIG = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fast; uwsgi_temp_path uw; scgi_temp_path sc;
    client_max_body_size {limit};
    server {{
        listen 127.0.0.1:{port} {tls};
        location {prefix}/ {{
            auth_basic "search";
            auth_basic_user_file {directory}/users;
            proxy_set_header Authorization "";
            proxy_pass http://{behind}/;
        }}
    }}
}}
"""


class NginxServer(Server):
    """A proxy.

    Args:
        directory: Of its configuration.
        behind: `host:port` of what stands behind it.
        user: Who may pass.
        password: With what.
        prefix: The path it is reached by.
        limit: How large requests may be: `10m`.
        certificate: Files of a certificate and its key, for TLS.
    """

    def __init__(
        self,
        directory: Path,
        behind: str,
        *,
        user: str,
        password: str,
        prefix: str = "",
        limit: str = "100m",
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        super().__init__(directory)
        (directory / "users").write_text(f"{user}:{{PLAIN}}{password}\n")
        tls = ""
        if certificate is not None:
            tls = f"ssl; ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}"
        config = _CONFIG.format(
            limit=limit, port=self.port, tls=tls, prefix=prefix, directory=directory, behind=behind
        )
        (directory / "nginx.conf").write_text(config)

    def command(self) -> list[str]:
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        if not Path(program).exists():
            install("nginx-light")
        config = str(self.directory / "nginx.conf")
        return [program, "-p", str(self.directory), "-c", config, "-e", str(self.directory / "error.log")]

    def is_ready(self) -> bool:
        return answers(lambda: socket.create_connection(("127.0.0.1", self.port), timeout=1).close())
