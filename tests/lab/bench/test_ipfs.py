"""`fedgrove bench ipfs` on a small blob."""

from fedgrove_lab.bench.ipfs import run


def test_the_benchmark_names_every_figure_its_limit_and_the_ratio(tmp_path):
    printed = run(size=2_000_000, folder=tmp_path).to_json()
    assert printed["bytes"] == 2_000_000
    assert [row["name"] for row in printed["rows"]] == [
        "CID (unixfs-v1-2025)",
        "disk put",
        "disk put, held already",
        "disk get",
    ]
    for row in printed["rows"]:
        assert set(row) == {"name", "value", "unit", "limit", "limit_name", "ratio"}
        assert row["value"] > 0 and row["limit"] > 0 and row["unit"] == "MB/s"
        assert "sha2-256" in row["limit_name"]
    assert list(tmp_path.iterdir()) == []
