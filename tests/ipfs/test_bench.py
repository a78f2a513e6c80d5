from fedgrove.node.cli.bench_ipfs import run


def test_the_benchmark_names_every_figure_its_limit_and_the_ratio(tmp_path):
    result = run(size=2_000_000, folder=tmp_path)
    assert result["bytes"] == 2_000_000
    assert [row["name"] for row in result["rows"]] == [
        "CID (unixfs-v1-2025)",
        "disk put",
        "disk put, held already",
        "disk get",
    ]
    for row in result["rows"]:
        assert set(row) == {"name", "value", "unit", "limit", "limit_name", "ratio"}
        assert row["value"] > 0 and row["limit"] > 0 and row["unit"] == "MB/s"
    assert list(tmp_path.iterdir()) == []
