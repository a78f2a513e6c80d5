"""Optional packages: which extra brings them, and one sentence where one is missing."""

from importlib.util import find_spec

from fedgrove.node.cli.output import CommandError

_KUBO = ("ipfshttpclient", "multiaddr")
_LEARNING = ("torch", "sklearn", "dp_accounting", "gmpy2", *_KUBO)
_DEVNET = (*_LEARNING, "flint", "web3", "eth_tester", "eth", "tomli_w")

EXTRAS = {
    "privacy": ("dp_accounting",),
    "kubo": _KUBO,
    "web3": ("web3",),
    "learning": _LEARNING,
    "kmeans": ("flint",),
    "explorer": ("fastapi", "uvicorn", "jinja2"),
    "tables": ("pyarrow", "openpyxl"),
    "images": ("PIL",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow",),
    "devnet": _DEVNET,
    "simulation": (*_LEARNING, "matplotlib", "distributed"),
}
"""The modules that each extra of pyproject.toml brings."""


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None]


def require(extra: str, what: str) -> None:
    """Raise CommandError, which names the extra, unless all that ``what`` needs is installed."""
    if missing(extra):
        raise CommandError(needs(what, ", ".join(missing(extra)), extra))


def needs(what: str, modules: str, extra: str) -> str:
    """The sentence that says what to install."""
    return f'{what} needs {modules}: pip install "fedgrove[{extra}]"'


def sentence_for(mistake: ModuleNotFoundError) -> str:
    """What to install for a module that could not be imported; empty where it is none of an extra's."""
    name = (mistake.name or "").split(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if name in modules), None)
    return needs("this", name, extra) if extra else ""
