"""The settings of the service: name, default, bounds and help.

Each setting has the environment variable `POLYSEME_NAME` and, unless it may contain a secret, the
flag `--name` of `polyseme serve`.
`docs/settings.md` and `polyseme serve --help` are generated from this table.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from platformdirs import user_data_path
from pydantic import (
    DirectoryPath,
    Field,
    FilePath,
    HttpUrl,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from polyseme.api_keys import digests_of_keys, read_key_file
from polyseme.errors import did_you_mean, install_command, validation_message
from polyseme.models.manifest import NAME_PATTERN
from polyseme.operations.embed import DEFAULT_POOLING, Pooling, Wordless
from polyseme.operations.limits import MAX_SENTENCE_TOKENS, Limits

if TYPE_CHECKING:
    from limits import RateLimitItem

PREFIX = "POLYSEME_"
_OTHER_VARIABLES = ("API_KEY", "KEY", "MIRROR", "TEST_DATA", "URL")
"""Variables of the clients, the command line, the web interface, the notebooks and the tests."""
BUNDLED = "wiki-en"
_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
)
_HOST = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|\[?[0-9a-fA-F.]*:[0-9a-fA-F:.]*\]?"
)
_DEFAULT_PORTS = {"http": {"80"}, "https": {"443"}}
_WORK_RATE = re.compile(r"(?P<seconds>[0-9]{1,9}) ?s *(?:/|per) *(?P<window>.+)")
_MAX_RATE_WINDOW = 366 * 24 * 3600
"""The longest window of a rate limit, in seconds; Redis limits expiry times."""


def usable_cpus() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_models_dir() -> Path:
    """Return the default folder of the user's models, which may not exist."""
    return user_data_path("polyseme", appauthor=False) / "models"


def request_rates(setting: str) -> "list[RateLimitItem]":
    """Return the rates of requests in a `rate_limit`; raise ValueError if one is invalid."""
    from limits import parse

    return [parse(rate) for rate in _rates(setting) if not _WORK_RATE.fullmatch(rate)]


def work_rates(setting: str) -> "list[RateLimitItem]":
    """Return the rates of processor time in a `rate_limit`, in milliseconds; raise ValueError."""
    from limits import parse

    matches = filter(None, map(_WORK_RATE.fullmatch, _rates(setting)))
    return [parse(f"{int(match['seconds']) * 1000}/{match['window']}") for match in matches]


def _rates(setting: str) -> list[str]:
    return [rate.strip() for rate in re.split("[;,|]", setting)]


class SettingError(ValueError):
    """A setting is invalid."""

    def __init__(self, name: str, message: str, *, argument: bool = False) -> None:
        """Create an error; `argument` says whether the value is an argument, not a variable."""
        self.name, self.message = name, message
        super().__init__(f"{name if argument else PREFIX + name.upper()}: {message}.")


class Settings(BaseSettings):
    """The settings of a service."""

    # Compose files and shells pass an unset variable as an empty one.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # the input may be a key
    )

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on")
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="names in the Host header that are answered, separated by commas, `*` for any;"
        " by default the address that the service listens on, localhost and the loopback addresses,"
        " or any if it listens on all addresses",
    )
    admin_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="additional port for /livez, /readyz and /metrics, which a process beside the"
        " workers serves; none by default",
    )
    workers: int = Field(
        default_factory=usable_cpus,
        ge=1,
        le=256,
        description="worker processes; the default is the number of processors",
    )
    threads: int = Field(4, ge=1, le=256, description="threads of each worker")
    timeout: int = Field(
        60, ge=1, le=3600, description="seconds after which an unresponsive worker is replaced"
    )
    graceful_timeout: int = Field(
        30, ge=0, le=3600, description="maximum seconds from SIGTERM until the workers are killed"
    )
    drain_seconds: int = Field(
        2,
        ge=0,
        le=3600,
        description="seconds after SIGTERM, part of `graceful_timeout`, in which requests are still"
        " accepted while /readyz fails, so that a load balancer stops sending them",
    )
    keep_alive: int = Field(
        5, ge=0, le=3600, description="seconds that an idle connection is kept open"
    )
    max_connections: int = Field(
        1000, ge=1, le=100_000, description="maximum number of open connections of each worker"
    )
    max_waiting: int = Field(
        256,
        ge=0,
        le=100_000,
        description="maximum number of requests that wait for a thread in each worker; additional"
        " ones get a 503",
    )
    max_requests: int = Field(
        1_000_000,
        ge=0,
        le=1 << 40,
        description="number of requests after which a worker is replaced, plus a random 0 to 10 %;"
        " 0 for never",
    )
    # A configured directory must exist; the default one is optional.
    models_dir: DirectoryPath = Field(
        default_factory=default_models_dir,
        validate_default=False,
        description="folder of models, in addition to the bundled ones; by default"
        " `polyseme/models` in the user's data folder",
    )
    model: str = Field(BUNDLED, pattern=NAME_PATTERN, description="name of the default model")
    pooling: Pooling = Field(
        DEFAULT_POOLING,
        description="pooling of /v1/embeddings: the mean of the static vectors weighted by smooth"
        " inverse frequency (`sif`), also `whitened`, or of the contextual vectors weighted by"
        " `informativeness` or equally (`mean`)",
    )
    wordless: Wordless = Field(
        "refuse",
        description="what /v1/embeddings does with a text in which no word has a vector: return an"
        " error (`refuse`) or a zero vector (`zero`), so that one such text fails no batch",
    )
    truncate: bool = Field(
        False,
        description="whether /v1/embeddings truncates texts of more than `max_sentence_tokens`"
        " tokens instead of rejecting them",
    )
    preload_models: bool = Field(
        False, description="load every model at startup instead of at its first use"
    )
    max_body_bytes: int = Field(
        4 << 20, ge=1, le=1 << 30, description="maximum size of a request body, in bytes"
    )
    max_sentences: int = Field(
        16_384, ge=1, le=1_000_000, description="maximum number of sentences in one request"
    )
    max_sentence_tokens: int = Field(
        MAX_SENTENCE_TOKENS,
        ge=1,
        le=1_000_000,
        description="maximum number of tokens in one sentence",
    )
    max_tokens: int = Field(
        524_288, ge=1, le=10_000_000, description="maximum number of tokens in one request"
    )
    max_occurrences: int = Field(
        5_000,
        ge=1,
        le=10_000_000,
        description="maximum number of occurrences of the word in a request for senses",
    )
    max_trace_tokens: int = Field(
        64, ge=1, le=1024, description="maximum number of tokens in a trace"
    )
    max_trace_bytes: int = Field(
        128 << 20, ge=1, le=1 << 32, description="maximum size of a trace, in bytes"
    )
    max_answer_bytes: int = Field(
        128 << 20,
        ge=1,
        le=1 << 32,
        description="maximum size of a response, or of a line of streamed NDJSON, in bytes",
    )
    max_concurrent_answer_bytes: int = Field(
        256 << 20,
        ge=1 << 20,
        le=1 << 36,
        description="maximum size of all responses that a worker makes at the same time, in bytes;"
        " others wait",
    )
    max_pairs: int = Field(
        1 << 29,
        ge=1,
        le=1 << 40,
        description="maximum pairs of tokens of the sentences in one request (n² for n tokens),"
        " times heads and layers",
    )
    max_work: float = Field(
        5.0,
        ge=0.1,
        le=3600,
        description="maximum processor time of one request, in seconds",
    )
    request_seconds: int = Field(
        30,
        ge=1,
        le=3600,
        description="deadline of a request in seconds from its arrival, after which it is not"
        " computed further",
    )
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (),
        description="API keys of /v1 and /v2/models, separated by commas; without keys, access is"
        " open",
    )
    api_keys_file: FilePath | None = Field(
        None,
        description="file of additional keys, a name and a hash per line (`polyseme keys new`)",
    )
    metrics: Literal["key", "open", "off"] = Field(
        "key",
        description="access to /metrics: `key`, callers with a key, or everybody if there are no"
        " keys; `open`, everybody; `off`, nobody",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="allowed CORS origins, such as `https://example.org`, separated by commas",
    )
    proxies: int = Field(
        0,
        ge=0,
        le=16,
        description="number of reverse proxies in front of the service whose X-Forwarded-For"
        " entries are trusted",
    )
    rate_limit: str = Field(
        "",
        description="maximum rate of each caller, in requests such as `100/minute`, in seconds of"
        " processor time such as `60s/minute`, or both, separated by `;`; empty for no limit",
    )
    rate_limit_storage: SecretStr = Field(
        SecretStr("memory://"),
        description="storage of the rate limit's counts: `memory://` for separate counts in each"
        " worker, or `redis://HOST:PORT/0` for all workers (extra `redis`)",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="format of the log; `auto` is text on a terminal and JSON otherwise"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="minimum level of logged messages; requests are logged at `info`"
    )
    otlp_endpoint: str = Field(
        "",
        description="address of a trace collector, such as `http://collector:4318` (OTLP over HTTP;"
        " extra `telemetry`); empty for no traces",
    )

    def __init__(self, **arguments: Any) -> None:
        """Read the environment; `arguments` override it. Raises SettingError."""
        try:
            super().__init__(**arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
        else:
            return
        name = str(first["loc"][0])
        raise SettingError(name, validation_message(first), argument=name in arguments)

    @field_validator("api_keys", "cors_origins", "hosts", mode="before")
    @classmethod
    def split(cls, value: object) -> object:
        """Split a list at its commas."""
        if not isinstance(value, str):
            return value
        items = [item.strip() for item in value.split(",") if item.strip()]
        if not items:
            # "$ONE,$OTHER" with both variables unset must not disable authentication.
            raise ValueError("the list has no items")
        return items

    @field_validator("api_keys")
    @classmethod
    def check_keys(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        """Raise ValueError for a malformed hash."""
        digests_of_keys(key.get_secret_value() for key in keys)
        return keys

    @field_validator("api_keys_file")
    @classmethod
    def check_key_file(cls, file: Path | None) -> Path | None:
        """Raise ValueError for an invalid key file."""
        if file:
            read_key_file(file)
        return file

    @field_validator("cors_origins")
    @classmethod
    def check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        """Raise ValueError for what is no origin (RFC 6454)."""
        for origin in origins:
            match = _ORIGIN.fullmatch(origin)
            if not match:
                raise ValueError(
                    "an origin is a scheme, a host and optionally a port, in lower case, such as"
                    " https://example.org"
                )
            if match["port"] in _DEFAULT_PORTS.get(match["scheme"], ()):
                raise ValueError("an origin must omit the default port of its scheme")
        return origins

    @field_validator("hosts")
    @classmethod
    def check_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """Raise ValueError for what is not a host name or an address."""
        for host in hosts:
            if host != "*" and not _HOST.fullmatch(host):
                raise ValueError("a host is a name or an address without port, such as example.org")
        return tuple(host.strip("[]").lower() for host in hosts)

    @field_validator("rate_limit")
    @classmethod
    def check_rate(cls, setting: str) -> str:
        """Raise ValueError for an invalid rate."""
        if not setting:
            return setting
        try:
            rates = [*request_rates(setting), *work_rates(setting)]
        except ValueError:
            rates = []
        if not rates or any(
            rate.amount < 1 or rate.get_expiry() > _MAX_RATE_WINDOW for rate in rates
        ):
            raise ValueError(
                "a rate is a number of requests, or of processor seconds, per second, minute, hour,"
                " day, month or year, such as 100/minute or 60s/minute; `;` separates several rates"
            )
        return setting

    @field_validator("rate_limit_storage")
    @classmethod
    def check_storage(cls, storage: SecretStr) -> SecretStr:
        """Raise ValueError for an address that cannot be used, without connecting."""
        address = storage.get_secret_value()
        if address == "memory://":
            return storage
        if not address.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError(
                "the address must be memory:// or begin with redis://, rediss:// or unix://"
            )
        try:
            from redis import ConnectionPool
        except ImportError:
            raise ValueError(f"Redis needs its package: {install_command('redis')}") from None
        try:
            ConnectionPool.from_url(address).make_connection()
        except (TypeError, ValueError):
            raise ValueError("this is not a valid Redis URL") from None
        return storage

    @field_validator("otlp_endpoint")
    @classmethod
    def check_endpoint(cls, endpoint: str) -> str:
        """Raise ValueError for an address that is no URL, or if OpenTelemetry is missing."""
        if endpoint:
            try:
                HttpUrl(endpoint)
            except ValidationError:
                raise ValueError(
                    "the endpoint must be a URL such as http://collector:4318"
                ) from None
            if find_spec("opentelemetry") is None:
                raise ValueError(f"traces need OpenTelemetry: {install_command('telemetry')}")
        return endpoint

    def limits(self) -> Limits:
        """Return the limits on one request."""
        return Limits(**{name: getattr(self, name) for name in Limits.__dataclass_fields__})


def unknown_variables() -> list[str]:
    """Return a warning for each unknown environment variable `POLYSEME_…`."""
    known = [name.upper() for name in (*Settings.model_fields, *_OTHER_VARIABLES)]
    warnings = []
    for variable in sorted(os.environ):
        name = variable.upper().removeprefix(PREFIX)
        if name != variable.upper() and name not in known:
            question = did_you_mean(name, known, PREFIX)
            warnings.append(f"{variable} is not a setting{question or '.'}")
    return warnings
