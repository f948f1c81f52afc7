"""[agent] of `ratchet.toml`: how the agent is run, and what its rollouts may do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from ratchet.autopilot.sections import (
    EnvironmentVariable,
    Name,
    Section,
    Several,
    Url,
)
from ratchet.types import ConfigError, content_hash

if TYPE_CHECKING:
    from ratchet.run.handover import Handover

ModelHost = Annotated[str, Field(pattern=r"^([a-z0-9.\-_]+|\[[0-9a-f:.]+\])(:\d{1,5})?$")]
"""`api.groq.com`, or `localhost:11434` where the port is not the scheme's usual one."""
_ALLOWED_HOST = re.compile(r"(?:\*|(?:\*\.)?[A-Za-z0-9_.\-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})|/.+")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _checked_host(text: str) -> str:
    match = _ALLOWED_HOST.fullmatch(text)
    if match is None or not (match[1] is None or 0 < int(match[1]) < 65_536):
        raise ValueError(
            'should be a host with its port, such as "api.example.com:443", "*.example.com:443" or'
            ' "localhost:5432"; or the path of a unix socket'
        )
    return text


AllowedHost = Annotated[str, AfterValidator(_checked_host)]


def _one_or_more(value: Any) -> Any:
    """A single string as a list of one; a TOML array as it is."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class AgentAllowSection(Section):
    """[agent.allow]: what rollouts may do outside the project."""

    hosts: Several[AllowedHost] = ()
    programs: Several[Annotated[str, Field(min_length=1)]] = ()
    folders: Several[Annotated[str, Field(min_length=1)]] = ()
    absent: Several[Annotated[str, Field(min_length=1)]] = ()

    @property
    def version(self) -> str:
        """Part of a rollout's identity; empty if nothing is allowed."""
        allowed = self.model_dump()
        return content_hash(allowed) if any(allowed.values()) else ""


class AgentModelSection(Section):
    """[[agent.models]]: a model that the agent calls, and the models that may replace it."""

    name: Name = "model"
    model: Annotated[str, Field(min_length=1)]
    choices: Several[Annotated[str, Field(min_length=1)]] = ()


class AgentSection(Section):
    """[agent]: the agent; a function, a command, or a service."""

    entry: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] | None = None
    command: Annotated[str, Field(min_length=1)] | None = None
    url: Url | None = None
    serve: Annotated[str, Field(min_length=1)] | None = None
    restart: bool = False
    stdin: str | None = None
    input: Annotated[str, Field(min_length=1)] | None = None
    body: Annotated[str, Field(min_length=1)] | None = None
    form: Annotated[dict[str, str], Field(min_length=1)] | None = None
    query: dict[str, str] | None = None
    headers: dict[str, str] | None = None
    method: Literal["GET", "POST", "PUT", "PATCH"] | None = None
    output: Annotated[str, Field(min_length=1)] | None = None
    arguments: dict[str, Any] | None = None
    constructing: dict[str, Any] | None = Field(default=None, alias="construct")
    name: Name | None = None
    model_base_url: Annotated[tuple[EnvironmentVariable, ...], BeforeValidator(_one_or_more)] = ()
    model_key: Annotated[tuple[EnvironmentVariable, ...], BeforeValidator(_one_or_more)] = ()
    model_hosts: Several[ModelHost] = ()
    path: Several[str] = (".",)
    python: Annotated[str, Field(min_length=1)] | None = None
    prompts: Literal["declared", "calls"] = "declared"
    allow: AgentAllowSection | None = None
    model: str | None = None
    models: Several[AgentModelSection] = ()
    device: Annotated[str, Field(min_length=1)] = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"

    @field_validator("model")
    @classmethod
    def _local(cls, name: str | None) -> str | None:
        if name is not None and name != "local" and not name.startswith("local:"):
            raise ValueError(
                'should be "local" or "local:NAME"; the agent itself names any other model'
            )
        return name

    @model_validator(mode="after")
    def _one_agent(self) -> AgentSection:
        starts = [key for key in ("entry", "command", "url") if getattr(self, key) is not None]
        if len(starts) != 1:
            excess = f"; it has {' and '.join(starts)}" if starts else ""
            raise ValueError(
                "[agent] needs one of entry (a Python function), command (a program) and url"
                f" (a running service){excess}"
            )
        if self.entry is None and self.python is not None:
            raise ValueError("python is only for an entry; a command names its own interpreter")
        started = self.command is not None or self.serve is not None
        if not started and (self.model_base_url or self.model_key):
            raise ValueError(
                "model_base_url and model_key are variables of a command, or of a service that"
                " serve starts"
            )
        led = started or (self.entry is not None and self.prompts == "calls")
        if self.model_hosts and not led:
            raise ValueError(
                "model_hosts needs a command, a service that serve starts, or an entry with"
                ' prompts = "calls": only their model calls go through the gateway'
            )
        return self

    @model_validator(mode="after")
    def _settings_of_its_kind(self) -> AgentSection:
        from ratchet.run.request_headers import check_header
        from ratchet.worker.placeholders import check_placeholders

        try:
            handover = self.handover
            for key, setting, kind in (
                ("command", handover.words or None, "command"),
                ("stdin", handover.stdin, "command"),
                ("input", self.input, "command"),
                ("body", handover.body, "url"),
                ("form", self.form, "url"),
                ("query", self.query, "url"),
                ("headers", self.headers, "url"),
                ("method", self.method, "url"),
                ("serve", self.serving or None, "url"),
                ("arguments", self.arguments, "entry"),
                ("construct", self.constructing, "entry"),
            ):
                if setting is not None and getattr(self, kind) is None:
                    raise ConfigError(f"{key} needs {kind} under [agent].")
                check_placeholders(setting, key, "port" if key == "serve" else "input")
            if self.form is not None and self.body is not None:
                raise ConfigError("form and body are two bodies: give one of them.")
            for name, value in handover.headers.items():
                check_header(name, value)
            handover.check_input()
            handover.check_output(self.entry is None, is_command=self.command is not None)
        except ConfigError as error:
            raise ValueError(f"{error.message} {error.hint or ''}".strip(". ")) from None
        if self.restart and self.serve is None:
            raise ValueError("restart needs serve, the command that starts the service")
        host = urlsplit(self.url or "").hostname
        if self.serve is not None and host not in LOOPBACK:
            raise ValueError(
                f"serve starts a service on this machine, but url is at {host}; it should be"
                " http://127.0.0.1:PORT/PATH"
            )
        return self

    @property
    def runs_already(self) -> bool:
        """Whether the agent is a service that is started elsewhere."""
        return self.url is not None and self.serve is None

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of an entry and of its method's class, as JSON data by `AgentSpec`'s names."""
        arguments = None if self.arguments is None else msgspec.to_builtins(self.arguments)
        return {"arguments": arguments, "construct": msgspec.to_builtins(self.constructing or {})}

    @property
    def serving(self) -> tuple[str, ...]:
        """Program and arguments that start a service; empty if it is already running."""
        from ratchet.run.handover import parse_command

        return () if self.serve is None else parse_command(self.serve)

    @property
    def handover(self) -> Handover:
        """What a command or a service gets from a task, and where its answer is.

        Raises:
            ConfigError: The command or the body cannot be read.
        """
        from ratchet.run.handover import Handover, parse_command

        try:
            body = None if self.body is None else msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise ConfigError(f"body should be JSON: {error}.") from None
        return Handover(
            words=() if self.command is None else parse_command(self.command),
            stdin=self.stdin,
            input=self.input or "",
            body=body,
            form=self.form or {},
            query=self.query or {},
            headers=self.headers or {},
            method=self.method or "POST",
            output=self.output or "",
        )

    @property
    def label(self) -> str:
        """The agent as it is configured: MODULE:FUNCTION, a command line, or a URL."""
        return self.entry or self.command or self.url or ""
