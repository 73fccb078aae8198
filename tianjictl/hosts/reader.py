"""Reads an inventory: a strict subset of Ansible's YAML format, so that the same file works with `ansible-playbook`.

Stricter than Ansible, which warns and goes on: whatever cannot be understood is an error with its place, and all of
them are reported at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.contract.yaml_source import Place, Problem, read_bytes
from tianjictl.errors import Finding, UsageProblem
from tianjictl.hosts.precedence import Files, Values, decide, in_order, members
from tianjictl.hosts.tree import Group, Tree, add_variables, build
from tianjictl.hosts.types import Host, Inventory, this_machine
from tianjictl.hosts.variables import HONOURED, UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tianjictl.hosts.precedence import Chosen

DEFAULT_FILE = Path("inventory", "hosts.yaml")
_ENDINGS = (".yaml", ".yml", ".json")
_BESIDE_ENDINGS = ("", *_ENDINGS)
_USUAL_HINT = "inventory/cluster.yaml of tianjictl shows every setting; tianjictl inventory list -i FILE reads it again"


class InventoryProblem(UsageProblem):
    """The inventory cannot be used; `problems` holds every finding with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first, *rest = [Finding(*problem.told()) for problem in problems]
        super().__init__(first.message, details=tuple(rest))
        self.first_hint = first.hint
        if not self.has_hint():
            self.hint = _USUAL_HINT
        self.problems = tuple(problems)


def load(path: Path | None) -> Inventory:
    """The inventory in `path`; without one that of `inventory/hosts.yaml` if it exists, else this machine.

    InventoryProblem lists everything that is wrong. A file that is named and missing is an error, never this machine.
    """
    if path is None:
        if not DEFAULT_FILE.is_file():
            return this_machine()
        path = DEFAULT_FILE
    file = str(path)
    if path.suffix not in _ENDINGS:
        hint = "INI files and programs are not supported: ansible-inventory --list --export turns them into JSON"
        raise InventoryProblem([Problem(file, None, None, "an inventory ends in .yaml, .yml or .json", hint)])
    return read(_bytes(path), file, beside=path.parent)


def read(raw: bytes, file: str, beside: Path | None = None) -> Inventory:
    """The inventory in `raw`; `file` names it, `beside` is the folder where group_vars/ and host_vars/ may stand."""
    source = read_bytes(raw, file)
    if source.root is None:
        empty = (Problem(file, None, None, "holds no hosts"),)
        raise InventoryProblem(source.problems or empty)
    if source.root.entries is None:
        kind = source.root.place.problem(f"an inventory is a section of groups, found {source.root.kind}")
        raise InventoryProblem([*source.problems, kind])
    tree = build(source.root)
    tree.problems[:0] = source.problems
    files = _files_beside(tree, beside) if beside is not None else Files()
    inventory = _inventory(tree, file, files)
    if not inventory.hosts and not tree.problems:
        tree.problems.append(source.root.place.problem("holds no hosts"))
    if tree.problems:
        unique = list(dict.fromkeys(tree.problems))
        raise InventoryProblem(sorted(unique, key=lambda p: (p.file != file, p.file, p.line or 0, p.column or 0)))
    return inventory


def _inventory(tree: Tree, file: str, files: Files) -> Inventory:
    groups = members(tree)
    ordered = in_order(tree, groups)
    notes: dict[Problem, None] = {}
    hosts = []
    for name in tree.host_variables:
        own = tuple(group for group in ordered if name in groups[group])
        chosen = decide(tree, name, own, files, tree.problems)
        hosts.append(_host(name, own, chosen, tree.problems, notes))
    notes.update(dict.fromkeys(_shared_addresses(hosts, Place(file))))
    return Inventory(file, tuple(hosts), groups, tuple(notes))


def _host(
    name: str,
    groups: tuple[str, ...],
    chosen: Mapping[str, Chosen],
    problems: list[Problem],
    notes: dict[Problem, None],
) -> Host:
    fields: dict[str, Any] = {}
    for key, variable in HONOURED.items():
        if key not in chosen:
            continue
        node, setting = chosen[key].node, chosen[key].setting
        if variable.old is not None:
            notes[setting.place.problem(f"{key} is an old name", f"write {variable.old}")] = None
        if node.value is None and node.items is None and node.entries is None:
            continue  # null takes a value back
        try:
            value = variable.read(node)
        except UnfitError as wrong:
            problems.append(node.place.problem(f"{key} {wrong}", wrong.hint))
            continue
        if variable.field == "ssh_words":
            fields["ssh_words"] = (*fields.get("ssh_words", ()), *value)
        elif variable.field:
            fields[variable.field] = value
    fields.setdefault("address", name)
    settings = {key: chosen[key].setting for key in sorted(chosen)}
    variables = {key: setting.value for key, setting in settings.items()}
    return Host(name=name, groups=groups, variables=variables, settings=settings, **fields)


def _shared_addresses(hosts: Iterable[Host], inventory: Place) -> list[Problem]:
    """Names that SSH reaches at one address and port: most likely one machine written down twice."""
    seen: dict[tuple[str, int | None, tuple[str, ...]], Host] = {}
    notes = []
    for host in hosts:
        if host.connection == "local":
            continue
        first = seen.setdefault((host.address, host.port, host.ssh_words), host)
        if first is not host:
            port = f" port {host.port}" if host.port else ""
            place = host.settings["ansible_host"].place if "ansible_host" in host.settings else inventory
            notes.append(place.problem(f"hosts {first.name} and {host.name} have one address, {host.address}{port}"))
    return notes


def _files_beside(tree: Tree, folder: Path) -> Files:
    groups = {name: _beside(tree, folder / "group_vars", name) for name in tree.groups}
    hosts = {name: _beside(tree, folder / "host_vars", name) for name in tree.host_variables}
    return Files(groups, hosts)


def _beside(tree: Tree, folder: Path, name: str) -> Values:
    """Variables of `folder/name`, `name.yaml` and the like, or of the files in a folder of that name."""
    found = [path for ending in _BESIDE_ENDINGS if (path := folder / f"{name}{ending}").exists()]
    if len(found) > 1:
        clash = " and ".join(path.name for path in found)
        tree.problems.append(Problem(str(folder), None, None, f"{clash} stand side by side", "keep one of them"))
    values: Values = []
    for path in found[:1]:
        inner = sorted(item for item in path.iterdir() if item.suffix in _ENDINGS) if path.is_dir() else [path]
        for file in inner:
            values += _variables_of(tree, file)
    return values


def _variables_of(tree: Tree, file: Path) -> Values:
    raw = _bytes(file)
    if raw.startswith(b"$ANSIBLE_VAULT"):
        tree.problems.append(Problem(str(file), None, None, "vault files are not supported", "keep secrets elsewhere"))
        return []
    source = read_bytes(raw, str(file))
    tree.problems += source.problems
    if source.root is None:
        return []
    holder = Group(file.stem, source.root.place)
    add_variables(tree, source.root, holder)
    return holder.variables


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        other = path.with_suffix(".yaml" if path.suffix == ".yml" else ".yml")
        hint = f"did you mean {other}?" if other.is_file() else "name another: -i FILE, or TIANJICTL_INVENTORY"
        raise UsageProblem(f"{path}: there is no such inventory", hint=hint) from error
    except OSError as error:
        raise UsageProblem(f"{path}: cannot be read: {error.strerror}") from error
