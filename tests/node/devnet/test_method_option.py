"""``--method`` of federations on this machine: what it means, and mistakes in one sentence."""

import pytest
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.method_option import check_method, cluster_terms, ledger_rounds

KEY = bytes(range(32))
SIGNER = "0x" + 20 * "a5"


def test_settings_are_those_of_the_terms_and_who_counts_and_signs_is_whom_one_says():
    terms = cluster_terms("procfl, seats = 3, rule = { test = 'gap' }", KEY, SIGNER)
    assert terms.signer == SIGNER
    assert (terms.alpha, terms.seats, terms.rule.test, terms.counter_key) == (0.5, 3, "gap", KEY)
    assert cluster_terms("procfl, alpha = 1", KEY).alpha == 1.0
    assert cluster_terms("training") is None and cluster_terms("") is None


def test_comparisons_come_before_the_rounds_that_train():
    asked = ("training", "procfl", "procfl, seats = 3")
    assert [ledger_rounds(10, each) for each in asked] == [10, 12, 13]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("ifca", "must be training, or procfl"),
        ("training, seats = 3", "must be training, or procfl"),
        ("procfl, seats", "must be like"),
        ("procfl, seats = 'all'", "seats must be of type int"),
        ("procfl, chairs = 3", "unknown key --method.chairs"),
        ("procfl, seats = -1", "seats must be from 0"),
        ("procfl, psi = 'rsa'", "unknown key --method.psi"),
        ("procfl, counter = 'ab'", "unknown key --method.counter; known in --method: alpha, global_share"),
    ],
)
def test_a_mistake_is_named(given, named):
    with pytest.raises(InvalidConfig, match=named):
        cluster_terms(given, KEY)


@pytest.mark.parametrize(("clients", "fine"), [(5, False), (6, True), (400, True), (401, False)])
def test_so_many_clients_that_groups_can_mask_and_all_overlaps_can_be_stated(clients, fine):
    check_method("training", clients)
    if fine:
        check_method("procfl", clients)
    else:
        with pytest.raises(InvalidConfig, match="clients"):
            check_method("procfl", clients)
