"""The desk in a real browser: labeling, undo, lost networks and closed tabs, several people, every kind of campaign.

Chromium is driven by playwright. Any error in the console, a violation of the content security policy among them, and
any request to another machine fails the test.
"""

import re
import shutil
import wave
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import desks
from hedgerow import Campaign
from rooms import PHONE, Room, list_faults, open_room

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVIL = "<img src=x onerror=alert(1)>"


@contextmanager
def make_room(browser: "Browser", folder: Path, k: int, settings: Any = None, **options: Any) -> Iterator[Room]:
    """A desk over 80 texts, the first of which is markup; k of them wait for one answer each."""
    texts = [EVIL, *(f"text {row}" for row in range(1, 80))]
    with desks.begin(folder, texts, clusters=None, **options) as campaign:
        campaign.next(k, strategy="random")
        with open_room(browser, campaign, **(settings or {})) as room:
            yield room


def count_labels(room: Room) -> Counter[Any]:
    return Counter(room.campaign.votes()["value"].tolist())


def count_kinds(room: Room) -> Counter[str]:
    return Counter(room.campaign.votes(every=True)["kind"].tolist())


# One person.


def test_fifty_keys_are_fifty_labels_and_undo_takes_back(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 80) as room:
        visit = room.enter()
        visit.wait()
        assert "#" not in visit.page.url  # the token is in no history
        seen = []
        for turn in range(50):
            seen.append(visit.wait())
            visit.press("123"[turn % 3])
        visit.saved()
        assert len(set(seen)) == 50
        assert count_labels(room) == {"cat": 17, "dog": 17, "fox": 16}

        visit.press("Backspace", "Backspace")
        assert visit.task() == seen[-2]
        visit.saved()
        assert count_labels(room) == {"cat": 16, "dog": 16, "fox": 16}
        visit.press("1", "Space", "u", "o", "b")
        visit.saved()
        assert count_labels(room) == {"cat": 17, "dog": 16, "fox": 16}
        kinds = {"answer": 49, "skip": 1, "unsure": 1, "none-of-these": 1, "broken": 1, "retract": 0}
        assert count_kinds(room) == Counter(kinds) + Counter()
        visit.page.wait_for_selector("text=51 of 79")  # a skip is no answer, and nobody is asked about what is broken


def test_markup_is_text(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 80, classes=[EVIL, "dog"]) as room:
        visit = room.enter()
        while visit.wait() and visit.page.locator(".content .words").inner_text() != EVIL:
            visit.press("2")
        assert visit.page.locator("button[data-action^='class:'] span").first.inner_text() == EVIL
        visit.press("1")
        visit.saved()
        assert not visit.page.locator("img").count()
        assert count_labels(room)[EVIL] == 1


def test_the_reason_is_shown_when_somebody_asks(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20) as room:
        visit = room.enter()
        visit.wait()
        assert not visit.page.locator(".why dl").count()
        visit.press("w")
        assert "random" in visit.page.locator(".why dl").inner_text()
        visit.press("1")
        assert not visit.page.locator(".why dl").count()
        assert "random" in visit.page.locator(".last dl").inner_text()  # of the last answer, a moment later


def test_arrows_look_back_and_change_nothing(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20) as room:
        visit = room.enter()
        seen = []
        for key in "12":
            seen.append(visit.wait())
            visit.press(key)
        now, texts = visit.wait(), visit.page.locator(".content .words")
        shown = texts.inner_text()
        visit.press("ArrowLeft", "ArrowLeft", "ArrowLeft")
        visit.page.wait_for_selector("text=You said cat")
        first = texts.inner_text()
        visit.press("3")  # not of what is shown, nor of what waits
        visit.press("ArrowRight")
        visit.page.wait_for_selector("text=You said dog")
        assert len({shown, first, texts.inner_text()}) == 3
        visit.press("ArrowRight")
        assert (visit.wait(), texts.inner_text()) == (now, shown)
        visit.press("3")
        visit.saved()
        assert count_labels(room) == {"cat": 1, "dog": 1, "fox": 1}
        visit.press("ArrowLeft", "Backspace")
        assert visit.wait() == now
        visit.saved()
        assert count_labels(room) == {"cat": 1, "dog": 1}


def test_keys_can_be_changed_and_switched_off(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20) as room:
        visit = room.enter()
        first = visit.wait()
        page = visit.page
        visit.press("?")
        assert "Yes" not in page.locator("dialog.keys").inner_text()  # an example has one class here
        assert page.locator("dialog.keys li").count() == 3 + 12
        page.get_by_role("button", name="cat: 1. Change").click()
        visit.press("2")
        assert "is the key of" in page.locator(".message").inner_text()
        page.get_by_role("button", name="cat: 1. Change").click()
        visit.press("c")
        assert page.get_by_role("button", name="cat: c. Change").count() == 1
        page.get_by_role("button", name="Close").click()
        visit.press("1")
        assert visit.task() == first
        visit.press("c")
        visit.saved()
        assert count_labels(room) == {"cat": 1}
        page.reload()
        second = visit.wait()
        visit.press("?")
        page.get_by_label("One key labels and moves on").uncheck()
        visit.press("Escape", "c", "2", "Backspace")
        assert visit.task() == second
        page.get_by_role("button", name="dog").click()
        visit.saved()
        assert count_labels(room) == {"cat": 1, "dog": 1}


def test_a_key_that_is_held_down_is_one_answer(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20) as room:
        visit = room.enter()
        visit.wait()
        for _ in range(5):  # all but the first are repetitions
            visit.page.keyboard.down("1")
        visit.page.keyboard.up("1")
        visit.press("Control+2", "Alt+3")  # keys of the browser
        visit.saved()
        assert count_labels(room) == {"cat": 1}


def test_what_the_policy_forbids_is_stopped_and_noticed(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20) as room:
        visit = room.enter()
        visit.wait()
        with pytest.raises(Exception, match="TrustedScript"):
            visit.page.evaluate("() => { document.createElement('script').textContent = 'window.ran = 1' }")
        visit.page.evaluate(
            "() => new Promise(done => Object.assign(new Image(), {onerror: done, src: 'https://127.0.0.1:9/spy.png'}))"
        )
        assert any("Content Security Policy" in error for error in visit.errors)
        visit.errors.clear()


def test_a_key_zooms(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20) as room:
        visit = room.enter()
        first = visit.wait()
        height = "() => document.querySelector('.stage .words').getClientRects()[0].height"
        before = visit.page.evaluate(height)
        visit.press("z")
        assert visit.page.evaluate(height) > 1.3 * before
        visit.press("z")
        assert visit.page.evaluate(height) == before
        assert visit.task() == first


# What is on its way.


def test_a_lost_network_loses_nothing(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 40) as room:
        visit = room.enter()
        visit.wait()
        visit.offline = True
        visit.context.set_offline(True)
        visit.press(*"12312")
        visit.page.wait_for_selector("text=offline: 5 answers kept here")
        visit.press("Backspace", "3")
        assert not count_labels(room)
        visit.context.set_offline(False)
        visit.saved()
        assert count_labels(room) == {"cat": 2, "dog": 1, "fox": 2}


def test_a_closed_tab_loses_nothing(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 40) as room:
        visit = room.enter()
        seen = {visit.wait()}
        visit.offline = True
        visit.context.set_offline(True)
        visit.press(*"123")
        visit.page.wait_for_selector("text=3 answers kept here")
        visit.page.close()
        visit.context.set_offline(False)
        visit.page = visit.open()
        assert visit.wait() not in seen
        visit.saved()
        assert count_labels(room) == {"cat": 1, "dog": 1, "fox": 1}
        visit.press(*"111")
        visit.page.close()  # at once
        visit.page = visit.open()
        visit.wait()
        visit.saved()
        assert count_labels(room) == {"cat": 4, "dog": 1, "fox": 1}


def test_answers_whose_confirmation_is_lost_are_not_doubled(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 40) as room:
        visit = room.enter()
        visit.wait()
        lost: list[int] = []

        def lose(route: Any) -> None:
            lost.append(route.fetch().status)
            route.abort("internetdisconnected")

        visit.offline = True
        visit.page.route("**/api/answer", lose)
        visit.press(*"12")
        visit.page.wait_for_selector("text=kept here")
        assert count_labels(room) == {"cat": 1, "dog": 1}
        visit.page.unroute("**/api/answer")
        visit.saved()
        assert lost
        assert set(lost) == {200}
        assert count_labels(room) == {"cat": 1, "dog": 1}
        assert room.campaign.status().annotators == {"owner": 2}  # events


def test_a_desk_that_is_started_again_gets_what_was_kept(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 40) as room:
        visit = room.enter()
        visit.wait()
        room.running.stop()
        visit.offline = True
        visit.press(*"123")
        visit.page.wait_for_selector("text=3 answers kept here")
        with desks.serve(room.campaign, port=room.running.port):
            visit.saved()
            assert count_labels(room) == {"cat": 1, "dog": 1, "fox": 1}
            visit.press("1")
            visit.saved()
        assert count_labels(room) == {"cat": 2, "dog": 1, "fox": 1}


# Several people.


def test_two_people_never_share_a_task(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 40, settings={"annotators": "ana,ben"}) as room:
        visits = [room.enter(name) for name in ("ana", "ben")]
        seen: list[list[int]] = [[], []]
        for visit in visits:
            visit.wait()
        while any(not visit.page.locator("desk-label.empty").count() for visit in visits):
            for visit, tasks in zip(visits, seen, strict=True):
                if not visit.page.locator("desk-label.empty").count():
                    tasks.append(visit.task())
                    visit.press("1")
            for visit in visits:
                visit.saved()
        assert not set(seen[0]) & set(seen[1])
        assert sorted(seen[0] + seen[1]) == sorted(room.campaign.batch(1)["task"].tolist())
        assert min(map(len, seen)) > 0
        assert len(set(room.campaign.votes()["row"].tolist())) == len(room.campaign.votes()["row"]) == 40


def test_tasks_of_whoever_is_away_go_to_others(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 5, settings={"annotators": "ana,ben", "lease": 3.0}) as room:
        ana, ben = (room.enter(name) for name in ("ana", "ben"))
        held = ana.wait()
        for _ in range(40):  # until the lease has ended
            ben.page.reload()
            ben.page.wait_for_selector("desk-label.empty .nothing, desk-label[data-task]:not(.empty)")
            if ben.task():
                break
            ben.page.wait_for_timeout(300)
        assert ben.task() == held
        ana.press("1")  # too late: her page looks again first
        ana.page.wait_for_selector("text=Nothing is left")
        ben.press("2")
        ben.saved()
        assert count_labels(room) == {"dog": 1}


def test_an_undone_task_is_not_given_to_others(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 5) as room:
        visit = room.enter()
        first = visit.wait()
        visit.press("1")
        visit.saved()
        with visit.page.expect_response("**/api/claim"):
            visit.press("Backspace")
        assert visit.task() == first
        assert room.campaign.people().people[0].leases == 5
        assert room.campaign.claim("ben", 5) == []


def test_closing_the_page_gives_tasks_back(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 5, settings={"annotators": "ana,ben"}) as room:
        ana = room.enter("ana")
        ana.wait()
        ana.page.close()
        assert room.enter("ben").wait()


def test_another_tab_of_the_same_person_follows(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20) as room:
        visit = room.enter()
        first = visit.wait()
        other = visit.open()
        visit.wait(other)
        visit.press("1")
        other.wait_for_function("task => document.querySelector('desk-label').dataset.task != task", arg=str(first))
        visit.saved()
        assert room.campaign.status().annotators == {"owner": 1}


# Kinds of campaigns.


def test_a_thousand_classes_are_searched(tmp_path: Path, browser: "Browser") -> None:
    names = [f"kind {number:04d} of thing" for number in range(1000)]
    with make_room(browser, tmp_path, 20, classes=names) as room:
        visit = room.enter()
        visit.wait()
        assert visit.page.locator("button[data-action^='class:']").count() == 10
        visit.press("/")
        visit.page.keyboard.type("0777")
        visit.press("Enter")
        visit.press("/", "Enter")  # the last one comes first
        visit.press("/", "ArrowDown", "Enter", "3")
        visit.saved()
        assert count_labels(room) == {names[777]: 2, names[0]: 1, names[2]: 1}


def test_several_classes_are_finished_by_enter(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20, kind="multi-label") as room:
        visit = room.enter()
        first = visit.wait()
        visit.press("Enter")
        visit.page.wait_for_selector("text=Choose classes first")
        visit.press("1", "3", "2", "2", "Enter")
        second = visit.task()
        assert second != first
        visit.press("o", "Backspace", "Backspace")
        assert visit.task() == first
        assert visit.page.locator("[aria-pressed=true]").all_inner_texts() == ["1\ncat", "3\nfox"]
        visit.press("1", "Enter", "2", "Enter", "o")
        visit.saved()
        assert count_labels(room) == {("fox",): 1, ("dog",): 1, (): 1}


def test_pairs_are_answered_yes_or_no(tmp_path: Path, browser: "Browser") -> None:
    with make_room(browser, tmp_path, 20, kind="pairs") as room:
        visit = room.enter()
        visit.wait()
        assert re.fullmatch(r"Is this (cat|dog|fox)\?", visit.page.locator("h1").inner_text())
        visit.press("y", "n", "n", "1", "o")
        visit.saved()
        assert count_labels(room) == {1: 1, 0: 2}


def test_images_sounds_and_files_that_cannot_be_read(tmp_path: Path, browser: "Browser") -> None:
    from PIL import Image

    root = tmp_path / "files"
    root.mkdir()
    Image.new("RGB", (32, 32), "green").save(root / "tiny.png")
    (root / "page.html").write_text(EVIL)
    (root / "broken.png").write_text(EVIL)
    with wave.open(str(root / "beep.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", "none"))
        sound.writeframes(bytes(8000))
    uris = [name for name in ("tiny.png", "page.html", "broken.png", "away.png", "beep.wav") for _ in range(4)]
    with desks.begin(tmp_path, uris, "uri", clusters=None) as campaign:
        campaign.next(20, strategy="random")
        with open_room(browser, campaign, roots=[root]) as room:
            visit = room.enter(offline=True)  # images that are asked for beforehand are missing, too
            shown: dict[str, set[str]] = {}
            for _ in range(20):
                task = visit.wait()
                content = visit.page.locator(".content")
                content.locator("img, .words, .unfit, audio").wait_for()
                row = int(room.campaign.batch(1)["row"][room.campaign.batch(1)["task"].tolist().index(task)])
                if content.locator("audio").count():
                    visit.press("p")
                    visit.page.wait_for_function("() => document.querySelector('audio').currentTime > 0")
                    shown.setdefault(uris[row], set()).add("a sound")
                shown.setdefault(uris[row], set()).add(content.inner_text() or "an image")
                visit.press("1")
    assert shown["tiny.png"] == {"an image"}
    assert shown["page.html"] == {EVIL}
    assert "a sound" in shown["beep.wav"]
    assert "cannot be read" in str(shown["broken.png"])
    assert "no such file" in str(shown["away.png"])


def test_a_template_shows_columns_and_values_stay_text(tmp_path: Path, browser: "Browser") -> None:
    template, fields = tmp_path / "card.html", tmp_path / "fields.csv"
    template.write_text('<h2>{{title}}</h2><div class="row"><p class="box">{{note}}</p>{{content}}</div>')
    evil = "<script>alert(1)</script>{{title}}"
    fields.write_text("\n".join(["id,title,note", *(f"r{row},title {row},{evil}" for row in range(60))]))
    settings = {"template": template, "fields": fields}
    with make_room(browser, tmp_path, 80, settings=settings) as room:
        visit = room.enter(offline=True)
        rows = dict(zip(room.campaign.batch(1)["task"].tolist(), room.campaign.batch(1)["row"].tolist(), strict=True))
        away = 0
        for _ in range(80):
            row = rows[visit.wait()]
            content = visit.page.locator(".stage > .content")
            if row >= 60:
                away += "does not have this example" in content.inner_text()
            else:
                assert content.locator("h2").inner_text() == f"title {row}"
                assert content.locator(".box .value").inner_text() == evil
                assert content.locator(".words").inner_text() == (f"text {row}" if row else EVIL)
            visit.press("1")
        visit.saved()
        assert away == 20
        assert not visit.page.locator(".stage script, .stage img").count()
        visit.press("g", "b")
        visit.page.wait_for_selector(".tile .thumb")


def test_disputes_are_decided_by_somebody_else(tmp_path: Path, browser: "Browser") -> None:
    with desks.begin(tmp_path, [f"text {row}" for row in range(30)], clusters=None) as campaign:
        campaign.next(4, strategy="random", answers=2)
        with open_room(browser, campaign, annotators="ana,ben,eva:adjudicate") as room:
            for name, key in (("ana", "1"), ("ben", "2")):
                visit = room.enter(name)
                visit.wait()
                visit.press(key, key, key, key)
                visit.saved()
            assert room.campaign.status().disputed == 4
            eva = room.enter("eva")
            eva.page.goto(f"{room.running.address}#label/decide")
            eva.wait()
            assert "Disputed" in eva.page.locator("h1").inner_text()
            eva.press("3", "o", "Backspace", "2")
            eva.saved()
            assert room.campaign.status().disputed == 2
            labels = campaign.labels()
            assert sorted(labels["label"][labels["how"] == "adjudicated"].tolist()) == ["dog", "fox"]


# The other screens.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with a model, a labeled holdout, clusters, and two people who differ twice."""
    folder = tmp_path_factory.mktemp("screens")
    with desks.begin(folder, [f"text {row}" for row in range(120)], holdout=12) as campaign:
        answer_all(campaign, "ana", lambda task: desks.CLASSES[task.row % 3])
        campaign.next(30)
        answer_all(campaign, "ana", lambda task: desks.CLASSES[task.row % 3])
        campaign.learn()
        campaign.next(8, answers=2)
        seen = []
        answer_all(campaign, "ana", lambda _: "cat")
        answer_all(campaign, "ben", lambda task: seen.append(task) or ("dog" if len(seen) < 3 else "cat"))
    return folder / "campaign"


def answer_all(campaign: Campaign, who: str, say: Any) -> None:
    while tasks := campaign.claim(who, 30):
        for task in tasks:
            campaign.answer(who, task.task, say(task), seconds=1.5)


@pytest.fixture
def screens(folder: Path, browser: "Browser", tmp_path: Path) -> Iterator[Room]:
    """A desk over a copy of that campaign."""
    shutil.copytree(folder, tmp_path / "campaign")
    with (
        Campaign.open(tmp_path / "campaign") as campaign,
        open_room(browser, campaign, annotators="ana,eva:adjudicate") as room,
    ):
        yield room


def test_curves_and_the_next_round(screens: Room) -> None:
    visit = screens.enter()
    visit.wait_empty()
    assert "All done" in visit.page.locator(".nothing").inner_text()
    visit.press("g", "v")
    visit.page.wait_for_selector("desk-curves svg circle")
    assert "model-1" in visit.page.locator("desk-curves table").first.inner_text()
    assert "accuracy on the holdout" in visit.page.locator(".figures").inner_text()
    visit.page.get_by_label("Examples in the next batch").fill("5")
    visit.page.get_by_role("button", name="Train and choose").click()
    visit.page.locator("desk-curves circle").nth(1).wait_for()
    assert len(screens.campaign.curve()) == 2
    assert screens.campaign.open_batches()[-1]["size"] == 5
    visit.page.get_by_role("link", name="Label").click()
    visit.wait()


def test_disputes_are_found_and_decided(screens: Room) -> None:
    eva = screens.enter("eva")
    eva.wait_empty()
    assert eva.page.locator("nav a").all_inner_texts() == ["Label", "Curves", "People"]
    eva.press("g", "p")
    eva.page.wait_for_selector("desk-people table")
    assert re.search(r"ana\s+50\s+1\.5\s+0\.75", eva.page.locator("desk-people table").first.inner_text())
    eva.page.get_by_role("button", name="Decide 2 disputed").click()
    eva.wait()
    eva.press("1", "2")
    eva.saved()
    assert screens.campaign.status().disputed == 0


def test_a_batch_is_browsed_and_filtered(screens: Room) -> None:
    visit = screens.enter()
    visit.wait_empty()
    visit.press("g", "b")
    page = visit.page
    page.wait_for_selector("text=8 of 8")
    page.get_by_role("button", name="disputed").click()
    page.wait_for_selector("text=2 of 2")
    assert page.locator(".tile[data-state=disputed]").count() == 2
    page.get_by_role("button", name="all").click()
    page.get_by_label("Label", exact=True).select_option("cat")
    page.wait_for_selector("text=6 of 6")
    page.get_by_role("button", name="mine").click()
    page.wait_for_selector("text=Nothing here")
    page.get_by_label("Label", exact=True).select_option("")
    page.get_by_label("Guess", exact=True).select_option("dog")
    page.get_by_role("button", name="mine").click()
    guessed = screens.campaign.browse_batch(3, guess="dog").total
    page.wait_for_selector(f"text={guessed} of {guessed}" if guessed else "text=Nothing here")
    page.get_by_label("Batch", exact=True).select_option("1")
    page.wait_for_selector("text=12 of 12")


def test_clusters_are_browsed_and_spread(screens: Room) -> None:
    visit = screens.enter()
    visit.wait_empty()
    visit.press("g", "c")
    page = visit.page
    page.get_by_role("button", name="What would be labeled?").click()
    page.wait_for_selector("text=pure clusters;")
    expected = screens.campaign.spread(trial=True)
    assert f"{expected.rows} rows in {expected.clusters} pure clusters" in page.locator(".panel").first.inner_text()
    page.get_by_role("button", name="most labels").click()
    first = screens.campaign.list_clusters("labeled", 1)[1][0]
    page.locator("table a").first.click()
    page.wait_for_selector(f"text={first.size} of {first.size}")
    settled = page.locator(".tile[data-state=settled]")
    settled.nth(first.labeled - 1).wait_for()  # tiles are drawn after the count
    assert settled.count() >= first.labeled


def test_the_rest_of_pure_clusters_is_labeled_and_that_is_undone(tmp_path: Path, browser: "Browser") -> None:
    clusters = np.arange(60) // 12
    with desks.begin(tmp_path, [f"text {row}" for row in range(60)], clusters=clusters, holdout=20) as campaign:
        answer_all(campaign, "ana", lambda task: desks.CLASSES[task.row // 12 % 3])
        campaign.next(20, strategy="random")
        answer_all(campaign, "ana", lambda task: desks.CLASSES[task.row // 12 % 3])
        with open_room(browser, campaign) as room:
            visit = room.enter()
            visit.wait_empty()
            visit.press("g", "c")
            page = visit.page
            page.get_by_role("button", name="What would be labeled?").click()
            page.get_by_label("also if the holdout").check()
            page.get_by_role("button", name="Label the rest").click()
            page.wait_for_selector("text=contradicted later")
            (run,) = campaign.spreads()
            assert run.rows > 0
            assert f"{run.rows}" in page.locator("desk-clusters table").first.inner_text()
            page.get_by_role("button", name="Undo").click()
            page.wait_for_selector("td:has-text('undone')")
            assert [one.state for one in campaign.spreads()] == ["undone"]


@pytest.mark.parametrize("screen", ["label", "batch", "clusters", "map", "curves", "people"])
def test_screens_fit_on_a_phone(screens: Room, screen: str) -> None:
    visit = screens.enter(**PHONE)
    visit.wait_empty()
    visit.page.goto(f"{screens.running.address}#{screen}")
    shown = {
        "label": ".nothing",
        "batch": ".tile",
        "map": "canvas",
        "curves": "svg",
        "clusters": "table",
        "people": "table",
    }
    visit.page.wait_for_selector(f"desk-{screen} {shown[screen]}")
    assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= 360
    link = visit.page.locator("nav a[aria-current]")
    box = link.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert box["height"] >= 24  # what WCAG 2.2 asks of a target


def test_labelers_see_what_concerns_them(screens: Room) -> None:
    ana = screens.enter("ana")
    ana.wait_empty()
    assert ana.page.locator("nav a").all_inner_texts() == ["Label", "Curves"]
    assert not ana.page.get_by_role("button", name="Train and choose").count()
    caller = desks.open_caller(screens.running, screens.running.links["ana"])
    for path in ("people", "batch?number=1", "clusters", "cluster?cluster=0"):
        assert caller.get(f"/api/{path}").status == 403
    for path in ("learn", "choose", "spread", "undo_spread"):
        assert caller.post(f"/api/{path}", {}).status == 403


# Everybody.


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(
    screens: Room, tmp_path: Path, browser: "Browser", scheme: str, phone: bool
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    look = {"bypass_csp": True, "color_scheme": scheme, **(PHONE if phone else {})}  # axe adds a script to the page
    visit = screens.enter(**look)
    visit.wait_empty()
    faults = []
    for where in ("label", "batch", "clusters", "curves", "people"):
        visit.page.goto(f"{screens.running.address}#{where}")
        visit.page.wait_for_selector(f"desk-{where} .nothing, desk-{where} table, desk-{where} .tile")
        faults += list_faults(Axe().run(visit.page))
    many = tmp_path / "many"
    many.mkdir()
    with make_room(browser, many, 20, classes=[f"kind {number}" for number in range(40)]) as room:
        visit = room.enter(**look)
        visit.wait()
        visit.press("1", "w")
        visit.page.locator(".last dl").wait_for()
        faults += list_faults(Axe().run(visit.page))
        visit.press("?")
        faults += list_faults(Axe().run(visit.page))
    assert faults == []
