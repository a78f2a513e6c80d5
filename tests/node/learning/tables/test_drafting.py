"""Terms drafted from a table: valid, widened, and silent on what names rows."""

import tomllib
import unicodedata

import numpy as np
import pytest

from fedgrove.node.base.strict_tables import build
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.drafting import draft_terms
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tables.reading import read_table
from fedgrove.node.learning.tables.settings import Column, TableSettings

TABLE = 'id,age,"blood, mmHg",sex,plan,site,score,ill\n' + "".join(
    f"{n},{21 + n},{100 + 3 * n},{'fm'[n % 2]},{n % 2},here,{n / 7:.3f},{'no' if n < 9 else 'yes'}\n" for n in range(30)
)


@pytest.fixture
def draft(tmp_path):
    """Drafts terms for a text as a CSV file; the options, as settings."""

    def of(text, target="ill", **form):
        (tmp_path / "mine.csv").write_text(text)
        terms = tomllib.loads(draft_terms(tmp_path / "mine.csv", target, TableFormat.of(form)))
        assert terms["task"]["name"] == "tabular" and terms["training"]
        return build(TableSettings, terms["task"]["options"], "task.options")

    return of


def test_each_column_gets_the_kind_that_its_cells_have(draft, tmp_path):
    found = draft(TABLE)
    assert found.columns == {
        "age": Column("number", (0, 70)),
        "blood, mmHg": Column("number", (50, 240)),
        "sex": Column("category", values=("f", "m")),
        "plan": Column("category", values=("0", "1")),
        "score": Column("number", (0, 7)),
    }
    assert (found.target, found.kind, found.classes, found.missing) == (
        "ill",
        "classification",
        ("no", "yes"),
        "refuse",
    )
    assert read_table(tmp_path / "mine.csv", found).features.shape == (30, 7)


def test_a_target_of_many_numbers_is_a_regression(draft):
    found = draft(TABLE, "score")
    assert (found.kind, found.target_range, found.classes) == ("regression", (0, 7), ())


def test_missing_values_are_noted_and_how_the_file_writes_is_not(draft):
    text = "age;born;ill\n20,5;03.02.2001;no\n;04.05.2002;yes\n30;17.08.2005;no\n44;18.08.2004;no\n"
    found = draft(text, decimal="comma", dates="%d.%m.%Y")
    assert (found.missing, found.separator, found.columns["age"].range) == ("drop", ",", (0, 60))
    assert found.columns["born"] == Column("date", (1998, 2009))


def test_quotes_and_letters_of_other_alphabets_survive(draft):
    found = draft('"größe ""m""",ill\n1.5,no\n1.7,yes\n1.9,no\n')
    assert list(found.columns) == ['größe "m"']


def test_accents_written_as_own_characters_are_drafted_composed(draft):
    text = unicodedata.normalize("NFD", "Größe,Ort,y\n1,Köln,a\n2,Ulm,b\n3,Ulm,à\n")
    drafted = draft(text, "y")
    assert drafted.numbers == ("Größe",) and drafted.columns["Ort"].values == ("Köln", "Ulm")
    assert drafted.classes == ("a", "b", "à")


def test_an_npz_file_is_drafted_as_well(tmp_path):
    np.savez(tmp_path / "mine.npz", age=np.arange(40), ill=np.arange(40) % 3)
    options = tomllib.loads(draft_terms(tmp_path / "mine.npz", "ill"))["task"]["options"]
    assert options["classes"] == ["0", "1", "2"] and options["columns"]["age"]["range"] == [0, 60]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("age,ill\n1,no\n", "column ill: there is nothing to learn where all rows have one value"),
        ("age,sick\n1,no\n", "has no column 'ill': name one of age, sick as the target"),
        ("age,ill\n1,no\n1,yes\n", "has no column from which 'ill' could be learned"),
        (
            "age,ill\n" + "".join(f"{n},a{n}\n" for n in range(21)),
            "it has more than 20 different texts, too many for classes",
        ),
    ],
)
def test_a_table_with_nothing_to_learn_is_refused(draft, text, sentence):
    with pytest.raises(DatasetError, match=sentence):
        draft(text)


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("age;ill\n41,5;no\n42,0;yes\n60;no\n", {}, "column age: its numbers seem to have a decimal comma.*=comma"),
        ("age;ill\n41.5;no\n42.0;yes\n", {"decimal": "comma"}, r"column age: .* a decimal point.*decimal=\."),
    ],
)
def test_numbers_with_another_decimal_mark_do_not_become_categories(draft, text, form, said):
    with pytest.raises(DatasetError, match=said):
        draft(text, **form)


def test_dates_in_a_form_that_is_not_stated_are_left_out_with_how_to_state_it(tmp_path):
    days = [f"{day:02}.{month:02}.2024" for day in range(1, 27) for month in (1, 2, 3)]
    rows = "".join(f"{day},{n},{'no' if n < 30 else 'yes'}\n" for n, day in enumerate(days))
    (tmp_path / "mine.csv").write_text("admitted,age,ill\n" + rows)
    text = draft_terms(tmp_path / "mine.csv", "ill")
    assert "# admitted is left out" in text and "--table-format dates=" in text
    assert 'admitted = { kind = "date"' in draft_terms(tmp_path / "mine.csv", "ill", TableFormat(dates="%d.%m.%Y"))
