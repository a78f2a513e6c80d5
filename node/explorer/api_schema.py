"""The JSON interface for machines: the fields of every answer, and the OpenAPI document made of them.

``docs/explorer-api.md`` has its tables from here (``scripts/docs_tables.py``).
"""

import re
from dataclasses import dataclass
from typing import Any

from fedgrove.node.explorer.placing import MAX_INTEGER

BASE = "/api/v1"
DEFAULT_LIMIT, MAX_LIMIT = 100, 500

FIELDS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "run": ("integer", "its number"),
        "name": ("string", "the path or URL it was opened by"),
        "label": ("string", "the same, as short as it stays unique"),
        "federation": ("string?", "name in the terms"),
        "subject": ("Subject?", "what is learned; null until the terms are known"),
        "chain_id": ("integer?", "the chain"),
        "ledger": ("string?", "address of the ledger's contract"),
        "registry": ("string?", "address of the registry's contract"),
        "live": ("boolean", "whether it may grow"),
        "head_block": ("integer?", "last block that was read"),
        "head_hash": ("string?", "its hash"),
        "records": ("integer?", "number of records; null until they have been read, as the next two"),
        "rounds": ("integer?", "number of rounds"),
        "members": ("integer?", "number of members"),
        "indexed": ("boolean", "whether all that history and store held at the start was read: before, much is null"),
        "audit": ("Audit", "how far it is checked"),
    },
    "Subject": {
        "kind": ("string", "`network` (shipped with fedgrove), `table`, `images`, `task` (members' code), or `kmeans`"),
        "sentence": ("string", "what is learned, and how, in words"),
    },
    "Audit": {
        "state": ("string", "as that of a check"),
        "title": ("string", "as on the pages"),
        "sentence": ("string", "likewise"),
        "checked": ("integer", "number of records found right so far"),
        "verdict": ("string?", "`verified`, `bad record` or `cannot tell`; null before the first"),
        "first_bad_record": ("string?", "the record, and what is wrong with it"),
    },
    "Round": {
        "round": ("integer", "its number"),
        "status": ("string", "`running`, `closed`, `skipped`, `failed` or `voided`"),
        "reason": ("string", "why it failed"),
        "check": ("Check", "that of its worst record"),
        "accuracy": ("number?", "of the model that it closed with, as the coordinator states it"),
        "loss": ("number?", "likewise"),
        "drawn": ("integer", "number of clients that drew"),
        "committed": ("integer", "number of clients whose uploads are listed"),
        "gas": ("integer", "of its transactions"),
        "fee": ("number?", "the fees for it in ether"),
        "fee_wei": ("string", "the same fees in wei, exactly, as text: a number in JSON would lose digits"),
        "cost": ("Cost?", "with `--price`, unless the chain is for practice"),
        "bytes": ("integer?", "uploaded by its clients; null until the store has been asked about all uploads"),
        "epsilon": ("number?", "spent by then, as the terms count it"),
        "ledger_epsilon": ("number?", "spent by then towards readers of the ledger"),
        "model": ("string?", "digest of the model that it closed with"),
        "stage": ("string?", "what it was for, in a federation with [clusters](clustering.md)"),
        "members": ("Evaluation?", "metrics of the members; null without"),
    },
    "Evaluation": {
        "samples": ("integer", "that the members evaluated on; 0 where client-level privacy hides them"),
        "accuracy": ("number?", "that they found"),
        "loss": ("number?", "likewise"),
        "standard_error": ("number?", "of the loss"),
        "noise": ("number?", "standard deviation of noisy rates under client-level privacy"),
        "own": ("numbers", "up to eight metrics of the task, by name"),
        "void": ("string?", "why there are none"),
        "stopped": ("[string]", "metrics whose sums reached a bound, so that their means are not known"),
        "ending": ("string?", "why the training ended"),
        "last": ("boolean", "whether the round trained nothing, so that these are figures of the last model"),
    },
    "Cost": {"amount": ("number?", "of the fees"), "currency": ("string", "as in `--price`")},
    "Member": {
        "client": ("integer", "its number"),
        "account": ("string", "its address"),
        "vrf_key": ("string", "the public half of its VRF key"),
        "draws": ("integer", "in how many rounds"),
        "commits": ("integer", "likewise"),
        "absences": ("integer", "likewise"),
        "disputes": ("integer", "likewise"),
    },
    "Record": {
        "record": ("integer", "its place in the history, from 1: what the audit counts"),
        "kind": ("string", "name of the event, as `Committed`"),
        "round": ("integer?", "that it is about"),
        "client": ("integer?", "that it is about"),
        "block": ("integer", "where it is on the chain"),
        "transaction": ("string", "its hash"),
        "detail": ("string", "what it says that is in no other field"),
        "check": ("Check", "how far it is checked"),
        "blobs": ("[Blob]", "that it names"),
    },
    "Blob": {
        "digest": ("string", "SHA-256, hexadecimal"),
        "role": ("string", "as `model` or `update`"),
        "state": ("string", "`held`, `missing`, `damaged`, `malformed`, `huge` or `unseen`"),
        "cid": ("string?", "its content identifier"),
        "size": ("integer?", "in bytes"),
    },
    "Check": {
        "state": ("string", "`good`, `remark`, `bad`, `wait` or `skipped`"),
        "reason": ("string", "why, where there is something to say"),
    },
    "Term": {
        "table": ("string", "where it is in the terms"),
        "key": ("string", "likewise; keys of inner tables are joined by a dot"),
        "value": ("value", "a number, a truth value or a text"),
    },
    "ComparedTerm": {
        "table": ("string", "where it is in the terms"),
        "key": ("string", "likewise"),
        "differs": ("boolean", "whether the runs disagree"),
        "values": ("[string?]", "as text, one for each run; null if a run lacks it"),
    },
    "Error": {"error": ("string", "one sentence")},
}
"""Fields of every answer, each with its type (``?``: or null) and what it is."""

_ERRORS = {
    "400": "a parameter is wrong or unknown",
    "404": "nothing is there",
    "500": "a fault of the explorer, which is in its log",
    "503": "the records are still being read: ask again",
}


@dataclass(frozen=True)
class Address:
    """An address of the interface.

    Attributes
    ----------
    path : str
        Below ``BASE``.
    method : str
        Of ``RunsApi``, which answers.
    answer : str
        A name in ``FIELDS``.
    listed : bool
        The answer is a page of these.
    filters : tuple of str
        Parameters in addition to those of pages.
    """

    path: str
    method: str
    answer: str
    listed: bool = True
    filters: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters behind the question mark."""
        return ("after", "limit", *self.filters) if self.listed else ()


ADDRESSES = (
    Address("/runs", "runs", "Run"),
    Address("/runs/{run}", "run", "Run", listed=False),
    Address("/runs/{run}/rounds", "rounds", "Round"),
    Address("/runs/{run}/rounds/{round}", "round", "Round", listed=False),
    Address("/runs/{run}/members", "members", "Member"),
    Address("/runs/{run}/records", "records", "Record", filters=("round", "client")),
    Address("/runs/{run}/terms", "terms", "Term"),
    Address("/comparison", "comparison", "ComparedTerm"),
)


def openapi(summaries: dict[str, str]) -> dict[str, Any]:
    """The OpenAPI document; ``summaries`` say in a line what each method answers."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "fedgrove explorer", "version": "1", "summary": "What the explorer's pages show, as JSON."},
        "paths": {f"{BASE}{each.path}": {"get": _operation(each, summaries[each.method])} for each in ADDRESSES},
        "components": {"schemas": {name: _object(fields) for name, fields in FIELDS.items()}},
    }


def _operation(address: Address, summary: str) -> dict[str, Any]:
    answer = _schema(address.answer)
    if address.listed:
        answer = _closed({"items": {"type": "array", "items": answer}, "next": _schema("integer?")})
    responses = {"200": _response("the answer", answer)}
    responses |= {status: _response(why, _schema("Error")) for status, why in _ERRORS.items()}
    given = [_parameter(name, "path") for name in re.findall(r"{(\w+)}", address.path)]
    given += [_parameter(name, "query") for name in address.parameters]
    return {"operationId": address.method, "summary": summary, "parameters": given, "responses": responses}


def _parameter(name: str, place: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
    if name == "limit":
        schema = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _object(fields: dict[str, tuple[str, str]]) -> dict[str, Any]:
    return _closed({name: _schema(kind) | {"description": about} for name, (kind, about) in fields.items()})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with all of its fields; a later version may add some."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _schema(kind: str) -> dict[str, Any]:
    """A type as ``FIELDS`` writes it."""
    if kind.startswith("["):
        return {"type": "array", "items": _schema(kind[1:-1])}
    if kind.endswith("?"):
        return {"anyOf": [_schema(kind[:-1]), {"type": "null"}]}
    if kind == "numbers":
        return {"type": "object", "additionalProperties": _schema("number?")}
    if kind == "value":
        return {"type": ["number", "boolean", "string", "null"]}
    return {"$ref": f"#/components/schemas/{kind}"} if kind in FIELDS else {"type": kind}
