"""What the scripts in docs write: parts of pages and figures."""

from generated import fill_parts, write_figures


def test_parts_are_written_anew_and_the_rest_of_a_page_stays():
    page = "One.\n<!-- generated: {} -->\n\n{}\n\n<!-- end -->\nTwo.\n"
    made = fill_parts(page.format("a", "old") + page.format("b/c", ""), lambda name: f"part {name}")
    assert made == page.format("a", "part a") + page.format("b/c", "part b/c")
    assert fill_parts(made, lambda name: f"part {name}") == made


def test_figures_that_are_gone_are_removed_and_those_of_others_stay(tmp_path):
    folder = tmp_path / "figures"
    write_figures({"mine-a.svg": "1", "mine-b.svg": "1"}, folder)
    (folder / "other.svg").write_text("other")
    (folder / "mine.txt").write_text("no figure")
    write_figures({"mine-b.svg": "2", "mine-c.svg": "2"}, folder, mine=lambda name: name.startswith("mine-"))
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found == {"mine-b.svg": "2", "mine-c.svg": "2", "other.svg": "other", "mine.txt": "no figure"}
    write_figures({}, folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
