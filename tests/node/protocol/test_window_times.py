"""Times of a federation's file, in blocks of its chain."""

import tomllib

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.window_times import TIMED, check_recovery, in_blocks, written_in_blocks

FILE = b"""[kmeans]
k = 2
dimensions = 2
step = 0.25

[ledger]
draw_window = "10 min"  # as long as a coffee
share_window = '90 s'
recover_window = "2 h"
quorum = 4
"""


@pytest.mark.parametrize(("seconds", "blocks"), [(12.0, (50, 8, 600)), (0.25, (2400, 360, 28800)), (700.0, (1, 1, 11))])
def test_times_become_as_many_blocks_as_they_take(seconds, blocks):
    table = in_blocks(tomllib.loads(FILE.decode())["ledger"], seconds)
    assert tuple(table[name] for name in ("draw_window", "share_window", "recover_window")) == blocks
    assert table["quorum"] == 4


def test_a_file_states_the_same_in_blocks_when_they_are_written(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_bytes(FILE)
    terms, _ = load_config(path, 12.0)
    path.write_bytes(written_in_blocks(FILE, {name: getattr(terms.ledger, name) for name in TIMED}))
    assert load_config(path)[0] == terms and b"draw_window = 50  # 10 min" in path.read_bytes()


@pytest.mark.parametrize("time", ["10", "10 m", "ten min", "-1 s", "1.5 h", "", "10  min", "1000000000 s"])
def test_what_is_no_time_is_refused_by_its_key(time):
    with pytest.raises(InvalidConfig, match=r"ledger\.draw_window"):
        in_blocks({"draw_window": time}, 1.0)


def test_only_who_founds_it_knows_how_many_blocks_a_time_is(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_bytes(FILE)
    with pytest.raises(InvalidConfig, match=r"ledger.draw_window is a time: only `fedgrove deploy` knows"):
        load_config(path)


def test_a_time_that_cannot_be_replaced_is_refused():
    with pytest.raises(InvalidConfig, match="on a line of its own"):
        written_in_blocks(b'ledger = { draw_window = "10 min", quorum = 3 }', dict.fromkeys(TIMED, 5))


@pytest.mark.parametrize(("blocks", "seconds", "fine"), [(50, 12.0, True), (49, 12.0, False), (100, 0.25, False)])
def test_outside_practice_members_have_ten_minutes_to_look_at_a_closing(blocks, seconds, fine):
    if fine:
        check_recovery(blocks, seconds)
    else:
        with pytest.raises(InvalidConfig, match=f"{blocks} blocks last {blocks * seconds:.0f} s here"):
            check_recovery(blocks, seconds)
