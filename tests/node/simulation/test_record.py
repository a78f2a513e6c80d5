"""Records are plain values with one form: what is equal is written equally, what is wrong is refused."""

import json
from dataclasses import replace

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.scenario.clusters import IfcaSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.simulation.record import ClusterResult, CommitteeVerdict, RoundResult, RunRecord

RESULTS = (
    RoundResult(1, 0.5, 1.25, 2.0, (1, 3), 40, None),
    RoundResult(2, None, None, 1.5, (2, 4), 50, 0.125),
)


def test_a_record_survives_its_file():
    record = RunRecord(MANY.changed(federation={"rounds": 2}), RESULTS, "ab" * 32)
    again = RunRecord.from_json(json.loads(record.to_bytes()))
    assert again == record and again.to_bytes() == record.to_bytes()


def test_what_is_no_record_is_refused():
    good = RunRecord(MANY.changed(federation={"rounds": 2}), RESULTS, "ab" * 32).to_json()
    without = [{key: value for key, value in good.items() if key != left_out} for left_out in good]
    swapped = {**good, "rounds": good["rounds"][::-1]}
    strange = {**good, "rounds": [{**good["rounds"][0], "speed": 1}]}
    first, *others = good["rounds"]
    wrong = [
        {**good, "rounds": [{**first, name: value}, *others]}
        for name, value in (
            ("accuracy", "0.5"),
            ("loss", [1]),
            ("privacy", {"epsilon": "8"}),
            ("samples", 1.5),
            ("round", True),
        )
    ]
    for value in (None, [], {}, *without, swapped, strange, *wrong):
        with pytest.raises(InvalidContent):
            RunRecord.from_json(value)


def test_a_record_with_clusters_survives_its_file_and_odd_ones_are_refused():
    judgement = CommitteeVerdict(1, (1, 3), (2, 4), (2, 0), (1,))
    clusters = ClusterResult(((1, 3), (2,)), 0.5, (0.25, 1.0), (judgement,), (3,))
    result = replace(RESULTS[0], clustering=clusters)
    record = RunRecord(MANY.changed(federation={"rounds": 1}, method=IfcaSettings()), (result,), "ab" * 32)
    good = json.loads(record.to_bytes())
    assert RunRecord.from_json(good) == record and RunRecord.from_json(good).to_bytes() == record.to_bytes()
    for changes in ({"groups": 3}, {"watched": [2.0]}, {"personal_accuracy": "1"}, {"judgements": [{}]}, {"more": 1}):
        odd = json.loads(record.to_bytes())
        odd["rounds"][0]["clustering"].update(changes)
        with pytest.raises(InvalidContent):
            RunRecord.from_json(odd)
