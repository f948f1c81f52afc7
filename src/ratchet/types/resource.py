"""Resources: the versioned parts of an agent, in four kinds (prompt, params, code, model)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.types.errors import InputError
from ratchet.types.hashing import content_hash
from ratchet.types.knobs import Choice, Float, Knob, Value, domain
from ratchet.types.template import PromptTemplate


class Params(msgspec.Struct, frozen=True, tag="params"):
    """A space of knobs and a point in it.

    Args:
        space: Knob by name.
        values: Value by name; missing names take their knob's default.

    Raises:
        InputError: A value is outside its knob, or names no knob.
    """

    space: dict[str, Knob]
    values: dict[str, Value] = {}

    def __post_init__(self) -> None:
        unknown = sorted(set(self.values) - set(self.space))
        if unknown:
            raise InputError(f"No knob is named {unknown[0]!r}; there are {sorted(self.space)}.")
        values = {
            name: knob.check(name, self.values.get(name, knob.default))
            for name, knob in self.space.items()
        }
        msgspec.structs.force_setattr(self, "values", values)

    def replace(self, **values: Value) -> Params:
        """Return the same space at another point: `values` override, the others stay."""
        return Params(self.space, {**self.values, **values})

    def identity(self) -> Any:
        """Content of the version hash: domains and values, without the defaults."""
        return {
            "kind": "params",
            "space": {name: domain(knob) for name, knob in self.space.items()},
            "values": self.values,
        }


class Code(msgspec.Struct, frozen=True, tag="code"):
    """The source of a function.

    Args:
        source: The function's `def` (or `async def`), dedented, without its decorators.
        function: The function's name.

    Raises:
        InputError: The source does not parse, or is anything but one undecorated function.
    """

    source: str
    function: str

    def __post_init__(self) -> None:
        try:
            body = ast.parse(self.source).body
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
            raise InputError(
                f"The source of function {self.function!r} does not parse: {error}."
            ) from None
        if len(body) != 1 or not isinstance(body[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
            raise InputError(f"The source of {self.function!r} must be exactly one function.")
        if body[0].decorator_list:
            raise InputError(
                f"The source of {self.function!r} begins with a decorator.",
                hint="Pass only the def; decorators stay in the source file.",
            )
        if body[0].name != self.function:
            raise InputError(f"The source defines {body[0].name!r} instead of {self.function!r}.")

    def identity(self) -> Any:
        """Content of the version hash."""
        return {"kind": "code", "source": self.source.strip(), "function": self.function}


class Adapter(msgspec.Struct, frozen=True):
    """Trained weights: a LoRA adapter of a base model. All hashes are content hashes.

    Args:
        hash: The adapter's, which also names its folder.
        base: Fingerprint of the base model's weights.
        tokenizer: The tokenizer's, or empty when unknown.
        recipe: How it was trained: algorithm, settings, data.
    """

    hash: str
    base: str
    tokenizer: str = ""
    recipe: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in ("hash", "base"):
            if not getattr(self, name):
                raise InputError(f"An Adapter needs its {name}.")


class Model(msgspec.Struct, frozen=True, tag="model"):
    """A model endpoint with sampling settings, or local weights.

    Args:
        model: The model's name at the endpoint.
        base_url: OpenAI-compatible endpoint, or None for the client's own default.
        sampling: Request fields such as temperature, top_p, max_tokens.
        weights: Path of local weights, when the model is not served by an endpoint.
        adapter: What was trained on top of the model; None for the model as it is.
        choices: Models that may take its place, cheapest first.
        in_calls: The model that the agent's calls name, in whose place the gateway puts this one;
            empty where the agent reads this resource itself.
        first: A cheaper model that is asked first, whose answer is taken where it passes the
            agent's check; empty for none, None if the agent checks no answer.

    Raises:
        InputError: It has no name, or names one of its `choices` twice.
    """

    model: str
    base_url: str | None = None
    sampling: dict[str, Any] = {}
    weights: str | None = None
    adapter: Adapter | None = None
    choices: tuple[str, ...] = ()
    in_calls: str = ""
    first: str | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise InputError("A Model needs a name.")

    @property
    def space(self) -> Params:
        """What a search may choose: the model among its choices, the model that is asked first,
        and settings between 0 and 1, such as the temperature. Empty without choices."""
        names = tuple(dict.fromkeys((*self.choices, self.model)))
        if len(names) < 2:
            return Params({})
        space: dict[str, Knob] = {"model": Choice(self.model, names)}
        if self.first is not None:
            space["first"] = Choice(self.first, tuple(dict.fromkeys((self.first, "", *names))))
        for name, value in self.sampling.items():
            if isinstance(value, float) and 0.0 <= value <= 1.0:
                space[name] = Float(value, 0.0, 1.0)
        return Params(space)

    def at(self, point: Params) -> Model:
        """The model at a point of its `space`."""
        values = dict(point.values)
        model = str(values.pop("model", self.model))
        first = values.pop("first", self.first)
        if first == model:  # it would be asked the same thing twice
            first = ""
        return msgspec.structs.replace(
            self,
            model=model,
            first=None if first is None else str(first),
            sampling={**self.sampling, **values},
        )

    def identity(self) -> Any:
        """Content of the version hash."""
        return {
            "kind": "model",
            "model": self.model,
            "base_url": self.base_url,
            "sampling": self.sampling,
            "weights": self.weights,
            # The recipe says how the weights came about, and is not what answers.
            **({"adapter": [self.adapter.hash, self.adapter.base]} if self.adapter else {}),
            **({"first": self.first} if self.first else {}),
            **({"in_calls": self.in_calls} if self.in_calls else {}),
        }


Resource: TypeAlias = PromptTemplate | Params | Code | Model


def search_space(resource: Resource) -> Params | None:
    """What can be searched in a resource: its knobs, or the choices of a model; None if nothing
    can."""
    if isinstance(resource, Model):
        resource = resource.space
    return resource if isinstance(resource, Params) and resource.space else None


def resource_text(resource: Resource | None) -> str:
    """The parts of a resource that may change, as text: a prompt's text, a function's source, or
    a line per value.

    Empty for None.
    """
    match resource:
        case None:
            return ""
        case PromptTemplate():
            return resource.text
        case Code():
            return resource.source
        case Params():
            return _lines(resource.values)
        case _:
            return _lines(msgspec.to_builtins(resource))


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in values.items())


def version_of(resource: Resource) -> str:
    """Return the version of a resource: its content hash."""
    return content_hash(resource.identity())


def short_version(resource: Resource) -> str:
    """The beginning of a resource's version, enough to distinguish versions of a resource."""
    return version_of(resource)[:12]


def kind_of(resource: Resource) -> str:
    """Return the kind of a resource: prompt, params, code or model."""
    return str(resource.identity()["kind"])


class Declaration(msgspec.Struct, frozen=True):
    """A resource as the user's source declares it.

    Args:
        name: The resource's name.
        resource: The default from the source.
        file: Absolute path of the source file, or None when it is not in a file.
        line: 1-based line of the declaring call or `def`; for display only.
        qualname: For Code, the function's qualified name in its module; else None.
        located_by: How a patch finds it in the source: by the name that declares it; for a prompt
            of an agent that declares nothing, by its text (without a file, all files are searched
            for that text); for one of [[prompt_files]], by its file and keys.
        keys: Keys of a value in a YAML, TOML or JSON file of prompts; empty for the whole file.
        read_at_import: Whether its value was read while the agent was imported. Such a value is a
            candidate's only in a process that imports the agent for this candidate.
    """

    name: str
    resource: Resource
    file: str | None = None
    line: int = 0
    qualname: str | None = None
    located_by: Literal["name", "text", "file"] = "name"
    keys: tuple[str | int, ...] = ()
    read_at_import: bool = False


def defaults(declarations: Mapping[str, Declaration]) -> dict[str, Resource]:
    """Return the default resource of each declaration, by name."""
    return {name: d.resource for name, d in declarations.items()}
