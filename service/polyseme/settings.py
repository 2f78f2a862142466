"""Every setting, in one table: its name, default, bounds and help.

`POLYSEME_` + the name in upper case sets it in the environment, `--name` on `polyseme serve`;
`docs/settings.md` and `polyseme serve --help` are made from this table.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

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
from polyseme.encoding.options import Limits
from polyseme.encoding.sentences import Pooling
from polyseme.models.manifest import NAME_PATTERN

PREFIX = "POLYSEME_"
BUNDLED = "wiki-en"
_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
)
_DEFAULT_PORTS = {"http": {"80"}, "https": {"443"}}
_LONGEST_WINDOW = 366 * 24 * 3600
"""Seconds of the longest window of a rate; expiries in Redis are limited."""


def usable_cpus() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_models_dir() -> Path:
    """The default folder of the user's models; it need not exist."""
    return user_data_path("polyseme", appauthor=False) / "models"


class Settings(BaseSettings):
    """The settings of a service."""

    # An empty variable is what compose files and shells leave of one that is not set.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # the input may be a key
    )

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on")
    workers: int = Field(
        default_factory=usable_cpus,
        ge=1,
        le=256,
        description="worker processes; the default is the number of processors",
    )
    threads: int = Field(4, ge=1, le=256, description="threads of each worker")
    timeout: int = Field(
        60, ge=1, le=3600, description="seconds after which a silent worker is replaced"
    )
    graceful_timeout: int = Field(
        30, ge=0, le=3600, description="most seconds from SIGTERM to the end"
    )
    drain_seconds: int = Field(
        2,
        ge=0,
        le=3600,
        description="seconds of `graceful_timeout` in which new requests are answered while /readyz"
        " fails, so that a load balancer stops sending",
    )
    keep_alive: int = Field(
        5, ge=0, le=3600, description="seconds that an idle connection is kept open"
    )
    max_connections: int = Field(
        1000, ge=1, le=100_000, description="most open connections of each worker"
    )
    max_waiting: int = Field(
        256,
        ge=0,
        le=100_000,
        description="most requests that wait for a thread in each worker; further ones get a 503",
    )
    max_requests: int = Field(
        1_000_000,
        ge=0,
        le=1 << 40,
        description="requests, plus up to a tenth, after which a worker is replaced; 0 for never",
    )
    # A directory that is set has to exist; the default one is optional.
    models_dir: DirectoryPath = Field(
        default_factory=default_models_dir,
        validate_default=False,
        description="folder of model folders, besides the bundled ones; by default"
        " `polyseme/models` in the user's data folder",
    )
    model: str = Field(BUNDLED, pattern=NAME_PATTERN, description="name of the default model")
    pooling: Pooling = Field(
        "informativeness",
        description="pooling of /v1/embeddings: the mean of a sentence weighted by"
        " `informativeness`, or its plain `mean`",
    )
    verify_models: bool = Field(
        True, description="compare checksums and look for NaN when a model is loaded"
    )
    preload_models: bool = Field(
        False, description="load every model at the start instead of at its first use"
    )
    max_body_bytes: int = Field(
        4 << 20, ge=1, le=1 << 30, description="largest body of a request, in bytes"
    )
    max_sentences: int = Field(
        16_384, ge=1, le=1_000_000, description="most sentences of one request"
    )
    max_sentence_tokens: int = Field(
        1024, ge=1, le=1_000_000, description="most tokens of one sentence"
    )
    max_tokens: int = Field(524_288, ge=1, le=10_000_000, description="most tokens of one request")
    max_trace_tokens: int = Field(64, ge=1, le=1024, description="most tokens of a trace")
    max_trace_bytes: int = Field(128 << 20, ge=1, le=1 << 32, description="largest trace, in bytes")
    max_answer_bytes: int = Field(
        256 << 20,
        ge=1,
        le=1 << 32,
        description="largest response, or line of streamed NDJSON, in bytes",
    )
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="API keys of /v1 and /v2, separated by commas; without keys, access is open"
    )
    api_keys_file: FilePath | None = Field(
        None, description="file of further keys, a name and a hash per line (`polyseme keys new`)"
    )
    metrics: Literal["key", "open", "off"] = Field(
        "key",
        description="access to /metrics: callers with a key if there are keys, everybody, nobody",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="origins of allowed pages, such as `https://example.org`, separated by commas",
    )
    proxies: int = Field(
        0,
        ge=0,
        le=16,
        description="number of reverse proxies in front, whose X-Forwarded-For is trusted",
    )
    rate_limit: str = Field(
        "", description="most requests of one caller, such as `100/minute`; empty for no limit"
    )
    rate_limit_storage: SecretStr = Field(
        SecretStr("memory://"),
        description="where requests are counted: in each worker, or for all workers in"
        " `redis://HOST:PORT/0` (extra `redis`)",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="format of the log; `auto`: text on a terminal, else JSON"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least level that is logged; requests are `info`"
    )
    otlp_endpoint: str = Field(
        "",
        description="collector of traces, such as `http://collector:4318` (OTLP over HTTP; extra"
        " `telemetry`); empty for none",
    )

    @field_validator("api_keys", "cors_origins", mode="before")
    @classmethod
    def _split(cls, many: object) -> object:
        if not isinstance(many, str):
            return many
        found = [one.strip() for one in many.split(",") if one.strip()]
        if not found:
            # "$ONE,$OTHER" of two unset variables must not open the service.
            raise ValueError("there is nothing between the commas")
        return found

    @field_validator("api_keys")
    @classmethod
    def _are_keys(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        digests_of_keys(key.get_secret_value() for key in keys)
        return keys

    @field_validator("api_keys_file")
    @classmethod
    def _has_keys(cls, file: Path | None) -> Path | None:
        if file:
            read_key_file(file)
        return file

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            found = _ORIGIN.fullmatch(origin)
            if not found:
                raise ValueError(
                    "an origin is a scheme, a host and optionally a port, in lower case, such as"
                    " https://example.org"
                )
            if found["port"] in _DEFAULT_PORTS.get(found["scheme"], ()):
                raise ValueError("browsers omit the default port of a scheme")
        return origins

    @field_validator("rate_limit")
    @classmethod
    def _is_a_rate(cls, rate: str) -> str:
        if not rate:
            return rate
        from limits import parse_many  # noqa: PLC0415 - not without a rate

        try:
            rates = parse_many(rate)
        except ValueError:
            rates = []
        if not rates or any(one.amount < 1 or one.get_expiry() > _LONGEST_WINDOW for one in rates):
            raise ValueError(
                "a rate is a number of requests in a second to a year, such as 100/minute; `;`"
                " separates several rates"
            )
        return rate

    @field_validator("rate_limit_storage")
    @classmethod
    def _is_a_storage(cls, storage: SecretStr) -> SecretStr:
        address = storage.get_secret_value()
        if address == "memory://":
            return storage
        if not address.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError(
                "the address begins with redis://, rediss:// or unix://, or is memory://"
            )
        try:
            from redis import ConnectionPool  # noqa: PLC0415 - not without one
        except ImportError:
            raise ValueError("Redis needs polyseme[redis]: pip install 'polyseme[redis]'") from None
        try:
            # Not connected yet, but all options are parsed.
            ConnectionPool.from_url(address).make_connection()
        except (TypeError, ValueError):
            raise ValueError("this is not an address of Redis") from None
        return storage

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_a_collector(cls, endpoint: str) -> str:
        if endpoint:
            try:
                HttpUrl(endpoint)
            except ValidationError:
                raise ValueError(
                    "the endpoint is an address such as http://collector:4318"
                ) from None
            if find_spec("opentelemetry") is None:
                raise ValueError(
                    "traces need polyseme[telemetry]: pip install 'polyseme[telemetry]'"
                )
        return endpoint

    def limits(self) -> Limits:
        """The limits on one request."""
        return Limits(**{name: getattr(self, name) for name in Limits.__dataclass_fields__})
