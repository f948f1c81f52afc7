"""The modules of a repository: read when they are needed, with their imports resolved."""

from __future__ import annotations

import functools
import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterator

from ratchet.wire.looking.files import FileStanding, RepositoryFiles, app_of_route, standing_of
from ratchet.wire.looking.former_frameworks import framework_of, hint_words
from ratchet.wire.looking.javascript_syntax import read_javascript
from ratchet.wire.looking.notebooks import code_of
from ratchet.wire.looking.python_syntax import Unparsable, read_python
from ratchet.wire.looking.syntax import CodeModule, ImportedName

MAX_MODULES = 3000
"""Modules that are parsed at most."""

PYTHON_ENDINGS = (".py", ".ipynb")
JAVASCRIPT_ENDINGS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")

_PYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import|import[ \t]+([\w., \t]+))", re.M
)
_JAVASCRIPT_IMPORT = re.compile(
    r"(?:from|import|require)\s*\(?\s*['\"]([^'\"\n]+)['\"]",
)
_LOADING = ("import_module", "__import__", "require", "import")
_QUOTED = re.compile(r"""["'](\w+)["']""")
_DOTTED = re.compile(r"""["'](\w+(?:\.\w+)+)["']""")
_TOOL_SERVER = re.compile(
    r"@modelcontextprotocol/sdk/server|^[ \t]*(?:from|import)[ \t]+(?:mcp\.server|fastmcp)\b", re.M
)
_HTTP_MODEL = re.compile(r"chat/completions|/v1/messages|generateContent|/api/(?:chat|generate)\b")


class Program:
    """The code of a repository.

    Args:
        files: Its files.
    """

    def __init__(self, files: RepositoryFiles) -> None:
        self.files = files
        self._modules: dict[str, CodeModule | None] = {}
        self._found: dict[tuple[str, str, str], str | None] = {}
        self._standings: dict[str, FileStanding] = {}
        self._aliases: dict[str, list[tuple[str, str]]] | None = None
        self._loads: dict[str, set[str]] = {}
        self._users: dict[str, list[CodeModule]] | None = None
        self._imports: dict[str, list[str]] = {}
        self.truncated = False

    # Which files matter

    def select(self) -> list[str]:
        """Files that import a framework, with those that they import or that import them."""
        words = re.compile("|".join(re.escape(word) for word in hint_words()))
        seeds: list[str] = []
        servers: list[str] = []  # of tools, which some agent of the repository starts
        names = self._imports
        by_tail: dict[tuple[str, str], list[str]] = defaultdict(list)
        by_end: dict[str, list[str]] = defaultdict(list)
        for path in self.files.paths:
            if not path.endswith(PYTHON_ENDINGS + JAVASCRIPT_ENDINGS) or path.endswith(".d.ts"):
                continue
            text = self.files.text(path)
            if text is not None and path.endswith(".ipynb"):
                text = code_of(text)
            if text is None:
                continue
            names[path] = imported = _import_names(path, text)
            for name in imported:
                by_tail[_top(path), _tail(name)].append(path)
                if path.endswith(JAVASCRIPT_ENDINGS) and "/" in name.lstrip("./"):
                    by_end[_end(name)].append(path)
            hinted = words.search(text) and any(framework_of(name) for name in imported)
            if hinted or _HTTP_MODEL.search(text):
                seeds.append(path)
            elif _TOOL_SERVER.search(text):
                servers.append(path)
        if seeds:
            seeds += servers
            for path in names:
                app = app_of_route(path)
                if app is not None and any(one.startswith(app) for one in seeds):
                    seeds.append(path)
        chosen = dict.fromkeys(seeds)
        waiting = list(seeds)
        by_stem: dict[tuple[str, str], list[str]] = defaultdict(list)
        for path in names:
            by_stem[_top(path), _stem(path)].append(path)
        while waiting and len(chosen) < MAX_MODULES:
            path = waiting.pop()
            parts = {part for name in names.get(path, ()) for part in _parts(name)}
            wanted = {part for part in parts if len(part) > 1}
            near = [
                one for top in {_top(path), ""} for part in wanted for one in by_stem[top, part]
            ]
            near += by_tail[_top(path), _stem(path)]
            near += by_tail["", _stem(path)]
            if path.endswith(JAVASCRIPT_ENDINGS):  # an alias leads from any folder to any other
                near += by_end[_end(path)]
            for one in near:
                if one not in chosen:
                    chosen[one] = None
                    waiting.append(one)
        self.truncated = bool(waiting)
        return sorted(chosen)

    def importing(self, wanted: Callable[[str], bool]) -> list[str]:
        """Files that import a module whose name is wanted, among those that `select` read."""
        return [path for path, names in self._imports.items() if any(map(wanted, names))]

    # Modules

    def module(self, path: str) -> CodeModule | None:
        """A file's module; None if it does not parse, or too many were read."""
        if path not in self._modules:
            if len(self._modules) >= MAX_MODULES:
                self.truncated = True
                return None
            self._modules[path] = self._read(path)
        return self._modules[path]

    def _read(self, path: str) -> CodeModule | None:
        text = self.files.text(path)
        if text is None:
            return None
        notebook = path.endswith(".ipynb")
        if notebook:
            text = code_of(text)
            if text is None:
                return None
        try:
            if path.endswith(PYTHON_ENDINGS):
                return read_python(path, text, notebook=notebook)
            return read_javascript(path, text)
        except Unparsable as error:
            self.files.unreadable[path] = str(error)
            return None

    @property
    def modules(self) -> list[CodeModule]:
        """Modules read so far."""
        return [module for module in list(self._modules.values()) if module is not None]

    def standing(self, path: str) -> FileStanding:
        """What a file is to the agent."""
        if path not in self._standings:
            text = self.files.text(path) if not path.endswith(".ipynb") else None
            self._standings[path] = standing_of(path, text)
        return self._standings[path]

    # Imports

    def resolve(self, importer: CodeModule, one: ImportedName) -> str | None:
        """File that an import names; None if it is outside of the repository."""
        key = (importer.path, one.module, one.name)
        if key not in self._found:
            if importer.language == "Python":
                self._found[key] = self._python(importer.path, one.module, one.name)
            else:
                self._found[key] = self._javascript(importer.path, one.module)
        return self._found[key]

    def submodule(self, importer: CodeModule, one: ImportedName) -> str | None:
        """File of `from package import module`, where the name is a module."""
        if importer.language != "Python" or not one.name or one.name == "*":
            return None
        joined = one.module + ("" if one.module.endswith(".") else ".") + one.name
        key = (importer.path, joined, "")
        if key not in self._found:
            self._found[key] = self._python(importer.path, joined, "")
        return self._found[key]

    def _python(self, importer: str, dotted: str, name: str) -> str | None:
        folder = importer.rpartition("/")[0]
        level = len(dotted) - len(dotted.lstrip("."))
        if level:
            for _ in range(level - 1):
                folder = folder.rpartition("/")[0]
            base = posixpath.join(folder, *[p for p in dotted.lstrip(".").split(".") if p])
            return self._package(base, name)
        parts = dotted.split(".")
        for root in self._roots(folder):
            base = posixpath.join(root, *parts)
            found = self._package(base, name)
            if found is not None and found != importer and self._defines(found, base, name, dotted):
                return found
        return self._added(importer, "/".join(parts))

    def _added(self, importer: str, module: str) -> str | None:
        """A module in a folder that its importer names and adds to `sys.path`."""
        text = self.files.text(importer) or ""
        if not importer.endswith(".py") or "sys.path." not in text:
            return None
        for path in self.files.named(module.rpartition("/")[2] + ".py", "__init__.py"):
            for ending in (f"/{module}.py", f"/{module}/__init__.py"):
                folder = path.removesuffix(ending).rpartition("/")[2]
                if path.endswith(ending) and re.search(rf"[\"'/]{re.escape(folder)}[\"'/]", text):
                    return path
        return None

    def _package(self, base: str, name: str) -> str | None:
        for path in (f"{base}.py", f"{base}/__init__.py"):
            if path in self.files.known:
                return path
        if name and name != "*" and base in self.files.folders:
            # A package without __init__.py holds modules only.
            for path in (f"{base}/{name}.py", f"{base}/{name}/__init__.py"):
                if path in self.files.known:
                    return path
        return None

    def _defines(self, path: str, base: str, name: str, dotted: str) -> bool:
        """Whether a module has a name: else another one, outside, is meant."""
        if not name or name == "*":
            return True
        if any(p in self.files.known for p in (f"{base}/{name}.py", f"{base}/{name}/__init__.py")):
            return True
        module = self.module(path)
        if module is None:
            return True
        scope = module.scope
        if name in scope.bindings:
            # A module that imports the name from a module of its own name means the one outside.
            return not all(
                isinstance(bound.value, ImportedName) and bound.value.module == dotted
                for bound in scope.bindings[name]
            )
        return bool(scope.stars or "__getattr__" in scope.bindings)

    def _roots(self, folder: str) -> Iterator[str]:
        """Folders that a module may be imported from, likeliest first."""
        above = [folder]
        while above[-1]:
            above.append(above[-1].rpartition("/")[0])
        packages = [one for one in above if f"{one}/__init__.py".lstrip("/") in self.files.known]
        for one in above:
            if one not in packages:
                yield one
                yield posixpath.join(one, "src")
        # A folder of packages may be a package by name only; its own packages are no such roots.
        yield from reversed(packages)

    def _javascript(self, importer: str, module: str) -> str | None:
        if module.startswith("."):
            return self._script(
                posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))
            )
        for prefix, target in self._alias(importer):
            if module == prefix or module.startswith(prefix.rstrip("/") + "/"):
                rest = module[len(prefix) :].lstrip("/")
                found = self._script(posixpath.normpath(posixpath.join(target, rest)))
                if found is not None:
                    return found
        return None

    def _script(self, base: str) -> str | None:
        base = "" if base == "." else base
        stem = re.sub(r"\.(?:m|c)?js$", "", base)
        tries = [base, *(stem + ending for ending in JAVASCRIPT_ENDINGS)]
        tries += [f"{base}{ending}" for ending in JAVASCRIPT_ENDINGS]
        tries += [f"{base}/index{ending}" for ending in JAVASCRIPT_ENDINGS]
        return next((path for path in tries if path in self.files.known), None)

    def _alias(self, importer: str) -> Iterator[tuple[str, str]]:
        """Prefixes of modules with their folders: `paths` of tsconfig.json, workspace packages."""
        if self._aliases is None:
            self._aliases = self._read_aliases()
        folder = importer.rpartition("/")[0]
        while True:
            yield from self._aliases.get(folder, ())
            for prefix in ("@/", "~/", "src/"):
                inner = posixpath.join(folder, "src")
                yield prefix, inner
                yield prefix, folder
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        yield from self._aliases.get("*", ())

    def _read_aliases(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for path in self.files.named("tsconfig.json", "jsconfig.json", "package.json"):
            folder = path.rpartition("/")[0]
            text = re.sub(r"^\s*//.*$", "", self.files.text(path) or "", flags=re.M)
            try:
                data = json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
                if path.endswith("package.json"):
                    if isinstance(data.get("name"), str) and folder:
                        found["*"] += [
                            (data["name"], folder),
                            (data["name"], posixpath.join(folder, "src")),
                        ]
                    continue
                options = data.get("compilerOptions", {})
                base = posixpath.join(folder, options.get("baseUrl", "."))
                for pattern, targets in options.get("paths", {}).items():
                    for target in targets:
                        where = posixpath.normpath(posixpath.join(base, target.removesuffix("*")))
                        found[folder].append((pattern.removesuffix("*"), where))
            except (ValueError, TypeError, AttributeError):
                continue
        return dict(found)

    def loads(self, module: CodeModule) -> set[str]:
        """Files of this repository that a module imports."""
        if module.path not in self._loads:
            self._loads[module.path] = self._loaded_by(module)
        return self._loads[module.path]

    def _loaded_by(self, module: CodeModule) -> set[str]:
        found: set[str] = set()
        for one in module.imports:
            for path in (self.resolve(module, one), self.submodule(module, one)):
                if path is not None and path != module.path:
                    found.add(path)
        for scope in module.scope.walk():
            for invocation in scope.invocations:
                found |= self._dynamic(module, invocation)
        return found

    def _dynamic(self, module: CodeModule, invocation: object) -> set[str]:
        """Modules that `import_module(f"package.{name}")` or `require(`./${name}`)` may load."""
        from ratchet.wire.looking.syntax import (
            Invocation,
            TextTemplate,
            TextValue,
            chain_of,
        )

        assert isinstance(invocation, Invocation)
        called = chain_of(invocation.function).rpartition(".")[2]
        if called not in _LOADING or not invocation.arguments:
            return set()
        given = invocation.arguments[0]
        if module.language == "JavaScript":
            first = given.parts[0] if isinstance(given, TextTemplate) else None
            if not isinstance(first, str) or not first.startswith("."):
                return set()
            where = posixpath.normpath(
                posixpath.join(posixpath.dirname(module.path), posixpath.dirname(first))
            )
            return self._files(where, JAVASCRIPT_ENDINGS)
        if isinstance(given, TextValue):
            found = self._python(module.path, given.value, "")
            return {found} if found else set()
        folder = module.path.rpartition("/")[0]
        if not isinstance(given, TextTemplate):
            # A table of dotted names, of which one is loaded.
            named = (self._dotted(module.path, one) for one in _DOTTED.findall(module.text))
            return {path for path in named if path is not None}
        if isinstance(given.parts[0], str):
            prefix = given.parts[0].rstrip(".").replace(".", "/")
            for root in self._roots(folder):
                where = posixpath.join(root, prefix)
                if where in self.files.folders:
                    return self._files(where, (".py",))
        return set()

    def _dotted(self, importer: str, name: str) -> str | None:
        """The module that a dotted name means, or holds what the name means."""
        outer = name.rpartition(".")[0]
        return self._python(importer, name, "") or self._python(importer, outer, "")

    def _files(self, folder: str, endings: tuple[str, ...]) -> set[str]:
        return {
            posixpath.join(folder, name)
            for name in self.files.folders.get(folder, ())
            if name.endswith(endings)
        }

    def users_of(self, name: str) -> list[CodeModule]:
        """Modules that use a name or import it."""
        if self._users is None:
            self._users = defaultdict(list)
            for module in self.modules:
                words = {one.name for one in module.imports}
                for word in words.union(*(scope.used for scope in module.scope.walk())):
                    self._users[word].append(module)
        return self._users.get(name, [])

    @functools.cached_property
    def quoted(self) -> frozenset[str]:
        """Words that stand alone between quotes, in the modules read so far."""
        return frozenset(word for module in self.modules for word in _QUOTED.findall(module.text))

    def closure(self, paths: list[str]) -> set[str]:
        """Files that these load, directly and indirectly, with themselves."""
        found: set[str] = set()
        waiting = list(paths)
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            module = self.module(path)
            if module is None:
                continue
            found.add(path)
            waiting += self.loads(module)
        return found

    def frameworks_of(self, module: CodeModule) -> dict[str, int]:
        """Frameworks that a module imports, with the line of the first import."""
        found: dict[str, int] = {}
        for one in module.imports:
            name = one.module
            if one.name and module.language == "Python" and not framework_of(name):
                name = f"{one.module}.{one.name}"  # from google import genai
            framework = framework_of(name)
            if framework and self.resolve(module, one) is None:
                found.setdefault(framework, one.line)
        return found


def _import_names(path: str, text: str) -> list[str]:
    if path.endswith(JAVASCRIPT_ENDINGS):
        return _JAVASCRIPT_IMPORT.findall(text)
    found: list[str] = []
    for origin, plain in _PYTHON_IMPORT.findall(text):
        if origin:
            found.append(origin)
        found += [one.split(" as ")[0].strip() for one in plain.split(",") if one.strip()]
    if path.endswith(".py"):
        # from google import genai, from . import prompts
        for origin, names in re.findall(
            r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+\(?([\w, \t]+)", text, re.M
        ):
            found += [
                f"{origin.rstrip('.')}.{name.strip()}" for name in names.split(",") if name.strip()
            ]
    return found


def _parts(name: str) -> list[str]:
    return re.split(r"[./]", name.strip("./"))


def _tail(name: str) -> str:
    last = name.rstrip("/").rpartition("/")[2] if "/" in name else name.rpartition(".")[2]
    return re.sub(r"\.(?:[mc]?js|tsx?|jsx)$", "", last)


def _stem(path: str) -> str:
    folder, _, name = path.rpartition("/")
    stem = name.split(".")[0]
    return folder.rpartition("/")[2] if stem in ("__init__", "index") else stem


def _end(name: str) -> str:
    """The last folder and name of a path or of what imports it; a dot without a folder."""
    stem = re.sub(r"(?:/index)?(?:\.(?:[mc]?js|tsx?|jsx))?$", "", name)
    return "/".join(stem.rsplit("/", 2)[-2:]) if "/" in stem else "."


def _top(path: str) -> str:
    """Outermost folder of a path; empty for a file at the top."""
    return path.partition("/")[0] if "/" in path else ""
