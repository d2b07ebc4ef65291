"""Proxies of Debian before a broker: Caddy, HAProxy, nginx and Varnish, each a process with
a configuration and a directory of its own. They keep their connections to the broker.

    nginx = Nginx(tmp_path / "nginx", broker, page_lines("nginx"), denied=["/relays"])
    nginx.get("/sets")                  it is an http.Client
    nginx.cut(), nginx.restart()        all connections break, and nobody listens; and again
    nginx.end()

`page_lines` takes the configuration without tokens that doc/proxies.md shows, also with the
broker at a unix socket; `page_block` also that with tokens and TLS. `denied` are prefixes of paths that the proxy answers with 403 itself.
"""

import pathlib

from tidings_test import http
from tidings_test.process import Process
from tidings_test.waiting import wait_for

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "doc" / "proxies.md"
PAGE_ADDRESS = "127.0.0.1:8787"  # of the broker, on the page
PAGE_SOCKET = "/run/tidings/proxy.sock"

# How each proxy names the broker: at its address, and at its socket.
UPSTREAMS = {
    "nginx": ("proxy_pass http://{}", "proxy_pass http://unix:{}"),
    "HAProxy": ("server tidings {}", "server tidings unix@{}"),
    "Caddy": ("reverse_proxy {}", "reverse_proxy unix/{}"),
}


def page_lines(name, unix=None):
    """The indented lines of the page that follow a paragraph which begins with the
    name of the proxy; without their indentation. `unix`: with the socket of that path
    instead of the address, as the page says."""
    lines = page_block(name)
    if not unix:
        return lines
    address, at_socket = UPSTREAMS[name]
    address = address.format(PAGE_ADDRESS)
    assert f"`{at_socket.format(PAGE_SOCKET)}`" in PAGE.read_text()
    assert any(address in line for line in lines)
    return [line.replace(address, at_socket.format(unix)) for line in lines]


def page_block(name, heading="Without tokens"):
    """The lines of the page, as they are there."""
    _, _, section = PAGE.read_text().partition(f"\n## {heading}\n")
    section, _, _ = section.partition("\n## ")
    blocks = section.split("\n\n")
    for before, block in zip(blocks, blocks[1:]):
        is_named = before.strip("\n").startswith(name)
        if is_named and block.startswith("    "):
            return [line[4:] for line in block.strip("\n").split("\n")]
    raise AssertionError(f"doc/proxies.md shows no configuration of {name}")


class Frontend(http.Client):
    """A proxy that runs. The arguments behind `broker` are those of configure()."""

    name = None

    def __init__(self, directory, broker, *arguments, **more):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.broker = broker
        self.data = broker.data  # Set(nginx, "news") is the set as clients see it
        port, self._keeper = http.keep_port()
        super().__init__(port)
        self.url = f"http://127.0.0.1:{port}"
        self.file = self.directory / "configuration"
        self.file.write_text(self.configure(*arguments, **more))
        self.restart()

    def configure(self, *arguments, **more):
        """The text of its configuration."""
        raise NotImplementedError

    def command(self):
        raise NotImplementedError

    def restart(self):
        self.process = Process(*self.command())
        wait_for(f"{self} to listen", self._is_listening)

    def cut(self):
        self.disconnect()
        self.process.kill()

    def _is_listening(self):
        assert self.process.is_running, self.process.errors()
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return False
        return True

    def end(self):
        # It has nothing to keep. nginx without a master, which SIGTERM meets between its
        # look at the signals and its wait, ends with the next event: never.
        self.cut()
        self._keeper.close()

    def __repr__(self):
        return f"<{self.name} at {self.url}>"


class Nginx(Frontend):
    """`lines` stand in its server block."""

    name = "nginx"

    def configure(self, lines, denied=()):
        lines = [line.replace(PAGE_ADDRESS, "tidings") for line in lines]
        lines += [f"location {prefix} {{ deny all; }}" for prefix in denied]
        folders = [
            f"{name}_temp_path {self.directory}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        ]
        return "\n".join(
            (
                "daemon off; master_process off; error_log stderr crit;",
                f"pid {self.directory}/pid;",
                "events {}",
                "http {",
                "access_log off;",
                *folders,
                "upstream tidings {",
                f"server 127.0.0.1:{self.broker.port}; keepalive 8;",
                "}",
                "server {",
                f"listen 127.0.0.1:{self.port};",
                *lines,
                "}",
                "}\n",
            )
        )

    def command(self):
        return "/usr/sbin/nginx", "-p", self.directory, "-e", "stderr", "-c", self.file


class NginxTls(Nginx):
    """`lines` are a server with the certificate."""

    def configure(self, lines, certificate):
        server = _with_certificate("\n".join(lines), certificate)
        server = server.replace("listen 443", f"listen 127.0.0.1:{self.port}")
        server = server.replace(PAGE_ADDRESS, f"127.0.0.1:{self.broker.port}")
        whole = super().configure([])
        before, _, _ = whole.partition("server {\nlisten")
        self.tls, self.url = certificate.trust(), f"https://127.0.0.1:{self.port}"
        return f"{before}{server}\n}}\n"


class Caddy(Frontend):
    """`lines` are a site."""

    name = "Caddy"
    settings = "{\nadmin off\nauto_https disable_redirects\n}"

    def configure(self, lines, denied=()):
        site = "\n".join(lines).replace(PAGE_ADDRESS, f"127.0.0.1:{self.broker.port}")
        site = site.replace("changes.example.org", self.url, 1)
        denials = "".join(f"respond {prefix}* 403\n" for prefix in denied)
        return f"{self.settings}\n{site.replace('{', '{' + chr(10) + denials, 1)}\n"

    def command(self):
        return (
            *("/usr/bin/env", f"HOME={self.directory}", "/usr/bin/caddy", "run"),
            *("--config", self.file, "--adapter", "caddyfile"),
        )


class CaddyTls(Caddy):
    """The same with the certificate, by the line of the page."""

    def configure(self, lines, certificate):
        self.tls, self.url = certificate.trust(), f"https://127.0.0.1:{self.port}"
        line = "tls /etc/ssl/changes/chain.pem /etc/ssl/changes/key.pem"
        assert f"`{line}`" in PAGE.read_text()
        lines = [lines[0], line, *lines[1:]]
        return _with_certificate(super().configure(lines), certificate)


class Haproxy(Frontend):
    """`lines` are a frontend and a backend; `server_timeout` is that of the broker where
    the lines name none."""

    name = "HAProxy"

    def configure(self, lines, denied=(), server_timeout="50s"):
        here = f"127.0.0.1:{self.port}"
        lines = [
            f"    bind {here}"
            if line.strip().startswith("bind ")
            else line.replace(PAGE_ADDRESS, f"127.0.0.1:{self.broker.port}")
            for line in lines
        ]
        frontend = next(i for i, line in enumerate(lines) if "frontend" in line)
        for prefix in denied:
            deny = f"    http-request deny if {{ path_beg {prefix} }}"
            lines.insert(frontend + 1, deny)
        return "\n".join(
            (
                # One thread: each client meets the connections that others left.
                "global",
                "    nbthread 1",
                "defaults",
                "    http-reuse always",
                "    timeout connect 50s",
                "    timeout client 50s",
                f"    timeout server {server_timeout}",
                *lines,
                "",
            )
        )

    def command(self):
        return "/usr/sbin/haproxy", "-db", "-f", self.file


class Varnish(Frontend):
    """As Debian has it, but for the address of the broker."""

    name = "Varnish"

    def configure(self, denied=()):
        rules = [
            f'if (req.url ~ "^{prefix}") {{ return (synth(403)); }}'
            for prefix in denied
        ]
        return "\n".join(
            (
                "vcl 4.1;",
                "backend default {",
                f'.host = "127.0.0.1"; .port = "{self.broker.port}";',
                "}",
                "sub vcl_recv {",
                *rules,
                "}\n",
            )
        )

    def command(self):
        return (
            *("/usr/sbin/varnishd", "-F", "-j", "none", "-n", self.directory / "work"),
            *("-a", f"127.0.0.1:{self.port}", "-f", self.file, "-s", "malloc,16m"),
            *("-T", "none", "-p", "thread_pools=1", "-p", "thread_pool_min=5"),
        )


def _with_certificate(text, certificate):
    text = text.replace("/etc/ssl/changes/chain.pem", str(certificate.cert))
    return text.replace("/etc/ssl/changes/key.pem", str(certificate.key))
