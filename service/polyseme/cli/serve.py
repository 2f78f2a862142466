"""`polyseme serve`: check the model and the address, and run gunicorn."""

import errno
import os
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click
from pydantic.fields import FieldInfo

from polyseme.cli.options import Option, settings_from, with_options
from polyseme.errors import CommandError, ModelFolderError
from polyseme.models.registry import Registry
from polyseme.settings import Settings

_STANDARD_ERROR = 2
_METRICS_BYTES = 1 << 20
"""Free bytes that the metrics directory requires at the start; a worker uses about 0.2 MB."""
_METRICS_PREFIX = "polyseme-metrics-"
SECRET = ("api_keys", "rate_limit_storage")
"""Settings without a flag, because every user of the machine can read a command line."""


def _create_metrics_directory() -> None:
    """Create the multiprocess metrics directory, before prometheus_client is imported.

    Its parent is PROMETHEUS_MULTIPROC_DIR, /dev/shm or the temporary directory, the first with
    enough free space. If none has enough, each worker reports only its own metrics. gunicorn's
    `on_exit` removes the directory; after a SIGKILL, the next start does.
    """
    parent = os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    for candidate in (parent or "/dev/shm", "/dev/shm", None):  # noqa: S108
        with suppress(OSError):
            folder = candidate or tempfile.gettempdir()
            for directory in Path(folder).glob(f"{_METRICS_PREFIX}*-*"):
                process = directory.name.removeprefix(_METRICS_PREFIX).partition("-")[0]
                if process.isdecimal() and not _is_running(int(process)):
                    shutil.rmtree(directory, ignore_errors=True)
            if shutil.disk_usage(folder).free >= _METRICS_BYTES:
                prefix = f"{_METRICS_PREFIX}{os.getpid()}-"
                os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp("", prefix, folder)
                return


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # another one if the process is of another user
        return not isinstance(error, ProcessLookupError)
    return True


def _check_address(host: str, port: int, flag: str) -> None:
    """Raise CommandError if the service cannot listen on the address.

    gunicorn would try again for five seconds, and report the error after other lines.
    """
    if "LISTEN_FDS" in os.environ:  # systemd passes a socket
        return
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:  # as gunicorn binds, without listening
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"Port {port} of {host} is in use; {flag} selects another one."
        else:
            reason = f"{error.strerror}; check --host and {flag}."
            message = f"The service cannot listen on {host}, port {port}: {reason}"
        raise CommandError(message) from None


def _setting_option(name: str, field: FieldInfo) -> Option:
    """Return the option of a setting."""
    default = "" if field.default == "" or field.default_factory else field.default
    note = f"  [default: {default}]" if default != "" else ""
    flag = f"--{name.replace('_', '-')}"
    return click.option(flag, name, metavar="VALUE", help=f"{field.description}{note}")


@click.command()
@with_options(
    *(
        _setting_option(name, field)
        for name, field in Settings.model_fields.items()
        if name not in SECRET
    )
)
def serve(**flags: str | None) -> None:
    """Serve the models over HTTP.

    Every option can also be set by an environment variable: POLYSEME_ and its name in upper case.
    """
    # A closed standard stream becomes /dev/null; otherwise a socket would get its number.
    for descriptor in range(_STANDARD_ERROR + 1):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    settings = settings_from(**flags)
    registry = Registry.of(settings.models_dir, settings.model)
    try:
        # This checks the manifest and the sizes of the files; `create_app` loads the model.
        registry.manifest(settings.model)
    except ModelFolderError as error:
        raise CommandError(
            f"The default model {settings.model!r} cannot be used: {error.detail} Repair it"
            " (`polyseme models verify`), or select another one with --model."
        ) from None
    _check_address(settings.host, settings.port, "--port")
    if settings.admin_port:
        _check_address(settings.host, settings.admin_port, "--admin-port")
    if settings.metrics != "off":
        _create_metrics_directory()
    from polyseme.http.server import Server

    Server(settings).run()
