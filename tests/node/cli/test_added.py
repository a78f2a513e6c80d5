"""Commands that other distributions add."""

import pytest

from fedgrove.node.cli import listing, main
from fedgrove.node.cli.listing import CommandGroup, ListedCommand
from fedgrove.node.cli.output import CommandError
from tests.node.cli.test_extras import command, without


class Point:
    """An entry point."""

    name = "other"

    def load(self) -> CommandGroup:
        audit, weigh = ListedCommand("", "os:abort"), ListedCommand("Weigh it.", "os:getcwd")
        return CommandGroup("Other", {"audit": audit, "weigh": weigh})


@pytest.fixture
def points(monkeypatch):
    """The entry points that are installed."""
    installed = []
    monkeypatch.setattr(listing, "entry_points", lambda group: installed)
    listing.added_groups.cache_clear()
    yield installed
    listing.added_groups.cache_clear()


@pytest.mark.parametrize("name", listing.ELSEWHERE)
def test_a_command_of_a_package_that_is_not_installed_says_how_to_install_it(name, points):
    with pytest.raises(CommandError, match=rf"^fedgrove {name} comes with another package: pip install fedgrove-lab "):
        main.command_line.get_command(None, name)
    assert name not in listing.all_commands()


def test_an_unknown_command_is_unknown(points):
    assert main.command_line.get_command(None, "weigh") is None


def test_a_package_adds_commands_and_replaces_none(points):
    points.append(Point())
    assert main.command_line.get_command(None, "weigh").name == "weigh"
    assert listing.all_commands()["audit"] == listing.COMMANDS["audit"]
    assert listing.all_commands()["weigh"].summary == "Weigh it."


def test_the_sentence_is_all_that_the_command_prints(tmp_path):
    hidden = "from fedgrove.node.cli import listing\nlisting.entry_points = lambda group: []\n"
    result = without((), hidden + command("bench", "vrf"), tmp_path)
    assert result.returncode == 2 and not result.stdout
    assert len(result.stderr.splitlines()) == 1 and "pip install fedgrove-lab" in result.stderr
